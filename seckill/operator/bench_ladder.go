package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"miaosha/goods"
	"miaosha/seckill/backend"
	"miaosha/seckill/bench"
)

const ladderSeconds = 2

// optimisations are what the rungs of the ladder switch on, in this order, and the flag with which a shop does without.
var optimisations = []struct{ name, without string }{
	{"sales from memory", "--catalogue-life=1ns"},
	{"the gate in Redis", "--gate=off"},
	{"settling in batches", "--settle-batch=1"},
	{"the lane", "--lane-batch=1"},
	{"copies of sessions", "--session-copies=1ns"},
	{"sold-out mark: all", "--sold-out-mark=1ns"},
}

// rungs returns the ladder, from a shop without any of the optimisations up to the whole shop.
func rungs() []bench.Rung {
	all := []bench.Rung{{Name: "none: Postgres decides"}}
	for _, o := range optimisations {
		all = append(all, bench.Rung{Name: o.name})
	}
	for i := range all {
		for _, o := range optimisations[i:] {
			all[i].Flags = append(all[i].Flags, o.without)
		}
	}
	return all
}

// climb drives the same crowd against each rung, up in the first round and down in the second one and so on, and prints
// the ladder. It returns ErrBroken or ErrMismatch if orders of a rung are wrong.
func (b Bench) climb(ctx context.Context, env Env, cfg bench.Config) (err error) {
	env, remove, err := env.ownStores(ctx)
	if err != nil {
		return err
	}
	m := made{own: true}
	defer func() {
		m.removed = remove()
		err = m.end(ctx, errors.Join(err, m.removed))
	}()
	env.progress().step("bench: starting stores of its own, which are removed at the end")
	defer context.AfterFunc(ctx, func() {
		fmt.Fprintln(env.Err,
			"bench: stopping; ending the shop and removing its stores")
	})()
	l := bench.Ladder{At: time.Now().UTC().Truncate(time.Second), Machine: bench.Machine(), Origin: env.Origin,
		Buyers: b.N, Conns: b.Conns, Seconds: b.Seconds, Rungs: rungs()}
	var wrong []error
	err = env.withStores(ctx, func(s *backend.Stores) error {
		users, err := mintUsers(ctx, env, s, b.N)
		if err != nil {
			return err
		}
		for round := range b.Rounds {
			for i := range l.Rungs {
				if round%2 == 1 {
					i = len(l.Rungs) - 1 - i
				}
				fmt.Fprintf(env.Err, "round %d of %d, rung %d of %d: %s\n", round+1, b.Rounds, i+1, len(l.Rungs),
					l.Rungs[i].Name)
				result, judged, err := b.step(ctx, env, s, cfg, l.Rungs[i], users)
				if err != nil {
					return fmt.Errorf("rung %d: %w", i+1, err)
				}
				if judged != nil {
					result.Wrong = judged.Error()
					wrong = append(wrong, fmt.Errorf("rung %d: %w", i+1, judged))
				}
				l.Add(i, result)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	text := func(w io.Writer) error {
		l.Write(w)
		return nil
	}
	return errors.Join(env.writeReport(b.HTML, b.JSON, l, l.HTML, text), errors.Join(wrong...))
}

// step drives the crowd against one rung, with new sales. wrong is ErrBroken or ErrMismatch if the orders are.
func (b Bench) step(
	ctx context.Context, env Env, s *backend.Stores, cfg bench.Config, rung bench.Rung, users []loggedIn,
) (round bench.Round, wrong, err error) {
	began, ends := time.Now().Add(-time.Minute), time.Now().Add(time.Hour) // the lot of the opening is over
	var sales []int64
	for _, units := range []int{b.Stock, 1} {
		sale, err := goods.New(s.Web).Sell(ctx, goods.Item{Title: "bench ladder"},
			goods.Terms{Price: 1, Total: units, StartsAt: began, EndsAt: ends})
		if err != nil {
			return round, nil, err
		}
		sales = append(sales, sale)
	}
	shop, err := startChild(ctx, env, append(b.serveArgs(), rung.Flags...)...)
	if err != nil {
		return round, nil, fmt.Errorf("start a shop: %w", err)
	}
	defer shop.stop()
	ops, err := shop.nextURL(ctx, "metrics")
	if err != nil {
		return round, nil, fmt.Errorf("start a shop: %w", err)
	}
	cfg.URL, cfg.Sale = shop.url, sales[0]
	cfg.Usage = func(context.Context) (bench.Usage, error) { return bench.ProcessUsage(shop.pid()) }
	cfg.Spent, cfg.Sold = storesSpent(s, ops), unitsSold(s, sales...)
	crowd := []int64{sales[0]}
	for len(crowd) < bench.LadderCrowd {
		crowd = append(crowd, sales[1])
	}
	turns, err := bench.Run(ctx, cfg, sendTo(crowd, users, s.Secret, ends), env.Err)
	if err != nil {
		return round, nil, err
	}
	orders, err := countOrders(ctx, s, sales...)
	if err != nil {
		return round, nil, err
	}
	checked, err := runAudit(ctx, s)
	if err != nil {
		return round, nil, err
	}
	return bench.Round{Turn: turns[0], Audit: *checked},
		verdict(bench.Report{Turns: turns, Orders: &orders, Audit: checked}), nil
}
