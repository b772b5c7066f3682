package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// run is one way under one crowd.
type run struct {
	*place
	stores Stores
	way    *way
	plan   Plan
	tape   *tape // nil but in a race

	nodes  []atomic.Pointer[node] // the living ones
	look   *node                  // looks on: uncounted, out of reach of faults
	opened []*node                // all but look; changed by who opens: first openRun, then mourn
	strike sync.Once
	struck chan *node // takes the one that was killed

	sql, redis  atomic.Int64 // statements and round trips of the nodes
	promised    atomic.Int64
	asked       atomic.Int64 // buyers who have all their answers
	silentUntil atomic.Int64 // no reply of Redis comes before that moment, in nanoseconds since 1970
}

const (
	pgConns = 16                     // connections to Postgres that all nodes have together; a shop's process settles over 8
	silence = 300 * time.Millisecond // of Redis, under RedisPause
)

// Run lets the crowd of a plan loose on each of its strategies. report hears ten times a second how far it has come, and once
// more with the result; it may be nil. What could not be finished has its Result.Error; an error is one of the stores, or
// ctx's, and the results before it stand.
func Run(ctx context.Context, s Stores, p Plan, report func(Progress)) (results []Result, err error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if report == nil {
		report = func(Progress) {}
	}
	ways := make([]*way, 0, len(ladder))
	for _, name := range p.Strategies {
		ways = append(ways, wayOf(name))
	}
	for i := 0; len(p.Strategies) == 0 && i < len(ladder); i++ {
		ways = append(ways, &ladder[i])
	}
	for _, w := range ways {
		result, err := runOne(ctx, s, p, w, report)
		if err != nil {
			return results, fmt.Errorf("%s: %w", w.name, err)
		}
		results = append(results, result)
	}
	return results, nil
}

func runOne(ctx context.Context, s Stores, p Plan, w *way, report func(Progress)) (result Result, err error) {
	r, err := openRun(ctx, s, p, w, nil)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, r.close(ctx)) }()
	began := time.Now()
	watching, enough := context.WithCancel(ctx)
	var watch errgroup.Group
	watch.Go(func() error { r.watch(watching, began, report); return nil })
	heard := r.crowd(ctx, p.clicks())
	enough()
	watch.Wait()
	fault := r.closeNodes()
	if ctx.Err() != nil {
		return result, ctx.Err()
	}
	if result, err = r.count(ctx, heard); err != nil {
		return result, err
	}
	if fault != nil && result.Error == "" {
		result.Error = fault.Error()
	}
	result.Right = result.exact()
	now := r.progress(ctx, began)
	now.Done = &result
	report(now)
	return result, nil
}

// openRun makes a way ready for its crowd.
func openRun(ctx context.Context, s Stores, p Plan, w *way, t *tape) (r *run, err error) {
	if p.Nodes == 0 {
		p.Nodes = 2
	}
	r = &run{stores: s, way: w, plan: p, tape: t, nodes: make([]atomic.Pointer[node], p.Nodes), struck: make(chan *node, 1)}
	schema := tables
	if w.schema {
		schema = s.Schema
	}
	if r.place, err = openPlace(ctx, s, schema); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.closeNodes(), r.close(ctx))
		}
	}()
	if r.look, err = r.openNode(ctx, looker, 2); err != nil {
		return r, err
	}
	if !w.schema {
		if _, err = r.admin.Exec(ctx, `insert into item (stock) values ($1)`, p.Stock); err != nil {
			return r, err
		}
	}
	if err = r.look.strategy.Prepare(ctx); err != nil {
		return r, fmt.Errorf("prepare: %w", err)
	}
	for i := range r.nodes {
		if err = r.replace(ctx, i); err != nil {
			return r, err
		}
		if err = r.opened[i].strategy.Ready(ctx); err != nil {
			return r, err
		}
	}
	return r, nil
}

// replace opens a node in a place where there is none, or a dead one.
func (r *run) replace(ctx context.Context, i int) error {
	n, err := r.openNode(ctx, i, max(1, pgConns/len(r.nodes)))
	if err != nil {
		return err
	}
	go func() { n.ended <- n.strategy.Run(n.ctx) }() // close waits for it
	r.opened = append(r.opened, n)
	r.nodes[i].Store(n)
	return nil
}

// closeNodes lets the living nodes finish what they have promised.
func (r *run) closeNodes() (err error) {
	for _, n := range r.opened {
		err = errors.Join(err, n.close())
	}
	r.opened = nil
	return err
}

func (r *run) close(ctx context.Context) error {
	if r.look != nil {
		r.look.db.Pool.Close()
		r.look.rdb.Close()
	}
	return r.place.close(ctx)
}

// promise counts that a buyer was told yes, or that his place is sure. In the middle of it, the node dies that had just
// done it, if the plan wants that.
func (n *node) promise() {
	if n.promised.Add(1) < int64(max(1, n.plan.Stock/2)) || !n.plan.has(Kill) {
		return
	}
	n.strike.Do(func() {
		n.tape.step(n.id, "code", "the process is killed")("")
		n.die()
		n.struck <- n
	})
}

// mourn opens a node in the place of the one that is killed, should one be.
func (r *run) mourn(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case n := <-r.struck:
		return r.replace(ctx, n.id)
	}
}

// watch reports ten times a second.
func (r *run) watch(ctx context.Context, began time.Time, report func(Progress)) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			report(r.progress(ctx, began))
		}
	}
}

func (r *run) progress(ctx context.Context, began time.Time) Progress {
	now := Progress{Strategy: r.way.name, Asked: int(r.asked.Load()), Buyers: r.plan.Buyers, Elapsed: time.Since(began).Milliseconds()}
	now.Left, _ = r.look.strategy.Left(ctx) // a look that fails is made again in a moment
	_ = r.look.db.QueryRow(ctx, `select count(*) from orders`).Scan(&now.Sold)
	now.Oversold = max(0, now.Sold-r.plan.Stock)
	return now
}
