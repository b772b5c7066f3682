package goods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// What an operator does to a sale:
//
//	draft      -> published   PublishDraft: buyers see it, and its stock goes into the gate
//	published  -> paused      Pause: no buyer gets a ticket; tickets that are granted are settled, orders can be paid
//	paused     -> published   Resume
//	any other  -> closed      Close, for good; tickets that are not settled yet are refused, orders can be paid
//	not closed, not ended     AddUnits adds units, or takes unsold ones back
//	                          Move changes the window; a sale that is open, or is about to open, keeps its start
//	draft                     EditDraft changes its terms
//	draft, not open soon      SetPrice changes the price
//
// After its end a sale changes no more, except that a draft can be edited and moved, and every sale closed. Each change
// is one conditional update of the locked row, so of two operators one is refused. It takes a new epoch (sales_changed
// in schema.sql), which the sale's gate follows within a second. Each returns that epoch, or ErrNoSale, ErrLocked, an
// InvalidError or a TransitionError.

// PublishDraft publishes a draft whose window has not ended.
func (s *Store) PublishDraft(ctx context.Context, id int64) (epoch int64, err error) {
	return s.change(ctx, id, "publish", `
		update sales set state = 'published'
		where  id = $1 and state = 'draft' and ends_at > clock_timestamp()
		returning epoch`, only(Draft))
}

// Pause pauses a published sale.
func (s *Store) Pause(ctx context.Context, id int64) (epoch int64, err error) {
	return s.change(ctx, id, "pause", `
		update sales set state = 'paused'
		where  id = $1 and state = 'published' and ends_at > clock_timestamp()
		returning epoch`, only(Published))
}

// Resume publishes a paused sale again.
func (s *Store) Resume(ctx context.Context, id int64) (epoch int64, err error) {
	return s.change(ctx, id, "resume", `
		update sales set state = 'published'
		where  id = $1 and state = 'paused' and ends_at > clock_timestamp()
		returning epoch`, only(Paused))
}

// Close closes a sale for good, also a draft and one that has ended.
func (s *Store) Close(ctx context.Context, id int64) (epoch int64, err error) {
	return s.change(ctx, id, "close", `
		update sales set state = 'closed'
		where  id = $1 and state <> 'closed'
		returning epoch`, only(Draft, Published, Paused))
}

// AddUnits adds n units to a sale. A negative n takes back units that are not sold, but at least one unit stays in all.
func (s *Store) AddUnits(ctx context.Context, id int64, n int) (epoch int64, err error) {
	if n == 0 || n > StockMax || n < -StockMax {
		return 0, InvalidError{"units", "range", fmt.Sprintf("must be a number other than 0, from -%d to %d",
			StockMax, StockMax)}
	}
	return s.change(ctx, id, "add units to", `
		update sales set stock = stock + $2::integer, total = total + $2::integer
		where  id = $1 and state <> 'closed' and ends_at > clock_timestamp()
		and    stock::bigint + $2::integer >= 0 and total::bigint + $2::integer between 1 and 2147483647
		returning epoch`, func(l Locked) string {
		return cmp.Or(only(Draft, Published, Paused)(l), "units")
	}, n)
}

// startStays is how long before the opening of a published sale its start can still change: until its gate has
// followed, buyers would get tickets at the old time.
const startStays = 3 * time.Second

// Move sets the window of a sale. Its end must be in the future. A sale that is open, or opens within startStays, must
// keep its start.
func (s *Store) Move(ctx context.Context, id int64, from, to time.Time) (epoch int64, err error) {
	if err := checkWindow(from, to); err != nil {
		return 0, err
	}
	return s.change(ctx, id, "set the window of", `
		update sales set starts_at = $2, ends_at = $3
		where  id = $1 and $3 > clock_timestamp()
		and   (state = 'draft' or state <> 'closed' and ends_at > clock_timestamp() and (starts_at > clock_timestamp() + $4::interval or starts_at = $2))
		and   (priced_at is null or starts_at = $2 or $2 >= priced_at + interval '1 minute')
		returning epoch`, func(l Locked) string {
		switch {
		case l.State == Closed:
			return Closed
		case !to.After(l.Now):
			return "past"
		case l.State != Draft && !l.EndsAt.After(l.Now):
			return "ended"
		case l.State != Draft && !l.StartsAt.After(l.Now.Add(startStays)) && !l.StartsAt.Equal(from):
			return "open"
		}
		return "shown"
	}, from, to, startStays)
}

// SetPrice sets the price of a draft, or of a sale that opens in more than a minute: so long the catalogue may show an
// old price (staleFor), and a buyer pays the price that was shown at the opening. Move keeps the same minute.
func (s *Store) SetPrice(ctx context.Context, id, price int64) (epoch int64, err error) {
	if err := checkPrice("price", price); err != nil {
		return 0, err
	}
	return s.change(ctx, id, "set the price of", `
		update sales set price = $2, priced_at = case when state <> 'draft' then clock_timestamp() end
		where  id = $1 and (state = 'draft' or state <> 'closed' and starts_at > clock_timestamp() + interval '1 minute')
		returning epoch`, func(l Locked) string {
		if l.State == Closed {
			return Closed
		}
		return "soon"
	}, price)
}

// EditDraft sets the terms of a draft, which no buyer has seen.
func (s *Store) EditDraft(ctx context.Context, id int64, t Terms) (epoch int64, err error) {
	if err := t.Validate(); err != nil {
		return 0, err
	}
	return s.change(ctx, id, "edit", `
		update sales set price = $2, total = $3::integer, stock = $3, starts_at = $4, ends_at = $5
		where  id = $1 and state = 'draft'
		returning epoch`, func(l Locked) string { return l.State }, t.Price, t.Total, t.StartsAt, t.EndsAt)
}

// change makes one conditional update of a sale's locked row. If the row does not fit, it says why: the lock makes sure
// that the row is as the update saw it.
func (s *Store) change(
	ctx context.Context, id int64, do, update string, why func(Locked) string, args ...any,
) (epoch int64, err error) {
	err = InTx(ctx, s.db, LongLockWait, func(tx pgx.Tx) error {
		locked, err := Lock(ctx, tx, id)
		if err != nil {
			return err
		}
		err = tx.QueryRow(ctx, update, append([]any{id}, args...)...).Scan(&epoch)
		if errors.Is(err, pgx.ErrNoRows) {
			// Nothing else is in its way: it has ended since the row was read.
			return TransitionError{Do: do, Reason: cmp.Or(why(locked), "ended"), Left: locked.Stock}
		}
		if err != nil {
			return fmt.Errorf("%s sale %d: %w", do, id, err)
		}
		return nil
	})
	return epoch, err
}

// only returns why a change that needs one of these states, and a sale that has not ended, is refused; "" if it is not.
func only(states ...string) func(Locked) string {
	return func(l Locked) string {
		switch {
		case !slices.Contains(states, l.State):
			return l.State
		case !l.EndsAt.After(l.Now):
			return "ended"
		}
		return ""
	}
}
