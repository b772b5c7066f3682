// Package admin is the shopkeeper's side: what the staff does to goods, sales, orders and people, and the log of it.
//
// The domains make the changes, and their constraints and guarded updates decide, as for everyone. This package puts
// each change into one transaction with its line in the log: no action is without a line, and no line without its
// action. Of two members of the staff who act at once, the second finds what the first has left, or is refused.
package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/rounds"
)

// By says who acts, and from where.
type By struct {
	UserID int64  // 0 for a command at a terminal; for what was planned, who planned it
	From   string // the address of the browser, the command, or the plan
	Whole  bool   // sees values of persons whole, see sees: an administrator

	Key    uuid.UUID // of the request; uuid.Nil: none. See act
	Digest [32]byte  // of what the request asks for
	At     time.Time // when the request came; of one that repeats an action, when that was done
}

// Store is the staff's view of the shop. It is safe for concurrent use.
type Store struct {
	db            *pgxpool.Pool
	orders        order.Config
	unitsReturned func(sale int64)
	decoding      sync.Mutex // held while a picture is decoded
	gates         redis.UniversalClient
	plans         *rounds.Rounds // of RunPlans
	locked        goods.LockedSales
}

// New returns a Store on db. unitsReturned is called after each commit that puts units back on sale; it may be nil.
func New(db *pgxpool.Pool, orders order.Config, unitsReturned func(sale int64)) *Store {
	if unitsReturned == nil {
		unitsReturned = func(int64) {}
	}
	return &Store{db: db, orders: orders, unitsReturned: unitsReturned, plans: rounds.New()}
}

// ReadGates makes s read the gates of sales at rdb. Without it the shop has no gates. Call it before s is used.
func (s *Store) ReadGates(rdb redis.UniversalClient) { s.gates = rdb }

// action is one line of the log: what is done to what, as it was before and as it is after. before and after become
// JSON; nil means none. An action changes them while it acts. result points at what its caller receives, if that is
// more than an error. digest is of what was searched for; see searched.
type action struct {
	name, subject string // such as sale.pause, sale 7
	before, after any
	result        any
	digest        []byte
}

// ErrUnsure is the error of an action whose commit had no answer, if it has no key by which that can be found out.
var ErrUnsure = errors.New("it is unknown whether this was done")

// DoneOtherwiseError is the refusal of a request whose key another request of the same user had, with another route or
// body.
type DoneOtherwiseError struct{ Action, Subject string } // of the first one

func (e DoneOtherwiseError) Error() string {
	return fmt.Sprintf("the key belongs to %s of %s, which is done", e.Action, e.Subject)
}

// act runs do and writes its line in the log, in one transaction. If do fails, there is neither a change nor a line.
// ErrUnsure.
//
// With a key, an action is done once. The line has the key, and an index knows each key of a user once: a repetition
// that comes while the first is under way waits there for its end, its own change is rolled back, and it receives the
// first one's result. So does one that finds nothing left to do, and one whose commit had no answer. A first one that
// failed leaves no key behind.
func (s *Store) act(ctx context.Context, by By, a *action, do func(pgx.Tx) error) error {
	committing := false
	err := pgx.BeginTxFunc(ctx, s.db, goods.ReadCommitted, func(tx pgx.Tx) error {
		if err := do(tx); err != nil {
			return err
		}
		err := a.write(ctx, tx, by)
		committing = err == nil
		return err
	})
	if err != nil && committing {
		err = fmt.Errorf("%w: %w", ErrUnsure, err)
	}
	if err == nil || by.Key == uuid.Nil {
		return err
	}
	first, known, e := s.first(ctx, by, by.Key)
	switch _, otherwise := errors.AsType[DoneOtherwiseError](e); {
	case otherwise:
		return e
	case !known:
		return err
	case a.result == nil:
		return nil
	}
	if err := json.Unmarshal(first.Result, a.result); err != nil {
		return fmt.Errorf("read the result of %s of %s: %w", a.name, first.Subject, err)
	}
	return nil
}

// Came returns by with the time when its request came, if it repeats one that is done: the rules of a form are those of
// that time. DoneOtherwiseError.
func (s *Store) Came(ctx context.Context, by By) (By, error) {
	first, known, err := s.first(ctx, by, by.Key)
	if !known && err == nil {
		var refunded []uuid.UUID
		if refunded, err = s.RefundedBefore(ctx, by); len(refunded) > 0 {
			first, known, err = s.first(ctx, by, keyOf(by.Key, refunded[0]))
		}
	}
	if known {
		by.At = first.At
	}
	return by, err
}

// done is the line of an action that was done with a key.
type done struct {
	At              time.Time
	Action, Subject string
	Digest, Result  []byte
}

// first returns the line of by's user with a key. known is false if there is none. DoneOtherwiseError.
func (s *Store) first(ctx context.Context, by By, key uuid.UUID) (d done, known bool, err error) {
	rows, _ := s.db.Query(ctx, `select at, action, subject, digest, result from admin_log where by_user = $1 and key = $2`, by.UserID, key)
	d, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[done])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return d, false, nil
	case err != nil:
		return d, false, fmt.Errorf("look for a former request: %w", err)
	case !bytes.Equal(d.Digest, by.Digest[:]):
		return d, false, DoneOtherwiseError{d.Action, d.Subject}
	}
	return d, true, nil
}

// actOnSale is act for what locks a sale's row. It waits for the sale's turn before it takes a connection; then
// goods.ErrLocked if another transaction keeps the row.
func (s *Store) actOnSale(ctx context.Context, by By, a *action, sale int64, do func(pgx.Tx) error) error {
	return s.locked.Insist(ctx, sale, func(wait time.Duration) error {
		return s.act(ctx, by, a, func(tx pgx.Tx) error { return goods.InTx(ctx, tx, wait, do) })
	})
}

func (a *action) write(ctx context.Context, tx pgx.Tx, by By) error {
	before, err := document(a.before)
	if err != nil {
		return err
	}
	after, err := document(a.after)
	if err != nil {
		return err
	}
	var key *uuid.UUID
	digest, result := a.digest, []byte(nil)
	if by.Key != uuid.Nil {
		key, digest = &by.Key, by.Digest[:]
		if result, err = document(a.result); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, `
		insert into admin_log (by_user, origin, action, subject, before, after, key, digest, result)
		values (nullif($1::bigint, 0), $2, $3, $4, $5::jsonb, $6::jsonb, $7, $8, $9::jsonb)`,
		by.UserID, by.From, a.name, a.subject, before, after, key, digest, result)
	if err != nil {
		return fmt.Errorf("log %s of %s: %w", a.name, a.subject, err)
	}
	return nil
}

// document returns v as JSON; nil for nil.
func document(v any) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode a line of the log: %w", err)
	}
	return b, nil
}
