package boundary

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/labtest"
	"miaosha/seckill/lab/program"
	"miaosha/seckill/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(Child) != "" { // the tests start programs in children of themselves
		RunChild()
	}
	sandboxtest.Main(m)
}

const readThenWriteLua = `
function buy(user)
  local r = sql("select stock from item")
  if r[1].stock <= 0 then return false end
  think()
  sql("update item set stock = $1", r[1].stock - 1)
  sql("insert into orders (user_id) values ($1)", user)
  return true
end`

const guardUniqueLua = `
function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
end
function buy(user)
  think()
  return tx(function()
    local r = sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
    if r.affected == 0 then return true end
    return sql("update item set stock = stock - 1 where stock > 0").affected == 1
  end)
end
`

// impatient returns a context in which a program without an end is soon known as one.
func impatient(t *testing.T) context.Context {
	const soon = 300 * time.Millisecond
	return program.WithLimits(t.Context(), program.Limits{Compile: soon, Statement: soon, Search: sandboxtest.Hang, Schedules: 300, Trial: soon})
}

func TestJudge(t *testing.T) {
	t.Parallel()
	plan := lab.Plan{Buyers: 60, Stock: 10, DoubleClicks: 30, Seed: 1, Seconds: lab.MaxSeconds}
	with := func(faults ...string) lab.Plan {
		p := plan
		p.Faults = faults
		return p
	}
	crowd := func(faults ...string) lab.Plan {
		p := with(faults...)
		p.CrowdOnly = true
		return p
	}
	failing := lab.Plan{Buyers: 4, Stock: 2, Seed: 1, Seconds: 2, CrowdOnly: true} // the buyers try again until the time is up
	for name, test := range map[string]struct {
		program program.Program
		plan    lab.Plan
		kind    string
		steps   []string // parts of the schedule's steps, or of the error
	}{
		"read, then write":   {program.Program{Language: program.Lua, Source: readThenWriteLua}, plan, lab.LostUpdate, []string{"select stock", "update item set stock = 0"}},
		"guard and index":    {program.Program{Language: program.Lua, Source: guardUniqueLua}, plan, "", nil},
		"... under a kill":   {program.Program{Language: program.Lua, Source: guardUniqueLua}, with(lab.Kill), "", nil},
		"... a lost reply":   {program.Program{Language: program.Lua, Source: guardUniqueLua}, with(lab.LostReply), "", nil},
		"check, then act":    {program.Program{Language: program.Lua, Source: strings.Replace(readThenWriteLua, `stock = $1", r[1].stock - 1)`, `stock = stock - 1")`, 1)}, plan, lab.CheckThenAct, nil},
		"a guard in SQL":     {program.Program{Language: program.SQL, Source: "-- buy\nupdate item set stock = stock - 1 where stock > 0;\n-- think\ninsert into orders (user_id) values (:user);"}, plan, lab.DoubleDelivery, nil},
		"a transaction":      {program.Program{Language: program.SQL, Source: "-- prepare\ncreate unique index one on orders (user_id);\n-- buy\nbegin;\nupdate item set stock = stock - 1 where stock > 0;\ninsert into orders (user_id) values (:user) on conflict do nothing;\ncommit;"}, plan, "", nil},
		"a table's lock":     {program.Program{Language: program.Lua, Source: `function buy(u) local left = sql("select stock from item")[1].stock if left <= 0 then return false end think() return select(2, pcall(tx, function() sql("lock table item") sql("update item set stock = $1", left - 1) sql("insert into orders (user_id) values ($1)", u) end)) end`}, plan, lab.LostUpdate, []string{"lock table"}},
		"an early promise":   {program.Program{Language: program.Lua, Source: `function prepare() redis("SET", key("left"), sql("select stock from item")[1].stock) end function buy(u) if redis("DECR", key("left")) < 0 then return false end later(function() sql("insert into orders (user_id) values ($1)", u) end) return true end`}, with(lab.Kill), lab.LostPromise, []string{"killed"}},
		"later in a later":   {program.Program{Language: program.Lua, Source: `function prepare() redis("SET", key("left"), sql("select stock from item")[1].stock) end function buy(u) local r = eval("if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then return 2 end if tonumber(redis.call('GET', KEYS[1])) < 1 then return 0 end redis.call('DECR', KEYS[1]) return redis.call('SADD', KEYS[2], ARGV[1])", {key("left"), key("seen")}, {u}) if r == 1 then later(function() later(function() sql("insert into orders (user_id) values ($1)", u) end) end) end return r ~= 0 end`}, plan, "", nil},
		"a token for each":   {program.Program{Language: program.Lua, Source: guardUniqueLua + `local once = buy function buy(u) repeat local token = u .. math.random(1e9) until redis("SET", key("lock"), token, "NX", "PX", 900) local yes = once(u) redis("DEL", key("lock")) return yes end`}, plan, "", nil},
		"a level in SQL":     {program.Program{Language: program.SQL, Source: "-- prepare\ncreate unique index one on orders (user_id);\n-- buy\nBEGIN ISOLATION LEVEL repeatable  read;\nupdate item set stock = stock - 1 where stock > 0;\ninsert into orders (user_id) values (:user) on conflict do nothing;\ncommit work;"}, plan, "", nil},
		"begin by hand":      {program.Program{Language: program.Lua, Source: `function buy(u) sql("begin") sql("commit") return true end`}, plan, lab.Failed, []string{"tx(function"}},
		"values":             {program.Program{Language: program.Lua, Source: guardUniqueLua + `local own = prepare function prepare() own() local r = sql("select 1.5::numeric as n, '{1,2}'::int[] as l, interval '1 day' as i, 'a'::bytea as b, null as x, sum(1::bigint) as s")[1] assert(r.n == 1.5 and r.s == 1 and r.l[2] == 2 and r.b == "a" and r.x == nil, r.n) assert(r.i:find("1 day"), r.i) end`}, crowd(), "", nil},
		"returned":           {program.Program{Language: program.Lua, Source: guardUniqueLua + `local own = buy function buy(u) local yes = own(u) if yes then promise() end return yes end function cancel(u) tx(function() if sql("delete from orders where user_id = $1", u).affected == 0 then return false end sql("update item set stock = stock + 1") end) end`}, crowd(lab.Cancel), "", nil},
		"a start":            {program.Program{Language: program.Lua, Source: guardUniqueLua + `function start() redis("GET", key("x")) end`}, crowd(lab.RedisAway, lab.LostReply), "", nil},
		"a start of its own": {program.Program{Language: program.Lua, Source: guardUniqueLua + `function start() tx(function() sql("select 1") end) end`}, with(lab.Kill), "", nil},
		"a start that waits": {program.Program{Language: program.Lua, Source: guardUniqueLua + `function start() sql("update item set version = version + 1") end`}, with(lab.Kill), "", nil},
		"a slow script":      {program.Program{Language: program.Lua, Source: strings.Replace(readThenWriteLua, "local r", `eval("for i = 1, 1000000 do end return 1") local r`, 1)}, plan, lab.LostUpdate, nil},
		"a wrong prepare":    {program.Program{Language: program.Lua, Source: `function prepare() sql("create table orders (x int)") end function buy() return true end`}, crowd(), lab.Failed, []string{lab.BadRuntime, "already exists"}},
		"half of the work":   {program.Program{Language: program.Lua, Source: `function prepare() sql("create unique index one on orders (user_id)") end function buy(u) think() if sql("insert into orders (user_id) values ($1) on conflict do nothing", u).affected == 0 then return true end if sql("update item set stock = stock - 1 where stock > 0").affected == 1 then return true end sql("delete from orders where user_id = $1", u) return false end`}, with(lab.Kill), lab.PartialWrite, []string{"killed"}},
		"a wrong column":     {program.Program{Language: program.Lua, Source: "function buy(u)\n  think()\n  return sql('update item set stok = 1').affected == 1\nend"}, failing, lab.Failed, []string{lab.BadRuntime, "line 3: ERROR"}},
		"always an error":    {program.Program{Language: program.Lua, Source: `function buy() think() error("my own") end`}, failing, lab.Failed, []string{lab.BadRuntime, "my own"}},
		"told no":            {program.Program{Language: program.Lua, Source: guardUniqueLua + `local own = buy function buy(u) own(u) return false end`}, plan, lab.DeniedOrder, []string{"no"}},
		"... in the crowd":   {program.Program{Language: program.Lua, Source: guardUniqueLua + `local own = buy function buy(u) own(u) return false end`}, crowd(), lab.DeniedOrder, nil},
		"a lock expires":     {program.Program{Language: program.Lua, Source: `function prepare() sql("create unique index one on orders (user_id)") end function buy(u) while not redis("SET", key("lock"), u, "NX", "PX", 150) do think() end local stock = sql("select stock from item")[1].stock local yes = stock > 0 or #sql("select from orders where user_id = $1", u) > 0 if stock > 0 and sql("insert into orders (user_id) values ($1) on conflict do nothing", u).affected == 1 then sql("update item set stock = $1", stock - 1) end redis("DEL", key("lock")) return yes end`}, plan, lab.LostUpdate, []string{"time passes: keys in Redis expire"}},
		"the other's unit":   {program.Program{Language: program.Lua, Source: `function prepare() sql("create unique index one on orders (user_id)") redis("SET", key("stock"), sql("select stock from item")[1].stock) end function buy(u) if redis("DECR", key("stock")) < 0 then return false end sql("insert into orders (user_id) values ($1) on conflict do nothing", u) return true end`}, plan, lab.StaysUnsold, []string{"DECR"}},
		"not Lua":            {program.Program{Language: program.Lua, Source: "function buy("}, plan, lab.Failed, nil},
		"no buy":             {program.Program{Language: program.Lua, Source: "function sell() end"}, plan, lab.Failed, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results, err := Judge(labtest.Patient(t), labtest.Stores(t), test.program, []lab.Plan{test.plan}, nil)
			if err != nil {
				t.Fatal(err)
			}
			r := results[0]
			if r.Kind != test.kind || r.Right != (test.kind == "") {
				t.Errorf("kind %q, right %v, %s, want %q: %+v, %+v", r.Kind, r.Right, r.Error, test.kind, r.Schedule, r.Steps)
			}
			if test.kind != "" && test.kind != lab.Failed && r.Schedule == nil && !test.plan.CrowdOnly {
				t.Error("no schedule shows it")
			}
			if i := slices.IndexFunc(r.Steps, func(s lab.ScheduleStep) bool { return s.Line < 0 || s.Line == 0 && s.Text == "begin" }); i >= 0 {
				t.Errorf("a step without its line: %+v", r.Steps[i])
			}
			if slices.ContainsFunc(r.Steps, func(s lab.ScheduleStep) bool { return s.Kind == "redis" && s.Waited }) {
				t.Errorf("a call of Redis waits for another buyer: %+v", r.Steps)
			}
			for _, want := range test.steps {
				if !strings.Contains(r.Problem+" "+r.Error, want) && !slices.ContainsFunc(r.Steps, func(s lab.ScheduleStep) bool { return strings.Contains(s.Text, want) }) {
					t.Errorf("no step %q: %+v", want, r.Steps)
				}
			}
		})
	}
}

