package order

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"miaosha/goods"
	"miaosha/seckill/failpoint"
)

// Payment is one attempt to pay for an order.
type Payment struct {
	ID          uuid.UUID
	OrderID     uuid.UUID
	Amount      int64     // fen
	Status      string    // open, declined, closed, captured, refund_due, refunded
	Provider    string    // its name: no other provider is asked about this payment, or refunds it
	ProviderRef string    // the provider's reference, "" while open
	PayUntil    time.Time // the order's payment deadline
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// maxPayments is the number of payments of one order that its buyer can open, declined ones included.
const maxPayments = 5

// OpenPayment opens a payment at a provider for a user's pending order. An order has at most one open
// payment: a second call returns the same one, and one that is open at another provider, which the shop
// had before, is declined. ErrNotFound; ErrWrongStatus if the order is not pending or its payment deadline has
// passed; ErrDeclined if five of its payments were declined.
//
// The order's row is locked, so that calls at once do not open more payments than one call after the
// other does.
func (s *Store) OpenPayment(
	ctx context.Context, provider string, userID int64, orderID uuid.UUID,
) (p Payment, err error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Payment{}, fmt.Errorf("make a payment id: %w", err)
	}
	none := false
	// The later statements see what was committed before the lock, and begin after it. Without a payment the
	// decline of another provider's is committed, too.
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		batch.Queue(`select from orders where id = $1 and user_id = $2 for no key update`, orderID, userID)
		batch.Queue(`
			update payments set status = 'declined', why = 'the shop has another provider now', updated_at = now()
			where  order_id = (select id from orders where id = $1 and user_id = $2) and status = 'open' and provider <> $3`, orderID, userID, provider)
		batch.Queue(`
			with pending as (
			     select id, price, expires_at
			     from   orders
			     where  id = $2 and user_id = $3 and status || '' = 'pending' and expires_at > statement_timestamp()
			), made as (
			     select p.*
			     from   payments p join pending on p.order_id = pending.id
			     where  p.status in ('open', 'declined')
			), opened as (
			     insert into payments (id, order_id, amount, provider, ask_at)
			     select $1, id, price, $5, least(clock_timestamp() + interval '30 seconds', greatest(clock_timestamp() + interval '2 seconds', expires_at - interval '10 seconds'))
			     from   pending
			     where  not exists (select from made where status = 'open') and (select count(*) from made) < $4
			     returning *
			)
			select p.id, p.order_id, p.amount, p.status, p.provider, '' as provider_ref, o.expires_at as pay_until, p.created_at, p.updated_at
			from  (select * from made where status = 'open' union all select * from opened) p join pending o on o.id = p.order_id`,
			id, orderID, userID, maxPayments, provider).Query(func(rows pgx.Rows) (err error) {
			p, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Payment])
			if none = errors.Is(err, pgx.ErrNoRows); none {
				return nil
			}
			return err
		})
		return tx.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return p, fmt.Errorf("open a payment for order %s: %w", orderID, err)
	}
	if none {
		return p, s.whyNoPayment(ctx, userID, orderID)
	}
	return p, nil
}

// whyNoPayment returns the refusal of a payment that was not opened.
func (s *Store) whyNoPayment(ctx context.Context, userID int64, orderID uuid.UUID) error {
	var payable bool
	err := s.db.QueryRow(ctx, `
		select status = 'pending' and expires_at > clock_timestamp()
		from   orders
		where  id = $1 and user_id = $2 and `+durable, orderID, userID).Scan(&payable)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return ErrNotFound
	case err != nil:
		return fmt.Errorf("read order %s: %w", orderID, err)
	case payable:
		return ErrDeclined
	}
	return ErrWrongStatus
}

// PaymentOf returns a payment of one of the user's orders. Another user's payment is ErrNotFound.
func (s *Store) PaymentOf(ctx context.Context, userID int64, id uuid.UUID) (Payment, error) {
	var p Payment
	err := goods.Again(func() (err error) {
		rows, _ := s.db.Query(ctx, `
			select p.id, p.order_id, p.amount, p.status, p.provider, coalesce(p.provider_ref, '') as provider_ref, o.expires_at as pay_until, p.created_at, p.updated_at
			from   payments p join orders o on o.id = p.order_id
			where  p.id = $1 and o.user_id = $2 and `+durable, id, userID)
		p, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Payment])
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return p, ErrNotFound
	}
	if err != nil {
		return p, fmt.Errorf("read payment %s: %w", id, err)
	}
	return p, nil
}

