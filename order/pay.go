package order

import (
	"context"
	"errors"
	"fmt"

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
	Amount      int64  // fen
	Status      string // open, declined, captured, refund_due, refunded
	ProviderRef string // the provider's reference, "" while open
}

// maxPayments is the number of payments of one order that its buyer can open, declined ones included.
const maxPayments = 5

// OpenPayment opens a payment for a user's pending order. An order has at most one open payment: a
// second call returns the same one. ErrNotFound; ErrWrongStatus if the order is not pending or its
// time to pay is over; ErrDeclined if five of its payments were declined.
//
// The order's row is locked, so that calls at once do not open more payments than one call after the
// other does.
func (s *Store) OpenPayment(ctx context.Context, userID int64, orderID uuid.UUID) (p Payment, err error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Payment{}, fmt.Errorf("make a payment id: %w", err)
	}
	// One round trip and one transaction. The second statement sees what was committed before the lock.
	batch := &pgx.Batch{}
	batch.Queue(`select from orders where id = $1 and user_id = $2 for no key update`, orderID, userID)
	batch.Queue(`
		with pending as (
		     select id, price
		     from   orders
		     where  id = $2 and user_id = $3 and status = 'pending' and expires_at > clock_timestamp()
		), made as (
		     select p.id, p.order_id, p.amount, p.status
		     from   payments p join pending on p.order_id = pending.id
		     where  p.status in ('open', 'declined')
		), opened as (
		     insert into payments (id, order_id, amount)
		     select $1, id, price
		     from   pending
		     where  not exists (select from made where status = 'open') and (select count(*) from made) < $4
		     returning id, order_id, amount, status
		)
		select id, order_id, amount, status, '' as provider_ref from made where status = 'open'
		union  all
		select id, order_id, amount, status, ''                 from opened`, id, orderID, userID, maxPayments).Query(func(rows pgx.Rows) error {
		p, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Payment])
		return err
	})
	err = s.db.SendBatch(ctx, batch).Close()
	if errors.Is(err, pgx.ErrNoRows) {
		return p, s.whyNoPayment(ctx, userID, orderID)
	}
	if err != nil {
		return p, fmt.Errorf("open a payment for order %s: %w", orderID, err)
	}
	return p, nil
}

// whyNoPayment returns the refusal of a payment that was not opened.
func (s *Store) whyNoPayment(ctx context.Context, userID int64, orderID uuid.UUID) error {
	var payable bool
	err := s.db.QueryRow(ctx, `
		select status = 'pending' and expires_at > clock_timestamp()
		from   orders
		where  id = $1 and user_id = $2`, orderID, userID).Scan(&payable)
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
	rows, _ := s.db.Query(ctx, `
		select p.id, p.order_id, p.amount, p.status, coalesce(p.provider_ref, '') as provider_ref
		from   payments p join orders o on o.id = p.order_id
		where  p.id = $1 and o.user_id = $2`, id, userID)
	p, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Payment])
	if errors.Is(err, pgx.ErrNoRows) {
		return p, ErrNotFound
	}
	if err != nil {
		return p, fmt.Errorf("read payment %s: %w", id, err)
	}
	return p, nil
}

// Decline marks an open payment that the provider refused. The order stays pending and can still be
// paid. ErrWrongStatus if the payment is not open.
func (s *Store) Decline(ctx context.Context, id uuid.UUID) error {
	tag, err := s.db.Exec(ctx, `
		update payments set status = 'declined', updated_at = now() where id = $1 and status = 'open'`, id)
	if err != nil {
		return fmt.Errorf("decline payment %s: %w", id, err)
	}
	if tag.RowsAffected() != 1 {
		return ErrWrongStatus
	}
	return nil
}

// Capture records that the provider has captured the money for an order, under the provider's
// reference ref. It returns the payment's status. In time, the capture pays the order: captured.
// Too late, or for an order that is not pending, the money is marked refund_due in the same
// transaction. A second call with the same ref changes nothing. Refusals, with nothing recorded:
// ErrNotFound, ErrWrongAmount, ErrReusedRef.
func (s *Store) Capture(ctx context.Context, orderID uuid.UUID, amount int64, ref string) (status string, err error) {
	for range 3 {
		err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
			if status, err = capture(ctx, tx, orderID, amount, ref); err != nil {
				return err
			}
			return failpoint.Hit(failpoint.F8)
		})
		// The second of two concurrent notices violates a unique index; its next try reads the row.
		if pg := new(pgconn.PgError); !errors.As(err, &pg) || pg.Code != "23505" {
			break
		}
	}
	return status, err
}

