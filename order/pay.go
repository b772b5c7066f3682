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
	ProviderRef string // the provider's own name for it, "" while open
}

// OpenPayment begins to pay for a user's pending order. An order has one open payment at most: a second call gives the
// same. ErrNotFound; ErrWrongStatus when it is not pending or its time is over.
func (s *Store) OpenPayment(ctx context.Context, userID int64, orderID uuid.UUID) (p Payment, err error) {
	id, err := uuid.NewV7()
	if err != nil {
		return p, fmt.Errorf("make a payment id: %w", err)
	}
	// The do-update changes nothing; it makes the statement return the payment that is open already.
	err = s.db.QueryRow(ctx, `
		insert into payments (id, order_id, amount)
		select $1, id, price
		from   orders
		where  id = $2 and user_id = $3 and status = 'pending' and expires_at > clock_timestamp()
		on     conflict (order_id) where status = 'open' do update set amount = excluded.amount
		returning id, order_id, amount, status`, id, orderID, userID).
		Scan(&p.ID, &p.OrderID, &p.Amount, &p.Status)
	if errors.Is(err, pgx.ErrNoRows) {
		if _, err := s.ByID(ctx, userID, orderID); err != nil {
			return p, err
		}
		return p, ErrWrongStatus
	}
	if err != nil {
		return p, fmt.Errorf("open a payment for order %s: %w", orderID, err)
	}
	return p, nil
}

// PaymentOf gives a payment of one of the user's orders; another's is ErrNotFound.
func (s *Store) PaymentOf(ctx context.Context, userID int64, id uuid.UUID) (p Payment, err error) {
	err = s.db.QueryRow(ctx, `
		select p.id, p.order_id, p.amount, p.status, coalesce(p.provider_ref, '')
		from   payments p join orders o on o.id = p.order_id
		where  p.id = $1 and o.user_id = $2`, id, userID).
		Scan(&p.ID, &p.OrderID, &p.Amount, &p.Status, &p.ProviderRef)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, ErrNotFound
	}
	if err != nil {
		return p, fmt.Errorf("read payment %s: %w", id, err)
	}
	return p, nil
}

// Decline closes an open payment that the provider refused. The order stays pending and may be paid again.
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

// Capture takes note that the provider holds the money for an order, under its reference ref. In time it pays the
// order; too late, or a second time, the money is marked refund_due in the same transaction. Told the same again it
// changes nothing and gives the same answer. Refusals, with nothing kept: ErrNotFound, ErrWrongAmount, ErrReusedRef.
func (s *Store) Capture(ctx context.Context, orderID uuid.UUID, amount int64, ref string) (status string, err error) {
	for range 3 {
		err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
			if status, err = capture(ctx, tx, orderID, amount, ref); err != nil {
				return err
			}
			return failpoint.Hit(failpoint.F8)
		})
		// Two notices of one capture at one moment: the second finds the first's row when it looks again.
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
	var of uuid.UUID
	var status string
	err = tx.QueryRow(ctx, `select order_id, status from payments where provider_ref = $1`, ref).Scan(&of, &status)
	switch {
	case err == nil && of == orderID:
		return status, nil
	case err == nil:
		return "", ErrReusedRef
	case !errors.Is(err, pgx.ErrNoRows):
		return "", fmt.Errorf("look for a capture: %w", err)
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

// Refund takes a paid order back: its money is due to the buyer and its unit is on sale again, both or neither. The money
// itself goes when DrainRefunds has it taken. ErrNotFound, ErrWrongStatus where the order is not paid.
func (s *Store) Refund(ctx context.Context, orderID uuid.UUID) error {
	var sale int64
	err := s.db.QueryRow(ctx, `select sale_id from orders where id = $1`, orderID).Scan(&sale)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("look for order %s: %w", orderID, err)
	}
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
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
}

// DrainRefunds hands every payment that is due back to refund and marks those it took. refund must be safe to call
// twice for one payment: the mark may be lost after it. It gives how many were marked. One that fails is passed over and
// told of at the end, and stays due: it holds up no other, and since they are taken in no order, not even a hundred
// that fail for ever do.
func (s *Store) DrainRefunds(ctx context.Context, refund func(context.Context, Payment) error) (n int, err error) {
	rows, err := s.db.Query(ctx, `
		select id, order_id, amount, status, provider_ref
		from   payments
		where  status = 'refund_due'
		order  by random()
		limit  100`)
	var due []Payment
	if err == nil {
		due, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Payment])
	}
	if err != nil {
		return 0, fmt.Errorf("look for refunds: %w", err)
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