// Payments lists the payments of a user's orders, oldest first.
func (s *Store) Payments(ctx context.Context, userID int64, orderIDs ...uuid.UUID) ([]Payment, error) {
	var payments []Payment
	err := goods.Again(func() (err error) {
		rows, _ := s.db.Query(ctx, `
			select p.id, p.order_id, p.amount, p.status, p.provider, coalesce(p.provider_ref, '') as provider_ref, o.expires_at as pay_until, p.created_at, p.updated_at
			from   payments p join orders o on o.id = p.order_id
			where  p.order_id = any($1) and o.user_id = $2 and `+durable+`
			order  by p.id`, orderIDs, userID)
		payments, err = pgx.CollectRows(rows, pgx.RowToStructByName[Payment])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list payments of user %d: %w", userID, err)
	}
	return payments, nil
}

// Decline marks an open payment that its provider refused, with the reason, or a closed one. A pending order
// can still be paid. ErrWrongStatus if the order has no such payment at the provider.
func (s *Store) Decline(ctx context.Context, p Payment, why string) error {
	return s.decline(ctx, p, why, 0)
}

// decline is Decline, but if over is positive, it returns ErrWrongStatus until over after the payment deadline.
func (s *Store) decline(ctx context.Context, p Payment, why string, over time.Duration) error {
	tag, err := s.db.Exec(ctx, `
		update payments set status = 'declined', why = left($4, 200), updated_at = now()
		where  id = $1 and order_id = $2 and provider = $3 and status in ('open', 'closed')
		and    ($5::interval = '0' or exists (select from orders o where o.id = order_id and o.expires_at < statement_timestamp() - $5::interval))`,
		p.ID, p.OrderID, p.Provider, why, over)
	if err != nil {
		return fmt.Errorf("decline payment %s: %w", p.ID, err)
	}
	if tag.RowsAffected() != 1 {
		return ErrWrongStatus
	}
	return nil
}

// DeclineNoticed is Decline for a provider's notice about the order and the payment of c. It returns the
// payment's status: a notice that comes after another one changes nothing. ErrNotFound.
func (s *Store) DeclineNoticed(ctx context.Context, c Captured, why string) (status string, err error) {
	err = s.Decline(ctx, Payment{ID: c.PaymentID, OrderID: c.OrderID, Provider: c.Provider}, why)
	if err == nil {
		return "declined", nil
	}
	if !errors.Is(err, ErrWrongStatus) {
		return "", err
	}
	err = s.db.QueryRow(ctx, `
		select status from payments where id = $1 and order_id = $2 and provider = $3 and `+durable, c.PaymentID, c.OrderID, c.Provider).Scan(&status)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("read payment %s: %w", c.PaymentID, err)
	}
	return status, nil
}

// Captured is what a provider reports: it has the buyer's money.
type Captured struct {
	Provider string
	OrderID  uuid.UUID
	// zero if the provider does not say: then it is the order's open payment, or the one that was closed
	PaymentID uuid.UUID
	Amount    int64  // fen
	Ref       string // the provider's reference of this capture
}

// Capture records that a provider has captured the money for an order. It returns the payment's status.
// In time, the capture pays the order: captured. Too late, or for an order that is not pending, the money
// is marked refund_due in the same transaction. A second call with the same provider and reference changes
// nothing. Money is recorded also without an open payment, and if it was declined or closed before. A
// second capture of one payment has a row of its own. The row keeps, for its refund, the payment by which the
// provider knows the capture: that of the notice, or else the order's newest one there.
// Refusals, with nothing recorded: ErrNotFound, ErrWrongAmount, ErrReusedRef.
func (s *Store) Capture(ctx context.Context, c Captured) (status string, err error) {
	for range 3 {
		err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
			if status, err = capture(ctx, tx, c); err != nil {
				return err
			}
			return failpoint.Hit(failpoint.BeforeCaptureCommit)
		})
		// The second of two concurrent notices violates a unique index; its next try reads the row.
		if pg := new(pgconn.PgError); !errors.As(err, &pg) || pg.Code != "23505" {
			break
		}
	}
	return status, err
}

