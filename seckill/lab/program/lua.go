package program

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	glua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"miaosha/seckill/lab"
)

// Compile returns the code of a program. Its error names the line.
func Compile(p Program) (*glua.FunctionProto, error) {
	source := p.Source
	if p.Language == SQL {
		var err error
		if source, err = luaOfSQL(source); err != nil {
			return nil, err
		}
	}
	chunk, err := parse.Parse(strings.NewReader(source), "program")
	if err != nil {
		return nil, errors.New(strings.TrimSpace(err.Error()))
	}
	return glua.Compile(chunk, "program")
}

// calls is what the functions of a program reach during one click. line is that of the source.
type calls interface {
	Query(ctx context.Context, line int, text string, args []any) (*Table, error)
	Begin(ctx context.Context, line int, isolation string) error
	End(ctx context.Context, line int, commit bool) error
	Command(ctx context.Context, line int, args []any) (any, error)
	Think(ctx context.Context, line int) error
	Promise(ctx context.Context, line int) error
	Lock(ctx context.Context, line int, name string) (unlock func(), err error)
	Later(do func(context.Context) error)
	Key(name string) string
}

// clickCalls belongs to a thread: the calls of its click, and the error of the last one that failed.
type clickCalls struct {
	calls
	failed error
	line   int // of the call that failed; 0 if it is not known
}

type clickKey struct{}

// clickOf returns the calls of the click in whose thread a function runs. It raises an error outside of a click.
func clickOf(l *glua.LState) *clickCalls {
	c, _ := l.Context().Value(clickKey{}).(*clickCalls)
	if c == nil || c.calls == nil {
		l.RaiseError("only the functions of the program can do this")
	}
	return c
}

// VM is one process of a program's shop: its globals belong to all clicks of the process. Each click has a Lua thread
// of its own. One thread at a time runs. It holds mu, and lets it go while it waits for something outside.
type VM struct {
	mu    sync.Mutex
	state *glua.LState
	print func(text string)
	rng   *rand.Rand

	locking sync.Mutex
	locks   map[string]Lock
}

// LockOf returns the lock of this name.
func (v *VM) LockOf(name string) Lock {
	v.locking.Lock()
	defer v.locking.Unlock()
	if v.locks[name] == nil {
		v.locks[name] = make(Lock, 1)
	}
	return v.locks[name]
}

