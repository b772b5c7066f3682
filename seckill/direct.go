package seckill

import (
	"context"
	"errors"
	"time"

	"miaosha/goods"
	"miaosha/order"
)

const (
	directAtOnce = 2         // settles without a gate, in this process
	directTicket = "direct:" // what their tickets begin with
)

// serveDirect is the way without a gate: the batch goes straight to the transaction that decides, few at a time, and
// the answers are final. No journal holds these tickets, so nobody is told anything before the commit.
func (e *Engine) serveDirect(ctx context.Context, l *lane, batch []*click) {
	late := time.NewTimer(waitLimit - time.Since(batch[0].at))
	defer late.Stop()
	select {
	case e.direct <- struct{}{}:
		defer func() { <-e.direct }()
	case <-late.C:
		l.tellAll(batch, Bought{err: e.shed("late")})
		return
	case <-ctx.Done():
		l.tellAll(batch, Bought{err: ErrBusy})
		return
	}
	tickets := make([]order.Ticket, len(batch))
	for i, c := range batch {
		tickets[i] = order.Ticket{ID: directTicket + c.nonce, UserID: c.user}
	}
	results, err := e.settle(context.WithoutCancel(ctx), l.sale, tickets, false)
	if e.cfg.Gate == "redis" {
		e.view.soldPast(l.sale)
	}
	if err != nil {
		if !isRefusal(err) {
			e.metrics.retries.Inc()
			e.logFault("settle without a gate", err)
			err = ErrBusy
		}
		e.refuse(ctx, l, batch, err)
		return
	}
	byTicket := make(map[string]order.Result, len(results))
	for _, r := range results {
		byTicket[r.Ticket] = r
	}
	for i, c := range batch {
		r := byTicket[tickets[i].ID]
		b := Bought{Ticket: r.Ticket, Status: statusOf(remembered(r))}
		if r.Outcome == order.SoldOut {
			l.soldOut.Store(time.Now().Add(soldOutMark).UnixNano())
			b.err = goods.ErrSoldOut
		}
		l.tell(c, b)
	}
}

// refuse answers a batch that the sale's state or window refused, but for those who have an order: as a gate would, it
// tells them of it.
func (e *Engine) refuse(ctx context.Context, l *lane, batch []*click, err error) {
	users := make([]int64, len(batch))
	for i, c := range batch {
		users[i] = c.user
	}
	has := map[int64]Status{}
	if !errors.Is(err, ErrBusy) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleLimit)
		owners, fault := e.orders.OwnersAmong(ctx, l.sale, users)
		cancel()
		if fault != nil {
			err = ErrBusy
		}
		for _, o := range owners {
			has[o.UserID] = Status{State: Ordered, OrderID: o.OrderID}
		}
	}
	for _, c := range batch {
		if st, ok := has[c.user]; ok {
			l.tell(c, Bought{Status: st})
		} else {
			l.tell(c, Bought{err: err})
		}
	}
}
