package lab

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The judge of a program has a connection of a superuser, and believes nothing that the program's role can write. Triggers
// of the judge note each order in a schema of the judge; an event trigger refuses to change them; and at the end the rows of the
// catalog are compared with those before the program ran. The superuser reads what belongs to the judge and the catalog only:
// to read a table of the program may call functions that the program has made.

//go:embed program_witness.sql
var witnessSQL string

// judgeRefuses is the SQLSTATE with which the judge's triggers refuse a statement.
const judgeRefuses = "JUDGE"

// openWitness makes the judge's schema. It is called before a program runs.
func (n *namespace) openWitness(ctx context.Context) error {
	_, err := n.admin.PgConn().Exec(ctx, fmt.Sprintf(`set judge.role = '%s'; %s; set search_path = pg_catalog`, n.role, witnessSQL)).ReadAll()
	return err
}

// restart makes the tables of the run as they are before a program's prepare, with the triggers of the judge on them, and
// hands them to the program's role. before are the statements of an exercise.
func (n *namespace) restart(ctx context.Context, stock int, before []string) error {
	var own strings.Builder
	for _, statement := range before {
		own.WriteString(statement + ";\n")
	}
	_, err := n.admin.PgConn().Exec(ctx, fmt.Sprintf(`
		set local search_path = %[1]s;
		drop schema %[1]s cascade;
		create schema %[1]s;
		%[2]s;
		insert into item (stock) values (%[3]d);
		%[4]s
		create trigger judge_notes_sales after insert or update or delete on orders for each row execute function judge.note_sale();
		create trigger judge_keeps_rows before truncate on orders for each statement execute function judge.refuse_truncate();
		create trigger judge_notes_late after update on item for each row when (new.stock < old.stock) execute function judge.note_late();
		grant usage, create on schema %[1]s to %[5]s;
		alter table item owner to %[5]s;
		alter table units owner to %[5]s;
		alter table orders owner to %[5]s;
		truncate judge.sales, judge.at_end, judge.late;
		update judge.state set print = null, ended = false;
		update judge.state set print = judge.print()`, n.schema, tables, stock, own.String(), n.role)).ReadAll()
	if err != nil {
		return err
	}
	return n.admin.QueryRow(ctx, `select print from judge.state`).Scan(&n.print)
}

// tampered reports whether something that belongs to the judge is not as it was before the program ran.
func (n *namespace) tampered(ctx context.Context) (changed bool, err error) {
	err = n.admin.QueryRow(ctx, `select judge.print() is distinct from $1`, n.print).Scan(&changed)
	return changed, err
}

// openEye connects as the program's role with the settings of the judge: what it reads is what the program's role may see, and a
// function of the program that it meets can do nothing that the program cannot do.
func openEye(ctx context.Context, databaseURL string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return nil, errDatabaseURL
	}
	for name, value := range map[string]string{"search_path": "pg_catalog", "row_security": "on", "statement_timeout": "0", "lock_timeout": "0",
		"default_transaction_isolation": "read committed", "default_transaction_read_only": "off", "default_transaction_deferrable": "off",
		"idle_in_transaction_session_timeout": "0", "client_min_messages": "warning", "application_name": "judge"} {
		cfg.RuntimeParams[name] = value // stronger than what the role has set for itself
	}
	return pgx.ConnectConfig(ctx, cfg)
}