func capture(ctx context.Context, tx pgx.Tx, orderID uuid.UUID, amount int64, ref string) (string, error) {
	var price int64
	err := tx.QueryRow(ctx, `select price from orders where id = $1`, orderID).Scan(&price)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", ErrNotFound
	case err != nil:
		return "", fmt.Errorf("read order %s: %w", orderID, err)
	case amount != price:
		return "", ErrWrongAmount
	}
	var paidOrder uuid.UUID
	var status string
	err = tx.QueryRow(ctx, `select order_id, status from payments where provider_ref = $1`, ref).Scan(&paidOrder, &status)
	switch {
	case errors.Is(err, pgx.ErrNoRows): // a new capture
	case err != nil:
		return "", fmt.Errorf("find the capture: %w", err)
	case paidOrder != orderID:
		return "", ErrReusedRef
	default:
		return status, nil
	}
	tag, err := tx.Exec(ctx, `
		update orders set status = 'paid', paid_at = clock_timestamp()
		where  id = $1 and status = 'pending' and expires_at > clock_timestamp()`, orderID)
	if err != nil {
		return "", fmt.Errorf("pay order %s: %w", orderID, err)
	}
	status = "refund_due"
	if tag.RowsAffected() == 1 {
		status = "captured"
	}
	tag, err = tx.Exec(ctx, `
		update payments set status = $3, provider_ref = $2, updated_at = now()
		where  order_id = $1 and status = 'open'`, orderID, ref, status)
	if err == nil && tag.RowsAffected() == 0 {
		var id uuid.UUID
		if id, err = uuid.NewV7(); err == nil {
			_, err = tx.Exec(ctx, `
				insert into payments (id, order_id, amount, status, provider_ref)
				values ($1, $2, $3, $4, $5)`, id, orderID, amount, status, ref)
		}
	}
	if err != nil {
		return "", fmt.Errorf("record the capture of order %s: %w", orderID, err)
	}
	return status, nil
}

// Refund marks a paid order refunded and its payment refund_due, and puts the unit back on sale, in
// one transaction. DrainRefunds then returns the money. ErrNotFound; ErrWrongStatus if not paid, which
// it looks at before it locks the sale, as Cancel does.
func (s *Store) Refund(ctx context.Context, orderID uuid.UUID) error {
	var sale int64
	var status string
	err := s.db.QueryRow(ctx, `select sale_id, status from orders where id = $1`, orderID).Scan(&sale, &status)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("read order %s: %w", orderID, err)
	}
	if status != Paid {
		return ErrWrongStatus
	}
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := goods.Lock(ctx, tx, sale); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `update orders set status = 'refunded' where id = $1 and status = 'paid'`, orderID)
		if err != nil {
			return fmt.Errorf("refund order %s: %w", orderID, err)
		}
		if tag.RowsAffected() != 1 {
			return ErrWrongStatus
		}
		if _, err := tx.Exec(ctx, `
			update payments set status = 'refund_due', updated_at = now()
			where  order_id = $1 and status = 'captured'`, orderID); err != nil {
			return fmt.Errorf("refund order %s: %w", orderID, err)
		}
		return goods.GiveBack(ctx, tx, sale, 1)
	})
	if err == nil {
		s.unitsReturned()
	}
	return err
}

// DrainRefunds calls refund for payments that are refund_due, at most 100, marks those that succeed
// as refunded, and returns their number. refund must be safe to call twice for one payment: the
// mark may be lost after it. A payment that fails stays refund_due, and its error is returned at
// the end. The order is random, so even 100 payments that always fail do not stop the others for
// ever.
func (s *Store) DrainRefunds(ctx context.Context, refund func(context.Context, Payment) error) (n int, err error) {
	rows, _ := s.db.Query(ctx, `
		select id, order_id, amount, status, provider_ref
		from   payments
		where  status = 'refund_due'
		order  by random()
		limit  100`)
	due, err := pgx.CollectRows(rows, pgx.RowToStructByName[Payment])
	if err != nil {
		return 0, fmt.Errorf("list the refunds that are due: %w", err)
	}
	var faults []error
	for _, p := range due {
		if err := refund(ctx, p); err != nil {
			if faults = append(faults, fmt.Errorf("refund payment %s: %w", p.ID, err)); ctx.Err() != nil {
				break
			}
			continue
		}
		tag, err := s.db.Exec(ctx, `
			update payments set status = 'refunded', updated_at = now() where id = $1 and status = 'refund_due'`, p.ID)
		if err != nil {
			return n, errors.Join(append(faults, fmt.Errorf("mark payment %s refunded: %w", p.ID, err))...)
		}
		n += int(tag.RowsAffected())
	}
	return n, errors.Join(faults...)
}