// OpenVM runs the code, which defines the functions of a program.
func OpenVM(ctx context.Context, code *glua.FunctionProto, seed uint64, print func(string)) (*VM, error) {
	v := &VM{print: print, rng: rand.New(rand.NewPCG(seed, 1)), locks: map[string]Lock{}}
	v.state = glua.NewState(glua.Options{SkipOpenLibs: true, RegistrySize: 512, RegistryMaxSize: 64 << 10,
		CallStackSize: 160, MinimizeStackMemory: true})
	for _, lib := range []struct {
		name string
		open glua.LGFunction
	}{{glua.BaseLibName, glua.OpenBase}, {glua.TabLibName, glua.OpenTable}, {glua.StringLibName,
		glua.OpenString}, {glua.MathLibName, glua.OpenMath}} {
		v.state.Push(v.state.NewFunction(lib.open))
		v.state.Push(glua.LString(lib.name))
		v.state.Call(1, 0)
	}
	for _, name := range []string{"dofile", "loadfile", "load", "loadstring", "require", "module", "newproxy",
		"collectgarbage", "_printregs", "getfenv", "setfenv"} {
		v.state.SetGlobal(name, glua.LNil)
	}
	math := v.state.GetGlobal("math").(*glua.LTable)
	math.RawSetString("randomseed", glua.LNil)
	math.RawSetString("random", v.state.NewFunction(v.random))
	for name, f := range map[string]glua.LGFunction{"sql": v.sql, "tx": v.tx, "redis": v.redis, "eval": v.eval,
		"key": v.key, "think": v.think,
		"promise": v.promise, "lock": v.lock, "later": v.later, "print": v.prints} {
		v.state.SetGlobal(name, v.state.NewFunction(f))
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	_, err := v.run(ctx, nil, v.state.NewFunctionFromProto(code))
	return v, err
}

// Call calls a function of the program. It reports whether the program has it, and its first result.
func (v *VM) Call(
	ctx context.Context, c calls, name string, args ...glua.LValue,
) (result glua.LValue, found bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f, ok := v.state.GetGlobal(name).(*glua.LFunction)
	if !ok {
		return glua.LNil, false, nil
	}
	result, err = v.run(ctx, c, f, args...)
	return result, true, err
}

// Has reports whether the program has a function of this name.
func (v *VM) Has(name string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.state.GetGlobal(name).Type() == glua.LTFunction
}

// Error is an error that no call outside raised: the program itself is wrong.
type Error struct{ Text string }

func (e Error) Error() string { return e.Text }

// run runs a function in a thread of its own. The caller holds mu.
func (v *VM) run(ctx context.Context, c calls, f *glua.LFunction, args ...glua.LValue) (glua.LValue, error) {
	thread, cancel := v.state.NewThread()
	if cancel != nil {
		defer cancel()
	}
	click := &clickCalls{calls: c}
	thread.SetContext(context.WithValue(ctx, clickKey{}, click))
	if err := thread.CallByParam(glua.P{Fn: f, NRet: 1, Protect: true}, args...); err != nil {
		if ctx.Err() != nil {
			return glua.LNil, context.Cause(ctx)
		}
		text := err.Error()
		if api := new(glua.ApiError); errors.As(err, &api) && api.Object != nil && api.Object != glua.LNil {
			text = api.Object.String()
		}
		if click.failed != nil && strings.Contains(text, click.failed.Error()) {
			return glua.LNil, click.located()
		}
		return glua.LNil, Error{lab.OneLine(text)}
	}
	return thread.Get(-1), nil
}

// outside lets other threads of the process run while do waits for Postgres, Redis or time. It raises the error of do.
func (v *VM) outside(l *glua.LState, do func(ctx context.Context, c calls, line int) error) {
	c := clickOf(l)
	line := lineOf(l)
	var err error
	func() {
		v.mu.Unlock()
		defer v.mu.Lock()
		err = do(l.Context(), c.calls, line)
	}()
	if err != nil {
		c.failed, c.line = err, line
		l.RaiseError("%v", err)
	}
}

// located returns the error of the call that failed, with the line of the call.
func (c *clickCalls) located() error {
	if c.line == 0 {
		return c.failed
	}
	return fmt.Errorf("line %d: %w", c.line, c.failed)
}

// lineOf returns the line of the program that runs; 0 if it is not known. Behind pcall it is that of pcall.
func lineOf(l *glua.LState) int {
	for level := 1; ; level++ {
		frame, ok := l.GetStack(level)
		if !ok {
			return 0
		}
		if _, err := l.GetInfo("l", frame, glua.LNil); err == nil && frame.CurrentLine > 0 {
			return frame.CurrentLine
		}
	}
}

func (v *VM) sql(l *glua.LState) int {
	text := l.CheckString(1)
	if sqlBegin.MatchString(strings.TrimSpace(text)) {
		l.RaiseError("a transaction is tx(function() ... end): each sql may use another connection")
	}
	var args []any
	for i := 2; i <= l.GetTop(); i++ {
		args = append(args, goValue(l.Get(i)))
	}
	var rows *Table
	v.outside(l, func(ctx context.Context, c calls, line int) (err error) {
		rows, err = c.Query(ctx, line, text, args)
		return err
	})
	l.Push(rows.lua(l))
	return 1
}

// tx runs a function in a transaction. It commits unless the function raises an error or returns false.
func (v *VM) tx(l *glua.LState) int {
	isolation := ""
	if l.GetTop() > 1 {
		isolation = l.CheckString(1)
	}
	f := l.CheckFunction(l.GetTop())
	v.outside(l, func(ctx context.Context, c calls, line int) error { return c.Begin(ctx, line, isolation) })
	l.Push(f)
	err := l.PCall(0, 1, nil)
	result := glua.LValue(glua.LNil)
	if err == nil {
		result = l.Get(-1)
		l.Pop(1)
	}
	commit := result != glua.LFalse
	if err != nil { // the transaction ends all the same
		v.rollBack(l)
		if api := new(glua.ApiError); errors.As(err, &api) {
			l.Error(api.Object, 0)
		}
		l.RaiseError("%v", err)
	}
	v.outside(l, func(ctx context.Context, c calls, line int) error { return c.End(ctx, line, commit) })
	if result == glua.LNil {
		result = glua.LTrue
	}
	l.Push(result)
	return 1
}

// rollBack ends the transaction of a function that has raised an error. A connection that is gone has rolled back
// already.
func (v *VM) rollBack(l *glua.LState) {
	c := clickOf(l)
	v.mu.Unlock()
	defer v.mu.Lock()
	_ = c.End(l.Context(), 0, false)
}

func (v *VM) redis(l *glua.LState) int {
	args := []any{l.CheckString(1)}
	for i := 2; i <= l.GetTop(); i++ {
		args = append(args, l.ToStringMeta(l.Get(i)).String())
	}
	return v.redisCall(l, args)
}

// eval calls a script with a list of keys and a list of arguments.
func (v *VM) eval(l *glua.LState) int {
	script, keys, values := l.CheckString(1), l.OptTable(2, l.NewTable()), l.OptTable(3, l.NewTable())
	args := []any{"EVAL", script, keys.Len()}
	for _, list := range []*glua.LTable{keys, values} {
		for i := 1; i <= list.Len(); i++ {
			args = append(args, l.ToStringMeta(list.RawGetInt(i)).String())
		}
	}
	return v.redisCall(l, args)
}

// ClosedScript stands before each script of Redis. The Redis inside this process leaves open to a script what Redis
// closes: files, and the standard output on which this process reports.
const ClosedScript = "local " +
	"print,_printregs,dofile,loadfile,load,loadstring,require,module,package,getfenv,setfenv,newproxy,collectgarbage,_G; "

// closed returns the arguments of a call with ClosedScript before its script, if it has one.
func closed(args []any) []any {
	at := -1
	switch name := strings.ToUpper(args[0].(string)); {
	case strings.HasPrefix(name, "EVAL") && !strings.HasPrefix(name, "EVALSHA"):
		at = 1
	case name == "SCRIPT" && len(args) > 2 && strings.EqualFold(args[1].(string), "load"):
		at = 2
	}
	if at < 0 || at >= len(args) {
		return args
	}
	args = slices.Clone(args)
	args[at] = ClosedScript + args[at].(string)
	return args
}

func (v *VM) redisCall(l *glua.LState, args []any) int {
	args = closed(args)
	var reply any
	v.outside(l, func(ctx context.Context, c calls, line int) (err error) {
		reply, err = c.Command(ctx, line, args)
		return err
	})
	l.Push(luaValue(l, reply))
	return 1
}

func (v *VM) key(l *glua.LState) int {
	name := l.CheckString(1)
	l.Push(glua.LString(clickOf(l).Key(name)))
	return 1
}

func (v *VM) think(l *glua.LState) int {
	v.outside(l, func(ctx context.Context, c calls, line int) error { return c.Think(ctx, line) })
	return 0
}

func (v *VM) promise(l *glua.LState) int {
	v.outside(l, func(ctx context.Context, c calls, line int) error { return c.Promise(ctx, line) })
	return 0
}

// lock runs a function while no other click of the process runs one under the same name.
func (v *VM) lock(l *glua.LState) int {
	name, f := l.CheckString(1), l.CheckFunction(2)
	var unlock func()
	v.outside(l, func(ctx context.Context, c calls, line int) (err error) {
		unlock, err = c.Lock(ctx, line, name)
		return err
	})
	defer unlock()
	l.Push(f)
	l.Call(0, 1)
	return 1
}

func (v *VM) later(l *glua.LState) int {
	f := l.CheckFunction(1)
	c := clickOf(l).calls
	c.Later(func(ctx context.Context) error {
		v.mu.Lock()
		defer v.mu.Unlock()
		_, err := v.run(ctx, c, f)
		return err
	})
	return 0
}

func (v *VM) prints(l *glua.LState) int {
	var parts []string
	for i := 1; i <= l.GetTop(); i++ {
		parts = append(parts, l.ToStringMeta(l.Get(i)).String())
	}
	v.print(strings.Join(parts, "\t") + "\n")
	return 0
}

// random is math.random with the plan's seed.
func (v *VM) random(l *glua.LState) int {
	low, high := 1, 0
	switch l.GetTop() {
	case 0:
		l.Push(glua.LNumber(v.rng.Float64()))
		return 1
	case 1:
		high = l.CheckInt(1)
	default:
		low, high = l.CheckInt(1), l.CheckInt(2)
	}
	if high < low {
		l.ArgError(1, "the interval is empty")
	}
	l.Push(glua.LNumber(low + v.rng.IntN(high-low+1)))
	return 1
}

// Table is the result of a statement.
type Table struct {
	names    []string
	rows     [][]any
	affected int64
	Written  bool // rows
}

// lua returns a list of rows, each a table by column name, with the number of rows that the statement touched or
// returned.
func (t *Table) lua(l *glua.LState) glua.LValue {
	list := l.CreateTable(len(t.rows), 1)
	for _, values := range t.rows {
		row := l.CreateTable(0, len(values))
		for i, value := range values {
			row.RawSetString(t.names[i], luaValue(l, value))
		}
		list.Append(row)
	}
	list.RawSetString("affected", glua.LNumber(t.affected))
	return list
}

func (t *Table) String() string {
	if len(t.names) == 0 {
		return rowCount(t.affected)
	}
	if len(t.rows) != 1 {
		return rowCount(int64(len(t.rows)))
	}
	var values []string
	for _, value := range t.rows[0] {
		if value == nil {
			value = "null"
		}
		values = append(values, fmt.Sprint(value))
	}
	return lab.OneLine(strings.Join(values, ", "))
}

func rowCount(n int64) string {
	if n == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", n)
}

// goValue returns a Lua value as an argument of a statement: a whole number is an int64.
func goValue(v glua.LValue) any {
	switch v := v.(type) {
	case glua.LNumber:
		if f := float64(v); f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f)
		}
		return float64(v)
	case glua.LBool:
		return bool(v)
	case *glua.LNilType:
		return nil
	}
	return v.String()
}

// luaValue returns a value of Postgres or a reply of Redis in Lua.
func luaValue(l *glua.LState, v any) glua.LValue {
	switch v := v.(type) {
	case nil:
		return glua.LNil
	case bool:
		return glua.LBool(v)
	case int16:
		return glua.LNumber(v)
	case int32:
		return glua.LNumber(v)
	case int64:
		return glua.LNumber(v)
	case float32:
		return glua.LNumber(v)
	case float64:
		return glua.LNumber(v)
	case string:
		return glua.LString(v)
	case []any:
		list := l.CreateTable(len(v), 0)
		for i, e := range v {
			list.RawSetInt(i+1, luaValue(l, e))
		}
		return list
	}
	return glua.LString(fmt.Sprint(v))
}