func capture(ctx context.Context, tx pgx.Tx, c Captured) (string, error) {
	var price int64
	var paidOrder uuid.UUID
	var status string // of the payment with this reference, if there is one
	err := tx.QueryRow(ctx, `
		select o.price, coalesce(p.order_id, o.id), coalesce(p.status, '')
		from   orders o left join payments p on p.provider = $2 and p.provider_ref = $3
		where  o.id = $1 and `+durable, c.OrderID, c.Provider, c.Ref).Scan(&price, &paidOrder, &status)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", ErrNotFound
	case err != nil:
		return "", fmt.Errorf("read order %s: %w", c.OrderID, err)
	case c.Amount != price:
		return "", ErrWrongAmount
	case paidOrder != c.OrderID:
		return "", ErrReusedRef
	case status != "":
		return status, nil
	}
	return receive(ctx, tx, c)
}

// receive pays a pending order in time, and records the money that came for it, which is the order's price: captured,
// or else refund_due. The money is that of a payment of the order, or has a row of its own. ErrNotFound.
func receive(ctx context.Context, tx pgx.Tx, c Captured) (status string, err error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make a payment id: %w", err)
	}
	tag, err := tx.Exec(ctx, `
		update orders set status = 'paid', paid_at = clock_timestamp()
		where  id = $1 and status || '' = 'pending' and expires_at > clock_timestamp()`, c.OrderID)
	if err != nil {
		return "", fmt.Errorf("pay order %s: %w", c.OrderID, err)
	}
	status = "refund_due"
	if tag.RowsAffected() == 1 {
		status = "captured"
		if err := copyAddress(ctx, tx, c.OrderID); err != nil {
			return "", err
		}
	}
	tag, err = tx.Exec(ctx, `
		with known as (
		     update payments set status = $5, provider_ref = $4, ask_at = now(), tries = 0, why = '', updated_at = now()
		     where  order_id = $1 and provider = $2 and (id = $3 and status in ('open', 'declined', 'closed') or
		            $3 = '00000000-0000-0000-0000-000000000000' and status in ('open', 'closed'))
		     returning id
		), new as (
		     insert into payments (id, order_id, amount, status, provider, provider_ref, ask_at, captured_as)
		     select $6, id, price, $5, $2, $4, now(), coalesce(nullif($3, '00000000-0000-0000-0000-000000000000'),
		            (select coalesce(captured_as, id) from payments where order_id = $1 and provider = $2 order by id desc limit 1))
		     from   orders
		     where  id = $1 and not exists (select from known)
		     returning id
		)
		select id from known union all select id from new`, c.OrderID, c.Provider, c.PaymentID, c.Ref, status, id)
	if err != nil {
		return "", fmt.Errorf("record the money of order %s: %w", c.OrderID, err)
	}
	if tag.RowsAffected() != 1 {
		return "", ErrNotFound
	}
	return status, nil
}

// Refund marks a paid order refunded and its payment refund_due, and puts the unit back on sale, in
// one transaction. DrainRefunds then returns the money. ErrNotFound; goods.ErrLocked; ErrWrongStatus if not
// paid, which it looks at before it locks the sale, as Cancel does.
func (s *Store) Refund(ctx context.Context, orderID uuid.UUID) error {
	sale, status, err := s.saleOf(ctx, orderID)
	if err != nil {
		return err
	}
	if status != Paid {
		return ErrWrongStatus
	}
	_, err = s.giveBack(ctx, s.locked.InTx, sale, fmt.Sprint("refund order ", orderID), `
		with refunded as (
		     update orders set status = 'refunded' where id = $1 and status = 'paid' returning id
		), due as (
		     update payments set status = 'refund_due', ask_at = now(), tries = 0, updated_at = now()
		     where  order_id = $1 and status = 'captured' and exists (select from refunded)
		)
		select id from refunded`, orderID)
	return err
}
