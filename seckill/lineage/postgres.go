package lineage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// querier is a connection or a pool.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// row is the table shop, and the server that has it.
type row struct {
	Shop, Incarnation string
	Former            string // the incarnation before, or ""
	Beat              int64
	Written           bool   // something was written since the last beat
	Database          string // system identifier, oid of the database and oid of orders
	Timeline          string
	Started           string // when the server has started
}

// Server names the server as the marks do.
func (r row) Server() string { return r.Database + "/" + r.Timeline }

// readRow reads the row. A transaction counts as written from when it has a number.
func readRow(ctx context.Context, db querier) (row, error) {
	rows, err := db.Query(ctx, `
		select shop::text, incarnation::text, coalesce(former::text, '') as former, beat,
		       next_xid <> pg_snapshot_xmax(pg_current_snapshot())::text::bigint as written,
		       (select system_identifier from pg_control_system())::text || '/' ||
		       (select oid from pg_database where datname = current_database()) || '/' || 'orders'::regclass::oid as database,
		       case when pg_is_in_recovery() then '' else substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) end as timeline,
		       pg_postmaster_start_time()::text as started
		from   shop`)
	if err != nil {
		return row{}, explain(err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[row])
	if err == nil && r.Timeline == "" { // it may be behind, which is not going back
		return row{}, errors.New(
			"a standby has answered, as a proxy lets it that spreads reads over servers: the address has to lead to the primary alone")
	}
	return r, explain(err)
}

func explain(err error) error {
	pg := new(pgconn.PgError)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &pg) && pg.Code == "42501":
		return fmt.Errorf(
			"its role lacks a right that this version needs (%s): run the lines of deploy/README.md, With no more rights than it needs, again",
			pg.Message)
	case errors.Is(err, pgx.ErrNoRows):
		return errors.New(
			"the table shop is empty, as after a restore of chosen tables: insert into shop default values")
	}
	return fmt.Errorf("read the shop's incarnation: %w", err)
}

// seen are numbers of Postgres that were committed: the beat, and the highest ids.
type seen struct {
	Beat, Users, RoleChanges, AdminLog, Goods, Sales, SalePlans, OrderEvents, GateEpoch int64
}

// numbers returns the numbers by the names that they have in the marks, and in new_incarnation.
func (s *seen) numbers() []struct {
	name string
	n    *int64
} {
	return []struct {
		name string
		n    *int64
	}{{"beat", &s.Beat}, {"users", &s.Users}, {"role_changes", &s.RoleChanges}, {"admin_log",
		&s.AdminLog}, {"goods", &s.Goods},
		{"sales", &s.Sales}, {"sale_plans", &s.SalePlans}, {"order_events", &s.OrderEvents},
		{"gate_epoch", &s.GateEpoch}}
}

// highest are the columns of seen, beside the beat.
const highest = `
		       (select coalesce(max(id), 0) from users) as users, (select coalesce(max(id), 0) from role_changes) as role_changes,
		       (select coalesce(max(id), 0) from admin_log) as admin_log, (select coalesce(max(id), 0) from goods) as goods,
		       (select coalesce(max(id), 0) from sales) as sales, (select coalesce(max(id), 0) from sale_plans) as sale_plans,
		       (select coalesce(max(id), 0) from order_events) as order_events,
		       coalesce(pg_sequence_last_value('gate_epoch'), 0) as gate_epoch`

// current reads the numbers without a beat. As for durable in package order, the query waits until a synchronous
// standby has what it saw.
func current(ctx context.Context, db querier) (seen, error) {
	rows, _ := db.Query(ctx, `
		select beat,`+highest+`
		from   shop
		where  (select current_setting('synchronous_standby_names') = '' or pg_logical_emit_message(true, 'miaosha', '') is not null)`)
	s, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[seen])
	return s, explain(err)
}

// beat raises the beat, unless another process has less than apart ago, and returns it with the highest ids. The row
// keeps the number of the next transaction if none was under way: as long as it is the next one, nothing was written.
func beat(ctx context.Context, db querier, incarnation string, apart time.Duration) (s seen, done bool, err error) {
	rows, _ := db.Query(ctx, `
		update shop set beat = beat + 1, beaten_at = clock_timestamp(),
		       next_xid = case when pg_snapshot_xmin(pg_current_snapshot()) = pg_snapshot_xmax(pg_current_snapshot())
		                        and pg_snapshot_xmax(pg_current_snapshot()) = pg_current_xact_id()
		                       then pg_current_xact_id()::text::bigint + 1 else 0 end
		where  incarnation = $1 and not beaten_at between clock_timestamp() - $2::interval and clock_timestamp() -- a clock may go back
		returning beat,`+highest, incarnation, apart)
	s, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[seen])
	if errors.Is(err, pgx.ErrNoRows) {
		return seen{}, false, nil
	}
	if err != nil {
		return seen{}, false, fmt.Errorf("beat in Postgres: %w", err)
	}
	return s, true, nil
}

// idMargin is how far past the highest id of the marks the ids of a new incarnation begin: those that were given in the
// last moment may not be marked. A rush writes thousands of events in that time, and a command as many users.
func idMargin(of string) int64 {
	if of == "order_events" || of == "users" {
		return 100_000
	}
	return 100
}

// draw draws a new incarnation in the place of the one that was read, and moves every sequence past what Redis has
// seen, in one transaction. It reports false if another process has drawn one meanwhile.
func draw(ctx context.Context, db querier, at row, all []marks) (bool, error) {
	var highest seen
	former := ""
	for _, m := range all {
		former = cmp.Or(former, m.Incarnation)
		for i, n := range m.seen.numbers() {
			at := highest.numbers()[i].n
			*at = max(*at, *n.n)
		}
	}
	ids := map[string]int64{}
	for _, n := range highest.numbers() {
		ids[n.name] = *n.n + idMargin(n.name)
	}
	rows, _ := db.Query(ctx, `select new_incarnation($1, $2, $3)`, at.Incarnation, former, ids)
	drawn, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
	if err != nil {
		return false, explain(err)
	}
	return drawn, nil
}

// recentSales returns the sales that may have a gate: it lives for a day after the end.
func recentSales(ctx context.Context, db querier) ([]int64, error) {
	rows, _ := db.Query(ctx, `
		select id from sales
		where  state <> 'draft' and ends_at > now() - interval '25 hours' or gate_until > now() - interval '25 hours'`)
	sales, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("list the sales that may have a gate: %w", err)
	}
	return sales, nil
}

// missing returns how many of the orders do not exist.
func missing(ctx context.Context, db querier, orders []uuid.UUID) (int, error) {
	ids := make([][16]byte, len(orders)) // not uuid.UUID, which travels as text
	for i, id := range orders {
		ids[i] = id
	}
	rows, _ := db.Query(ctx, `
		select count(*) from unnest($1::uuid[]) as known (id) where not exists (select from orders o where o.id = known.id)`, ids)
	n, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
	if err != nil {
		return 0, fmt.Errorf("look for the orders that Redis knows: %w", err)
	}
	return n, nil
}
