//go:build faults && linux

package faults

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/audit"
)

// truth is what Postgres has at rest.
type truth struct {
	starts, ends time.Time
	stock        int
	orders       map[string]orderRow
	ofUser       map[int64]string
	tickets      map[string]resultRow
	refunds      int // payments that were given back
}

type orderRow struct {
	id, status         string
	user               int64
	created, expiresAt time.Time
	cancelledAt        *time.Time
	direct             bool // taken without a gate
}

type resultRow struct {
	user    int64
	outcome string
	at      time.Time // begin of the transaction that decided
}

// atRest waits until nothing moves any more, and then holds everything against everything.
func (w *World) atRest(c *Crowd) (tr truth) {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	var why string
	if err := until(ticketsBound, "the journal is empty, the gate right and refunds drained", func() bool {
		g, err := w.readGate(ctx)
		if err != nil || len(g.tickets) > 0 {
			return false
		}
		var due int
		if err := w.pool.QueryRow(ctx, `select count(*) from payments where status = 'refund_due'`).Scan(&due); err != nil || due > 0 {
			return false
		}
		right, text := w.gateIsRight(ctx)
		why = text
		return right
	}); err != nil {
		w.Violate("I6: at rest: %v: %s", err, why)
	}
	c.askAgain()
	var said bytes.Buffer
	if clean, err := audit.Run(ctx, w.pool, w.rdb, &said); err != nil {
		w.Violate("I6: the audit can't be run: %v", err)
	} else if !clean {
		for found := range strings.SplitSeq(strings.TrimPrefix(said.String(), "BROKEN "), "\nBROKEN ") {
			w.Violate("%s", found)
		}
	}
	tr, err := w.readTruth(ctx)
	if err != nil {
		w.Violate("I1: the truth can't be read: %v", err)
		return tr
	}
	w.holdTickets(c, tr)
	w.holdOrders(c, tr)
	return tr
}

func (w *World) readTruth(ctx context.Context) (tr truth, err error) {
	tr = truth{orders: map[string]orderRow{}, ofUser: map[int64]string{}, tickets: map[string]resultRow{}}
	if err = w.pool.QueryRow(ctx, `
		select starts_at, ends_at, stock, (select count(*) from payments where status = 'refunded') from sales where id = $1`, w.Sale).
		Scan(&tr.starts, &tr.ends, &tr.stock, &tr.refunds); err != nil {
		return tr, err
	}
	rows, err := w.pool.Query(ctx, `
		select id::text, user_id, status, created_at, expires_at, ticket not like '%:%:%',
		       (select min(at) from order_events e where e.order_id = o.id and to_status = 'cancelled')
		from   orders o where sale_id = $1`, w.Sale)
	if err != nil {
		return tr, err
	}
	var o orderRow
	if _, err = pgx.ForEachRow(rows, []any{&o.id, &o.user, &o.status, &o.created, &o.expiresAt, &o.direct, &o.cancelledAt}, func() error {
		tr.orders[o.id], tr.ofUser[o.user] = o, o.id
		return nil
	}); err != nil {
		return tr, err
	}
	if rows, err = w.pool.Query(ctx, `select ticket, user_id, outcome, created_at from ticket_results where sale_id = $1`, w.Sale); err != nil {
		return tr, err
	}
	var ticket string
	var r resultRow
	_, err = pgx.ForEachRow(rows, []any{&ticket, &r.user, &r.outcome, &r.at}, func() error {
		tr.tickets[ticket] = r
		return nil
	})
	return tr, err
}

// holdTickets: I4 each accepted ticket has its one outcome; I9 each was granted in the window; I2.
func (w *World) holdTickets(c *Crowd, tr truth) {
	decided := map[string]time.Time{}
	for ticket, r := range tr.tickets {
		decided[ticket] = r.at
		if at := granted(ticket); !at.IsZero() && (at.Before(tr.starts.Truncate(time.Millisecond)) || !at.Before(tr.ends)) {
			w.Violate("I9: ticket %s was granted outside the window", ticket)
		}
		switch {
		case r.outcome == "duplicate":
			// The gate gives nobody a second ticket while he has one, or an order. But who hears nothing from it in time is sold
			// past it, though it may have given him a ticket, or may do so yet: so one of the two is such a one, or it erred.
			if order := tr.orders[tr.ofUser[r.user]]; !order.direct && !granted(ticket).IsZero() && !w.sc.mayLose {
				w.Violate("I2: the gate gave ticket %s to user %d, who had order %s from it", ticket, r.user, order.id)
			}
		case r.outcome == "invalid" && !w.sc.poison, r.outcome == "closed":
			w.Violate("I4: ticket %s came out as %s", ticket, r.outcome)
		}
	}
	for _, b := range c.buyers {
		lines := c.ledger.all(func(a answer) bool { return a.User == b.id && a.Kind == "buy" })
		for _, a := range lines {
			if r, ok := tr.tickets[a.Data.Ticket]; a.Data.Ticket != "" && (!ok || r.user != b.id) && !w.sc.mayLose {
				w.Violate("I4: ticket %s, accepted from %v, has no result", a.Data.Ticket, b)
			}
		}
		if !w.sc.mayLose {
			w.judgeTwoTickets(b, lines, decided)
		}
	}
}

// holdOrders: I3 what was told is so, and I4 what is so was told; I7 for payments; I9 for time to pay.
func (w *World) holdOrders(c *Crowd, tr truth) {
	for _, b := range c.buyers {
		lines := c.ledger.all(func(a answer) bool { return a.User == b.id })
		own, last := tr.ofUser[b.id], answer{}
		cancelled, expiry := false, ""
		for _, a := range lines {
			if id := a.Data.OrderID; id != "" && id != own {
				w.Violate("I3: %v was told of order %s, and his is %q", b, id, own)
			}
			switch status := tr.orders[own].status; {
			case a.Kind == "result" && a.Status == 200:
				last = a
			case a.Kind == "cancel":
				cancelled = true
				if a.Status == 200 && status != "cancelled" {
					w.Violate("I3: %v was told that his order is cancelled: it is %s", b, status)
				}
			case a.Kind == "confirm" && a.Data.Status == "captured" && status != "paid":
				w.Violate("I7: %v was told that he paid: his order is %s", b, status)
			case a.Kind == "order" && a.Status == 200:
				expiry = a.Data.ExpiresAt
			case a.Kind == "order" && a.Status == 404:
				w.Violate("I3: %v asked for order %s, which he was told of, and it is not there", b, own)
			}
		}
		if own != "" && last.Data.State != "ordered" {
			w.Violate("I4: %v has an order and heard %q at last", b, last.Data.State)
		}
		o := tr.orders[own]
		if own == "" {
			continue
		}
		// Of an order without a gate the window is judged by its own time, which the transaction's begin is.
		if o.direct && (o.created.Before(tr.starts) || !o.created.Before(tr.ends)) {
			w.Violate("I9: order %s was made outside the window", own)
		}
		if !cancelled && o.cancelledAt != nil {
			until := o.expiresAt
			if t, err := time.Parse(time.RFC3339, expiry); err == nil && t.Before(until.Truncate(time.Second)) {
				w.Violate("I9: %v was told that he can pay until %v: it is %v", b, t, until)
			}
			if o.cancelledAt.Before(until) {
				w.Violate("I9: ran out early: order %s was cancelled %v before its time", own, until.Sub(*o.cancelledAt))
			}
		}
	}
}
