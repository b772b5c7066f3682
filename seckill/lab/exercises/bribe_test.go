package exercises

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/labtest"
	"miaosha/seckill/lab/program"
)

func exerciseOf(t *testing.T, name string) Exercise {
	t.Helper()
	i := slices.IndexFunc(Ladder(), func(e Exercise) bool { return e.Name == name })
	if i < 0 {
		t.Fatalf("there is no exercise %s", name)
	}
	return Ladder()[i]
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
		for _, statement := range strings.Split(labtest.Bribes[name], "; ") {
			if strings.HasPrefix(labtest.Bribes[name], "do $$") {
				statement = labtest.Bribes[name]
			}
			fmt.Fprintf(&first, "pcall(sql, (string.gsub([==[%s]==], 'SCHEMA', schema)))\n", statement)
		}
	}
	first.WriteString("if own then own() end\nend end\n")
	_, all := labtest.Seeds(t, true, 1)
	for _, e := range Ladder() {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			if !all && !slices.Contains([]string{"window", "failed-orders"}, e.Name) {
				t.Skip("MIAOSHA_LAB_SEEDS is not set")
			}
			r := judgeBribe(t, e, program.Program{Language: program.Lua, Source: e.Wrong.Source + first.String()}, all)
			if last := r.Checks[len(r.Checks)-1]; r.Solved || last.Kind != e.Kind && last.Kind != lab.Tampered {
				t.Errorf("solved %v, kind %q, want %q: %s", r.Solved, last.Kind, e.Kind, labtest.Shown(last.Result))
			}
		})
	}
}

