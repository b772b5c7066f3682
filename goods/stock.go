package goods

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Locked is a sale whose row is locked. Now is the database's clock, read after the wait for the
// lock.
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
	Bypass
}

// Bypass counts the times that a sale was sold past its gate: in all, and up to the last whose
// buyers the gate knows. While they differ, the sale is marked as bypassed: its gate may not know an
// owner.
type Bypass struct {
	Bypasses      int64
	BypassesKnown int64
}

// Bypassed reports whether the sale is marked.
func (b Bypass) Bypassed() bool { return b.Bypasses > b.BypassesKnown }

// Window returns what Sale.Window returns, by the database's clock.
func (l Locked) Window() error { return window(l.State, l.StartsAt, l.EndsAt, l.Now) }

// Lock locks the sale's row. Every transaction that changes a sale's stock calls it before it touches an order, so no
// two of them deadlock. An archived sale is closed: results of its tickets are in files, so a ticket that is settled
// again must get no unit. It returns ErrNoSale if the sale does not exist, and ErrLocked if the transaction may wait no
// longer.
func Lock(ctx context.Context, tx pgx.Tx, id int64) (Locked, error) {
	rows, _ := tx.Query(ctx, `
		select s.id, g.title, s.price, s.stock, case when s.archived_at is null then s.state else 'closed' end as state, s.starts_at, s.ends_at, s.epoch,
		       s.bypasses, s.bypasses_known, clock_timestamp() as now
		from   sales s join goods g on g.id = s.goods_id
		where  s.id = $1
		for    no key update of s`, id)
	l, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Locked])
	if errors.Is(err, pgx.ErrNoRows) {
		return l, ErrNoSale
	}
	if tx, ok := tx.(*saleTx); ok && err == nil {
		tx.locked = true
	}
	if err != nil {
		return l, fmt.Errorf("lock sale %d: %w", id, unlessMissed(err, ErrSaleLocked))
	}
	return l, nil
}

// Take takes n units; the statement itself checks that they are there. It returns ErrSoldOut if
// fewer are left: the caller must roll back.
func Take(ctx context.Context, tx pgx.Tx, id int64, n int) error {
	tag, err := tx.Exec(ctx, `
		update sales set stock = stock - $2::integer
		where  id = $1 and stock > 0 and stock >= $2`, id, n)
	if err != nil {
		return fmt.Errorf("take %d units of sale %d: %w", n, id, err)
	}
	if tag.RowsAffected() != 1 {
		return ErrSoldOut
	}
	return nil
}

// GiveBack puts n units back on sale. Reconcile then adds them to the sale's gate.
func GiveBack(ctx context.Context, tx pgx.Tx, id int64, n int) error {
	tag, err := tx.Exec(ctx, `update sales set stock = stock + $2::integer where id = $1`, id, n)
	if err == nil && tag.RowsAffected() != 1 {
		err = ErrNoSale
	}
	if err != nil {
		return fmt.Errorf("give %d units back to sale %d: %w", n, id, err)
	}
	return nil
}

// CountBypass counts one more bypass of a locked sale, which marks it.
func CountBypass(ctx context.Context, tx pgx.Tx, id int64) error {
	if _, err := tx.Exec(ctx, `update sales set bypasses = bypasses + 1 where id = $1`, id); err != nil {
		return fmt.Errorf("count a bypass of sale %d: %w", id, err)
	}
	return nil
}

