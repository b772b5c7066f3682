package seckill

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/queue"
	"miaosha/seckill/watch"
)

const (
	directAtOnce = 2         // settles without a gate at the same time, in this process
	directTicket = "direct:" // prefix of their tickets

	// directMark is how much longer a sold-out mark lives where there is no gate, because each mark reads all owners.
	directMark = 5
)

// direct is the way to buy without a gate: a batch goes straight to the transaction that decides, few at a time, and
// the replies are final. No journal holds these tickets, so no buyer is told anything before the commit.
//
// Another process may have a gate, which does not know these buyers. So the sale's row is marked as bypassed before it
// sells the first unit, and nothing is sold until every other process must have seen the mark: see watch.Facts.Sure.
type direct struct {
	gateOff bool
	markFor time.Duration // the life of a sold-out mark
	db      *pgxpool.Pool
	settler *settler
	orders  *order.Store
	queue   *queue.Queue
	metrics *metrics
	slots   chan struct{} // one token per settle
	locked  goods.LockedSales

	mu    sync.Mutex
	marks map[int64]bypassMark // by sale
}

// bypassMark is the mark of a sale: it was there at since, and is the same for as long as the gate knows no more
// bypasses.
type bypassMark struct {
	known int64
	since time.Time
}

// errNotMarked says that the sale must be marked before it may be sold without its gate.
var errNotMarked = fmt.Errorf("%w: the sale was not marked as bypassed long enough", ErrBusy)

func newDirect(cfg Config, db *pgxpool.Pool, s *settler, orders *order.Store, q *queue.Queue, m *metrics) *direct {
	return &direct{gateOff: cfg.gateOff(), markFor: directMark * cfg.SoldOutMark, db: db, settler: s, orders: orders,
		queue: q, metrics: m,
		slots: make(chan struct{}, directAtOnce), marks: map[int64]bypassMark{}}
}

// serve replies to every click of a batch.
func (d *direct) serve(ctx context.Context, l *lane, batch []*click) {
	tickets := make([]order.Ticket, len(batch))
	for i, c := range batch {
		tickets[i] = order.Ticket{ID: directTicket + c.Nonce, UserID: c.UserID}
	}
	late := batch[0].at.Add(waitLimit)
	results, err := d.settle(ctx, l.sale, tickets, late)
	if errors.Is(err, errNotMarked) {
		if err = d.mark(context.WithoutCancel(ctx), l.sale); err == nil {
			results, err = d.settle(ctx, l.sale, tickets, late)
		}
	}
	if err != nil {
		if !isRefusal(err) {
			d.metrics.retries.Inc()
			d.metrics.logFault("settle without a gate", err)
			err = ErrBusy
		}
		d.refuse(ctx, l, batch, err)
		return
	}
	byTicket := make(map[string]order.Result, len(results))
	for _, r := range results {
		byTicket[r.Ticket] = r
	}
	soldOut := false
	for i, c := range batch {
		r := byTicket[tickets[i].ID]
		b := Bought{Ticket: r.Ticket, Status: statusOf(r)}
		switch r.Outcome {
		case order.SoldOut:
			b.err, soldOut = goods.ErrSoldOut, true
		case order.Duplicate:
			b.Ticket = "" // not stored: the user has an order
		}
		l.reply(c, b)
	}
	if soldOut {
		d.markSoldOut(ctx, l)
	}
}

// settle settles a batch as soon as there is a slot. ErrBusy if there is none in time, and goods.ErrLocked.
func (d *direct) settle(
	ctx context.Context, sale int64, tickets []order.Ticket, late time.Time,
) (results []order.Result, err error) {
	waiting, cancel := context.WithDeadline(ctx, late)
	defer cancel()
	err = d.locked.Try(waiting, sale, func(wait time.Duration) error {
		if slow, _ := d.locked.Slow(); !slices.Contains(slow, sale) {
			// these are few anyway, and take no slot from the others
			select {
			case d.slots <- struct{}{}:
				defer func() { <-d.slots }()
			case <-waiting.Done():
				return d.metrics.shedFor("late")
			}
		}
		results, err = d.settler.settle(context.WithoutCancel(ctx), sale, tickets, wait, d.check, func() {})
		return err
	})
	return results, err
}

// check refuses outside the sale's window by the database's clock, and until the sale's mark is old enough.
func (d *direct) check(sale goods.Locked) error {
	if err := sale.Window(); err != nil {
		return err
	}
	if !d.gateOff && (!sale.Bypassed() || d.untilSeen(sale) > 0) {
		return errNotMarked
	}
	return nil
}

// mark marks the sale as bypassed, unless it is marked, and waits until every process must have seen the mark.
func (d *direct) mark(ctx context.Context, sale int64) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	var locked goods.Locked
	err := d.locked.InTx(ctx, d.db, sale, func(tx pgx.Tx) (err error) {
		if locked, err = goods.Lock(ctx, tx, sale); err != nil || locked.Bypassed() {
			return err
		}
		return goods.CountBypass(ctx, tx, sale)
	})
	if err == nil {
		time.Sleep(d.untilSeen(locked))
	}
	return err
}

// untilSeen returns how long the sale's mark may still be unseen by other processes.
func (d *direct) untilSeen(sale goods.Locked) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	m, seen := d.marks[sale.ID]
	if !seen || m.known != sale.BypassesKnown {
		m = bypassMark{sale.BypassesKnown, time.Now()}
		d.marks[sale.ID] = m
	}
	return time.Until(m.since.Add(watch.SureFor))
}

// markSoldOut marks a sale that Postgres has sold out. Its holders are the owners, and the users whose tickets are in
// this process's queue.
func (d *direct) markSoldOut(ctx context.Context, l *lane) {
	holders := d.queue.Users(l.sale) // first: a ticket leaves the queue after its order is committed
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleLimit)
	defer cancel()
	owners, err := d.orders.Owners(ctx, l.sale, "", 0, math.MaxInt32)
	if err != nil {
		d.metrics.logFault("mark a sale as sold out", err)
		return
	}
	for _, o := range owners {
		holders[o.UserID] = struct{}{}
	}
	l.soldOut.Store(&soldOut{until: time.Now().Add(d.markFor), holders: holders})
}

// refuse replies to a batch that the sale's state or window refuses. As at a gate, a buyer with an order receives the
// order.
func (d *direct) refuse(ctx context.Context, l *lane, batch []*click, err error) {
	users := make([]int64, len(batch))
	for i, c := range batch {
		users[i] = c.UserID
	}
	ordered := map[int64]Status{}
	if !errors.Is(err, ErrBusy) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleLimit)
		owners, fault := d.orders.OwnersAmong(ctx, l.sale, users)
		cancel()
		if fault != nil {
			err = ErrBusy
		}
		for _, o := range owners {
			ordered[o.UserID] = Status{State: Ordered, OrderID: o.OrderID}
		}
	}
	for _, c := range batch {
		if status, has := ordered[c.UserID]; has {
			l.reply(c, Bought{Status: status})
		} else {
			l.reply(c, Bought{err: err})
		}
	}
}
