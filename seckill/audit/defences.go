package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// defence is something in schema.sql that refuses what must not be. Its sql tells whether it stands, by what it does
// and not by its name, so that an equal one by another name will do.
type defence struct {
	invariant, meaning, sql string
	on                      string // what a finding shows
	args                    []any
}

// refusesTwice: a valid unique index on a table's columns, checked at once (a deferrable one serves no "on conflict"),
// with the predicate given and no other.
func refusesTwice(invariant, what, table, predicate string, columns ...string) defence {
	on := fmt.Sprintf("table=%s columns=%v", table, columns)
	if predicate != "" {
		on += " where=" + predicate
	}
	return defence{invariant, what + " is missing", `
		select exists (
		       select from pg_index i
		       where  i.indrelid = to_regclass($1) and i.indisunique and i.indimmediate
		       and    i.indisvalid and i.indisready
		       and    coalesce(pg_get_expr(i.indpred, i.indrelid), '') = $2
		       and    i.indnkeyatts = cardinality($3::text[])
		       and    $3::text[] = (select array_agg(a.attname::text order by a.attname::text collate "C")
		                            from   pg_attribute a
		                            where  a.attrelid = i.indrelid and a.attnum = any ((i.indkey::int2[])[0:i.indnkeyatts - 1])))`,
		on, []any{table, predicate, columns}}
}

// firesOn: an enabled trigger, for each statement and without conditions, that runs the function on every kind of
// statement in events (bits of pg_trigger.tgtype). An origin's trigger sleeps where session_replication_role is replica.
func firesOn(what, table, function string, events int) defence {
	return defence{"I8", what + " is missing or off", `
		select exists (
		       select from pg_trigger t join pg_proc p on p.oid = t.tgfoid
		       where  t.tgrelid = to_regclass($1) and p.proname = $2 and not t.tgisinternal
		       and    t.tgtype & $3 = $3 and t.tgtype & 1 = 0 and t.tgqual is null and cardinality(t.tgattr::int2[]) = 0
		       and   (t.tgenabled = 'A'
		              or t.tgenabled = case current_setting('session_replication_role') when 'replica' then 'R' else 'O' end))`,
		fmt.Sprintf("table=%s function=%s", table, function), []any{table, function, events}}
}

const onInsert, onDelete, onUpdate = 4, 8, 16 // of pg_trigger.tgtype

// columns stand in the order of the alphabet, as the query sorts them.
var defences = []defence{
	// The parts of all valid checks that are joined by "and" alone: one check for both bounds will do, and so will two.
	{"I1", "the check that keeps a sale's stock within 0 and its total is missing", `
		select count(distinct part) = 2
		from   pg_constraint c,
		       pg_get_expr(c.conbin, c.conrelid) expr,
		       regexp_split_to_table(translate(expr, '()', ''), ' AND ') part
		where  c.conrelid = to_regclass('sales') and c.contype = 'c' and c.convalidated
		and    expr !~ '\m(OR|NOT|CASE)\M' and part in ('stock >= 0', 'stock <= total')`, "table=sales", nil},
	refusesTwice("I2", "the unique index that refuses a user's second order of a sale", "orders", "", "sale_id", "user_id"),
	refusesTwice("I2", "the unique index that refuses a ticket's second order", "orders", "", "ticket"),
	refusesTwice("I2", "the key that refuses a ticket's second result", "ticket_results", "", "ticket"),
	refusesTwice("I7", "the unique index that refuses a provider's reference twice", "payments", "", "provider_ref"),
	refusesTwice("I7", "the unique index that refuses a second capture of an order", "payments", "(status = 'captured'::text)", "order_id"),
	refusesTwice("I7", "the unique index that refuses a second open payment of an order", "payments", "(status = 'open'::text)", "order_id"),
	firesOn("the trigger that writes down a new order", "orders", "orders_inserted", onInsert),
	firesOn("the trigger that refuses wrong moves of orders and writes down the others", "orders", "orders_updated", onUpdate),
	firesOn("the trigger that keeps the orders' history append-only", "order_events", "order_events_are_append_only", onUpdate|onDelete),
}

// Defences reports the constraints that the invariants rest on and that this database lacks: a dump restored without
// its indexes, an alter by hand. Nothing need be broken yet; nothing but luck keeps it so.
func Defences(ctx context.Context, db *pgxpool.Pool) (found []Finding, err error) {
	err = reading(ctx, db, 5*time.Second, func(tx pgx.Tx) error {
		found, err = missing(ctx, tx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("audit the constraints: %w", err)
	}
	return found, nil
}

func missing(ctx context.Context, tx pgx.Tx) (found []Finding, err error) {
	for _, d := range defences {
		var stands bool
		if err := tx.QueryRow(ctx, d.sql, d.args...).Scan(&stands); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", d.invariant, d.on, err)
		}
		if !stands {
			found = append(found, Finding{d.invariant, d.meaning, []string{d.on}})
		}
	}
	return found, nil
}