// GateKnows takes the mark off a sale whose gate knows all buyers of that many bypasses. The sale stays
// marked if there have been more since. It waits so long for the sale's row; then ErrLocked.
func (s *Store) GateKnows(ctx context.Context, id, bypasses int64, wait time.Duration) error {
	err := InTx(ctx, s.db, wait, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			update sales set bypasses_known = $2
			where  id = $1 and bypasses = $2`, id, bypasses)
		return unlessMissed(err, ErrSaleLocked)
	})
	if err != nil {
		return fmt.Errorf("take the mark off sale %d: %w", id, err)
	}
	return nil
}

// NextEpoch sets a new epoch on the locked sale and returns it: a rebuild of a missing gate needs one. A change of the
// sale's state, window or total takes one automatically (sales_changed in schema.sql). Epochs come from a sequence, so
// none is used twice, even if the transaction is rolled back.
func NextEpoch(ctx context.Context, tx pgx.Tx, id int64) (epoch int64, err error) {
	err = tx.QueryRow(ctx, `
		update sales set epoch = nextval('gate_epoch') where id = $1 returning epoch`, id).Scan(&epoch)
	if err != nil {
		return 0, fmt.Errorf("take an epoch for sale %d: %w", id, err)
	}
	return epoch, nil
}

// DrawEpoch returns an epoch that no sale has, higher than all that were drawn before.
func (s *Store) DrawEpoch(ctx context.Context) (epoch int64, err error) {
	if err = s.db.QueryRow(ctx, `select nextval('gate_epoch')`).Scan(&epoch); err != nil {
		return 0, fmt.Errorf("draw an epoch: %w", err)
	}
	return epoch, nil
}

// gateAhead is how long before a sale opens its gate is set up.
const gateAhead = 10 * time.Minute

// GateOpens returns the time from which on a published sale that starts at that time has a gate.
func GateOpens(start time.Time) time.Time { return start.Add(-gateAhead) }

// SaleState is a sale's state in Postgres. Reconcile compares the sale's gate with it.
type SaleState struct {
	ID       int64
	Stock    int
	State    string
	StartsAt time.Time
	EndsAt   time.Time
	Epoch    int64
	Open     bool // within the window, by the database's clock
	Near     bool // it is to have a gate: it opens within ten minutes, is open, or ended less than since ago
	Bypass
}

// MostNear is the number of near sales whose gates are kept. Of more, those with the highest ids wait until others have
// ended.
const MostNear = 5000

// SaleStates returns the sales that are near: they open within ten minutes, are open, or ended less than since ago, and
// are no drafts. It also returns the sales with the ids in also, whatever became of them. At most MostNear, those first
// that are near.
func (s *Store) SaleStates(ctx context.Context, since time.Duration, also []int64) ([]SaleState, error) {
	rows, _ := s.db.Query(ctx, `
		select id, stock, state, starts_at, ends_at, epoch, bypasses, bypasses_known,
		       now() >= starts_at and now() < ends_at as open,
		       state <> 'draft' and ends_at > now() - $1::interval and starts_at < now() + $2::interval as near
		from   sales
		where  state <> 'draft' and ends_at > now() - $1::interval and starts_at < now() + $2::interval
		or     id = any($3)
		order  by near desc, id
		limit  $4`, since, gateAhead, also, MostNear)
	states, err := pgx.CollectRows(rows, pgx.RowToStructByName[SaleState])
	if err != nil {
		return nil, fmt.Errorf("read the stock of open sales: %w", err)
	}
	return states, nil
}

// StatesOf returns sales, whatever became of them.
func (s *Store) StatesOf(ctx context.Context, ids []int64) ([]SaleState, error) {
	rows, _ := s.db.Query(ctx, `
		select id, stock, state, starts_at, ends_at, epoch, bypasses, bypasses_known, now() >= starts_at and now() < ends_at as open,
		       state <> 'draft' and ends_at > now() and starts_at < now() + $2::interval as near
		from   sales
		where  id = any($1)
		order  by id`, ids, gateAhead)
	states, err := pgx.CollectRows(rows, pgx.RowToStructByName[SaleState])
	if err != nil {
		return nil, fmt.Errorf("read the stock of %d sales: %w", len(ids), err)
	}
	return states, nil
}

// StateOf returns one sale, and whether it is beyond: near, behind MostNear others. ErrNoSale.
func (s *Store) StateOf(ctx context.Context, id int64) (state SaleState, beyond bool, err error) {
	rows, _ := s.db.Query(ctx, `
		select id, stock, state, starts_at, ends_at, epoch, bypasses, bypasses_known, now() >= starts_at and now() < ends_at as open, near,
		       near and $3 <= (select count(*)
		                       from  (select from sales other
		                              where  other.state <> 'draft' and other.ends_at > now() and other.starts_at < now() + $2::interval and other.id < sale.id
		                              limit  $3) before) as beyond
		from  (select *, state <> 'draft' and ends_at > now() and starts_at < now() + $2::interval as near from sales where id = $1) sale`, id, gateAhead, MostNear)
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[struct {
		SaleState
		Beyond bool
	}])
	if errors.Is(err, pgx.ErrNoRows) {
		return state, false, ErrNoSale
	}
	if err != nil {
		return state, false, fmt.Errorf("read sale %d: %w", id, err)
	}
	return found.SaleState, found.Beyond, nil
}

// Changed returns the sales of which Redis may have a gate, or a journal, from before their last change, wherever the
// change has moved them. At most MostNear, those first whose gates live longest.
func (s *Store) Changed(ctx context.Context) ([]int64, error) {
	rows, _ := s.db.Query(ctx, `select id from sales where gate_until > now() order by gate_until desc limit $1`, MostNear)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("read the sales that were changed: %w", err)
	}
	return ids, nil
}
