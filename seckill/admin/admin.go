// Package admin is the shopkeeper's side: what the staff does to goods, sales, orders and people, and the log of it.
//
// The domains make the changes, and their constraints and guarded updates decide, as for everyone. This package puts each
// change into one transaction with its line in the log: no action is without a line, and no line without its action. Of two
// members of the staff who act at once, the second finds what the first has left, or is refused.
package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"miaosha/order"
	"miaosha/seckill/rounds"
)

// By says who acts, and from where.
type By struct {
	UserID int64  // 0 for a command at a terminal; for what was planned, who planned it
	From   string // the address of the browser, the command, or the plan
	Viewer bool   // looks and does not act: phones in lists are masked
}

// Store is the staff's view of the shop. It is safe for concurrent use.
type Store struct {
	db            *pgxpool.Pool
	orders        order.Config
	unitsReturned func()
	decoding      sync.Mutex // held while a picture is decoded
	gates         redis.UniversalClient
	plans         *rounds.Rounds // of RunPlans
}

// New returns a Store on db. unitsReturned is called after each commit that puts units back on sale; it may be nil.
func New(db *pgxpool.Pool, orders order.Config, unitsReturned func()) *Store {
	if unitsReturned == nil {
		unitsReturned = func() {}
	}
	return &Store{db: db, orders: orders, unitsReturned: unitsReturned, plans: rounds.New()}
}

// ReadGates makes s read the gates of sales at rdb. Without it the shop has no gates. Call it before s is used.
func (s *Store) ReadGates(rdb redis.UniversalClient) { s.gates = rdb }

// action is one line of the log: what is done to what, as it was before and as it is after. before and after become JSON;
// nil is none. An action changes them while it acts.
type action struct {
	name, subject string // such as sale.pause, sale 7
	before, after any
}

// act runs do and writes its line in the log, in one transaction. If do fails, there is neither a change nor a line.
func (s *Store) act(ctx context.Context, by By, a *action, do func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if err := do(tx); err != nil {
			return err
		}
		return a.write(ctx, tx, by)
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
	_, err = tx.Exec(ctx, `
		insert into admin_log (by_user, origin, action, subject, before, after)
		values (nullif($1, 0), $2, $3, $4, $5::jsonb, $6::jsonb)`, by.UserID, by.From, a.name, a.subject, before, after)
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
