package order

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ConfirmByHand records that the shop has the money for an order without a notice of a provider: the price, under a
// reference that the staff chooses, of the provider Hand. It returns the payment's status: captured, or refund_due for
// an order that is not pending or whose time is over. An open payment stays open; if it is captured later, its money
// goes back. InvalidError, ErrNotFound, ErrReusedRef.
func (s *Store) ConfirmByHand(ctx context.Context, orderID uuid.UUID, ref string) (status string, err error) {
	if err := checkText("reference", ref, 100); err != nil {
		return "", err
	}
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) (err error) {
		status, err = receive(ctx, tx, Captured{Provider: Hand, OrderID: orderID, Ref: ref})
		return err
	})
	if pg := new(pgconn.PgError); errors.As(err, &pg) && pg.ConstraintName == "one_payment_per_reference" {
		return "", ErrReusedRef
	}
	return status, err
}
