package lab

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The judge of a program has a connection of a superuser, and believes nothing that the program's role can write.
// Triggers of the judge note each order in a schema of the judge; an event trigger refuses to change them; and at the
// end the rows of the catalog are compared with those before the program ran. The superuser reads what belongs to the
// judge and the catalog only: to read a table of the program may call functions that the program has made.

//go:embed witness.sql
var witnessSQL string

// openWitness makes the judge's schema. It is called before a program runs.
func (n *Namespace) openWitness(ctx context.Context) error {
	_, err := n.Admin.PgConn().Exec(ctx, fmt.Sprintf(`set judge.role = '%s'; %s; set search_path = pg_catalog`, n.role, witnessSQL)).ReadAll()
	return err
}

// Restart makes the tables of the run as they are before a program's prepare, with the triggers of the judge on them,
// and hands them to the program's role. before are the statements of an exercise.
func (n *Namespace) Restart(ctx context.Context, stock int, before []string) error {
	var own strings.Builder
	for _, statement := range before {
		own.WriteString(statement + ";\n")
	}
	_, err := n.Admin.PgConn().Exec(ctx, fmt.Sprintf(`
		set local search_path = %[1]s;
		drop schema %[1]s cascade;
		create schema %[1]s;
		%[2]s;
		insert into item (stock) values (%[3]d);
		%[4]s
		create trigger judge_notes_sales after insert or update or delete on orders for each row execute function judge.note_sale();
		create trigger judge_keeps_rows before truncate on orders for each statement execute function judge.refuse_truncate();
		create trigger judge_notes_seats after insert or update or delete on units for each row execute function judge.note_seat();
		create trigger judge_keeps_seats before truncate on units for each statement execute function judge.refuse_truncate();
		create trigger judge_notes_late after update on item for each row when (new.stock < old.stock) execute function judge.note_late();
		grant usage, create on schema %[1]s to %[5]s;
		alter table item owner to %[5]s;
		alter table units owner to %[5]s;
		alter table orders owner to %[5]s;
		truncate judge.sales, judge.seats, judge.at_end, judge.late;
		update judge.state set print = null, ended = false;
		update judge.state set print = judge.print()`, n.Schema, Tables, stock, own.String(), n.role)).ReadAll()
	if err != nil {
		return err
	}
	return n.Admin.QueryRow(ctx, `select print from judge.state`).Scan(&n.print)
}

// Tampered reports whether something that belongs to the judge is not as it was before the program ran.
func (n *Namespace) Tampered(ctx context.Context) (changed bool, err error) {
	err = n.Admin.QueryRow(ctx, `select judge.print() is distinct from $1`, n.print).Scan(&changed)
	return changed, err
}

// OpenEye connects as the program's role with the settings of the judge: what it reads is what the program's role may
// see, and a function of the program that it meets can do nothing that the program cannot do.
func OpenEye(ctx context.Context, databaseURL string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return nil, errDatabaseURL
	}
	for name, value := range map[string]string{"search_path": "pg_catalog", "row_security": "on",
		"statement_timeout": "0", "lock_timeout": "0",
		"default_transaction_isolation": "read committed", "default_transaction_read_only": "off",
		"default_transaction_deferrable":      "off",
		"idle_in_transaction_session_timeout": "0", "client_min_messages": "warning"} {
		cfg.RuntimeParams[name] = value // stronger than what the role has set for itself
	}
	return pgx.ConnectConfig(ctx, cfg)
}

