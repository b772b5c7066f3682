package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"miaosha/seckill/lab/throwaway"
	"miaosha/seckill/sandbox/sandboxtest"
)

// bribes are statements with which a program attacks its judge instead of serving its buyers. SCHEMA is that of the run.
var bribes = map[string]string{
	"drop the triggers":           `do $$ declare t record; begin for t in select tgname, tgrelid::regclass as r from pg_trigger where not tgisinternal loop execute format('drop trigger %I on %s', t.tgname, t.r); end loop; end $$`,
	"drop one, swallow the error": `do $$ begin begin drop trigger judge_notes_sales on orders; exception when others then null; end; begin drop trigger fail_at_first on orders; exception when others then null; end; end $$`,
	"disable the triggers":        `alter table orders disable trigger user`,
	"disable one trigger":         `alter table item disable trigger judge_notes_late`,
	"enable it for replicas":      `alter table orders enable replica trigger judge_notes_sales`,
	"always enable it":            `alter table orders enable always trigger judge_notes_sales`,
	"rename a trigger":            `alter trigger judge_notes_sales on orders rename to zzz`,
	"replace a trigger":           `create or replace trigger judge_notes_sales after insert on orders for each row when (false) execute function suppress_redundant_updates_trigger()`,
	"replace the function":        `create or replace function judge.note_sale() returns trigger language plpgsql as $$ begin return null; end $$`,
	"drop the function":           `drop function judge.fail_at_first() cascade`,
	"take the function":           `alter function judge.note_sale() owner to current_user`,
	"set the function":            `alter function judge.note_sale() set search_path = SCHEMA`,
	"reset the sequence":          `select setval('judge.failures', 2)`,
	"step over the sequence":      `alter sequence judge.failures increment 2`,
	"forge what is noted":         `insert into judge.sales (user_id, n) select 7, -1`,
	"delete what is noted":        `delete from judge.sales`,
	"end the sale early":          `update judge.state set ended = false, print = null`,
	"drop the judge's schema":     `drop schema judge cascade`,
	"drop the event triggers":     `drop event trigger judge_refuses_changes`,
	"disable the event triggers":  `alter event trigger judge_refuses_changes disable`,
	"an event trigger of its own": `create event trigger mine on ddl_command_end execute function judge.refuse_changes()`,
	"drop the table":              `drop table orders cascade; create table orders (id bigint generated always as identity, user_id bigint not null)`,
	"a view of its name":          `alter table orders rename to hidden; create view orders as select * from hidden where false`,
	"rename a column":             `alter table orders rename column user_id to x; alter table orders add column user_id bigint`,
	"a generated column":          `alter table orders drop column user_id; alter table orders add column user_id bigint generated always as (id) stored`,
	"another type":                `alter table orders alter column user_id type int using 5`,
	"the same type":               `insert into orders (user_id) values (7); alter table orders alter column user_id type bigint using user_id + 1`,
	"another type of stock":       `alter table item alter column stock type text`,
	"no column ends_at":           `alter table item drop column ends_at`,
	"another schema":              `create temporary table t (x int); alter table orders set schema pg_temp`,
	"rename the schema":           `alter schema SCHEMA rename to mine`,
	"drop the schema":             `drop schema SCHEMA cascade`,
	"not logged":                  `alter table orders set unlogged`,
	"all that it owns":            `drop owned by current_user cascade`,
	"to another owner":            `alter table orders owner to pg_monitor`,
	"reassign":                    `reassign owned by current_user to pg_monitor`,
	"truncate":                    `insert into orders (user_id) values (7); truncate orders`,
	"truncate by cascade":         `alter table orders add unique (id); create table o (x bigint references orders (id)); insert into orders (user_id) values (7); truncate orders cascade`,
	"a rule that sells nothing":   `create rule r as on insert to orders do instead nothing`,
	"a rule that copies":          `create rule r as on insert to orders do also insert into units values (new.user_id)`,
	"a rule for reading":          `create rule "_RETURN" as on select to units do instead select 1 as id, 2::bigint as owner`,
	"row level security":          `alter table orders enable row level security; alter table orders force row level security`,
	"a policy":                    `create policy p on orders using (false)`,
	"a child":                     `create table child () inherits (orders); insert into child (id, user_id) values (1, 9)`,
	"a parent":                    `create table parent (id bigint, user_id bigint not null); alter table orders inherit parent`,
	"a partition":                 `create table p (id bigint not null, user_id bigint not null) partition by range (user_id); alter table p attach partition orders default`,
	"a table before it":           `create temporary table orders (id bigint, user_id bigint); create temporary table item (stock int, ends_at timestamptz)`,
	"a search path":               `set search_path = pg_temp, SCHEMA, pg_catalog`,
	"a function before ours":      `create function sum(bigint) returns bigint language sql as 'select 0::bigint'; create function clock_timestamp() returns timestamptz language sql as 'select null::timestamptz'; set search_path = SCHEMA, pg_catalog`,
	"an operator before ours":     `create function no(int, int) returns boolean language sql as 'select false'; create operator < (leftarg = int, rightarg = int, function = no); set search_path = SCHEMA, pg_catalog`,
	"a path for the role":         `alter role current_user set search_path = SCHEMA, pg_catalog`,
	"a path for the database":     `do $$ begin execute format('alter database %I set search_path = SCHEMA, pg_catalog', current_database()); end $$`,
	"a role of the database":      `do $$ begin execute format('alter database %I owner to current_user', current_database()); end $$`,
	"read only from now on":       `alter role current_user set default_transaction_read_only = on`,
	"a replica's session":         `set session_replication_role = replica`,
	"a replica's role":            `alter role current_user set session_replication_role = replica`,
	"another session":             `set session authorization postgres`,
	"constraints later":           `set constraints all deferred; alter table orders add unique (user_id) deferrable initially deferred`,
	"its own trigger before":      `create function f() returns trigger language plpgsql as $$ begin new.user_id = new.user_id + 100; return new; end $$; create trigger a before insert on orders for each row execute function f()`,
	"its own trigger after":       `create function f() returns trigger language plpgsql as $$ begin delete from orders where id = new.id; return null; end $$; create trigger zz after insert on orders for each row execute function f()`,
	"a trigger that is ours":      `create trigger a after insert on orders for each row execute function judge.note_sale()`,
	"an index that calls":         `create function f(bigint) returns bigint immutable language plpgsql as $$ begin if session_user <> 'ROLE' then raise 'it runs as %', session_user; end if; return 1; end $$; create index mine on orders (user_id) where f(1) = 1`,
	"an index that fails":         `create function f(bigint) returns bigint immutable language plpgsql as $$ begin if current_setting('search_path') = 'pg_catalog' then raise 'not you'; end if; return 1; end $$; create index mine on orders (user_id) where f(1) = 1`,
	"the window of its own":       `create function f() returns trigger language plpgsql as $$ begin new.ends_at = old.ends_at; return new; end $$; create trigger a before update on item for each row execute function f()`,
	"no window at all":            `create function f() returns trigger language plpgsql as $$ begin if new.ends_at <> old.ends_at then return null; end if; return new; end $$; create trigger a before update on item for each row execute function f()`,
	"copy":                        `copy (select 1) to program 'id'`,
	"a prepared transaction":      `begin; insert into orders (user_id) values (7); prepare transaction 'x'`,
	"a lock that stays":           `begin; lock table orders in access exclusive mode`,
	"an open transaction":         `begin; insert into orders (user_id) values (7)`,
	"grants":                      `grant all on orders, item, units to public; alter default privileges grant all on tables to public`,
	"a large object":              `select lo_create(0)`,
	"a password":                  `alter role current_user password 'x'`,
	"its role's rights":           `alter role current_user superuser`,
	"an extension":                `create extension citext; create extension hstore`,
	"clusters":                    `alter table orders add primary key (id); cluster orders using orders_pkey`,
	"catalogs":                    `set allow_system_table_mods = on; update pg_trigger set tgenabled = 'D'`,
	"catalogs, later":             `update pg_class set relname = 'x' where relname = 'orders'`,
	"comments and labels":         `comment on trigger judge_notes_sales on orders is 'x'`,
	"end the judge's session":     `select pg_terminate_backend(pid) from pg_stat_activity where usename = current_user and pid <> pg_backend_pid()`,
	"a trigger that depends":      `alter trigger judge_notes_sales on orders depends on extension plpgsql`,
}