func judgeBribe(t *testing.T, e Exercise, p program.Program, search bool) Result {
	t.Helper()
	labtest.ParallelRuns <- struct{}{}
	defer func() { <-labtest.ParallelRuns }()
	s := labtest.Stores(t)
	r, err := judge(labtest.Patient(t), s, e, p, 1, search, nil)
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
		"its statements are caught":      {"failed-orders", `local real = sql sql = function(text, ...) if text:find("fail") then return {affected = 0} end return real(text, ...) end`, false, true, lab.StaysUnsold},
		"an order that never fails":      {"failed-orders", `local real = sql sql = function(text, ...) local user = ... if not text:find("^insert into orders") then return real(text, ...) end return tx(function() real(text, 1 + 3 * user) return real("update orders set user_id = $1 where user_id = $2", user, 1 + 3 * user) end) end`, false, true, lab.StaysUnsold},
		"a window that does not close":   {"window", `do local own = prepare function prepare() own() sql("create function f() returns trigger language plpgsql as 'begin new.ends_at = old.ends_at; return new; end'") sql("create trigger a before update on item for each row execute function f()") end end`, false, true, lab.CheckThenAct},
		"a window that fails to close":   {"window", `do local own = prepare function prepare() own() sql([[create function f() returns trigger language plpgsql as $$ begin if new.ends_at <> old.ends_at then raise 'no'; end if; return new; end $$]]) sql("create trigger a before update on item for each row execute function f()") end end`, false, false, lab.Failed + lab.StaysUnsold + lab.LostPromise},
		"units taken before the sale":    {"window", guarded, true, true, lab.CheckThenAct},
		"answers kept until the end":     {"window", guarded + waits, true, false, lab.Failed + lab.StaysUnsold + lab.LostPromise},
		"no seats":                       {"seats", guarded, true, true, NoSeat},
		"no price":                       {"think-first", `think = function() end`, false, true, NoPrice},
		"answers kept from a kill":       {"ticket", slowTicket + waits, true, false, lab.LostPromise},
		"a worker that nothing kills":    {"three-statements", `function prepare() redis("SET", key("left"), sql("select stock from item")[1].stock) later(function() for i = 1, 200 do local u = redis("LPOP", key("line")) if u then sql("insert into orders (user_id) values ($1)", tonumber(u)) redis("SET", key("has" .. u), 1) else think() end end end) end function buy(u) think() if redis("SADD", key("seen"), u) == 1 then if redis("DECR", key("left")) < 0 then redis("SET", key("not" .. u), 1) return false end redis("RPUSH", key("line"), u) end for i = 1, 300 do if redis("GET", key("has" .. u)) then return true end if redis("GET", key("not" .. u)) then return false end think() end return false end`, true, false, lab.Failed + lab.StaysUnsold + lab.LostPromise},
		"Redis is waited for":            {"redis-away", `do local once = buy function buy(user) while not pcall(redis, "PING") do think() end return once(user) end end`, false, false, lab.Failed + lab.StaysUnsold + lab.LostPromise},
		"all of Redis is gone":           {"double-click", `do local once = buy function buy(user) pcall(redis, "FLUSHALL") pcall(redis, "SCRIPT", "FLUSH") pcall(redis, "CONFIG", "SET", "maxmemory", "1") pcall(eval, "redis.call = function() return 1 end return 1", {}, {}) pcall(redis, "SWAPDB", 0, 1) return once(user) end end`, false, true, lab.DoubleDelivery},
		"functions that say yes":         {"one-unit", `do local once = buy tostring = function() return "yes" end error = function() end function buy(user) once(user) return true end end`, false, true, lab.LostPromise},
		"tables before those of the run": {"two-processes", `do local once = buy function buy(user) pcall(sql, "create temporary table orders (user_id bigint)") pcall(sql, "create temporary table item as select 20 as stock") return once(user) end end`, false, true, lab.LostPromise},
		"forged rows":                    {"both-or-neither", `do local own = prepare function prepare() own() sql("insert into orders (user_id) select generate_series(1, 20)") sql("update item set stock = 0") end end`, false, true, lab.Tampered},
		"units filled up with orders":    {"ticket", `do local once = buy function buy(user) local yes = once(user) if not yes then later(function() for i = 1, 300 do think() end tx(function() sql("lock table orders in exclusive mode") sql("insert into orders (user_id) select $1 where (select count(*) from orders) < 20", user) end) end) end return yes end end`, false, false, lab.LostPromise},
		"units filled up for nobody":     {"ticket", `do local once = buy function buy(user) local yes = once(user) if not yes then later(function() for i = 1, 300 do think() end sql("insert into orders (user_id) select -$1::bigint where (select count(*) from orders) < 20", user) end) end return yes end end`, false, false, lab.Tampered},
		"a worker that no fault reaches": {"lost-reply", `local line, done, idle = {}, {}, 0 function start() later(function() while idle < 300 do local u = table.remove(line, 1) if not u then idle = idle + 1 think() else idle = 0 if pcall(sql, "insert into orders (user_id) values ($1)", u) then done[u] = true else table.insert(line, u) end end end end) end function buy(u) think() table.insert(line, u) for i = 1, 2000 do if done[u] then return true end think() end error("later") end`, true, false, lab.Failed + lab.StaysUnsold + lab.LostPromise},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, all := labtest.Seeds(t, true, 1); !all && !test.quick {
				t.Skip("MIAOSHA_LAB_SEEDS is not set")
			}
			e := exerciseOf(t, test.exercise)
			e.Checks = e.Checks[:1]
			e.Checks[0].Plan.Seconds, e.Checks[0].Baseline = lab.MaxSeconds, ""
			if strings.Contains(test.kind, lab.Failed) { // it waits for the end of its time
				e.Checks[0].Plan.Seconds = 5
			}
			if test.exercise == "lost-reply" {
				e.Checks[0].Plan.Stock = 200 // orders, of which some lose their reply
				e.Checks[0].Plan.Buyers = 200
			}
			p := program.Program{Language: program.Lua, Source: test.source}
			if !test.whole {
				p.Source = e.Wrong.Source + "\n" + test.source
			}
			r := judgeBribe(t, e, p, false)
			last := r.Checks[len(r.Checks)-1]
			for strings.HasPrefix(last.Result.Error, "all units were sold before the sale could be ended") { // so says the judge, and the student runs it again
				r = judgeBribe(t, e, p, false)
				last = r.Checks[len(r.Checks)-1]
			}
			if r.Solved {
				t.Errorf("solved: %s", labtest.Shown(last.Result))
			}
			if !strings.Contains(test.kind, last.Kind) && (test.whole || last.Kind == lab.Failed) { // a naive program is wrong in several ways, of which one shows first
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
		"sells-before-they-come": {"one-unit", []string{lab.Tampered}},                                                       // orders of buyers who have not come
		"writes-in-the-eye":      {"seats", []string{NoSeat}},                                                                // has the judge write the seats
		"works-in-start":         {"lost-reply", []string{lab.Failed + lab.Endless, lab.UnknownOutcome, lab.DoubleDelivery}}, // where no fault reached, and sleeps while the search goes on
	} {
		source, err := os.ReadFile("testdata/bribes/" + name + ".lua")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range Ladder() {
			for _, search := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/search %v", name, e.Name, search), func(t *testing.T) {
					t.Parallel()
					if _, all := labtest.Seeds(t, true, 1); !all && e.Name != test.exercise {
						t.Skip("MIAOSHA_LAB_SEEDS is not set")
					}
					labtest.ParallelRuns <- struct{}{}
					defer func() { <-labtest.ParallelRuns }()
					r, err := judge(t.Context(), labtest.Stores(t), e, program.Program{Language: program.Lua, Source: string(source)}, 1, search, nil)
					if err != nil {
						t.Fatal(err)
					}
					last := r.Checks[len(r.Checks)-1]
					kind := last.Kind
					if kind == lab.Failed {
						kind += last.Result.Problem
					}
					if r.Solved || e.Name == test.exercise && !slices.Contains(test.kinds, kind) {
						t.Errorf("solved %v, kind %q, want one of %v: %s", r.Solved, kind, test.kinds, labtest.Shown(last.Result))
					}
				})
			}
		}
	}
}
