package experiments

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"miaosha/goods"
	"miaosha/seckill"
	"miaosha/seckill/address"
	"miaosha/seckill/lab"
)

// runLimits first sells 50 units to 200 people with one request each and a bot with 1,000. Then it
// issues addresses for 20 units to 1,000 buyers. Last it shows what a bucket does with a request that has no
// token: crowdAtBucket.
//
// Without a limit, the client with most requests gets most units. A token bucket for each user
// allows what a person does: five requests a second, and ten at once (web/limit.go). The bucket is
// in the process, so a request that it refuses costs Redis nothing.
//
// A bucket does not know how many units are left. The big gate does: it allows five valid addresses
// for each unit left, and at least 64 (seckill/gate/scripts/path.lua). It tells the other buyers to wait,
// and their clicks never reach the sale.
//
// The figures are asked: requests; redis: requests that reach Redis; bot, people: units sold to
// them; alive: valid addresses at one time; bound: the big gate's limit; waiting: buyers told to wait.
func runLimits(ctx context.Context, s lab.Stores, seed uint64) (rows []Finding, err error) {
	e, err := openEngine(ctx, s, gateUnits)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.close(ctx)) }()
	c, err := openCounter(s)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	crowd := func(limited bool) func(context.Context) (Finding, error) {
		return func(ctx context.Context) (Finding, error) { return crowdWithBot(ctx, c, e.Key("stock"), seed, limited) }
	}
	buyers := func(gated bool) func(context.Context) (Finding, error) {
		return func(ctx context.Context) (Finding, error) { return crowdAtGate(ctx, e, gated) }
	}
	bucket := func(wait time.Duration) func(context.Context) (Finding, error) {
		return func(ctx context.Context) (Finding, error) { return crowdAtBucket(ctx, seed, wait) }
	}
	return tryAll(ctx, []variant{
		{"no limit", crowd(false)},
		{"a bucket per user", crowd(true)},
		{"an address for everybody", buyers(false)},
		{"the big gate", buyers(true)},
		{"wait for a token", paced(bucket(time.Hour))},
		{"wait for no token", paced(bucket(0))},
		{"wait for a token, 100 ms at most", paced(bucket(bucketBound))},
	})
}

const (
	limitUnits  = 50
	limitBot    = 1000 // requests of the bot
	limitPeople = 200
	limitAtOnce = 32
	limitRate   = 5 // requests a second, as is the shop's default
	limitBurst  = 10

	gateUnits  = 20
	gateBuyers = 1000
	gateLeast  = 64 // valid addresses that are always allowed
)

// crowdWithBot sends the requests of the bot and the people in random order. User 0 is the bot.
func crowdWithBot(ctx context.Context, c counter, stock string, seed uint64, limited bool) (Finding, error) {
	if err := c.Set(ctx, stock, limitUnits, lab.KeyLife).Err(); err != nil {
		return Finding{}, err
	}
	requests := make([]int, limitBot, limitBot+limitPeople)
	for user := range limitPeople {
		requests = append(requests, user+1)
	}
	rand.New(rand.NewPCG(seed, 20)).Shuffle(len(requests),
		func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
	buckets := make([]*rate.Limiter, limitPeople+1)
	for i := range buckets {
		buckets[i] = rate.NewLimiter(limitRate, limitBurst)
	}
	before := c.commands.Load()
	began := time.Now()
	var bot, people, botReached atomic.Int64
	figures := func() map[string]float64 {
		return map[string]float64{"asked": float64(len(requests)), "redis": float64(c.commands.Load() - before),
			"bot": float64(bot.Load()), "people": float64(people.Load())}
	}
	show(ctx, figures)
	var all errgroup.Group
	all.SetLimit(limitAtOnce)
	for _, user := range requests {
		all.Go(func() error {
			//lab:here
			if limited && !buckets[user].Allow() {
				return nil
			}
			//lab:end
			if user == 0 {
				botReached.Add(1)
			}
			got, err := c.sell(ctx, stock)
			switch {
			case got && user == 0:
				bot.Add(1)
			case got:
				people.Add(1)
			}
			return err
		})
	}
	err := all.Wait()
	allowed := limitBurst + limitRate*time.Since(began).Seconds()
	return Finding{Verdict: verdict(float64(botReached.Load()) <= allowed && people.Load() > bot.Load(), lab.Unfair),
		Figures: figures()}, err
}

// crowdAtGate asks for an address for every buyer. Without the gate every buyer receives one.
func crowdAtGate(ctx context.Context, e engine, gated bool) (Finding, error) {
	var alive, waiting atomic.Int64
	bound := max(gateLeast, gateFactor*gateUnits)
	figures := func() map[string]float64 {
		return map[string]float64{"asked": gateBuyers, "alive": float64(alive.Load()), "bound": float64(bound),
			"waiting": float64(waiting.Load())}
	}
	show(ctx, figures)
	var all errgroup.Group
	all.SetLimit(limitAtOnce)
	for user := int64(1); user <= gateBuyers; user++ {
		all.Go(func() error {
			if !gated {
				path := address.New(e.secret).Sign(user, e.Number, token(user), e.Now().Add(time.Minute))
				if _, err := e.CheckAddress(e.Number, token(user), path); err != nil {
					return err
				}
				alive.Add(1)
				return nil
			}
			//lab:here
			_, err := e.address(ctx, user, token(user), "")
			switch wait := (seckill.TooManyError{}); {
			case errors.As(err, &wait), errors.Is(err, goods.ErrSoldOut):
				waiting.Add(1)
				return nil
			//lab:end
			case err != nil:
				return fmt.Errorf("an address for user %d: %w", user, err)
			}
			alive.Add(1)
			return nil
		})
	}
	err := all.Wait()
	return Finding{Verdict: verdict(alive.Load() <= int64(bound), Unbounded), Figures: figures()}, err
}
