//go:build faults && linux

package faults

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/audit"
	"miaosha/seckill/sandbox/sandboxtest"
)

// saleState is the sale in Postgres when nothing changes any more.
type saleState struct {
	StartsAt, EndsAt time.Time
	Stock            int
	Refunds          int // payments that were refunded
	orders           map[string]orderRow
	ofUser           map[int64]string
	tickets          map[string]ticketRow
	events           []orderEvent // in the order in which they happened
}

type orderRow struct {
	ID                   string
	UserID               int64
	Status               string
	CreatedAt, ExpiresAt time.Time
	PaidAt, CancelledAt  *time.Time
	Ticket               string
	Direct               bool // bought without a gate
}

// orderEvent is a change of an order. Postgres noted its time while the sale's row was locked, except for a payment.
type orderEvent struct {
	OrderID, ToStatus string
	At                time.Time
}

type ticketRow struct {
	Ticket    string
	UserID    int64
	Outcome   string
	CreatedAt time.Time // of an order, its insert; otherwise the start of the transaction
}

// checkFinalState waits until nothing changes any more. Then it checks all data and all responses against each other.
func (env *Environment) checkFinalState(c *Crowd) (sale saleState) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*sandboxtest.Hang)
	defer cancel()
	var why string
	if !env.within(ticketsBound, "I6: after the sale the journal was empty, the gate right and no refund due", func() bool {
		g, err := env.readGate(ctx)
		if err != nil || len(g.tickets) > 0 {
			return false
		}
		rows, _ := env.pool.Query(ctx, `select count(*) from payments where status = 'refund_due'`)
		due, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
		if err != nil || due > 0 {
			return false
		}
		matches, text := env.gateMatches(ctx)
		why = text
		return matches
	}) {
		env.Report("I6: after %v the journal is not empty, the gate is wrong, or a refund is due: %s", sandboxtest.Hang, why)
	}
	env.checkKeys(ctx)
	c.requestResults()
	var printed bytes.Buffer
	if clean, err := audit.Run(ctx, env.pool, env.rdb, &printed); err != nil {
		env.Report("I6: the audit failed: %v", err)
	} else if !clean {
		for finding := range strings.SplitSeq(strings.TrimPrefix(printed.String(), "BROKEN "), "\nBROKEN ") {
			env.Report("%s", finding)
		}
	}
	sale, err := env.readSale(ctx)
	if err != nil {
		env.Report("I1: the sale cannot be read: %v", err)
		return sale
	}
	env.checkTickets(c, sale)
	env.checkOrders(c, sale)
	return sale
}

// checkKeys checks that nothing of the sale stays in Redis for good.
func (env *Environment) checkKeys(ctx context.Context) {
	for _, name := range []string{"gate", "tickets", "journal2", "takeovers"} {
		if left, err := env.rdb.PTTL(ctx, env.key(name)).Result(); err != nil || left == -1 { // -2: the key does not exist
			env.Report("I10: %s never expires: %v", name, err)
		}
	}
	if g, err := env.readGate(ctx); err == nil {
		env.checkTakeovers(g)
	}
}

// checkTakeovers checks that no takeover is kept for longer than its entry. A former version knows of none.
func (env *Environment) checkTakeovers(g gateState) {
	if len(g.strays) > 0 && !env.sc.setup.former {
		env.Report("I10: %d takeovers are kept of entries that have left the journal", len(g.strays))
	}
}

// checkOwners checks that nothing was taken over from a process that lives: no process has died so far. What has no owner is of
// no process, so it may be taken over.
func (env *Environment) checkOwners(g gateState) {
	if env.sc.poison || env.sc.silent || env.sc.setup.former || slices.ContainsFunc(env.Shops, (*Shop).hasDied) {
		return
	}
	for entry, owner := range g.owners {
		if owner.n != 1 {
			env.Report("I4: an entry of a living process was taken over: %s has had %d owners", entry, owner.n)
		}
	}
}

func (env *Environment) readSale(ctx context.Context) (sale saleState, err error) {
	rows, _ := env.pool.Query(ctx, `
		select starts_at, ends_at, stock, (select count(*) from payments where status = 'refunded') as refunds
		from   sales where id = $1`, env.Sale)
	if sale, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[saleState]); err != nil {
		return sale, err
	}
	rows, _ = env.pool.Query(ctx, `
		select id::text as id, user_id, status, created_at, expires_at, paid_at, ticket, ticket not like '%:%:%' as direct,
		       (select min(at) from order_events e where e.order_id = o.id and to_status = 'cancelled') as cancelled_at
		from   orders o where sale_id = $1`, env.Sale)
	orders, err := pgx.CollectRows(rows, pgx.RowToStructByName[orderRow])
	if err != nil {
		return sale, err
	}
	rows, _ = env.pool.Query(ctx, `select ticket, user_id, outcome, created_at from ticket_outcomes where sale_id = $1`, env.Sale)
	tickets, err := pgx.CollectRows(rows, pgx.RowToStructByName[ticketRow])
	if err != nil {
		return sale, err
	}
	rows, _ = env.pool.Query(ctx, `
		select order_id::text as order_id, to_status, at from order_history where sale_id = $1 order by at, from_status = 'new' desc`, env.Sale)
	if sale.events, err = pgx.CollectRows(rows, pgx.RowToStructByName[orderEvent]); err != nil {
		return sale, err
	}
	sale.orders, sale.ofUser, sale.tickets = map[string]orderRow{}, map[int64]string{}, map[string]ticketRow{}
	for _, o := range orders {
		sale.orders[o.ID], sale.ofUser[o.UserID] = o, o.ID
	}
	for _, ticket := range tickets {
		sale.tickets[ticket.Ticket] = ticket
	}
	return sale, nil
}

