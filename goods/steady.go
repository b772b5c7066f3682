package goods

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ReadCommitted begins every transaction of the shop: one that has waited for a row has to see what was committed
// meanwhile. A role or a database may have another default_transaction_isolation, and a pooler passes on no setting of
// a connection.
var ReadCommitted = pgx.TxOptions{IsoLevel: pgx.ReadCommitted}

// Steady returns db so that a pool's transactions are ReadCommitted, and its single statements are tried again:
// Postgres refuses one under another default. A transaction stays as it is.
func Steady(db DB) DB {
	if pool, ok := db.(*pgxpool.Pool); ok {
		return steady{pool}
	}
	return db
}

type steady struct{ *pgxpool.Pool }

// Begin is what pgx.BeginFunc calls.
func (s steady) Begin(ctx context.Context) (pgx.Tx, error) { return s.BeginTx(ctx, ReadCommitted) }

func (s steady) Exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	err = Again(func() (err error) { tag, err = s.Pool.Exec(ctx, sql, args...); return err })
	return tag, err
}

func (s steady) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return steadyRow(func() pgx.Row { return s.Pool.QueryRow(ctx, sql, args...) })
}

type steadyRow func() pgx.Row

func (row steadyRow) Scan(to ...any) error {
	return Again(func() error { return row().Scan(to...) })
}

// againTimes is more than any two of the shop's statements need.
const againTimes = 20

// Again runs a single statement until Postgres does not roll it back for another one (class 40). Under ReadCommitted it
// never does, but for a deadlock.
func Again(statement func() error) (err error) {
	for range againTimes {
		err = statement()
		if pg := new(pgconn.PgError); !errors.As(err, &pg) || !strings.HasPrefix(pg.Code, "40") {
			break
		}
	}
	return err
}
