package lab

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

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
	return withLimits(t.Context(), limits{Compile: soon, Statement: soon, Search: sandboxtest.Hang, Schedules: 300, Trial: soon})
}

func TestJudge(t *testing.T) {
	t.Parallel()
	plan := Plan{Buyers: 60, Stock: 10, DoubleClicks: 30, Seed: 1, Seconds: MaxSeconds}
	with := func(faults ...string) Plan {
		p := plan
		p.Faults = faults
		return p
	}
	crowd := func(faults ...string) Plan {
		p := with(faults...)
		p.CrowdOnly = true
		return p
	}
	failing := Plan{Buyers: 4, Stock: 2, Seed: 1, Seconds: 2, CrowdOnly: true} // the buyers try again until the time is up
	for name, test := range map[string]struct {
		program Program
		plan    Plan
		kind    string
		steps   []string // parts of the schedule's steps, or of the error
	}{
		"read, then write":   {Program{Lua, readThenWriteLua}, plan, LostUpdate, []string{"select stock", "update item set stock = 0"}},
		"guard and index":    {Program{Lua, guardUniqueLua}, plan, "", nil},
		"... under a kill":   {Program{Lua, guardUniqueLua}, with(Kill), "", nil},
		"... a lost reply":   {Program{Lua, guardUniqueLua}, with(LostReply), "", nil},
		"check, then act":    {Program{Lua, strings.Replace(readThenWriteLua, `stock = $1", r[1].stock - 1)`, `stock = stock - 1")`, 1)}, plan, CheckThenAct, nil},
		"a guard in SQL":     {Program{SQL, "-- buy\nupdate item set stock = stock - 1 where stock > 0;\n-- think\ninsert into orders (user_id) values (:user);"}, plan, DoubleDelivery, nil},
		"a transaction":      {Program{SQL, "-- prepare\ncreate unique index one on orders (user_id);\n-- buy\nbegin;\nupdate item set stock = stock - 1 where stock > 0;\ninsert into orders (user_id) values (:user) on conflict do nothing;\ncommit;"}, plan, "", nil},
		"a table's lock":     {Program{Lua, `function buy(u) local left = sql("select stock from item")[1].stock if left <= 0 then return false end think() return select(2, pcall(tx, function() sql("lock table item") sql("update item set stock = $1", left - 1) sql("insert into orders (user_id) values ($1)", u) end)) end`}, plan, LostUpdate, []string{"lock table"}},
		"an early promise":   {Program{Lua, `function prepare() redis("SET", key("left"), sql("select stock from item")[1].stock) end function buy(u) if redis("DECR", key("left")) < 0 then return false end later(function() sql("insert into orders (user_id) values ($1)", u) end) return true end`}, with(Kill), LostPromise, []string{"killed"}},
		"later in a later":   {Program{Lua, `function prepare() redis("SET", key("left"), sql("select stock from item")[1].stock) end function buy(u) local r = eval("if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then return 2 end if tonumber(redis.call('GET', KEYS[1])) < 1 then return 0 end redis.call('DECR', KEYS[1]) return redis.call('SADD', KEYS[2], ARGV[1])", {key("left"), key("seen")}, {u}) if r == 1 then later(function() later(function() sql("insert into orders (user_id) values ($1)", u) end) end) end return r ~= 0 end`}, plan, "", nil},
		"a token for each":   {Program{Lua, guardUniqueLua + `local once = buy function buy(u) repeat local token = u .. math.random(1e9) until redis("SET", key("lock"), token, "NX", "PX", 900) local yes = once(u) redis("DEL", key("lock")) return yes end`}, plan, "", nil},
		"a level in SQL":     {Program{SQL, "-- prepare\ncreate unique index one on orders (user_id);\n-- buy\nBEGIN ISOLATION LEVEL repeatable  read;\nupdate item set stock = stock - 1 where stock > 0;\ninsert into orders (user_id) values (:user) on conflict do nothing;\ncommit work;"}, plan, "", nil},
		"begin by hand":      {Program{Lua, `function buy(u) sql("begin") sql("commit") return true end`}, plan, Failed, []string{"tx(function"}},
		"values":             {Program{Lua, guardUniqueLua + `local own = prepare function prepare() own() local r = sql("select 1.5::numeric as n, '{1,2}'::int[] as l, interval '1 day' as i, 'a'::bytea as b, null as x, sum(1::bigint) as s")[1] assert(r.n == 1.5 and r.s == 1 and r.l[2] == 2 and r.b == "a" and r.x == nil, r.n) assert(r.i:find("1 day"), r.i) end`}, crowd(), "", nil},
		"returned":           {Program{Lua, guardUniqueLua + `local own = buy function buy(u) local yes = own(u) if yes then promise() end return yes end function cancel(u) tx(function() if sql("delete from orders where user_id = $1", u).affected == 0 then return false end sql("update item set stock = stock + 1") end) end`}, crowd(Cancel), "", nil},
		"a start":            {Program{Lua, guardUniqueLua + `function start() redis("GET", key("x")) end`}, crowd(RedisAway, LostReply), "", nil},
		"a start of its own": {Program{Lua, guardUniqueLua + `function start() tx(function() sql("select 1") end) end`}, with(Kill), "", nil},
		"a start that waits": {Program{Lua, guardUniqueLua + `function start() sql("update item set version = version + 1") end`}, with(Kill), "", nil},
		"a slow script":      {Program{Lua, strings.Replace(readThenWriteLua, "local r", `eval("for i = 1, 1000000 do end return 1") local r`, 1)}, plan, LostUpdate, nil},
		"a wrong prepare":    {Program{Lua, `function prepare() sql("create table orders (x int)") end function buy() return true end`}, crowd(), Failed, []string{BadRuntime, "already exists"}},
		"half of the work":   {Program{Lua, `function prepare() sql("create unique index one on orders (user_id)") end function buy(u) think() if sql("insert into orders (user_id) values ($1) on conflict do nothing", u).affected == 0 then return true end if sql("update item set stock = stock - 1 where stock > 0").affected == 1 then return true end sql("delete from orders where user_id = $1", u) return false end`}, with(Kill), PartialWrite, []string{"killed"}},
		"a wrong column":     {Program{Lua, "function buy(u)\n  think()\n  return sql('update item set stok = 1').affected == 1\nend"}, failing, Failed, []string{BadRuntime, "line 3: ERROR"}},
		"always an error":    {Program{Lua, `function buy() think() error("my own") end`}, failing, Failed, []string{BadRuntime, "my own"}},
		"told no":            {Program{Lua, guardUniqueLua + `local own = buy function buy(u) own(u) return false end`}, plan, DeniedOrder, []string{"no"}},
		"... in the crowd":   {Program{Lua, guardUniqueLua + `local own = buy function buy(u) own(u) return false end`}, crowd(), DeniedOrder, nil},
		"a lock expires":     {Program{Lua, `function prepare() sql("create unique index one on orders (user_id)") end function buy(u) while not redis("SET", key("lock"), u, "NX", "PX", 150) do think() end local stock = sql("select stock from item")[1].stock local yes = stock > 0 or #sql("select from orders where user_id = $1", u) > 0 if stock > 0 and sql("insert into orders (user_id) values ($1) on conflict do nothing", u).affected == 1 then sql("update item set stock = $1", stock - 1) end redis("DEL", key("lock")) return yes end`}, plan, LostUpdate, []string{"time passes: keys in Redis expire"}},
		"the other's unit":   {Program{Lua, `function prepare() sql("create unique index one on orders (user_id)") redis("SET", key("stock"), sql("select stock from item")[1].stock) end function buy(u) if redis("DECR", key("stock")) < 0 then return false end sql("insert into orders (user_id) values ($1) on conflict do nothing", u) return true end`}, plan, StaysUnsold, []string{"DECR"}},
		"not Lua":            {Program{Lua, "function buy("}, plan, Failed, nil},
		"no buy":             {Program{Lua, "function sell() end"}, plan, Failed, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results, err := Judge(patient(t), stores(t), test.program, []Plan{test.plan}, nil)
			if err != nil {
				t.Fatal(err)
			}
			r := results[0]
			if r.Kind != test.kind || r.Right != (test.kind == "") {
				t.Errorf("kind %q, right %v, %s, want %q: %+v, %+v", r.Kind, r.Right, r.Error, test.kind, r.Schedule, r.Steps)
			}
			if test.kind != "" && test.kind != Failed && r.Schedule == nil && !test.plan.CrowdOnly {
				t.Error("no schedule shows it")
			}
			if i := slices.IndexFunc(r.Steps, func(s ScheduleStep) bool { return s.Line < 0 || s.Line == 0 && s.Text == "begin" }); i >= 0 {
				t.Errorf("a step without its line: %+v", r.Steps[i])
			}
			if slices.ContainsFunc(r.Steps, func(s ScheduleStep) bool { return s.Kind == "redis" && s.Waited }) {
				t.Errorf("a call of Redis waits for another buyer: %+v", r.Steps)
			}
			for _, want := range test.steps {
				if !strings.Contains(r.Problem+" "+r.Error, want) && !slices.ContainsFunc(r.Steps, func(s ScheduleStep) bool { return strings.Contains(s.Text, want) }) {
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
	l := limitsIn(patient(t))
	l.Schedules = 12
	ctx := withLimits(t.Context(), l)
	plan := Plan{Buyers: 60, Stock: 30, Seed: 1, Seconds: MaxSeconds, Faults: []string{Cancel}}
	for name, test := range map[string]struct{ cancel, kind string }{
		"the order goes and the unit comes back": {"function cancel(user) return tx(function() if sql('delete from orders where user_id = $1', user).affected == 0 then return false end sql('update item set stock = stock + 1') end) end", ""},
		"nothing":                                {"function cancel(user) return true end", StaysUnsold},
		"no function":                            {"", StaysUnsold},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results, err := Judge(ctx, stores(t), Program{Lua, guardUniqueLua + "\n" + test.cancel}, []Plan{plan}, nil)
			if err != nil {
				t.Fatal(err)
			}
			r := results[0]
			if r.Kind != test.kind || r.Right != (test.kind == "") || r.Sold != plan.Stock {
				t.Errorf("kind %q, want %q: %s", r.Kind, test.kind, shown(r))
			}
			isCancel := func(s ScheduleStep) bool { return s.Text == "cancel" && s.Buyer == 1 }
			if wrong := test.kind != ""; (r.Schedule != nil) != wrong || slices.ContainsFunc(r.Steps, isCancel) != wrong {
				t.Errorf("a schedule in which a buyer cancels is wanted: %v; %s, %+v", wrong, shown(r), r.Steps)
			}
		})
	}
}

// The end of the caller is no fault of the program.
func TestJudgeEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(patient(t))
	defer cancel()
	plan := Plan{Buyers: 2, Stock: 1, Seconds: MaxSeconds, CrowdOnly: true}
	source := "function buy(user) while true do end end"
	if results, err := Judge(ctx, stores(t), Program{Lua, source}, []Plan{plan}, func(Progress) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %+v", err, results)
	}
}

// The many schedules with two switches do not take the time of a double click with one.
func TestADoubleClickIsSearchedEarly(t *testing.T) {
	t.Parallel()
	program := Program{Lua, `function buy(user)
  sql("select 1")
  if #sql("select 1 from orders where user_id = $1", user) > 0 then return true end
  return tx(function()
    if sql("update item set stock = stock - 1 where stock > 0").affected == 0 then return false end
    sql("insert into orders (user_id) values ($1)", user)
  end)
end`}
	l := limitsIn(patient(t))
	l.Schedules = 30 // those of two buyers with two switches are more
	ctx := withLimits(t.Context(), l)
	results, err := Judge(ctx, stores(t), program, []Plan{{Buyers: 10, Stock: 5, DoubleClicks: 50, Seconds: MaxSeconds}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := results[0]
	if r.Kind != DoubleDelivery || r.Schedule == nil || r.Schedule.Switches != 1 || r.Schedule.Clicks != OneBuyer {
		t.Errorf("kind %q, want a double click with one switch: %s", r.Kind, shown(r))
	}
}
