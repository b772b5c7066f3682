package order

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// NoteMax bounds what the staff notes about money that it returned, in characters.
const NoteMax = 200

// AskAgain makes the sweeper ask a provider about an open payment, or for a refund that is due or refused: at once, or
// when the last call has ended. A closed payment is open again until the provider has answered: its order is not
// pending, so it has no other open one, and gets none. asked has the names of the providers that the shop can ask. It
// returns how often the provider was asked, and the reason of its last fault. ErrNotFound; ErrWrongStatus, also for a
// payment of another provider.
func (s *Store) AskAgain(ctx context.Context, id uuid.UUID, asked []string) (tries int, why string, err error) {
	err = s.db.QueryRow(ctx, `
		update payments set ask_at = greatest(now(), asked_at + interval '5 seconds'),
		       status     = case status when 'closed' then 'open' else status end,
		       updated_at = case status when 'closed' then now() else updated_at end
		where  id = $1 and status in ('open', 'closed', 'refund_due') and provider = any($2)
		returning tries, why`, id, asked).Scan(&tries, &why)
	return tries, why, s.whyNot(ctx, id, err, ErrWrongStatus)
}

// ReturnByHand closes a refund that is due: the staff returns the money. It closes one that the provider has refused,
// and one for which the shop cannot ask any provider, a minute after the last call: that one may have returned it.
// asked is that of AskAgain. Of two calls, also of AskAgain, the first wins. InvalidError, ErrNotFound, ErrWrongStatus;
// ErrMayRefund if the provider may still return the money.
func (s *Store) ReturnByHand(ctx context.Context, id uuid.UUID, asked []string, note string) error {
	if err := checkText("note", note, NoteMax); err != nil {
		return err
	}
	err := s.db.QueryRow(ctx, `
		update payments set status = 'refunded', why = '', updated_at = now()
		where  id = $1 and status = 'refund_due' and
		       (ask_at is null or (provider = any($2)) is not true and coalesce(asked_at, '-infinity') < now() - interval '1 minute')
		returning id`, id, asked).Scan(&id)
	return s.whyNot(ctx, id, err, ErrMayRefund)
}

// whyNot returns the refusal of an update that found no row: ofRefund if the payment is a refund that is due.
func (s *Store) whyNot(ctx context.Context, id uuid.UUID, err, ofRefund error) error {
	if err == nil {
		return nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("change payment %s: %w", id, err)
	}
	var due bool
	err = s.db.QueryRow(ctx, `select status = 'refund_due' from payments where id = $1`, id).Scan(&due)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return ErrNotFound
	case err != nil:
		return fmt.Errorf("read payment %s: %w", id, err)
	case due:
		return ofRefund
	}
	return ErrWrongStatus
}