// A buyer who has cancelled has no order any more. A program whose cancel does nothing has not sold that unit again, neither in the
// crowd nor in a schedule, in which the first buyer cancels and the other one presses again.
func TestCancelledOrdersAreNoSales(t *testing.T) {
	t.Parallel()
	l := program.LimitsIn(labtest.Patient(t))
	l.Schedules = 12
	ctx := program.WithLimits(t.Context(), l)
	plan := lab.Plan{Buyers: 60, Stock: 30, Seed: 1, Seconds: lab.MaxSeconds, Faults: []string{lab.Cancel}}
	for name, test := range map[string]struct{ cancel, kind string }{
		"the order goes and the unit comes back": {"function cancel(user) return tx(function() if sql('delete from orders where user_id = $1', user).affected == 0 then return false end sql('update item set stock = stock + 1') end) end", ""},
		"nothing":                                {"function cancel(user) return true end", lab.StaysUnsold},
		"no function":                            {"", lab.StaysUnsold},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results, err := Judge(ctx, labtest.Stores(t), program.Program{Language: program.Lua, Source: guardUniqueLua + "\n" + test.cancel}, []lab.Plan{plan}, nil)
			if err != nil {
				t.Fatal(err)
			}
			r := results[0]
			if r.Kind != test.kind || r.Right != (test.kind == "") || r.Sold != plan.Stock {
				t.Errorf("kind %q, want %q: %s", r.Kind, test.kind, labtest.Shown(r))
			}
			isCancel := func(s lab.ScheduleStep) bool { return s.Text == "cancel" && s.Buyer == 1 }
			if wrong := test.kind != ""; (r.Schedule != nil) != wrong || slices.ContainsFunc(r.Steps, isCancel) != wrong {
				t.Errorf("a schedule in which a buyer cancels is wanted: %v; %s, %+v", wrong, labtest.Shown(r), r.Steps)
			}
		})
	}
}