// notRefused says what becomes of the other bribes: the judge knows that it was tampered with, or counts the orders, or there are none,
// since the program has only hindered itself.
var notRefused = map[string]string{
	"a password": Tampered, "end the judge's session": Tampered, "a path for the role": Tampered, "read only from now on": Tampered, "an index that fails": Tampered,
	"a lock that stays": "sells nothing", "an open transaction": "sells nothing", "a table before it": "sells nothing", "its own trigger after": "sells nothing",
	"a trigger that depends": "counted", "comments and labels": "counted", "constraints later": "counted", "the window of its own": "counted",
	"no window at all": "counted", "a search path": "counted", "an index that calls": "counted", "drop one, swallow the error": "counted",
	"an operator before ours": "counted", "a function before ours": "counted", "grants": "counted", "a large object": "counted", "its own trigger before": "counted",
}

// Whatever statement a program has executed, the judge either counts each order and each unit after the end of the sale, or knows that
// it was tampered with, and the fault of an exercise still happens.
func TestNoStatementHidesAnOrder(t *testing.T) {
	t.Parallel()
	ctx, s := t.Context(), stores(t)
	p, err := openPlace(ctx, s, sandboxtest.Hang)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.close(context.Background()) }()
	s.DatabaseURL, s.JudgeURL = p.url, p.server.URL(throwaway.Superuser)
	r := &run{stores: s, plan: Plan{Stock: 20, Buyers: 200}, buyers: map[int64]int64{}}
	for user := range int64(200) {
		r.buyers[user+1] = user + 1
	}
	if r.namespace, err = openNamespace(ctx, s, tables); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.namespace.close(context.Background()) }()
	exec := func(c *pgx.Conn, sql string) error {
		_, err := c.PgConn().Exec(ctx, strings.NewReplacer("SCHEMA", r.schema, "ROLE", r.role).Replace(sql)).ReadAll()
		return err
	}
	cfg, err := r.poolConfig(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	failing := exerciseOf(t, "failed-orders").Checks[0].Plan.Before
	for name, bribe := range bribes {
		t.Run(name, func(t *testing.T) {
			if err := exec(r.admin, `alter role ROLE reset all; alter role ROLE password '`+cfg.ConnConfig.Password+`'`); err != nil {
				t.Fatal(err)
			}
			if err := r.restart(ctx, 20, failing); err != nil {
				t.Fatal(err)
			}
			if r.eye, err = openEye(ctx, s.DatabaseURL); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.eye.Close(context.Background()) }()
			hostile, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = hostile.Close(context.Background()) }()
			outcome := "counted"
			if err := exec(hostile, bribe); err != nil {
				if t.Logf("refused: %v", err); strings.Contains(err.Error(), "53100") {
					t.Error("the fault of the exercise comes before the bribe")
				}
				outcome = "refused"
			}
			open := strings.HasPrefix(bribe, "begin")
			if !open {
				_ = exec(hostile, `rollback`)
			}
			failed := 0 // a naive program sells on, in the table of the run or wherever its name leads now
			for user := range int64(12) {
				pg := new(pgconn.PgError)
				if err := exec(hostile, fmt.Sprintf(`insert into orders (user_id) values (%d)`, user+1)); errors.As(err, &pg) && pg.Code == "53100" {
					failed++
				}
			}
			units := func() (n int) {
				if err := r.eye.QueryRow(ctx, `select stock::int from only `+r.schema+`.item`).Scan(&n); err != nil {
					n = -1
				}
				return n
			}
			late, before := 0, 0
			if !open {
				ended := r.noteEnd(ctx)
				before = units()
				_ = exec(hostile, `update item set stock = stock - 1`)
				if late, err = r.soldLate(ctx); err != nil {
					t.Fatal(err)
				}
				if taken := before - units(); ended == nil && taken > 0 && late < taken {
					t.Errorf("%d units of %d that were taken after the end", late, taken)
				}
			}
			owners, tampered, err := r.witnessed(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if len(owners) > 0 && failed == 0 && !tampered {
				t.Errorf("%v have orders, and none has failed at first", owners)
			}
			switch {
			case outcome == "refused" && !tampered: // and the orders are counted
			case tampered:
				outcome = Tampered
			case len(owners) == 0:
				outcome = "sells nothing"
			}
			if want := cmp.Or(notRefused[name], "refused"); outcome != want {
				t.Errorf("%s, want %s", outcome, want)
			}
			t.Logf("tampered %v, %d orders, %d failed, %d late", tampered, len(owners), failed, late)
		})
	}
}