// witnessed ends the sessions of the program: what they did after the count, no one would see. Then it returns the buyer of each
// order, as the judge's triggers have seen it, and whether something of the judge was changed or the table says something else.
func (r *run) witnessed(ctx context.Context) (owners []int64, tampered bool, err error) {
	if _, err = r.admin.Exec(ctx, `select pg_terminate_backend(pid, 10000) from pg_stat_activity where usename = $1 and pid <> $2`,
		r.role, int32(r.eye.PgConn().PID())); err != nil {
		return nil, false, err
	}
	if tampered, err = r.tampered(ctx); err != nil {
		return nil, false, err
	}
	rows, _ := r.admin.Query(ctx, `select user_id, sum(n)::bigint, max(at) from judge.sales group by user_id having sum(n) <> 0`)
	noted := map[int64]int64{}
	r.written = map[int64]time.Time{}
	var user, n int64
	var at time.Time
	if _, err = pgx.ForEachRow(rows, []any{&user, &n, &at}, func() error {
		noted[user], r.written[user] = n, at
		return nil
	}); err != nil {
		return nil, false, err
	}
	rows, _ = r.eye.Query(ctx, `select user_id, count(*) from only `+r.schema+`.orders group by user_id`)
	found, err := countsOf(rows)
	if pg := new(pgconn.PgError); errors.As(err, &pg) && pg.Code != "57014" {
		found, err = nil, nil // the program has made something of the table that cannot be read
		tampered = true
	}
	if r.plan.Seats && !tampered {
		rows, _ = r.eye.Query(ctx, `select owner, count(*) from only `+r.schema+`.units where owner is not null group by owner`)
		seats, err := countsOf(rows)
		if err != nil {
			return nil, false, err
		}
		r.seatless = differences(noted, seats)
	}
	tampered = tampered || r.forged
	for user, n := range noted {
		tampered = tampered || user < 1 || user > int64(r.plan.Buyers) // an order without a buyer fills up what was lost
		owners = append(owners, slices.Repeat([]int64{user}, int(max(0, n)))...)
	}
	return owners, tampered || !maps.Equal(noted, found), err
}

// differences counts the buyers of whom both do not say the same.
func differences(a, b map[int64]int64) (n int) {
	for user := range a {
		if a[user] != b[user] {
			n++
		}
	}
	for user := range b {
		if _, both := a[user]; !both {
			n++
		}
	}
	return n
}

func countsOf(rows pgx.Rows) (map[int64]int64, error) {
	counts := map[int64]int64{}
	var user, n int64
	_, err := pgx.ForEachRow(rows, []any{&user, &n}, func() error {
		counts[user] = n
		return nil
	})
	return counts, err
}

// noteEnd ends the sale: it holds the row of the item, so that no unit leaves meanwhile, notes the orders that are there, and lets
// the judge's triggers know.
func (r *run) noteEnd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	tx, err := r.eye.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	tag, err := tx.Exec(ctx, `update only `+r.schema+`.item set ends_at = clock_timestamp()`)
	if err != nil {
		return err
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("%d rows of item", tag.RowsAffected())
	}
	if _, err = r.admin.PgConn().Exec(ctx, `
		insert into judge.at_end (user_id, n) select user_id, sum(n) from judge.sales group by user_id;
		update judge.state set ended = true`).ReadAll(); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// soldLate counts the units that were taken, or the orders that were written, after the end of the sale, whichever is more: an
// order may stand before its unit is taken, and a unit may be taken before anyone buys it.
func (r *run) soldLate(ctx context.Context) (n int, err error) {
	err = r.admin.QueryRow(ctx, `
		select greatest((select coalesce(sum(units), 0) from judge.late),
		                (select coalesce(sum(greatest(0, n)), 0) from (
		                   select user_id, sum(n) as n from (select user_id, n from judge.sales union all select user_id, -n from judge.at_end) a group by user_id) b))::bigint
		where (select ended from judge.state)`).Scan(&n)
	if errors.Is(err, pgx.ErrNoRows) { // it has not ended
		return 0, nil
	}
	return n, err
}

// watchSales calls half when half of the units are sold, whatever the program has told its buyers until then.
func (r *run) watchSales(ctx context.Context) {
	for ctx.Err() == nil {
		var sold int
		if err := r.counter.QueryRow(ctx, `select coalesce(sum(n), 0)::bigint from judge.sales`).Scan(&sold); err != nil {
			return
		}
		if sold >= max(1, r.plan.Stock/2) {
			r.halfSold.Store(true)
			r.nodes[r.plan.Seed%uint64(len(r.nodes))].Load().half()
			return
		}
		pause(ctx, 2*time.Millisecond)
	}
}
