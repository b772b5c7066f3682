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
	*Namespace
	stores   Stores
	spec     *Spec
	Plan     Plan
	recorder *recorder // nil except in a race

	nodes    []atomic.Pointer[Node] // the living nodes
	Observer *Node                  // reads the state; not counted, not reached by faults
	eye      *pgx.Conn              // of the judge of a program, with the rights of the program's role
	// of the same judge, for watchSales; nil if nothing is to happen when half of the units are sold
	counter  *pgx.Conn
	opened   []*Node // all nodes but the observer; used by openRun, then by replaceDead
	killOnce sync.Once
	killed   chan *Node // receives the killed node

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
	PGConns        = 16                     // connections to Postgres of all nodes together; the shop settles over 8
	RedisPauseTime = 300 * time.Millisecond // how long RedisPause lasts
)

// Run sends the crowd of a plan to one strategy. It calls report ten times a second, and once more with the result;
// report may be nil. A run that does not finish has a Result.Error. An error comes from the stores or from ctx.
func Run(ctx context.Context, s Stores, p Plan, spec *Spec, report func(Progress)) (result Result, err error) {
	if report == nil {
		report = func(Progress) {}
	}
	starved := FeelPulse() // before the crowd, which may keep this process busy itself
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
	seen := r.runCrowd(ctx, p.Clicks())
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
	result.Right, result.Busy = result.Exact(), busy
	result.Slow = closeErr == nil && errors.Is(seen.lastErr, context.DeadlineExceeded) &&
		result.Oversold+result.Duplicates+result.Lost+result.Denied == 0 &&
		!spec.Lucky(p)
	result.Lucky = result.Right && spec.Lucky(p)
	now := r.progress(ctx, began) // of a program it says less: its sessions are over
	now.Done = &result
	report(now)
	return result, nil
}

// openRun prepares a strategy for its crowd.
func openRun(ctx context.Context, s Stores, p Plan, spec *Spec, rec *recorder) (r *run, err error) {
	if p.Nodes == 0 {
		p.Nodes = 2
	}
	r = &run{stores: s, spec: spec, Plan: p, recorder: rec, nodes: make([]atomic.Pointer[Node], p.Nodes),
		killed: make(chan *Node, 1)}
	schema := Tables
	if spec.Schema {
		schema = s.Schema
	}
	if r.Namespace, err = OpenNamespace(ctx, s, schema); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.closeNodes(), r.close(ctx))
		}
	}()
	if r.Observer, err = r.openNode(ctx, ObserverID, 2); err != nil {
		return r, err
	}
	if r.role != "" {
		r.numberBuyers()
		if err = r.Restart(ctx, p.Stock, p.Before); err != nil {
			return r, fmt.Errorf("the judge's tables: %w", err)
		}
		if r.eye, err = OpenEye(ctx, s.DatabaseURL); err != nil {
			return r, err
		}
		if p.Closes || p.Outlasts || p.Has(Kill) {
			if r.counter, err = pgx.ConnectConfig(ctx, r.Admin.Config()); err != nil {
				return r, err
			}
		}
	} else if !spec.Schema {
		if _, err = r.Admin.Exec(ctx, `insert into item (stock) values ($1)`, p.Stock); err != nil {
			return r, err
		}
	}
	if err = r.Observer.strategy.Prepare(ctx); err != nil {
		return r, fmt.Errorf("prepare: %w", err)
	}
	if r.role != "" {
		if err = r.Admin.QueryRow(ctx, `select coalesce(sum(n), 0) <> 0 from judge.sales`).Scan(&r.forged); err != nil {
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
	n, err := r.openNode(ctx, i, max(1, PGConns/len(r.nodes)))
	if err != nil {
		return err
	}
	if p, ok := n.strategy.(outsideProcess); ok {
		if err := p.StartProcess(ctx); err != nil {
			n.closeConns()
			return err
		}
	}
	go func() { n.ended <- n.strategy.Run(n.Ctx) }() // close waits for it
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
	if r.Observer != nil {
		r.Observer.DB.Pool.Close()
		r.Observer.Redis.Close()
	}
	return r.Namespace.Close(ctx)
}

// Promise counts a buyer who is told yes, or whose ticket is safe in a journal. If the plan has
// Kill, the node that makes the middle promise dies right after it.
func (n *Node) Promise() {
	if n.promised.Add(1) >= int64(max(1, n.Plan.Stock/2)) {
		n.Half()
	}
}

// Tell notes that a buyer was told yes before the end of the click.
func (n *Node) Tell(user int64) {
	n.told.Store(user, true)
	n.Promise()
}

// TakeBack notes that a buyer has returned the unit: the promise was kept.
func (n *Node) TakeBack(user int64) {
	n.returned.Store(user, true)
	n.told.Delete(user)
}

// SoldHalf reports whether the judge has counted half of the units.
func (n *Node) SoldHalf() bool { return n.halfSold.Load() }

// NumberOf returns the number by which a program knows a buyer.
func (n *Node) NumberOf(user int64) int64 { return n.numbers[user-1] }

// Half is called when half of the units are promised or sold.
func (n *Node) Half() {
	if n.Plan.Closes {
		n.closeOnce.Do(func() {
			if n.notClosed = n.noteEnd(n.Ctx); n.notClosed == nil {
				n.closed.Store(true)
			}
		})
	}
	if !n.Plan.Has(Kill) {
		return
	}
	n.killOnce.Do(func() {
		n.Step("the process is killed")("")
		n.Kill()
		n.killed <- n
	})
}

// replaceDead waits until a node is killed and replaces it. It returns without one if none is dead when the crowd has
// ended.
func (r *run) replaceDead(ctx context.Context, ended <-chan struct{}) error {
	select {
	case n := <-r.killed:
		return r.startNode(ctx, n.ID)
	case <-ended:
	}
	select {
	case n := <-r.killed: // with the last reply. A shop may finish at its start what the dead process had accepted.
		return r.startNode(ctx, n.ID)
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
	now := Progress{Strategy: r.spec.Name, Answered: int(r.answered.Load()), Buyers: r.Plan.Buyers,
		Elapsed: time.Since(began).Milliseconds()}
	now.Left, _ = r.Observer.strategy.Left(ctx) // after an error the next tick reads again
	_ = r.Observer.DB.QueryRow(ctx, `select count(*) from orders`).Scan(&now.Sold)
	now.Oversold = max(0, now.Sold-r.Plan.Stock)
	return now
}
