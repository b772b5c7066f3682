package backend

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var (
	madeIndex    = regexp.MustCompile(`(?m)^create (unique )?index +if not exists (\w+) +on ((\w+)[^;]+);`)
	droppedIndex = regexp.MustCompile(`(?m)^drop index if exists (\w+);`)
)

// buildIndexes builds the indexes that a schema adds to tables of an older version, and then drops those that it drops. In the
// upgrade's transaction each write would wait while an index reads its table; here the shop beside it sells on. An index on a column
// that the upgrade adds is left to the upgrade. A restore that is under way makes its own: refuseHalf. Any number of processes may do
// this at once: Postgres builds one index of a table at a time.
func buildIndexes(ctx context.Context, conn *pgx.Conn, schema string, version int) error {
	if err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return refuseHalf(ctx, tx, version) }); err != nil {
		return err
	}
	for _, m := range madeIndex.FindAllStringSubmatch(schema, -1) {
		if err := buildIndex(ctx, conn, m[2], m[4], "create "+m[1]+"index concurrently if not exists "+m[2]+" on "+m[3]); err != nil {
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

// buildIndex runs create unless the index is there, or its table is not. It waits for an index that another process builds, and drops
// what a build that was interrupted has left.
func buildIndex(ctx context.Context, conn *pgx.Conn, name, table, create string) error {
	for {
		var ready, left, underWay bool
		err := conn.QueryRow(ctx, `
			select to_regclass($2) is null or coalesce(i.indisvalid, false), i.indexrelid is not null,
			       exists (select from pg_stat_progress_create_index where index_relid = i.indexrelid)
			from  (select to_regclass($1) as named) n left join pg_index i on i.indexrelid = n.named`, name, table).Scan(&ready, &left, &underWay)
		if err != nil || ready {
			return err
		}
		switch pg := new(pgconn.PgError); {
		case underWay:
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(200 * time.Millisecond):
			}
		case left:
			err = untilNoDeadlock(ctx, conn, "drop index concurrently if exists "+name)
		default:
			_, err = conn.Exec(ctx, create)
			if errors.As(err, &pg) && pg.Code == "42703" { // undefined_column
				return nil
			}
			if errors.As(err, &pg) && pg.Code == deadlock {
				err = nil
			}
		}
		if err != nil {
			return err
		}
	}
}

// deadlock is the end of one of two that build indexes of a table at once, and wait for each other.
const deadlock = "40P01"

func untilNoDeadlock(ctx context.Context, conn *pgx.Conn, sql string) error {
	for {
		_, err := conn.Exec(ctx, sql)
		if pg := new(pgconn.PgError); !errors.As(err, &pg) || pg.Code != deadlock {
			return err
		}
	}
}