// The end of the caller is no fault of the program.
func TestJudgeEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(labtest.Patient(t))
	defer cancel()
	plan := lab.Plan{Buyers: 2, Stock: 1, Seconds: lab.MaxSeconds, CrowdOnly: true}
	source := "function buy(user) while true do end end"
	if results, err := Judge(ctx, labtest.Stores(t), program.Program{Language: program.Lua, Source: source}, []lab.Plan{plan}, func(lab.Progress) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %+v", err, results)
	}
}

// The many schedules with two switches do not take the time of a double click with one.
func TestADoubleClickIsSearchedEarly(t *testing.T) {
	t.Parallel()
	judged := program.Program{Language: program.Lua, Source: `function buy(user)
  sql("select 1")
  if #sql("select 1 from orders where user_id = $1", user) > 0 then return true end
  return tx(function()
    if sql("update item set stock = stock - 1 where stock > 0").affected == 0 then return false end
    sql("insert into orders (user_id) values ($1)", user)
  end)
end`}
	l := program.LimitsIn(labtest.Patient(t))
	l.Schedules = 30 // those of two buyers with two switches are more
	ctx := program.WithLimits(t.Context(), l)
	results, err := Judge(ctx, labtest.Stores(t), judged, []lab.Plan{{Buyers: 10, Stock: 5, DoubleClicks: 50, Seconds: lab.MaxSeconds}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := results[0]
	if r.Kind != lab.DoubleDelivery || r.Schedule == nil || r.Schedule.Switches != 1 || r.Schedule.Clicks != lab.OneBuyer {
		t.Errorf("kind %q, want a double click with one switch: %s", r.Kind, labtest.Shown(r))
	}
}
