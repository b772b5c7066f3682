// Package audit checks that the invariants hold in the running data: the rows and the schema in Postgres, and
// the gates and journals in Redis against Postgres. It only reads, but for Effects, which is for a copy. Run checks
// every row, for the command and the tests. Quick checks the newest rows, for Monitor, which runs it each minute and
// exports the result as metrics.
package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

// Finding is a broken invariant, with the rows that break it (at most 20).
type Finding struct {
	Invariant string // I1 to I9, schema or archive; "": a note, which breaks nothing
	Meaning   string
	Rows      []string
}

func (f Finding) note() bool { return f.Invariant == "" }

const maxRows = 20 // of a finding

const thoroughLimit = 15 * time.Minute // of a statement that reads all rows

// query selects the rows that break an invariant.
type query struct{ invariant, meaning, sql string }

// ErrBroken reports that an invariant does not hold.
var ErrBroken = errors.New("an invariant is broken")

// Run audits both stores. It prints each broken invariant, and notes that break nothing. clean reports whether every
// invariant holds. If a store fails after something was found, Run prints that too, and its error wraps ErrBroken.
func Run(ctx context.Context, db *pgxpool.Pool, rdb redis.UniversalClient, w io.Writer) (clean bool, err error) {
	return RunWith(ctx, db, rdb, "", w, func(string) {})
}

// RunWith is Run that also reads the files of the archives in a folder, and names each part before it checks it.
func RunWith(ctx context.Context, db *pgxpool.Pool, rdb redis.UniversalClient, archives string, w io.Writer,
	begin func(part string)) (clean bool, err error) {
	var found, notes []Finding
	for _, part := range []struct {
		name  string
		check func() ([]Finding, error)
	}{
		{"the constraints and triggers of Postgres", func() ([]Finding, error) { return Defences(ctx, db) }},
		{"the schema of Postgres", func() ([]Finding, error) { return Schema(ctx, db) }},
		{"the rows of Postgres", func() ([]Finding, error) { return Postgres(ctx, db) }},
		{"the archives", func() ([]Finding, error) { return Archives(ctx, db, archives) }},
		{"the accounts of orders", func() ([]Finding, error) { return lostAccounts(ctx, db) }},
		{"the gates and journals in Redis", func() ([]Finding, error) { return Gates(ctx, db, rdb) }},
		{"the dead letters in Redis", func() ([]Finding, error) { return deadLetters(ctx, db, rdb) }},
	} {
		begin(part.name)
		some, failed := part.check()
		for _, f := range some {
			if f.note() {
				notes = append(notes, f)
			} else {
				found = append(found, f)
			}
		}
		if err = failed; err != nil {
			break
		}
	}
	for _, f := range append(found, notes...) {
		if f.note() {
			fmt.Fprintf(w, "note: %s\n", f.Meaning)
		} else {
			fmt.Fprintf(w, "BROKEN %s: %s\n", f.Invariant, f.Meaning)
		}
		for _, r := range f.Rows {
			fmt.Fprintf(w, "    %s\n", r)
		}
	}
	switch {
	case err != nil && len(found) > 0:
		return false, fmt.Errorf("%w, and the rest could not be checked: %w", ErrBroken, err)
	case err != nil:
		return false, err
	case len(found) == 0:
		fmt.Fprintln(w, "every invariant holds")
	}
	return len(found) == 0, nil
}

// Postgres checks every row against the invariants, in one snapshot.
func Postgres(ctx context.Context, db *pgxpool.Pool) (found []Finding, err error) {
	err = readOnly(ctx, db, thoroughLimit, func(tx pgx.Tx) error {
		found, err = runQueries(ctx, tx, thorough)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("audit Postgres: %w", err)
	}
	return found, nil
}

// readOnly runs do in a read-only transaction with one snapshot. limit bounds each statement, in place of the pool's
// own limit, and with memory for the sorts of ten million rows. Postgres prints what schema.sql says without needless
// quotes, whatever is set for the role.
func readOnly(ctx context.Context, db *pgxpool.Pool, limit time.Duration, do func(pgx.Tx) error) error {
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, db, opts, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf(`set local statement_timeout = %d; set local work_mem = '64MB'; set local quote_all_identifiers = off`, limit.Milliseconds())); err != nil {
			return err
		}
		return do(tx)
	})
}

// runQueries returns a finding for each query that selects a row.
func runQueries(ctx context.Context, tx pgx.Tx, queries []query) (found []Finding, err error) {
	for _, q := range queries {
		rows, _ := tx.Query(ctx, q.sql)
		broken, err := pgx.CollectRows(rows, rowText)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.invariant, err)
		}
		if len(broken) > 0 {
			found = append(found, Finding{q.invariant, q.meaning, broken[:min(len(broken), maxRows)]})
		}
	}
	return found, nil
}

// rowText formats a row of any query as "column=value column=value".
func rowText(row pgx.CollectableRow) (string, error) {
	columns := make([]string, 0, 4)
	values, err := row.Values()
	for i, v := range values {
		if id, ok := v.([16]byte); ok {
			v = fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
		}
		columns = append(columns, fmt.Sprintf("%s=%v", row.FieldDescriptions()[i].Name, v))
	}
	return strings.Join(columns, " "), err
}
