package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// indexesLock is the advisory lock under which the indexes of an upgrade are built.
const indexesLock = 0x6d69616f_69647873

var (
	madeIndex    = regexp.MustCompile(`(?m)^create (unique )?index +if not exists (\w+) +on ((\w+)[^;]+);`)
	droppedIndex = regexp.MustCompile(`(?m)^drop index if exists (\w+);`)
)

// buildIndexes builds the indexes that a schema adds to tables of an older version, and then drops those that it drops.
// In the upgrade's transaction each write would wait while an index reads its table; here the shop beside it sells on.
// An index on a column that the upgrade adds is left to the upgrade. A restore that is under way makes its own:
// refuseHalf. One process at a time does this: the index that another one is building looks like one that an
// interrupted build has left. look is for that lock.
func buildIndexes(
	ctx context.Context, conn *pgx.Conn, look *pgxpool.Pool, schema string, version int, log *slog.Logger,
) error {
	lock, err := lockIndexes(ctx, look, log)
	if err != nil {
		return fmt.Errorf("lock the indexes: %w", err)
	}
	defer lock.Rollback(context.WithoutCancel(ctx))
	if err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return refuseHalf(ctx, tx, version) }); err != nil {
		return err
	}
	for _, m := range madeIndex.FindAllStringSubmatch(schema, -1) {
		if err := buildIndex(ctx, conn, m[2], m[4],
			"create "+m[1]+"index concurrently if not exists "+m[2]+" on "+m[3]); err != nil {
			return fmt.Errorf("build the index %s: %w", m[2], err)
		}
	}
	for _, m := range droppedIndex.FindAllStringSubmatch(schema, -1) {
		if err := untilNoDeadlock(ctx, conn, "drop index concurrently if exists "+m[1]); err != nil {
			return fmt.Errorf("drop the index %s: %w", m[1], err)
		}
	}
	return nil
}

// lockIndexes returns the transaction that has indexesLock. A lock of the session would stay with the pooler's
// connection. An open transaction at read committed has no snapshot after such a statement as set, so no build waits
// for it; a statement that waits for the lock would have one.
func lockIndexes(ctx context.Context, look *pgxpool.Pool, log *slog.Logger) (pgx.Tx, error) {
	for said := false; ; said = true {
		var locked bool
		tx, err := look.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
		if err != nil {
			return nil, err
		}
		err = tx.QueryRow(ctx, `select pg_try_advisory_xact_lock($1)`, int64(indexesLock)).Scan(&locked)
		if locked {
			// and it ends the snapshot of the select
			_, err = tx.Exec(ctx, `set local idle_in_transaction_session_timeout = 0`)
		}
		if locked && err == nil {
			return tx, nil
		}
		tx.Rollback(context.WithoutCancel(ctx))
		if err != nil {
			return nil, err
		}
		if !said {
			log.Warn("the upgrade of the schema waits for another process, which builds its indexes")
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// buildIndex runs create unless the index is there, or its table is not. It drops what a build that was interrupted has
// left.
func buildIndex(ctx context.Context, conn *pgx.Conn, name, table, create string) error {
	for {
		var ready, left bool
		err := conn.QueryRow(ctx, `
			select to_regclass($2) is null or coalesce(i.indisvalid, false), i.indexrelid is not null
			from  (select to_regclass($1) as named) n left join pg_index i on i.indexrelid = n.named`, name, table).Scan(&ready, &left)
		if err != nil || ready {
			return err
		}
		if left {
			err = untilNoDeadlock(ctx, conn, "drop index concurrently if exists "+name)
		} else {
			_, err = conn.Exec(ctx, create)
		}
		switch pg := new(pgconn.PgError); {
		case errors.As(err, &pg) && pg.Code == "42703": // undefined_column
			return nil
		case errors.As(err, &pg) && pg.Code == deadlock:
		case err != nil:
			return err
		}
	}
}

// deadlock is the end of one of two that build indexes of a table at once, as by hand, and wait for each other.
const deadlock = "40P01"

func untilNoDeadlock(ctx context.Context, conn *pgx.Conn, sql string) error {
	for {
		_, err := conn.Exec(ctx, sql)
		if pg := new(pgconn.PgError); !errors.As(err, &pg) || pg.Code != deadlock {
			return err
		}
	}
}
