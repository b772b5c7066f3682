package admin

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"miaosha/order"
	"miaosha/seckill/gate"
	"miaosha/seckill/trace"
)

// beforeTicket is the time between a sum and the click, at most: the lives of the sum and of the address.
const beforeTicket = 3 * time.Minute

// afterTicket is the time between a settle transaction and the last step of its batch. A process that started later has
// no part in it.
const afterTicket = 10 * time.Second

// lateBy is how much longer than it was last seen a process may have lived: it shows itself twice a second, if Redis is
// not slow.
const lateBy = 3 * time.Second

// Tickets follows tickets: it joins what the processes remember with what Postgres has.
type Tickets struct {
	db   *pgxpool.Pool
	gate *gate.Gate
}

// NewTickets returns Tickets on these stores.
func NewTickets(db *pgxpool.Pool, rdb redis.UniversalClient) *Tickets {
	return &Tickets{db: db, gate: gate.New(rdb, "tickets", time.Second).Background()}
}

// Timeline is one ticket and all its known steps, the oldest first.
type Timeline struct {
	Ticket  string          `json:"ticket"`
	SaleID  int64           `json:"sale_id"`
	UserID  int64           `json:"user_id"`
	OrderID *uuid.UUID      `json:"order_id,omitempty"`
	State   string          `json:"state"` // queued, or its outcome
	Steps   []trace.Step    `json:"steps"`
	Missing []trace.Missing `json:"missing"` // processes that may have had a part in it, and are gone
	Asked   bool            `json:"asked"`   // false: Redis did not reply, so no process was asked

	// since when the sale's rows may be in files: steps may be missing then
	Archived *time.Time `json:"archived_at,omitempty"`
}

// ticketForm is epoch:entry:nonce, or the ticket of a shop without its gate.
var ticketForm = regexp.MustCompile(`^(\d{1,18}:\d{1,15}-\d{1,15}|direct):[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// IsTicket reports whether text has the form of a ticket, or of an order's id or number.
func IsTicket(text string) bool {
	id, err := uuid.Parse(text)
	if _, _, ok := order.OfNumber(text); ok {
		return true
	}
	return ticketForm.MatchString(text) || err == nil && id.String() == text
}

// Timeline returns the steps of a ticket, or of the ticket of the order with this id or number. order.ErrNotFound if
// neither Postgres nor a process knows it.
func (s *Tickets) Timeline(ctx context.Context, ticket string) (Timeline, error) {
	t, err := s.inPostgres(ctx, ticket)
	if errors.Is(err, order.ErrNotFound) && strings.Count(ticket, ":") == 2 {
		t, err = s.inFlight(ctx, ticket)
	}
	if err != nil {
		return Timeline{}, err
	}
	settled := time.Now()
	if len(t.Steps) > 0 {
		settled = t.Steps[0].At
	}
	since := granted(t.Ticket, settled)
	w, err := trace.Ask(ctx, s.gate, trace.Question{Ticket: t.Ticket, Sale: t.SaleID, User: t.UserID},
		since.Add(-beforeTicket))
	if t.Asked = err == nil; !t.Asked && ctx.Err() != nil {
		return Timeline{}, err
	}
	t.Steps, t.Missing = append(w.Steps, t.Steps...), []trace.Missing{}
	// A process that was gone before the grant can only have handed out the address. It is named if no other process
	// did.
	if slices.ContainsFunc(w.Steps, func(step trace.Step) bool { return step.Name == "address" }) {
		w.Missing = slices.DeleteFunc(w.Missing, func(m trace.Missing) bool {
			return m.LastSeen.Add(lateBy).Before(since)
		})
	}
	for _, m := range w.Missing {
		if m.Started.Before(settled.Add(afterTicket)) {
			t.Missing = append(t.Missing, m)
		}
	}
	slices.SortStableFunc(t.Steps, func(a, b trace.Step) int { return a.At.Compare(b.At) })
	return t, nil
}

// granted returns when a ticket was granted, by its entry; or else when it was settled.
func granted(ticket string, settled time.Time) time.Time {
	entry, _ := gate.EntryID(ticket)
	ms, _, _ := strings.Cut(entry, "-")
	at, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return settled
	}
	return time.UnixMilli(at)
}

// inFlight returns a ticket that is not settled yet. It is in the journal of its sale, which the processes know.
func (s *Tickets) inFlight(ctx context.Context, ticket string) (Timeline, error) {
	w, err := trace.Ask(ctx, s.gate, trace.Question{Ticket: ticket}, granted(ticket, time.Now()).Add(-beforeTicket))
	if err != nil {
		return Timeline{}, err
	}
	entry, _ := gate.EntryID(ticket)
	tickets, err := s.gate.TicketsOf(ctx, w.Sale, entry)
	if err != nil {
		return Timeline{}, err
	}
	if i := slices.IndexFunc(tickets, func(t order.Ticket) bool { return t.ID == ticket }); i >= 0 {
		return Timeline{Ticket: ticket, SaleID: w.Sale, UserID: tickets[i].UserID, State: gate.Queued}, nil
	}
	return s.inPostgres(ctx, ticket) // settled meanwhile
}

// inPostgres returns what Postgres has of a ticket: its result, and the steps from there on.
func (s *Tickets) inPostgres(ctx context.Context, ticket string) (t Timeline, err error) {
	id, _ := uuid.Parse(ticket)
	first, last, _ := order.OfNumber(ticket)
	var at time.Time
	err = s.db.QueryRow(ctx, `
		select t.*, s.archived_at
		from  (select ticket, sale_id, user_id, id, 'ordered', created_at
		       from   orders
		       where  ticket = $1 or id = $2 or id between $3 and $4
		       union  all
		       select ticket, sale_id, user_id, order_id, outcome, created_at
		       from   ticket_results r
		       where  ticket = $1 and not exists (select from orders o where o.ticket = r.ticket)) t left join sales s on s.id = t.sale_id`, ticket, id, first, last).
		Scan(&t.Ticket, &t.SaleID, &t.UserID, &t.OrderID, &t.State, &at, &t.Archived)
	if errors.Is(err, pgx.ErrNoRows) {
		return t, order.ErrNotFound
	}
	if err != nil {
		return t, fmt.Errorf("read ticket %s: %w", ticket, err)
	}
	if t.State != order.Ordered {
		t.Steps = []trace.Step{{Name: "refused", At: at.UTC(), Process: postgres,
			Detail: map[string]any{"outcome": t.State}}}
		return t, nil
	}
	t.Steps, err = s.ofOrder(ctx, *t.OrderID)
	return t, err
}

const postgres = "postgres"

// ofOrder returns the steps of an order.
func (s *Tickets) ofOrder(ctx context.Context, id uuid.UUID) ([]trace.Step, error) {
	rows, _ := s.db.Query(ctx, `
		select 'ordered' as name, created_at as at, 1 as n
		from   orders
		where  id = $1
		union  all
		select 'payment', created_at, 2
		from   payments
		where  order_id = $1
		union  all
		select case when e.to_status = 'cancelled' and e.at >= o.expires_at then 'expired' else e.to_status end, e.at, 3
		from   order_events e join orders o on o.id = e.order_id
		where  e.order_id = $1 and e.from_status <> 'new'
		order  by at, n`, id)
	steps, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (step trace.Step, err error) {
		var n int
		err = row.Scan(&step.Name, &step.At, &n)
		step.At, step.Process = step.At.UTC(), postgres
		return step, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the history of order %s: %w", id, err)
	}
	return steps, nil
}
