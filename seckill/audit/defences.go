package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// defence is a constraint or trigger of schema.sql that protects an invariant. Its sql reports whether the database has
// it. The query checks the effect and not the name, so an equal one of another name is accepted.
type defence struct {
	invariant, meaning, sql string
	row                     string // of the finding if it is missing
	args                    []any
}

// uniqueIndex is a valid unique index on the columns of a table, with exactly this predicate. It must be checked
// immediately: "on conflict" cannot use a deferrable index.
func uniqueIndex(invariant, name, table, predicate string, columns ...string) defence {
	row := fmt.Sprintf("table=%s columns=%v", table, columns)
	if predicate != "" {
		row += " where=" + predicate
	}
	return defence{invariant, name + " is missing", `
		select exists (
		       select from pg_index i
		       where  i.indrelid = to_regclass($1) and i.indisunique and i.indimmediate
		       and    i.indisvalid and i.indisready
		       and    translate(coalesce(pg_get_expr(i.indpred, i.indrelid), ''), '( )', '') = translate($2, '( )', '')
		       and    i.indnkeyatts = cardinality($3::text[])
		       and    $3::text[] = (select array_agg(a.attname::text order by a.attname::text collate "C")
		                            from   pg_attribute a
		                            where  a.attrelid = i.indrelid and a.attnum = any ((i.indkey::int2[])[0:i.indnkeyatts - 1])))`,
		row, []any{table, predicate, columns}}
}

// trigger is an enabled trigger that runs the function for the statements or rows in kind, a sum of bits of
// pg_trigger.tgtype, under exactly this condition ("" for none), for an update of any column, or of exactly these.
// While session_replication_role is replica, an ordinary trigger does not fire. Parentheses and blanks do not count:
// Postgres prints a chain of ORs with others after a restore, and these conditions have no AND beside an OR.
func trigger(invariant, name, table, function string, kind int, condition string, columns ...string) defence {
	return defence{invariant, name + " is missing or off", `
		select exists (
		       select from pg_trigger t join pg_proc p on p.oid = t.tgfoid
		       where  t.tgrelid = to_regclass($1) and p.proname = $2 and not t.tgisinternal
		       and    t.tgtype & $3::smallint = $3 and t.tgtype & 1 = $3 & 1
		       and    coalesce($5::text[], '{}') = array(select a.attname::text from pg_attribute a
		                                                 where  a.attrelid = t.tgrelid and a.attnum = any (t.tgattr::int2[])
		                                                 order  by a.attname::text collate "C")
		       and    translate(coalesce(substring(pg_get_triggerdef(t.oid) from 'WHEN [(](.*)[)] EXECUTE'), ''), '( )', '') = translate($4, '( )', '')
		       and   (t.tgenabled = 'A'
		              or t.tgenabled = case current_setting('session_replication_role') when 'replica' then 'R' else 'O' end))`,
		fmt.Sprintf("table=%s function=%s", table, function), []any{table, function, kind, condition, columns}}
}

const forEachRow, before, onInsert, onDelete, onUpdate = 1, 2, 4, 8, 16 // of pg_trigger.tgtype

// The columns of each index and trigger are in alphabetical order, because the query sorts them so.
var defences = []defence{
	// The query splits each valid check at "and". One check with both bounds is accepted, and so are two checks.
	{"I1", "the check that keeps a sale's stock between 0 and its total is missing", `
		select count(distinct part) = 2
		from   pg_constraint c,
		       pg_get_expr(c.conbin, c.conrelid) expr,
		       regexp_split_to_table(translate(expr, '()', ''), ' AND ') part
		where  c.conrelid = to_regclass('sales') and c.contype = 'c' and c.convalidated
		and    expr !~ '[[:<:]](OR|NOT|CASE)[[:>:]]' and part in ('stock >= 0', 'stock <= total')`, "table=sales", nil},
	uniqueIndex("I2", "the unique index that refuses a second order of a user in a sale", "orders", "",
		"sale_id", "user_id"),
	uniqueIndex("I2", "the unique index that refuses a second order of a ticket", "orders", "", "ticket"),
	uniqueIndex("I2", "the key that refuses a second result of a ticket", "ticket_results", "", "ticket"),
	uniqueIndex("I7", "the unique index that refuses a second use of a provider's reference", "payments", "",
		"provider", "provider_ref"),
	uniqueIndex("I7", "the unique index that refuses a second capture of an order", "payments",
		"(status = 'captured'::text)", "order_id"),
	uniqueIndex("I7", "the unique index that refuses a second open payment of an order", "payments",
		"(status = 'open'::text)", "order_id"),
	trigger("I8", "the trigger that refuses an order which does not begin as pending", "orders",
		"orders_begin_as_pending",
		forEachRow|before|onInsert, "(new.status <> 'pending'::text)"),
	trigger("I8", "the trigger that refuses invalid status changes of orders and records the others", "orders",
		"orders_updated", onUpdate, ""),
	trigger("I8", "the trigger that keeps the history of orders append-only", "order_events",
		"order_events_are_append_only", onUpdate, ""),
	trigger("I8", "the trigger that lets the history of orders go to an archive alone", "order_events",
		"only_archived_rows_go", onDelete, ""),
	trigger("I9", "the trigger that lets a sale's gate follow a change of its state, window or total", "sales",
		"sales_changed", forEachRow|before|onUpdate,
		"old.state IS DISTINCT FROM new.state OR old.total IS DISTINCT FROM new.total OR "+
			"old.starts_at IS DISTINCT FROM new.starts_at OR old.ends_at IS DISTINCT FROM new.ends_at",
		"ends_at", "starts_at", "state", "total"),
}

// Defences returns a finding for each constraint or trigger that protects an invariant and is missing in this database.
// A dump restored without its indexes or an "alter table" by hand can cause that. The data may still be correct, but
// nothing keeps it correct.
func Defences(ctx context.Context, db *pgxpool.Pool) (found []Finding, err error) {
	err = readOnly(ctx, db, 5*time.Second, func(tx pgx.Tx) error {
		found, err = missingDefences(ctx, tx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("audit the constraints: %w", err)
	}
	return found, nil
}

func missingDefences(ctx context.Context, tx pgx.Tx) (found []Finding, err error) {
	if _, err := tx.Exec(ctx, plainText); err != nil {
		return nil, err
	}
	for _, d := range defences {
		rows, _ := tx.Query(ctx, d.sql, d.args...)
		present, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", d.invariant, d.row, err)
		}
		if !present {
			found = append(found, Finding{d.invariant, d.meaning, []string{d.row}})
		}
	}
	return found, nil
}
