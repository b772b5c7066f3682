package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"miaosha/order"
)

// StuckPayment is a payment that waits for its provider, or for the staff.
type StuckPayment struct {
	Payment
	OrderID uuid.UUID `json:"order_id"`
	Tries   int       `json:"tries"` // since it has its status
	Why     string    `json:"why"`   // of the last fault
	// the provider refuses this refund, and is not asked again before the staff says so
	Refused bool       `json:"refused"`
	AskAt   *time.Time `json:"ask_at,omitempty"`
	ByHand  bool       `json:"by_hand"` // no provider of the shop can be asked
}

// PaymentFilter selects payments. A zero field selects all.
type PaymentFilter struct {
	Status string    // one of StuckStatuses
	Cursor uuid.UUID // payments behind this one
}

// StuckStatuses are the statuses in which a payment can be stuck.
var StuckStatuses = []string{"open", "refund_due"}

const paymentPage = 50

// stuckAfter is how long after its order's payment deadline an open payment is stuck.
const stuckAfter = 10 * time.Minute

// StuckPayments returns a page of the refunds that are due, and of the payments that are open stuckAfter the end of
// their order's time to pay, as by sees them, oldest first, and the cursor of the next page, uuid.Nil after the last
// one. asked has the names of the providers that the shop can ask.
//
// An order can be paid for PayWithin, and its payment is not older than itself: a payment that was opened so long ago
// is stuck, unless the staff has extended its order. So a page reads no payment of the rush that is under way.
func (s *Store) StuckPayments(
	ctx context.Context, by By, f PaymentFilter, asked []string,
) (payments []StuckPayment, next uuid.UUID, err error) {
	// One part for each status: each reads a page of the index of what waits, which has the status first.
	rows, _ := s.db.Query(ctx, `
		with behind as materialized (
		     select coalesce((select created_at from payments where id = $2), '-infinity') as at
		), stuck as (
		     (select p.*
		      from   payments p join orders o on o.id = p.order_id
		      where  p.status = 'open' and $1 in ('', 'open') and (p.created_at, p.id) > ((select at from behind), $2)
		      and    p.created_at < now() - $5::interval - $6::interval and o.expires_at < now() - $6::interval
		      order  by p.created_at, p.id
		      limit  $4)
		     union  all
		     (select *
		      from   payments
		      where  status = 'refund_due' and $1 in ('', 'refund_due') and (created_at, id) > ((select at from behind), $2)
		      order  by created_at, id
		      limit  $4)
		)
		select id, order_id, amount, status, provider, coalesce(provider_ref, '') as provider_ref, created_at, updated_at, tries, why, ask_at,
		       status = 'refund_due' and ask_at is null as refused, (provider = any($3)) is not true as by_hand
		from   stuck
		order  by created_at, id
		limit  $4`, f.Status, f.Cursor, asked, paymentPage+1, s.orders.PayWithin, stuckAfter)
	if payments, err = pgx.CollectRows(rows, pgx.RowToStructByName[StuckPayment]); err != nil {
		return nil, next, fmt.Errorf("list the payments that are stuck: %w", err)
	}
	if len(payments) > paymentPage {
		payments = payments[:paymentPage]
		next = payments[paymentPage-1].ID
	}
	for i := range payments {
		by.sees(Number, &payments[i].ProviderRef)
	}
	return payments, next, nil
}

// What a payment is before and after an action. Of asking again there is only a before: what comes of it is the
// provider's to say.
type (
	asking struct {
		Tries int    `json:"tries"`
		Why   string `json:"why,omitempty"`
	}
	returned struct {
		Status string `json:"status"`
		Note   string `json:"note"`
	}
)

// AskAgain is that of order.Store, with a line in the log.
func (s *Store) AskAgain(ctx context.Context, by By, id uuid.UUID, asked []string) error {
	a := action{name: "payment.retry", subject: "payment " + id.String()}
	return s.act(ctx, by, &a, func(tx pgx.Tx) error {
		tries, why, err := order.New(tx, s.orders).AskAgain(ctx, id, asked)
		a.before = asking{tries, why}
		return err
	})
}

// ReturnByHand is that of order.Store, with a line in the log.
func (s *Store) ReturnByHand(ctx context.Context, by By, id uuid.UUID, asked []string, note string) error {
	a := action{name: "payment.returned", subject: "payment " + id.String(), before: status{"refund_due"},
		after: returned{"refunded", note}}
	return s.act(ctx, by, &a, func(tx pgx.Tx) error {
		return order.New(tx, s.orders).ReturnByHand(ctx, id, asked, note)
	})
}