func exerciseOf(t *testing.T, name string) Exercise {
	t.Helper()
	i := slices.IndexFunc(Exercises(), func(e Exercise) bool { return e.Name == name })
	if i < 0 {
		t.Fatalf("there is no exercise %s", name)
	}
	return Exercises()[i]
}

// refusals are the bribes that are refused without any effect, so that all of them fit into one program.
var refusals = []string{"drop the triggers", "drop one, swallow the error", "disable the triggers", "disable one trigger", "enable it for replicas",
	"rename a trigger", "replace a trigger", "replace the function", "drop the function", "take the function", "set the function", "reset the sequence",
	"step over the sequence", "forge what is noted", "delete what is noted", "end the sale early", "drop the judge's schema", "drop the event triggers",
	"disable the event triggers", "drop the table", "a view of its name", "rename a column", "a generated column", "another type", "another type of stock",
	"no column ends_at", "rename the schema", "drop the schema", "not logged", "all that it owns", "to another owner", "reassign", "a rule that sells nothing",
	"a rule that copies", "row level security", "a policy", "a parent", "a partition", "a path for the database", "a replica's session", "a replica's role",
	"another session", "a trigger that is ours", "its role's rights", "catalogs", "copy"}

// A wrong program that first tries to drop, disable and replace all that its judge has is found as ever.
func TestTheJudgeIsNotBribed(t *testing.T) {
	t.Parallel()
	var first strings.Builder
	first.WriteString("\ndo local own = prepare\nfunction prepare()\n")
	first.WriteString(`local schema = sql("select current_schema() as s")[1].s` + "\n")
	for _, name := range refusals {
		for _, statement := range strings.Split(bribes[name], "; ") {
			if strings.HasPrefix(bribes[name], "do $$") {
				statement = bribes[name]
			}
			fmt.Fprintf(&first, "pcall(sql, (string.gsub([==[%s]==], 'SCHEMA', schema)))\n", statement)
		}
	}
	first.WriteString("if own then own() end\nend end\n")
	_, all := seeds(t, true, 1)
	for _, e := range Exercises() {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			if !all && !slices.Contains([]string{"window", "failed-orders"}, e.Name) {
				t.Skip("MIAOSHA_LAB_SEEDS is not set")
			}
			r := judgeBribe(t, e, Program{Lua, e.Wrong.Source + first.String()}, all)
			if last := r.Checks[len(r.Checks)-1]; r.Solved || last.Kind != e.Kind && last.Kind != Tampered {
				t.Errorf("solved %v, kind %q, want %q: %s", r.Solved, last.Kind, e.Kind, shown(last.Result))
			}
		})
	}
}

