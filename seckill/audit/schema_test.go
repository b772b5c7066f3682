package audit_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"miaosha/seckill/audit"
	"miaosha/seckill/sandbox/sandboxtest"
)

var write = flag.Bool("write", false, "write schema.txt again, after a change of schema.sql")

func TestTheListOfObjectsIsThatOfTheSchema(t *testing.T) {
	undone(t, sandboxtest.DB(t), "", func(tx pgx.Tx) {
		list, err := audit.ListOfObjects(t.Context(), tx)
		if err != nil {
			t.Fatal(err)
		}
		if *write {
			if err := os.WriteFile("schema.txt", []byte(list), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		old, err := os.ReadFile("schema.txt")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Split(audit.Flat(string(old)), "\n"), strings.Split(audit.Flat(list), "\n")); diff != "" {
			t.Errorf("schema.txt is not that of schema.sql; write it again with: go test ./seckill/audit -run ListOfObjects -write\n%s", diff)
		}
	})
}

func TestTheSchemaHasNoDifferences(t *testing.T) {
	db, _, _ := activeShop(t)
	if found, err := audit.Schema(t.Context(), db); err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
}

// What a restore can leave out, and what a hand can change, is named with the statement that mends it. The statement
// does: the schema is whole after it.
func TestDifferences(t *testing.T) {
	const (
		byHand  = "" // no statement mends it
		applied = ": apply schema.sql as the database's owner, or start the shop as that role"
		again   = ": restore the dump again into an empty database, and look for the first error"
		inBody  = `create or replace function orders_begin_as_pending() returns trigger language plpgsql as $$ begin return new; end $$`
	)
	schema, err := os.ReadFile("../../schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	db, _, _ := activeShop(t)
	for _, test := range []struct{ name, sql, want, mend string }{
		{"a table", `drop table pictures`, "the table pictures is missing" + again, byHand},
		{"a table that a crash empties", `alter table pictures set unlogged`, "the table pictures is not as in schema.sql: alter table pictures set logged", `alter table pictures set logged`},
		{"rows that a role does not see", `alter table pictures enable row level security`, "the table pictures is not as in schema.sql: alter table pictures disable row level security", `alter table pictures disable row level security`},
		{"a column", `alter table goods drop column detail_en`, "the column detail_en of the table goods is missing" + again, byHand},
		{"another type", `alter table pictures alter width type bigint`, "the column width of the table pictures is not as in schema.sql: it is bigint not null, and has to be integer not null",
			`alter table pictures alter width type integer`},
		{"a default", `alter table orders alter created_at drop default`, "the column created_at of the table orders is not as in schema.sql: it is timestamp with time zone not null, and has to be timestamp with time zone not null default clock_timestamp()",
			`alter table orders alter created_at set default clock_timestamp()`},
		{"null", `alter table orders alter title drop not null`, "the column title of the table orders is not as in schema.sql: it is text, and has to be text not null", `alter table orders alter title set not null`},
		{"no identity", `alter table goods alter id drop identity`, "the column id of the table goods is not as in schema.sql: it is bigint not null, and has to be bigint not null identity", byHand},
		{"a key", `alter table users drop constraint users_phone_key`, "the constraint users_phone_key of the table users is missing: alter table users add constraint users_phone_key UNIQUE (phone)",
			`alter table users add constraint users_phone_key UNIQUE (phone)`},
		{"a key with a column", `alter table orders drop constraint one_order_per_user_and_sale`, "the constraint one_order_per_user_and_sale of the table orders is missing: alter table orders add constraint one_order_per_user_and_sale UNIQUE (sale_id, user_id) INCLUDE (status)",
			`alter table orders add constraint one_order_per_user_and_sale UNIQUE (sale_id, user_id) INCLUDE (status)`},
		{"a foreign key", `alter table payments drop constraint payments_order_id_fkey`, "the constraint payments_order_id_fkey of the table payments is missing: alter table payments add constraint payments_order_id_fkey FOREIGN KEY (order_id) REFERENCES orders(id)",
			`alter table payments add constraint payments_order_id_fkey FOREIGN KEY (order_id) REFERENCES orders(id)`},
		{"a check", `alter table sales drop constraint window_not_empty`, "the constraint window_not_empty of the table sales is missing: alter table sales add constraint window_not_empty CHECK ((ends_at > starts_at))",
			`alter table sales add constraint window_not_empty CHECK ((ends_at > starts_at))`},
		{"another check", `alter table sales drop constraint window_not_empty; alter table sales add constraint window_not_empty check (ends_at >= starts_at)`,
			"the constraint window_not_empty of the table sales is not as in schema.sql: alter table sales drop constraint window_not_empty, add constraint window_not_empty CHECK ((ends_at > starts_at))",
			`alter table sales drop constraint window_not_empty, add constraint window_not_empty CHECK ((ends_at > starts_at))`},
		{"not valid", `alter table sales drop constraint window_not_empty; alter table sales add constraint window_not_empty check (ends_at > starts_at) not valid`,
			"the constraint window_not_empty of the table sales is not as in schema.sql: alter table sales validate constraint window_not_empty", `alter table sales validate constraint window_not_empty`},
		{"a foreign key that is off", `alter table goods disable trigger all`, "the constraint sales_goods_id_fkey of the table sales is switched off: alter table sales drop constraint sales_goods_id_fkey, add constraint sales_goods_id_fkey FOREIGN KEY (goods_id) REFERENCES goods(id)",
			`alter table sales drop constraint sales_goods_id_fkey, add constraint sales_goods_id_fkey FOREIGN KEY (goods_id) REFERENCES goods(id)`},
		{"an index", `drop index orders_pending`, "the index orders_pending of the table orders is missing: CREATE INDEX orders_pending ON orders USING btree (sale_id, expires_at) WHERE (status = 'pending'::text)", string(schema)},
		{"another index", `drop index orders_pending; create index orders_pending on orders (expires_at)`,
			"the index orders_pending of the table orders is not as in schema.sql: drop index orders_pending; CREATE INDEX orders_pending ON orders USING btree (sale_id, expires_at) WHERE (status = 'pending'::text)",
			`drop index orders_pending; CREATE INDEX orders_pending ON orders USING btree (sale_id, expires_at) WHERE (status = 'pending'::text)`},
		{"a trigger", `drop trigger orders_updated on orders`, "the trigger orders_updated of the table orders is missing" + applied, string(schema)},
		{"a trigger that is off", `alter table orders disable trigger orders_updated`, "the trigger orders_updated of the table orders is switched off" + applied, string(schema)},
		{"a function", `drop function change_role`, "the function change_role(bigint, bigint, text) is missing" + applied, string(schema)},
		{"a body", inBody, "the function orders_begin_as_pending() is not as in schema.sql" + applied, string(schema)},
		{"a search path", `alter function orders_updated() set search_path = pg_catalog`, "the function orders_updated() is not as in schema.sql" + applied, string(schema)},
		{"no definer", `alter function orders_updated() security invoker`, "the function orders_updated() is not as in schema.sql" + applied, string(schema)},
		{"rights", `grant execute on function change_role, disable_user to public`,
			"every role may execute change_role(bigint, bigint, text), as after a restore without rights (-x): revoke execute on function change_role(bigint, bigint, text) from public\n" +
				"every role may execute disable_user(bigint, bigint, boolean), as after a restore without rights (-x): revoke execute on function disable_user(bigint, bigint, boolean) from public", string(schema)},
		{"an owner", `create role somebody; alter function change_role owner to somebody`,
			"the function change_role(bigint, bigint, text) belongs to somebody, who may not act as the owner of the tables: alter function change_role(bigint, bigint, text) owner to the role that owns the tables",
			`alter function change_role owner to current_user`},
		{"a view", `drop view order_history`, "the view order_history is missing" + applied, string(schema)},
		{"another view", `create or replace view order_history as select order_id, sale_id, from_status, to_status, at from order_events`, "the view order_history is not as in schema.sql" + applied, string(schema)},
		{"a sequence at its start", `alter sequence sales_id_seq restart`, "the sequence sales_id_seq is behind the highest number that it gave, 1: select setval('sales_id_seq', 1)", string(schema)},
		{"a sequence set back", `update users set id = default; insert into users (phone) select '1380000' || n from generate_series(1001, 1009) n; select setval('users_id_seq', 3)`,
			"the sequence users_id_seq is behind the highest number that it gave, 9: select setval('users_id_seq', 9)", `select setval('users_id_seq', 9)`},
		{"epochs set back", `update sales set epoch = 70`, "the sequence gate_epoch is behind the highest number that it gave, 70: select setval('gate_epoch', 70)", string(schema)},
		{"more than the schema", `create table mine (id int); alter table orders add note text; create index mine_too on orders (note)`, "", byHand},
		{"settings", `set local quote_all_identifiers = on; set local standard_conforming_strings = off; set local intervalstyle = 'iso_8601'`, "", byHand},
	} {
		t.Run(test.name, func(t *testing.T) {
			undone(t, db, test.sql, func(tx pgx.Tx) {
				differences := func() (text string) {
					t.Helper()
					found, err := audit.Differences(t.Context(), tx)
					if err != nil {
						t.Fatal(err)
					}
					var lines []string
					for _, d := range found {
						lines = append(lines, d.String())
					}
					return strings.Join(lines, "\n")
				}
				if diff := cmp.Diff(test.want, differences()); diff != "" {
					t.Error(diff)
				}
				if test.mend == byHand {
					return
				}
				if _, err := tx.Conn().PgConn().Exec(t.Context(), test.mend).ReadAll(); err != nil {
					t.Fatal(err)
				}
				if left := differences(); left != "" {
					t.Errorf("after the way out there is left: %s", left)
				}
			})
		})
	}
}

func TestFlat(t *testing.T) {
	for _, test := range []struct {
		a, b string
		same bool
	}{
		{"(((a = 1) OR (b = 2)) OR (c = 3))", "((a = 1) OR (b = 2) OR (c = 3))", true},
		{"CHECK (((a = 1) AND ((b = 2) AND (c = 3))))", "CHECK ((a = 1) AND (b = 2) AND (c = 3))", true},
		{"(((a) OR (b)) AND (c))", "((a) OR ((b) AND (c)))", false},
		{"((a) OR (b) OR (c))", "((a) OR (b) AND (c))", false},
		{"(a = ') OR (')", "(a = ') OR ()')", false},
		{"(a = 'it''s (' OR (b))", "((a = 'it''s (' OR (b)))", true},
		{"f((a))", "f(a)", true},
		{"f(a)", "f(b)", false},
		{"((a) OR (", "((a) OR (", true}, // no definition, and no panic
	} {
		if same := audit.Flat(test.a) == audit.Flat(test.b); same != test.same {
			t.Errorf("%s and %s are equal: %v, want %v: %s, %s", test.a, test.b, same, test.same, audit.Flat(test.a), audit.Flat(test.b))
		}
	}
}
