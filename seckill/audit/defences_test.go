package audit_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"miaosha/seckill/audit"
	"miaosha/seckill/sandbox/sandboxtest"
)

func TestEveryDefenceStandsInTheSchema(t *testing.T) {
	if found, err := audit.Defences(t.Context(), sandboxtest.DB(t)); err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
}

// What an alter by hand takes away is found, and what only goes by another name is not.
func TestDefences(t *testing.T) {
	const (
		stock   = "I1 table=sales"
		second  = "I2 table=orders columns=[sale_id user_id]"
		ticket  = "I2 table=orders columns=[ticket]"
		result  = "I2 table=ticket_results columns=[ticket]"
		ref     = "I7 table=payments columns=[provider_ref]"
		paid    = "I7 table=payments columns=[order_id] where=(status = 'captured'::text)"
		open    = "I7 table=payments columns=[order_id] where=(status = 'open'::text)"
		born    = "I8 table=orders function=orders_inserted"
		moved   = "I8 table=orders function=orders_updated"
		history = "I8 table=order_events function=order_events_are_append_only"

		noUser    = `alter table orders drop constraint one_order_per_user_and_sale; `
		noTicket  = `alter table orders drop constraint one_order_per_ticket; `
		noCheck   = `alter table sales drop constraint stock_within_total; `
		noOpen    = `drop index one_open_payment_per_order; `
		noHistory = `drop trigger order_events_are_append_only on order_events; `
	)
	for _, test := range []struct{ name, sql, want string }{
		{"no second order", noUser, second},
		{"renamed", `alter table orders rename constraint one_order_per_user_and_sale to x`, ""},
		{"an equal index, the other way round, with a column more to read", noUser + `create unique index x on orders (sale_id, user_id) include (status)`, ""},
		{"not unique", noUser + `create index x on orders (user_id, sale_id)`, second},
		{"a column less", noUser + `create unique index x on orders (user_id)`, second},
		{"a column more", noUser + `create unique index x on orders (user_id, sale_id, id)`, second},
		{"pending orders only", noUser + `create unique index x on orders (user_id, sale_id) where status = 'pending'`, second},
		{"asked too late", noUser + `alter table orders add constraint x unique (user_id, sale_id) deferrable`, second},
		{"another table", noUser + `create unique index x on ticket_results (user_id, sale_id)`, second},
		{"not valid", `update pg_index set indisvalid = false where indexrelid = 'one_order_per_user_and_sale'::regclass`, second},
		{"no ticket", noTicket, ticket},
		{"of an expression", noTicket + `create unique index x on orders (lower(ticket))`, ticket},
		{"no key of results", `alter table ticket_results drop constraint ticket_results_pkey`, result},
		{"a unique index for a key", `alter table ticket_results drop constraint ticket_results_pkey; create unique index x on ticket_results (ticket)`, ""},
		{"no reference", `alter table payments drop constraint payments_provider_ref_key`, ref},
		{"no capture", `drop index one_capture_per_order`, paid},
		{"no open payment", noOpen, open},
		{"another predicate", noOpen + `create unique index x on payments (order_id) where status = 'declined'`, open},
		{"an equal predicate", noOpen + `create unique index x on payments (order_id) where (status) = text 'open'`, ""},
		{"no check", noCheck, stock},
		{"a check that was never made", noCheck + `alter table sales add check (stock >= 0 and stock <= total) not valid`, stock},
		{"half a check", noCheck + `alter table sales add check (stock >= 0)`, stock},
		{"two halves", noCheck + `alter table sales add check (stock >= 0), add check (stock <= total)`, ""},
		{"either half", noCheck + `alter table sales add check (stock >= 0 or stock <= total)`, stock},
		{"drafts excepted", noCheck + `alter table sales add check (state = 'draft' or price >= 0 and stock >= 0 and stock <= total)`, stock},
		{"a check of other bounds", noCheck + `alter table sales add check (stock between -1 and total)`, stock},
		{"births untold", `alter table orders disable trigger orders_inserted`, born},
		{"births told to a replica", `alter table orders enable replica trigger orders_inserted`, born},
		{"births told always", `alter table orders enable always trigger orders_inserted`, ""},
		{"births told at times", `create or replace trigger orders_inserted after insert on orders referencing new table as fresh
			for each statement when (current_user = 'x') execute function orders_inserted()`, born},
		{"moves untold", `drop trigger orders_updated on orders`, moved},
		{"another function", `create or replace trigger orders_updated after update on orders for each statement execute function order_events_are_append_only()`, moved},
		{"renamed trigger", `alter trigger orders_updated on orders rename to x`, ""},
		{"all triggers off", `alter table orders disable trigger all`, born + "\n" + moved},
		{"a history to rewrite", noHistory, history},
		{"a history to delete", noHistory + `create trigger x before update on order_events for each statement execute function order_events_are_append_only()`, history},
		{"a column to rewrite", noHistory + `create trigger x before delete or update of at on order_events for each statement execute function order_events_are_append_only()`, history},
		{"no table", `drop table order_events`, history},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			db := sandboxtest.DB(t)
			execute(t, db, test.sql)
			found, err := audit.Defences(t.Context(), db)
			var got []string
			for _, f := range found {
				got = append(got, f.Invariant+" "+strings.Join(f.Rows, "; "))
			}
			if diff := cmp.Diff(test.want, strings.Join(got, "\n")); err != nil || diff != "" {
				t.Errorf("%v: %s", err, diff)
			}
		})
	}
}

// Where the database plays a replica, nobody's triggers fire.
func TestAReplicasTriggersSleep(t *testing.T) {
	db := sandboxtest.DB(t)
	if _, err := db.Exec(t.Context(), `do $$ begin
		execute format('alter database %I set session_replication_role = replica', current_database());
		end $$`); err != nil {
		t.Fatal(err)
	}
	db.Reset()
	found, err := audit.Defences(t.Context(), db)
	if err != nil || len(found) != 3 || found[0].Invariant != "I8" || found[2].Invariant != "I8" {
		t.Errorf("found %v, %v, want the three triggers", found, err)
	}
}