func judgeBribe(t *testing.T, e Exercise, p Program, search bool) ExerciseResult {
	t.Helper()
	parallelRuns <- struct{}{}
	defer func() { <-parallelRuns }()
	s := stores(t)
	r, err := judgeExercise(patient(t), s, e, p, 1, search, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A program that does not serve the task finds no other way past the judge.
func TestNoProgramPassesWithoutTheTask(t *testing.T) {
	t.Parallel()
	const guarded = `
function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
  sql("create table mine (n int)")
  sql("insert into mine select case when stock > 0 then stock else (select count(*) from units) end from item")
  sql("update item set stock = 0")
end
function buy(user)
  think()
  return tx(function()
    if sql("insert into orders (user_id) values ($1) on conflict do nothing", user).affected == 0 then return true end
    return sql("update mine set n = n - 1 where n > 0").affected == 1
  end)
end
`
	// Whoever is sold a unit waits for its answer until all are sold: a fault that waits for answers comes too late.
	const waits = `
do local once, own = buy, prepare
function prepare()
  redis("SET", key("goal"), sql("select stock from item")[1].stock)
  own()
end
function buy(user)
  local yes = once(user)
  if yes then
    redis("SADD", key("sold"), user)
    for i = 1, 400 do
      if redis("SCARD", key("sold")) >= tonumber(redis("GET", key("goal"))) then break end
      think()
    end
  end
  return yes
end end
`
	const slowTicket = `
local take = [[
  if redis.call("SISMEMBER", KEYS[2], ARGV[1]) == 1 then return 1 end
  if tonumber(redis.call("GET", KEYS[1])) <= 0 then return 0 end
  redis.call("DECR", KEYS[1])
  return redis.call("SADD", KEYS[2], ARGV[1])]]
function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
  redis("SET", key("stock"), sql("select stock from item")[1].stock)
end
local asked = {}
function buy(user)
  if eval(take, {key("stock"), key("buyers")}, {user}) ~= 1 then return false end
  if redis("SADD", key("tried"), user) == 0 then
    for i = 1, 30 do think() end -- the first click writes it
    return true
  end
  for i = 1, 4 do think() end
  sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
  return true
end
`
	for name, test := range map[string]struct {
		exercise string
		source   string // "" or a source behind that of the exercise's wrong program
		whole    bool   // source is the program
		quick    bool   // it is tried in the short form too
		kind     string
	}{
		"its statements are caught":      {"failed-orders", `local real = sql sql = function(text, ...) if text:find("fail") then return {affected = 0} end return real(text, ...) end`, false, true, StaysUnsold},
		"an order that never fails":      {"failed-orders", `local real = sql sql = function(text, ...) local user = ... if not text:find("^insert into orders") then return real(text, ...) end return tx(function() real(text, 1 + 3 * user) return real("update orders set user_id = $1 where user_id = $2", user, 1 + 3 * user) end) end`, false, true, StaysUnsold},
		"a window that does not close":   {"window", `do local own = prepare function prepare() own() sql("create function f() returns trigger language plpgsql as 'begin new.ends_at = old.ends_at; return new; end'") sql("create trigger a before update on item for each row execute function f()") end end`, false, true, CheckThenAct},
		"a window that fails to close":   {"window", `do local own = prepare function prepare() own() sql([[create function f() returns trigger language plpgsql as $$ begin if new.ends_at <> old.ends_at then raise 'no'; end if; return new; end $$]]) sql("create trigger a before update on item for each row execute function f()") end end`, false, false, Failed + StaysUnsold + LostPromise},
		"units taken before the sale":    {"window", guarded, true, true, CheckThenAct},
		"answers kept until the end":     {"window", guarded + waits, true, false, Failed + StaysUnsold + LostPromise},
		"no seats":                       {"seats", guarded, true, true, NoSeat},
		"no price":                       {"think-first", `think = function() end`, false, true, NoPrice},
		"answers kept from a kill":       {"ticket", slowTicket + waits, true, false, LostPromise},
		"a worker that nothing kills":    {"three-statements", `function prepare() redis("SET", key("left"), sql("select stock from item")[1].stock) later(function() for i = 1, 200 do local u = redis("LPOP", key("line")) if u then sql("insert into orders (user_id) values ($1)", tonumber(u)) redis("SET", key("has" .. u), 1) else think() end end end) end function buy(u) think() if redis("SADD", key("seen"), u) == 1 then if redis("DECR", key("left")) < 0 then redis("SET", key("not" .. u), 1) return false end redis("RPUSH", key("line"), u) end for i = 1, 300 do if redis("GET", key("has" .. u)) then return true end if redis("GET", key("not" .. u)) then return false end think() end return false end`, true, false, Failed + StaysUnsold + LostPromise},
		"Redis is waited for":            {"redis-away", `do local once = buy function buy(user) while not pcall(redis, "PING") do think() end return once(user) end end`, false, false, Failed + StaysUnsold + LostPromise},
		"all of Redis is gone":           {"double-click", `do local once = buy function buy(user) pcall(redis, "FLUSHALL") pcall(redis, "SCRIPT", "FLUSH") pcall(redis, "CONFIG", "SET", "maxmemory", "1") pcall(eval, "redis.call = function() return 1 end return 1", {}, {}) pcall(redis, "SWAPDB", 0, 1) return once(user) end end`, false, true, DoubleDelivery},
		"functions that say yes":         {"one-unit", `do local once = buy tostring = function() return "yes" end error = function() end function buy(user) once(user) return true end end`, false, true, LostPromise},
		"tables before those of the run": {"two-processes", `do local once = buy function buy(user) pcall(sql, "create temporary table orders (user_id bigint)") pcall(sql, "create temporary table item as select 20 as stock") return once(user) end end`, false, true, LostPromise},
		"forged rows":                    {"both-or-neither", `do local own = prepare function prepare() own() sql("insert into orders (user_id) select generate_series(1, 20)") sql("update item set stock = 0") end end`, false, true, Tampered},
		"units filled up with orders":    {"ticket", `do local once = buy function buy(user) local yes = once(user) if not yes then later(function() for i = 1, 300 do think() end tx(function() sql("lock table orders in exclusive mode") sql("insert into orders (user_id) select $1 where (select count(*) from orders) < 20", user) end) end) end return yes end end`, false, false, LostPromise},
		"units filled up for nobody":     {"ticket", `do local once = buy function buy(user) local yes = once(user) if not yes then later(function() for i = 1, 300 do think() end sql("insert into orders (user_id) select -$1::bigint where (select count(*) from orders) < 20", user) end) end return yes end end`, false, false, Tampered},
		"a worker that no fault reaches": {"lost-reply", `local line, done, idle = {}, {}, 0 function start() later(function() while idle < 300 do local u = table.remove(line, 1) if not u then idle = idle + 1 think() else idle = 0 if pcall(sql, "insert into orders (user_id) values ($1)", u) then done[u] = true else table.insert(line, u) end end end end) end function buy(u) think() table.insert(line, u) for i = 1, 2000 do if done[u] then return true end think() end error("later") end`, true, false, Failed + StaysUnsold + LostPromise},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, all := seeds(t, true, 1); !all && !test.quick {
				t.Skip("MIAOSHA_LAB_SEEDS is not set")
			}
			e := exerciseOf(t, test.exercise)
			e.Checks = e.Checks[:1]
			e.Checks[0].Plan.Seconds, e.Checks[0].Baseline = MaxSeconds, ""
			if strings.Contains(test.kind, Failed) { // it waits for the end of its time
				e.Checks[0].Plan.Seconds = 5
			}
			if test.exercise == "lost-reply" {
				e.Checks[0].Plan.Stock = 200 // orders, of which some lose their reply
				e.Checks[0].Plan.Buyers = 200
			}
			p := Program{Lua, test.source}
			if !test.whole {
				p.Source = e.Wrong.Source + "\n" + test.source
			}
			r := judgeBribe(t, e, p, false)
			last := r.Checks[len(r.Checks)-1]
			for last.Result.Error == endedTooLate { // so says the judge, and the student runs it again
				r = judgeBribe(t, e, p, false)
				last = r.Checks[len(r.Checks)-1]
			}
			if r.Solved {
				t.Errorf("solved: %s", shown(last.Result))
			}
			if !strings.Contains(test.kind, last.Kind) && (test.whole || last.Kind == Failed) { // a naive program is wrong in several ways, of which one shows first
				t.Errorf("kind %q, want %q: %s", last.Kind, test.kind, last.Message.En)
			}
		})
	}
}

