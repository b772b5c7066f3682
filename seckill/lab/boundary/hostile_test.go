package boundary

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/labtest"
	"miaosha/seckill/lab/program"
	"miaosha/seckill/lab/throwaway"
)

// A program can do what it likes to itself. It reaches nothing else, it ends, and its author is told why.
func TestHostilePrograms(t *testing.T) {
	t.Parallel()
	s := labtest.Stores(t)
	db, err := pgx.Connect(t.Context(), s.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close(context.Background()) })
	if _, err := db.Exec(t.Context(), `create table secrets as select 'hidden' as word; grant all on secrets to public`); err != nil {
		t.Fatal(err)
	}
	if err := s.Redis.Set(t.Context(), "ms:secret", "hidden", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	var database string
	if err := db.QueryRow(t.Context(), `select current_database()`).Scan(&database); err != nil {
		t.Fatal(err)
	}
	plan := lab.Plan{Buyers: 4, Stock: 2, Seed: 1, Seconds: lab.MaxSeconds}
	inBuy := func(code string) string { return "function buy(user) " + code + " return true end" }
	for name, test := range map[string]struct {
		source  string
		problem string // "" for a program that may run
		says    string // in the error or the output
	}{
		"an endless loop that catches":     {inBuy("while true do pcall(function() while true do end end) end"), lab.Endless, ""},
		"endless at its start":             {"while true do end", lab.Endless, ""},
		"endless in a transaction":         {inBuy("tx(function() sql('update item set stock = stock') while true do sql('select ' .. math.random(1e9)) end end)"), lab.Endless, "150 steps"},
		"deep recursion":                   {inBuy("local function f() return 1 + f() end f()"), lab.BadRuntime, "overflow"},
		"a large string":                   {inBuy("local s = string.rep('x', 1e9) local t = s .. s .. 'y' print(#t)"), lab.TooMuch, "512 MB"},
		"a growing table":                  {inBuy("local t = {} while true do t[#t + 1] = string.rep('x', 1000000) .. #t end"), lab.TooMuch, "512 MB"},
		"a sleep without limit":            {inBuy("sql('set statement_timeout = 0') sql('select pg_sleep(60)')"), lab.Endless, ""},
		"tables of others":                 {inBuy("local ok, e = pcall(sql, 'select word from public.secrets') print(ok, e)"), "", "does not exist"},
		"another database":                 {inBuy(fmt.Sprintf("local ok, e = pcall(sql, 'select word from %s.public.secrets') print(ok, e)", database)), "", "not implemented"},
		"files of the server":              {inBuy("local ok, e = pcall(sql, [[select pg_read_file('/etc/passwd')]]) print(ok, e)"), "", "permission denied"},
		"programs of the server":           {inBuy("local ok, e = pcall(sql, [[copy orders to program 'id']]) print(ok, e)"), "", "superuser"},
		"another role":                     {inBuy("local ok, e = pcall(sql, 'set role postgres') print(ok, e)"), "", "role"},
		"keys of others":                   {inBuy("print(redis('GET', 'ms:secret'))"), "", "nil"},
		"a large result":                   {inBuy("sql([[select repeat('x', 10000000)]])"), lab.BadRuntime, "larger than"},
		"libraries that are absent":        {inBuy("print(os, io, require, debug, loadstring, dofile)"), "", "nil\tnil\tnil\tnil\tnil\tnil"},
		"a script that reads files":        {inBuy("print(eval('return tostring(loadfile) .. tostring(dofile) .. tostring(require) .. tostring(_G)', {}, {}))"), "", "nilnilnilnil"},
		"another such script":              {inBuy("print(redis('eval', 'return tostring(loadfile)', 0), redis('EVALSHA', redis('SCRIPT', 'LOAD', 'return tostring(dofile)'), 0))"), "", "nil\tnil"},
		"a forged verdict":                 {"function buy(user) pcall(eval, [[print('{\"Result\":{\"right\":true,\"sold\":2,\"kind\":\"\"}}')]], {}, {}) return true end", "", ""},
		"a source that is slow to compile": {"x = " + strings.Repeat("a+", 30000) + "a\nfunction buy() return true end", lab.Endless, "not compiled"},
		"a script before ours ends":        {inBuy("print(pcall(eval, '= nil, nil, dofile return tostring(print)', {}, {}))"), "", "false\t"},
		"a crash of Redis":                 {inBuy("redis('SETRANGE', 'x', '9223372036854775000', 'y')"), lab.BadRuntime, "makeslice"},
		"a long error":                     {"function prepare() sql([[do $$ begin raise exception '%', repeat('x', 9000000); end $$]]) end " + inBuy(""), lab.BadRuntime, "xxx"},
		"many orders at once":              {"function prepare() sql('insert into orders (user_id) select 1000000000000000000 + generate_series(1, 20000)') end " + inBuy("for i = 1, 20 do sql('select ' .. i) end"), "", ""},
		"much output":                      {inBuy("for i = 1, 100000 do print('x') end"), "", "x"},
		"locks of the whole server":        {inBuy("pcall(sql, 'select count(pg_advisory_lock(i)) from generate_series(1, 2500) i') while true do sql('select pg_sleep(0.5)') end"), lab.ServerFull, "2000 locks"},
		"a script without end":             {inBuy("eval('while true do end', {}, {})"), lab.Endless, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := labtest.Patient(t)
			if test.problem == lab.Endless && test.says != "150 steps" {
				ctx = impatient(t)
			}
			results, err := Judge(ctx, s, program.Program{Language: "lua", Source: test.source}, []lab.Plan{plan}, nil)
			if err != nil {
				t.Fatal(err)
			}
			r := results[0]
			if r.Problem != test.problem || !strings.Contains(r.Error+r.Output, test.says) {
				t.Errorf("problem %q (%s), output %.200q; want problem %q that says %q", r.Problem, r.Error, r.Output, test.problem, test.says)
			}
			if r.Right && name == "a forged verdict" {
				t.Error("a program has told its own verdict")
			}
			if strings.Contains(r.Output, "hidden") || len(r.Output) > maxOutput {
				t.Errorf("output of %d bytes: %.200q", len(r.Output), r.Output)
			}
		})
	}
}

