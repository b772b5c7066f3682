package audit_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/seckill/audit"
	"miaosha/seckill/sandbox/sandboxtest"
)

func TestTheSchemaHasEveryDefence(t *testing.T) {
	if found, err := audit.Defences(t.Context(), sandboxtest.DB(t)); err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
}

// The audit does not rely on what a client sends with its connections, which a pooler may drop: settings of the
// database change neither what its regular expressions mean nor how Postgres prints the schema.
func TestSettingsOfTheDatabaseBreakNoDefence(t *testing.T) {
	at := sandboxtest.DatabaseURL(t)
	db, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	for name, value := range map[string]string{"standard_conforming_strings": "off", "quote_all_identifiers": "on", "datestyle": "German", "default_transaction_isolation": "serializable"} {
		if _, err := db.Exec(t.Context(), "alter database "+db.Config().Database+" set "+name+" = "+value); err != nil {
			t.Fatal(err)
		}
	}
	pool, err := pgxpool.New(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if found, err := audit.Defences(t.Context(), pool); err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
}

// A constraint or trigger that was changed by hand is found. One that was only renamed is not.
func TestDefences(t *testing.T) {
	const (
		stock   = "I1 table=sales"
		second  = "I2 table=orders columns=[sale_id user_id]"
		ticket  = "I2 table=orders columns=[ticket]"
		result  = "I2 table=ticket_results columns=[ticket]"
		ref     = "I7 table=payments columns=[provider provider_ref]"
		paid    = "I7 table=payments columns=[order_id] where=(status = 'captured'::text)"
		open    = "I7 table=payments columns=[order_id] where=(status = 'open'::text)"
		insert  = "I8 table=orders function=orders_begin_as_pending"
		update  = "I8 table=orders function=orders_updated"
		history = "I8 table=order_events function=order_events_are_append_only"
		leaves  = "I8 table=order_events function=only_archived_rows_go"
		change  = "I9 table=sales function=sales_changed"

		noUser    = `alter table orders drop constraint one_order_per_user_and_sale; `
		noTicket  = `alter table orders drop constraint one_order_per_ticket; `
		noCheck   = `alter table sales drop constraint stock_within_total; `
		noOpen    = `drop index one_open_payment_per_order; `
		noHistory = `drop trigger order_events_are_append_only on order_events; `
		begins    = `create or replace trigger orders_begin_as_pending `
	)
	db := sandboxtest.DB(t)
	for _, test := range []struct{ name, sql, want string }{
		{"no second order", noUser, second},
		{"renamed", `alter table orders rename constraint one_order_per_user_and_sale to x`, ""},
		{"an equal index, in reverse order, with an included column", noUser + `create unique index x on orders (sale_id, user_id) include (status)`, ""},
		{"not unique", noUser + `create index x on orders (user_id, sale_id)`, second},
		{"one column less", noUser + `create unique index x on orders (user_id)`, second},
		{"one column more", noUser + `create unique index x on orders (user_id, sale_id, id)`, second},
		{"pending orders only", noUser + `create unique index x on orders (user_id, sale_id) where status = 'pending'`, second},
		{"deferrable", noUser + `alter table orders add constraint x unique (user_id, sale_id) deferrable`, second},
		{"another table", noUser + `create unique index x on ticket_results (user_id, sale_id)`, second},
		{"not valid", `update pg_index set indisvalid = false where indexrelid = 'one_order_per_user_and_sale'::regclass`, second},
		{"no ticket", noTicket, ticket},
		{"on an expression", noTicket + `create unique index x on orders (lower(ticket))`, ticket},
		{"no key of results", `alter table ticket_results drop constraint ticket_results_pkey`, result},
		{"a unique index instead of the key", `alter table ticket_results drop constraint ticket_results_pkey; create unique index x on ticket_results (ticket)`, ""},
		{"no reference", `alter table payments drop constraint one_payment_per_reference`, ref},
		{"no capture", `drop index one_capture_per_order`, paid},
		{"no open payment", noOpen, open},
		{"another predicate", noOpen + `create unique index x on payments (order_id) where status = 'declined'`, open},
		{"an equal predicate", noOpen + `create unique index x on payments (order_id) where (status) = text 'open'`, ""},
		{"no check", noCheck, stock},
		{"a check that is not valid", noCheck + `alter table sales add check (stock >= 0 and stock <= total) not valid`, stock},
		{"one bound only", noCheck + `alter table sales add check (stock >= 0)`, stock},
		{"two checks", noCheck + `alter table sales add check (stock >= 0), add check (stock <= total)`, ""},
		{"one of the bounds", noCheck + `alter table sales add check (stock >= 0 or stock <= total)`, stock},
		{"a check with an exception for drafts", noCheck + `alter table sales add check (state = 'draft' or price >= 0 and stock >= 0 and stock <= total)`, stock},
		{"a check of other bounds", noCheck + `alter table sales add check (stock between -1 and total)`, stock},
		{"inserts: trigger disabled", `alter table orders disable trigger orders_begin_as_pending`, insert},
		{"inserts: trigger on a replica only", `alter table orders enable replica trigger orders_begin_as_pending`, insert},
		{"inserts: trigger always on", `alter table orders enable always trigger orders_begin_as_pending`, ""},
		{"inserts: trigger without a condition", begins + `before insert on orders for each row execute function orders_begin_as_pending()`, insert},
		{"inserts: trigger with another condition", begins + `before insert on orders for each row when (new.status = 'paid') execute function orders_begin_as_pending()`, insert},
		{"inserts: trigger after the row", begins + `after insert on orders for each row when (new.status <> 'pending') execute function orders_begin_as_pending()`, insert},
		{"inserts: an equal condition", begins + `before insert on orders for each row when (new.status != text 'pending') execute function orders_begin_as_pending()`, ""},
		{"updates: no trigger", `drop trigger orders_updated on orders`, update},
		{"updates: trigger with a condition", `drop trigger orders_updated on orders; create trigger orders_updated after update on orders
			referencing old table as was new table as is_now for each statement when (current_user = 'x') execute function orders_updated()`, update},
		{"updates: another function", `create or replace trigger orders_updated after update on orders for each statement execute function order_events_are_append_only()`, update},
		{"updates: renamed trigger", `alter trigger orders_updated on orders rename to x`, ""},
		{"all triggers disabled", `alter table orders disable trigger all`, insert + "\n" + update},
		{"history: no trigger", noHistory, history},
		{"history: another trigger for updates", noHistory + `create trigger x before update on order_events for each statement execute function order_events_are_append_only()`, ""},
		{"history: rows can be deleted", `drop trigger only_archived_rows_go on order_events`, leaves},
		{"history: all columns but one can be updated", noHistory + `create trigger x before update of at on order_events for each statement execute function order_events_are_append_only()`, history},
		{"no table", `drop table order_events cascade`, history + "\n" + leaves},
		{"changes: no trigger", `drop trigger sales_changed on sales`, change},
		{"changes: trigger of fewer columns", `create or replace trigger sales_changed before update of state, total, starts_at on sales
			for each row when ((old.state, old.total, old.starts_at, old.ends_at) is distinct from (new.state, new.total, new.starts_at, new.ends_at))
			execute function sales_changed()`, change},
		{"changes: trigger with another condition", `create or replace trigger sales_changed before update of state, total, starts_at, ends_at on sales
			for each row when (old.state is distinct from new.state) execute function sales_changed()`, change},
	} {
		t.Run(test.name, func(t *testing.T) {
			undone(t, db, test.sql, func(tx pgx.Tx) {
				found, err := audit.DefencesIn(t.Context(), tx)
				var got []string
				for _, f := range found {
					got = append(got, f.Invariant+" "+strings.Join(f.Rows, "; "))
				}
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(test.want, strings.Join(got, "\n")); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// With session_replication_role = replica, no ordinary trigger fires.
func TestTriggersAreOffInTheReplicaRole(t *testing.T) {
	db := sandboxtest.DB(t)
	if _, err := db.Exec(t.Context(), `do $$ begin
		execute format('alter database %I set session_replication_role = replica', current_database());
		end $$`); err != nil {
		t.Fatal(err)
	}
	db.Reset()
	found, err := audit.Defences(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		got = append(got, f.Invariant)
	}
	if diff := cmp.Diff([]string{"I8", "I8", "I8", "I8", "I9"}, got); diff != "" {
		t.Errorf("found %v, want the five triggers: %s", found, diff)
	}
}
