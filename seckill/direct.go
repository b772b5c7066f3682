package seckill

import (
	"context"
	"errors"
	"time"

	"miaosha/goods"
	"miaosha/order"
)

const (
	directAtOnce = 2         // settles without a gate at the same time, in this process
	directTicket = "direct:" // prefix of their tickets

	// directMark is soldOutMark for a sale without a gate. It is longer, because each mark reads all owners.
	directMark = 5 * soldOutMark
)

// direct is the way to buy without a gate: a batch goes straight to the transaction that decides, few at a time, and the
// replies are final. No journal holds these tickets, so no buyer is told anything before the commit.
type direct struct {
	gateOff bool
	settler *settler
	orders  *order.Store
	queue   *orderQueue
	facts   *facts
	metrics *metrics
	slots   chan struct{} // one token per settle
}

func newDirect(cfg Config, s *settler, orders *order.Store, q *orderQueue, f *facts, m *metrics) *direct {
	return &direct{gateOff: cfg.gateOff(), settler: s, orders: orders, queue: q, facts: f, metrics: m, slots: make(chan struct{}, directAtOnce)}
}

// serve replies to every click of a batch.
func (d *direct) serve(ctx context.Context, l *lane, batch []*click) {
	late := time.NewTimer(waitLimit - time.Since(batch[0].at))
	defer late.Stop()
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-late.C:
		l.replyAll(batch, Bought{err: d.metrics.shedFor("late")})
		return
	case <-ctx.Done():
		l.replyAll(batch, Bought{err: ErrBusy})
		return
	}
	tickets := make([]order.Ticket, len(batch))
	for i, c := range batch {
		tickets[i] = order.Ticket{ID: directTicket + c.Nonce, UserID: c.UserID}
	}
	results, err := d.settler.settle(context.WithoutCancel(ctx), l.sale, tickets, false)
	if !d.gateOff {
		d.facts.markBypassed(l.sale)
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
		if r.Outcome == order.SoldOut {
			b.err, soldOut = goods.ErrSoldOut, true
		}
		l.reply(c, b)
	}
	if soldOut {
		d.markSoldOut(ctx, l)
	}
}

// markSoldOut marks a sale that Postgres has sold out. Its holders are the owners, and the users whose tickets are in this
// process's queue.
func (d *direct) markSoldOut(ctx context.Context, l *lane) {
	owners, err := d.orders.Owners(ctx, l.sale, "")
	if err != nil {
		d.metrics.logFault("mark a sale as sold out", err)
		return
	}
	holders := d.queue.users(l.sale)
	for _, o := range owners {
		holders[o.UserID] = struct{}{}
	}
	l.markSoldOut(directMark, holders)
}

// refuse replies to a batch that the sale's state or window refuses. As at a gate, a buyer with an order receives the order.
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
