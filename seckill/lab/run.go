package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// run is one strategy under one crowd.
type run struct {
	*namespace
	stores   Stores
	spec     *spec
	plan     Plan
	recorder *recorder // nil except in a race

	nodes    []atomic.Pointer[node] // the living nodes
	observer *node                  // reads the state; not counted, not reached by faults
	eye      *pgx.Conn              // of the judge of a program, with the rights of the program's role
	counter  *pgx.Conn              // of the same judge, for watchSales; nil if nothing is to happen when half of the units are sold
	opened   []*node                // all nodes but the observer; used by openRun, then by replaceDead
	killOnce sync.Once
	killed   chan *node // receives the killed node

	sql, redis       atomic.Int64 // statements and round trips of the nodes
	promised         atomic.Int64
	answered         atomic.Int64        // buyers who have replies to all their clicks
	hung             sync.Map            // the buyers of whom first was asked
	halfSold         atomic.Bool         // as the judge of a program has counted
	returned         sync.Map            // the buyers who have cancelled
	written          map[int64]time.Time // when a program has written the last order of a buyer
	forged           bool                // a program has written orders before the first click
	numbers          []int64             // of the buyers of a program, from the first
	buyers           map[int64]int64     // by their numbers
	told             sync.Map            // the buyers whom a program has told yes before its end
	page             shownStock
	closeOnce        sync.Once
	closed           atomic.Bool  // the sale, see Plan.Closes
	seatless         int          // see Result
	notClosed        error        // why it could not be closed
	redisPausedUntil atomic.Int64 // Redis replies are held back until then, in Unix nanoseconds
}

const (
	pgConns        = 16                     // connections to Postgres of all nodes together; the shop settles over 8
	redisPauseTime = 300 * time.Millisecond // how long RedisPause lasts
)

// runOne sends the crowd of a plan to one strategy. It calls report ten times a second, and once more with the result; report may be
// nil. A run that does not finish has a Result.Error. An error comes from the stores or from ctx.
func runOne(ctx context.Context, s Stores, p Plan, spec *spec, report func(Progress)) (result Result, err error) {
	if report == nil {
		report = func(Progress) {}
	}
	starved := feelPulse() // before the crowd, which may keep this process busy itself
	r, err := openRun(ctx, s, p, spec, nil)
	busy := starved()
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, r.close(ctx)) }()
	began := time.Now()
	watching, stopWatching := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { r.watch(watching, began, report) })
	seen := r.runCrowd(ctx, p.clicks())
	stopWatching()
	watch.Wait()
	closeErr := r.closeNodes()
	if ctx.Err() != nil {
		return result, ctx.Err()
	}
	if result, err = r.count(ctx, seen); err != nil {
		return result, err
	}
	if closeErr != nil { // first: a process that has ended by itself is why clicks received no reply
		result.Error = strings.TrimSuffix(closeErr.Error()+"; "+result.Error, "; ")
	}
	result.Right, result.Busy = result.exact(), busy
	result.Slow = closeErr == nil && errors.Is(seen.lastErr, context.DeadlineExceeded) && result.Oversold+result.Duplicates+result.Lost+result.Denied == 0 &&
		!spec.lucky(p)
	result.Lucky = result.Right && spec.lucky(p)
	now := r.progress(ctx, began) // of a program it says less: its sessions are over
	now.Done = &result
	report(now)
	return result, nil
}

// openRun prepares a strategy for its crowd.
func openRun(ctx context.Context, s Stores, p Plan, spec *spec, rec *recorder) (r *run, err error) {
	if p.Nodes == 0 {
		p.Nodes = 2
	}
	r = &run{stores: s, spec: spec, plan: p, recorder: rec, nodes: make([]atomic.Pointer[node], p.Nodes), killed: make(chan *node, 1)}
	schema := tables
	if spec.schema {
		schema = s.Schema
	}
	if r.namespace, err = openNamespace(ctx, s, schema); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.closeNodes(), r.close(ctx))
		}
	}()
	if r.observer, err = r.openNode(ctx, observerID, 2); err != nil {
		return r, err
	}
	if r.role != "" {
		r.numberBuyers()
		if err = r.restart(ctx, p.Stock, p.Before); err != nil {
			return r, fmt.Errorf("the judge's tables: %w", err)
		}
		if r.eye, err = openEye(ctx, s.DatabaseURL); err != nil {
			return r, err
		}
		if p.Closes || p.Outlasts || p.has(Kill) {
			if r.counter, err = pgx.ConnectConfig(ctx, r.admin.Config()); err != nil {
				return r, err
			}
		}
	} else if !spec.schema {
		if _, err = r.admin.Exec(ctx, `insert into item (stock) values ($1)`, p.Stock); err != nil {
			return r, err
		}
	}
	if err = r.observer.strategy.Prepare(ctx); err != nil {
		return r, fmt.Errorf("prepare: %w", err)
	}
	if r.role != "" {
		if err = r.admin.QueryRow(ctx, `select coalesce(sum(n), 0) <> 0 from judge.sales`).Scan(&r.forged); err != nil {
			return r, err
		}
	}
	for i := range r.nodes {
		if err = r.startNode(ctx, i); err != nil {
			return r, err
		}
		if err = r.opened[i].strategy.Ready(ctx); err != nil {
			return r, err
		}
	}
	return r, nil
}

