package goods

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Locked is a sale's row held under lock by the transaction that read it. Now is the database's clock at that moment,
// after the wait for the lock.
type Locked struct {
	ID       int64
	Title    string
	Price    int64 // fen
	Stock    int
	State    string
	StartsAt time.Time
	EndsAt   time.Time
	Epoch    int64
	Now      time.Time
}

// Window is Sale.Window by the database's clock.
func (l Locked) Window() error { return window(l.State, l.StartsAt, l.EndsAt, l.Now) }

// Lock takes the sale's row before anything else in the transaction touches an order: every writer of a sale's stock
// does, so that none deadlocks with another. ErrNoSale where there is none.
func Lock(ctx context.Context, tx pgx.Tx, id int64) (Locked, error) {
	var l Locked
	err := tx.QueryRow(ctx, `
		select s.id, g.title, s.price, s.stock, s.state, s.starts_at, s.ends_at, s.epoch, clock_timestamp()
		from   sales s join goods g on g.id = s.goods_id
		where  s.id = $1
		for    no key update of s`, id).
		Scan(&l.ID, &l.Title, &l.Price, &l.Stock, &l.State, &l.StartsAt, &l.EndsAt, &l.Epoch, &l.Now)
	if errors.Is(err, pgx.ErrNoRows) {
		return l, ErrNoSale
	}
	if err != nil {
		return l, fmt.Errorf("lock sale %d: %w", id, err)
	}
	return l, nil
}

// Take takes n units; the guard is in the statement. ErrSoldOut means that fewer were left: roll back.
func Take(ctx context.Context, tx pgx.Tx, id int64, n int) error {
	tag, err := tx.Exec(ctx, `
		update sales set stock = stock - $2
		where  id = $1 and stock > 0 and stock >= $2`, id, n)
	if err != nil {
		return fmt.Errorf("take %d units of sale %d: %w", n, id, err)
	}
	if tag.RowsAffected() != 1 {
		return ErrSoldOut
	}
	return nil
}

// GiveBack puts n units back on sale. The gates hear of it from reconcile.
func GiveBack(ctx context.Context, tx pgx.Tx, id int64, n int) error {
	tag, err := tx.Exec(ctx, `update sales set stock = stock + $2 where id = $1`, id, n)
	if err == nil && tag.RowsAffected() != 1 {
		err = ErrNoSale
	}
	if err != nil {
		return fmt.Errorf("give %d units back to sale %d: %w", n, id, err)
	}
	return nil
}

// NextEpoch gives the locked sale a new epoch and returns it. Epochs come from a sequence, so none is used twice even
// by a transaction that is rolled back.
func NextEpoch(ctx context.Context, tx pgx.Tx, id int64) (epoch int64, err error) {
	err = tx.QueryRow(ctx, `
		update sales set epoch = nextval('gate_epoch') where id = $1 returning epoch`, id).Scan(&epoch)
	if err != nil {
		return 0, fmt.Errorf("take an epoch for sale %d: %w", id, err)
	}
	return epoch, nil
}

// Truth is what a gate is held against.
type Truth struct {
	ID       int64
	Stock    int
	State    string
	StartsAt time.Time
	EndsAt   time.Time
	Epoch    int64
	Open     bool // now lies in the window, by the database's clock
}

// Truths reads every sale whose gate has work to do: it opens within ten minutes, is open, or ended less than since
// ago. At most 5,000.
func (s *Store) Truths(ctx context.Context, since time.Duration) ([]Truth, error) {
	rows, err := s.db.Query(ctx, `
		select id, stock, state, starts_at, ends_at, epoch, now() >= starts_at and now() < ends_at
		from   sales
		where  state <> 'draft' and ends_at > now() - $1::interval and starts_at < now() + interval '10 minutes'
		order  by id
		limit  5000`, since)
	if err == nil {
		var truths []Truth
		if truths, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Truth]); err == nil {
			return truths, nil
		}
	}
	return nil, fmt.Errorf("read the stock of open sales: %w", err)
}
