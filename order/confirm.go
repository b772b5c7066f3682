package order

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ConfirmByHand records that the shop has the money for an order without a notice of a provider: the price, under a reference that
// the staff chooses, of the provider Hand. It returns the payment's status: captured, or refund_due for an order that is not pending
// or whose time is over. An open payment stays open; if it is captured later, its money goes back. InvalidError, ErrNotFound,
// ErrReusedRef.
func (s *Store) ConfirmByHand(ctx context.Context, orderID uuid.UUID, ref string) (status string, err error) {
	if err := checkText("reference", ref, 100); err != nil {
		return "", err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make a payment id: %w", err)
	}
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			update orders set status = 'paid', paid_at = clock_timestamp()
			where  id = $1 and status || '' = 'pending' and expires_at > clock_timestamp()`, orderID)
		if err != nil {
			return fmt.Errorf("pay order %s: %w", orderID, err)
		}
		if status = "refund_due"; tag.RowsAffected() == 1 {
			status = "captured"
			if err := copyAddress(ctx, tx, orderID); err != nil {
				return err
			}
		}
		tag, err = tx.Exec(ctx, `
			insert into payments (id, order_id, amount, status, provider, provider_ref)
			select $1, id, price, $3, $5, $4 from orders where id = $2`, id, orderID, status, ref, Hand)
		if pg := new(pgconn.PgError); errors.As(err, &pg) && pg.ConstraintName == "one_payment_per_reference" {
			return ErrReusedRef
		}
		if err != nil {
			return fmt.Errorf("record the payment of order %s: %w", orderID, err)
		}
		if tag.RowsAffected() != 1 {
			return ErrNotFound
		}
		return nil
	})
	return status, err
}
