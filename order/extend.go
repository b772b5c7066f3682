package order

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"miaosha/goods"
)

// Extend moves the payment deadline of a pending order by d, and returns the new deadline. It changes nothing else: the
// unit stays taken. ErrNotFound; ErrWrongStatus if the order is not pending or its time is over; goods.ErrLocked.
//
// The sale's row is locked as for Expire, which lists the overdue orders under that lock: it cancels no order that was
// extended between its look and its update.
func (s *Store) Extend(ctx context.Context, id uuid.UUID, d time.Duration) (expires time.Time, err error) {
	sale, _, err := s.saleOf(ctx, id)
	if err != nil {
		return expires, err
	}
	err = s.locked.InTx(ctx, s.db, sale, func(tx pgx.Tx) error {
		if _, err := goods.Lock(ctx, tx, sale); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, `
			update orders set expires_at = expires_at + $2::interval
			where  id = $1 and status || '' = 'pending' and expires_at > clock_timestamp()
			returning expires_at`, id, d).Scan(&expires)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrWrongStatus
		}
		if err != nil {
			return fmt.Errorf("extend order %s: %w", id, err)
		}
		return nil
	})
	return expires, err
}