// witnessed ends the sessions of the program: what they did after the count, no one would see. Then it returns the
// buyer of each order, as the judge's triggers have seen it, and whether something of the judge was changed or the
// table says something else.
func (r *run) witnessed(ctx context.Context) (owners []int64, tampered bool, err error) {
	if _, err = r.Admin.Exec(ctx, `select pg_terminate_backend(pid, 10000) from pg_stat_activity where usename = $1`, r.role); err != nil {
		return nil, false, err
	}
	var goesOn bool // a session may have ended by itself meanwhile
	if err = r.Admin.QueryRow(ctx, `select exists (select from pg_stat_activity where usename = $1)`, r.role).Scan(&goesOn); err != nil {
		return nil, false, err
	}
	if goesOn {
		return nil, false, EndlessError{"a session of the program does not end when it is told to"}
	}
	if tampered, err = r.Tampered(ctx); err != nil {
		return nil, false, err
	}
	tampered = tampered || r.forged || r.eye.IsClosed()
	rows, _ := r.Admin.Query(ctx, `select user_id, sum(n)::bigint, max(at) from judge.sales group by user_id having sum(n) <> 0`)
	noted := map[int64]int64{}
	r.written = map[int64]time.Time{}
	var number, n int64
	var at time.Time
	if _, err = pgx.ForEachRow(rows, []any{&number, &n, &at}, func() error {
		user, comes := r.buyers[number]
		tampered = tampered || !comes // an order without a buyer fills up what was lost
		noted[number], r.written[user] = n, at
		owners = append(owners, slices.Repeat([]int64{user}, int(max(0, n)))...)
		return nil
	}); err != nil || tampered {
		return owners, tampered, err
	}
	rows, _ = r.Admin.Query(ctx, `select owner, sum(n)::bigint from judge.seats group by owner having sum(n) <> 0`)
	seats, err := countsOf(rows)
	if err != nil {
		return nil, false, err
	}
	if r.Plan.Seats {
		r.seatless = differences(noted, seats)
	}
	found, err := r.ordersInTable(ctx)
	if pg := new(pgconn.PgError); errors.As(err, &pg) && pg.Code != "57014" {
		return owners, true, nil // the program has made something of the table that cannot be read
	}
	return owners, !maps.Equal(noted, found), err
}

// ordersInTable counts the orders of each buyer as the program's role sees them, with an eye of its own: no session of
// the program is there to end it. What it meets of the program's code can read only.
func (r *run) ordersInTable(ctx context.Context) (map[int64]int64, error) {
	eye, err := OpenEye(ctx, r.stores.DatabaseURL)
	if err != nil {
		return nil, err
	}
	defer func() { _ = eye.Close(context.WithoutCancel(ctx)) }()
	tx, err := eye.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, err
	}
	rows, _ := tx.Query(ctx, `select user_id, count(*) from only `+r.Schema+`.orders group by user_id`)
	return countsOf(rows)
}

// maxNumber is the largest number of a buyer of a program. A student's bitmap of buyers stays small.
const maxNumber = 999_999

// numberBuyers draws the numbers that a program's buyers have. Only a click tells a number: an order that is written
// before its buyer has come belongs to none of them.
func (r *run) numberBuyers() {
	r.numbers, r.buyers = nil, map[int64]int64{}
	for len(r.numbers) < r.Plan.Buyers {
		number := 1 + rand.Int64N(maxNumber)
		if _, taken := r.buyers[number]; !taken {
			r.numbers = append(r.numbers, number)
			r.buyers[number] = int64(len(r.numbers))
		}
	}
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

// noteEnd ends the sale: it holds the row of the item, so that no unit leaves meanwhile, notes the orders that are
// there, and lets the judge's triggers know.
func (r *run) noteEnd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), CleanupTimeout)
	defer cancel()
	tx, err := r.eye.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	tag, err := tx.Exec(ctx, `update only `+r.Schema+`.item set ends_at = clock_timestamp()`)
	if err != nil {
		return err
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("%d rows of item", tag.RowsAffected())
	}
	if _, err = r.Admin.PgConn().Exec(ctx, `
		insert into judge.at_end (user_id, n) select user_id, sum(n) from judge.sales group by user_id;
		update judge.state set ended = true`).ReadAll(); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// soldLate counts the units that were taken, or the orders that were written, after the end of the sale, whichever is
// more: an order may stand before its unit is taken, and a unit may be taken before anyone buys it.
func (r *run) soldLate(ctx context.Context) (n int, err error) {
	err = r.Admin.QueryRow(ctx, `
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
		if sold >= max(1, r.Plan.Stock/2) {
			r.halfSold.Store(true)
			r.nodes[r.Plan.Seed%uint64(len(r.nodes))].Load().Half()
			return
		}
		Pause(ctx, 2*time.Millisecond)
	}
}

// EndlessError says what of a program does not end.
type EndlessError struct{ Text string }

func (e EndlessError) Error() string { return e.Text }