// startNode opens node i, for the first time or in place of a dead one.
func (r *run) startNode(ctx context.Context, i int) error {
	n, err := r.openNode(ctx, i, max(1, pgConns/len(r.nodes)))
	if err != nil {
		return err
	}
	if p, ok := n.strategy.(ownProcess); ok {
		if err := p.startProcess(ctx); err != nil {
			n.closeConns()
			return err
		}
	}
	go func() { n.ended <- n.strategy.Run(n.ctx) }() // close waits for it
	r.opened = append(r.opened, n)
	r.nodes[i].Store(n)
	return nil
}

// closeNodes lets the living nodes finish the work they have accepted.
func (r *run) closeNodes() (err error) {
	for _, n := range r.opened {
		err = errors.Join(err, n.close())
	}
	r.opened = nil
	return err
}

func (r *run) close(ctx context.Context) error {
	for _, c := range []*pgx.Conn{r.eye, r.counter} {
		if c != nil {
			_ = c.Close(context.WithoutCancel(ctx))
		}
	}
	if r.observer != nil {
		r.observer.db.Pool.Close()
		r.observer.rdb.Close()
	}
	return r.namespace.close(ctx)
}

// promise counts a buyer who is told yes, or whose ticket is safe in a journal. If the plan has
// Kill, the node that makes the middle promise dies right after it.
func (n *node) promise() {
	if n.promised.Add(1) >= int64(max(1, n.plan.Stock/2)) {
		n.half()
	}
}

// tell notes that a buyer was told yes before the end of the click.
func (n *node) tell(user int64) {
	n.told.Store(user, true)
	n.promise()
}

// takeBack notes that a buyer has returned the unit: the promise was kept.
func (n *node) takeBack(user int64) {
	n.returned.Store(user, true)
	n.told.Delete(user)
}

// soldHalf reports whether the judge has counted half of the units.
func (n *node) soldHalf() bool { return n.halfSold.Load() }

// numberOf returns the number by which a program knows a buyer.
func (n *node) numberOf(user int64) int64 { return n.numbers[user-1] }

// half is called when half of the units are promised or sold.
func (n *node) half() {
	if n.plan.Closes {
		n.closeOnce.Do(func() {
			if n.notClosed = n.noteEnd(n.ctx); n.notClosed == nil {
				n.closed.Store(true)
			}
		})
	}
	if !n.plan.has(Kill) {
		return
	}
	n.killOnce.Do(func() {
		n.step("the process is killed")("")
		n.kill()
		n.killed <- n
	})
}

// replaceDead waits until a node is killed and replaces it. It returns without one if none is dead when the crowd has ended.
func (r *run) replaceDead(ctx context.Context, ended <-chan struct{}) error {
	select {
	case n := <-r.killed:
		return r.startNode(ctx, n.id)
	case <-ended:
	}
	select {
	case n := <-r.killed: // with the last reply. A shop may finish at its start what the dead process had accepted.
		return r.startNode(ctx, n.id)
	default:
		return nil
	}
}

// watch calls report ten times a second.
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
	now := Progress{Strategy: r.spec.name, Answered: int(r.answered.Load()), Buyers: r.plan.Buyers, Elapsed: time.Since(began).Milliseconds()}
	now.Left, _ = r.observer.strategy.Left(ctx) // after an error the next tick reads again
	_ = r.observer.db.QueryRow(ctx, `select count(*) from orders`).Scan(&now.Sold)
	now.Oversold = max(0, now.Sold-r.plan.Stock)
	return now
}
