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

// AskAgain makes the sweeper ask a provider at once about an open payment, or for a refund that is due. asked has the names of
// the providers that the shop can ask. It returns how often the provider was asked, and the reason of its last fault. ErrNotFound;
// ErrWrongStatus, also for a payment of another provider.
func (s *Store) AskAgain(ctx context.Context, id uuid.UUID, asked []string) (tries int, why string, err error) {
	err = s.db.QueryRow(ctx, `
		with was as (select id, tries, why from payments where id = $1 for no key update)
		update payments p set ask_at = now(), tries = 0
		from   was
		where  p.id = was.id and p.status in ('open', 'refund_due') and p.provider = any($2)
		returning was.tries, was.why`, id, asked).Scan(&tries, &why)
	return tries, why, s.whyNot(ctx, id, err)
}

// ReturnByHand marks a refund that is due as made: the staff has returned the money, since no provider of the shop can. asked is
// that of AskAgain. InvalidError, ErrNotFound; ErrWrongStatus, also for a payment that its provider refunds by itself.
func (s *Store) ReturnByHand(ctx context.Context, id uuid.UUID, asked []string, note string) error {
	if err := checkText("note", note, NoteMax); err != nil {
		return err
	}
	err := s.db.QueryRow(ctx, `
		update payments set status = 'refunded', why = '', updated_at = now()
		where  id = $1 and status = 'refund_due' and (provider = any($2)) is not true
		returning id`, id, asked).Scan(&id)
	return s.whyNot(ctx, id, err)
}

// whyNot returns the refusal of an update that found no row.
func (s *Store) whyNot(ctx context.Context, id uuid.UUID, err error) error {
	if err == nil {
		return nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("change payment %s: %w", id, err)
	}
	var known bool
	if err := s.db.QueryRow(ctx, `select exists (select from payments where id = $1)`, id).Scan(&known); err != nil {
		return fmt.Errorf("read payment %s: %w", id, err)
	}
	if !known {
		return ErrNotFound
	}
	return ErrWrongStatus
}
