// Package audit holds the running data against the invariants: the rows in Postgres by SQL, Postgres' own defences by
// its catalogue, and the gates and journals in Redis against Postgres. It reads only. Run looks at everything, for the
// command and the tests; Cheap looks at what is new, for Watch, which makes a metric of it each minute.
package audit

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

// Finding is an invariant that does not hold, with the rows that show it (at most 20).
type Finding struct {
	Invariant string
	Meaning   string
	Rows      []string
}

const shown = 20 // rows of a finding

// query gives the rows that should not be.
type query struct{ invariant, meaning, sql string }

// Run audits both stores and prints what is broken, and what is worth a look though nothing is broken. clean is false
// if anything is broken.
func Run(ctx context.Context, db *pgxpool.Pool, rdb redis.UniversalClient, w io.Writer) (clean bool, err error) {
	found, err := Defences(ctx, db)
	if err != nil {
		return false, err
	}
	rows, err := Postgres(ctx, db)
	if err != nil {
		return false, err
	}
	gates, err := Gates(ctx, db, rdb)
	if err != nil {
		return false, err
	}
	notes, err := deadLetters(ctx, db, rdb)
	if err != nil {
		return false, err
	}
	found = append(append(found, rows...), gates...)
	for _, f := range found {
		fmt.Fprintf(w, "BROKEN %s: %s\n", f.Invariant, f.Meaning)
		for _, r := range f.Rows {
			fmt.Fprintf(w, "    %s\n", r)
		}
	}
	for _, n := range notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	if len(found) == 0 {
		fmt.Fprintln(w, "every invariant holds")
	}
	return len(found) == 0, nil
}

// Postgres holds every row against the invariants, in one snapshot.
func Postgres(ctx context.Context, db *pgxpool.Pool) (found []Finding, err error) {
	err = reading(ctx, db, 5*time.Minute, func(tx pgx.Tx) error {
		found, err = ask(ctx, tx, thorough)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("audit Postgres: %w", err)
	}
	return found, nil
}

// reading runs do in one snapshot that can't be written to. limit is for each statement, whatever the pool's is.
func reading(ctx context.Context, db *pgxpool.Pool, limit time.Duration, do func(pgx.Tx) error) error {
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, db, opts, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf(`set local statement_timeout = %d`, limit.Milliseconds())); err != nil {
			return err
		}
		return do(tx)
	})
}

func ask(ctx context.Context, tx pgx.Tx, queries []query) (found []Finding, err error) {
	for _, q := range queries {
		rows, err := tx.Query(ctx, q.sql)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.invariant, err)
		}
		bad, err := pgx.CollectRows(rows, asText)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.invariant, err)
		}
		if len(bad) > 0 {
			found = append(found, Finding{q.invariant, q.meaning, bad[:min(len(bad), shown)]})
		}
	}
	return found, nil
}

func asText(row pgx.CollectableRow) (string, error) {
	raw := make([]string, 0, 4)
	values, err := row.Values()
	for i, v := range values {
		if id, ok := v.([16]byte); ok {
			v = fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
		}
		raw = append(raw, fmt.Sprintf("%s=%v", row.FieldDescriptions()[i].Name, v))
	}
	return strings.Join(raw, " "), err
}