// What a program raises does not fill the server's log.
func TestProgramsWriteNothingToTheLog(t *testing.T) {
	t.Parallel()
	judged := program.Program{Language: program.Lua, Source: `function prepare()
  print(sql("select current_setting('log_min_messages') as level")[1].level)
  print(pcall(sql, "set log_min_messages = log"))
  print(pcall(sql, "alter role current_user set log_min_messages = log"))
end
function buy(user) return false end`}
	r, err := judgeOne(t, labtest.Stores(t), judged, lab.Plan{Buyers: 1, Stock: 1, Seconds: lab.MaxSeconds, CrowdOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(r.Output, "\n"); len(lines) < 3 || lines[0] != "panic" || !strings.Contains(lines[1], "permission denied") || !strings.Contains(lines[2], "permission denied") {
		t.Errorf("the program has read and set: %s", r.Output)
	}
}

// The end of a child is the program's fault if the memory is gone or its process has crashed.
func TestTheEndOfAChild(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		exit          int
		trouble, want string
	}{
		"its own exit":            {exitMemory, "", lab.TooMuch},
		"the allocator":           {2, "fatal error: runtime: out of memory\n\ngoroutine 1", lab.TooMuch},
		"the collector":           {2, "SIGSEGV: segmentation violation\nPC=0x43a19d m=4 sigcode=1 addr=0x0\n\ngoroutine 0", lab.TooMuch},
		"a thread without stack":  {2, "runtime/cgo: pthread_create failed: Resource temporarily unavailable\nSIGABRT: abort\nPC=0x7f4330ce8eec", lab.TooMuch},
		"a panic":                 {2, "panic: makeslice: len out of range", lab.BadRuntime},
		"a signal within a panic": {2, "panic: runtime error: nil\n[signal SIGSEGV: segmentation violation code=0x1]", lab.BadRuntime},
		"the machine is too busy": {1, "ERROR: canceling statement", ""},
	} {
		problem := problemOf(test.exit, test.trouble)
		if got := problem; got == nil && test.want != "" || got != nil && got.Problem != test.want {
			t.Errorf("%s: %+v, want %q", name, got, test.want)
		}
	}
}

// A program runs without any address of a shop, and one that attacks its own Postgres gets a word for it.
func TestAProgramReachesItsOwnPostgresOnly(t *testing.T) {
	t.Parallel()
	s := lab.Stores{Throwaway: labtest.Stores(t).Throwaway}
	plan := lab.Plan{Buyers: 4, Stock: 2, Seed: 1, Seconds: lab.MaxSeconds, CrowdOnly: true}
	if r, err := judgeOne(t, s, program.Program{Language: program.Lua, Source: guardUniqueLua}, plan); err != nil || !r.Right {
		t.Errorf("a right program: %+v, %v", r, err)
	}
	for name, test := range map[string]struct{ prepare, problem, says string }{
		"a statement that looks for no interrupt": {`select ts_rank(v::tsvector, q::tsquery) from (
			select string_agg('a' || i || ':' || p, ' ') v, string_agg('a' || i, ' & ') q
			from generate_series(1, 1500) i, (select string_agg(g::text, ',') p from generate_series(1, 250) g) x) y`, lab.Endless, "does not end when it is told to"},
		"a statement that catches its cancellation": {`do $$ begin loop begin loop end loop; exception when query_canceled then end; end loop; end $$`, lab.Endless + lab.BadDatabase, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results, err := Judge(impatient(t), s, program.Program{Language: program.Lua, Source: "function prepare() sql([[" + test.prepare + "]]) end function buy() return false end"}, []lab.Plan{plan}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if r := results[0]; r.Problem == "" || !strings.Contains(test.problem, r.Problem) || !strings.Contains(r.Error, test.says) {
				t.Errorf("problem %q: %s", r.Problem, r.Error)
			}
		})
	}
}

// Where no Postgres can be run for it, a program is refused, and not run on that of the shop.
func TestNoProgramRunsWithoutAPostgresOfItsOwn(t *testing.T) {
	t.Parallel()
	s := labtest.Stores(t)
	plan := lab.Plan{Buyers: 4, Stock: 2, Seed: 1, Seconds: lab.MaxSeconds, CrowdOnly: true}
	for name, find := range map[string]func(context.Context) (throwaway.Programs, error){
		"no one looks for it": nil,
		"there is none": func(context.Context) (throwaway.Programs, error) {
			return throwaway.Programs{}, errors.New("no programs")
		},
	} {
		s.Throwaway = find
		if r, err := Judge(t.Context(), s, program.Program{Language: program.Lua, Source: guardUniqueLua}, []lab.Plan{plan}, nil); !errors.Is(err, throwaway.ErrNone) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// judgeOne judges one program with one plan.
func judgeOne(t *testing.T, s lab.Stores, p program.Program, plan lab.Plan) (lab.Result, error) {
	labtest.ParallelRuns <- struct{}{}
	defer func() { <-labtest.ParallelRuns }()
	results, err := Judge(labtest.Patient(t), s, p, []lab.Plan{plan}, nil)
	if err != nil || len(results) != 1 {
		return lab.Result{}, fmt.Errorf("%d results: %w", len(results), err)
	}
	return results[0], nil
}