// These programs have passed all checks of one exercise or more before. In the long form they try all exercises.
func TestProgramsThatServeNobodyAreFound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		exercise string // where it has passed
		kinds    []string
	}{
		"sells-before-they-come": {"one-unit", []string{Tampered}},                                           // orders of buyers who have not come
		"writes-in-the-eye":      {"seats", []string{NoSeat}},                                                // has the judge write the seats
		"works-in-start":         {"lost-reply", []string{Failed + Endless, UnknownOutcome, DoubleDelivery}}, // where no fault reached, and sleeps while the search goes on
	} {
		source, err := os.ReadFile("testdata/bribes/" + name + ".lua")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range Exercises() {
			for _, search := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/search %v", name, e.Name, search), func(t *testing.T) {
					t.Parallel()
					if _, all := seeds(t, true, 1); !all && e.Name != test.exercise {
						t.Skip("MIAOSHA_LAB_SEEDS is not set")
					}
					parallelRuns <- struct{}{}
					defer func() { <-parallelRuns }()
					r, err := judgeExercise(t.Context(), stores(t), e, Program{Lua, string(source)}, 1, search, nil)
					if err != nil {
						t.Fatal(err)
					}
					last := r.Checks[len(r.Checks)-1]
					kind := last.Kind
					if kind == Failed {
						kind += last.Result.Problem
					}
					if r.Solved || e.Name == test.exercise && !slices.Contains(test.kinds, kind) {
						t.Errorf("solved %v, kind %q, want one of %v: %s", r.Solved, kind, test.kinds, shown(last.Result))
					}
				})
			}
		}
	}
}