// checkTickets checks that each accepted ticket has its one result (I4), that each was granted in the window (I9), and that
// no user had two (I2).
func (env *Environment) checkTickets(c *Crowd, sale saleState) {
	settled := map[string]time.Time{}
	for ticket, r := range sale.tickets {
		settled[ticket] = r.CreatedAt
		if at := grantedAt(ticket); !at.IsZero() && (at.Before(sale.StartsAt.Truncate(time.Millisecond)) || !at.Before(sale.EndsAt)) {
			env.Report("I9: ticket %s was granted outside the window", ticket)
		}
		switch {
		case r.Outcome == "duplicate":
			// The gate grants no second ticket to a user who has a ticket or an order. But a shop that gets no reply from the
			// gate in time sells without it, though the gate may have granted a ticket, or may still do so. So one of the two
			// was sold without the gate, or the gate was wrong.
			if order := sale.orders[sale.ofUser[r.UserID]]; !order.Direct && !grantedAt(ticket).IsZero() && !env.sc.losesData {
				env.Report("I2: the gate granted ticket %s to user %d, who had order %s from it", ticket, r.UserID, order.ID)
			}
		case r.Outcome == "invalid" && !env.sc.poison, r.Outcome == "closed" && !env.mayBeClosed(r.CreatedAt):
			env.Report("I4: ticket %s was settled as %s", ticket, r.Outcome)
		}
	}
	if env.sc.losesData {
		return
	}
	for _, b := range c.buyers {
		responses := c.ledger.filter(func(resp response) bool { return resp.User == b.ID && resp.Kind == "buy" })
		for _, resp := range responses {
			if r, ok := sale.tickets[resp.Data.Ticket]; resp.Data.Ticket != "" && (!ok || r.UserID != b.ID) {
				env.Report("I4: ticket %s, accepted from %v, has no result", resp.Data.Ticket, b)
			}
		}
		env.checkTwoTickets(b, responses, settled)
	}
}

// checkOrders checks that what buyers were told is true (I3), and that each buyer with an order was told of it (I4). It
// checks payments (I7) and the time to pay (I9).
func (env *Environment) checkOrders(c *Crowd, sale saleState) {
	for _, b := range c.buyers {
		own, last := sale.ofUser[b.ID], response{}
		cancelled, expiry := false, ""
		for _, resp := range c.ledger.filter(ofUser(b.ID)) {
			if id := resp.Data.OrderID; id != "" && id != own {
				env.Report("I3: %v was told of order %s, but has %q", b, id, own)
			}
			switch status := sale.orders[own].Status; {
			case resp.Kind == "result" && resp.Status == 200:
				last = resp
			case resp.Kind == "cancel":
				cancelled = true
				if resp.Status == 200 && status != "cancelled" {
					env.Report("I3: %v was told that the order is cancelled: it is %s", b, status)
				}
			case resp.Kind == "confirm" && resp.Data.Status == "captured" && status != "paid" && !(status == "refunded" && env.refunded(own)):
				env.Report("I7: %v was told that the payment was captured: the order is %s", b, status)
			case resp.Kind == "order" && resp.Status == 200:
				expiry = resp.Data.ExpiresAt
			case resp.Kind == "order" && resp.Status == 404:
				env.Report("I3: %v asked for order %s, and it was not found", b, own)
			}
		}
		if own != "" && last.Data.State != "ordered" {
			env.Report("I4: %v has an order, and the last result was %q", b, last.Data.State)
		}
		if own == "" {
			continue
		}
		o := sale.orders[own]
		// The ticket of an order without a gate has no time. Its order has the time of its insert.
		if o.Direct && (o.CreatedAt.Before(sale.StartsAt) || !o.CreatedAt.Before(sale.EndsAt)) {
			env.Report("I9: order %s was made outside the window", own)
		}
		if !cancelled && o.CancelledAt != nil {
			if t, err := time.Parse(time.RFC3339, expiry); err == nil && t.Before(o.ExpiresAt.Truncate(time.Second)) {
				env.Report("I9: %v was told a deadline of %v: it is %v", b, t, o.ExpiresAt)
			}
			if o.CancelledAt.Before(o.ExpiresAt) {
				env.Report("I9: order %s was cancelled %v before its time to pay ran out", own, o.ExpiresAt.Sub(*o.CancelledAt))
			}
		}
	}
}