// A statement that is under way when the judge counts changes nothing afterwards: it has ended.
func TestNothingOfAProgramGoesOnAfterTheCount(t *testing.T) {
	t.Parallel()
	ctx, s := t.Context(), stores(t)
	p, err := openPlace(ctx, s, sandboxtest.Hang)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.close(context.Background()) }()
	s.DatabaseURL, s.JudgeURL = p.url, p.server.URL(throwaway.Superuser)
	r := &run{stores: s, plan: Plan{Stock: 1, Buyers: 2}, buyers: map[int64]int64{1: 1, 2: 2}}
	if r.namespace, err = openNamespace(ctx, s, tables); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.namespace.close(context.Background()) }()
	if err := r.restart(ctx, 1, nil); err != nil {
		t.Fatal(err)
	}
	if r.eye, err = openEye(ctx, s.DatabaseURL); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.eye.Close(context.Background()) }()
	cfg, err := r.poolConfig(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	hostile, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hostile.Close(context.Background()) }()
	if _, err := hostile.Exec(ctx, `insert into orders (user_id) values (1), (2)`); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := hostile.Exec(ctx, `do $$ begin perform pg_sleep(3600); delete from orders where user_id = 2; end $$`)
		ended <- err
	}()
	sandboxtest.Until(t, "the statement is under way", func() bool {
		var waits bool
		err := r.admin.QueryRow(ctx, `select exists (select from pg_stat_activity where usename = $1 and wait_event = 'PgSleep')`, r.role).Scan(&waits)
		return err == nil && waits
	})
	owners, tampered, err := r.witnessed(ctx)
	if len(owners) != 2 || tampered || err != nil {
		t.Errorf("%v, tampered %v: %v", owners, tampered, err)
	}
	if err := <-ended; err == nil {
		t.Error("the statement has ended by itself")
	}
}
