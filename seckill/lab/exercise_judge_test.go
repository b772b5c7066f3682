package lab

import (
	"strings"
	"testing"

	glua "github.com/yuin/gopher-lua"
)

// A check compares the counts with its target, the worst failure first.
func TestChecksJudgeCounts(t *testing.T) {
	t.Parallel()
	check := Check{Exercise: "e", Name: "n", SQLPerOrder: 3, MostLate: 2}
	right := Result{Right: true, Stock: 20, Sold: 20, SQLPerOrder: 3}
	for name, c := range map[string]struct {
		spoil func(*Result, *Verdict)
		kind  string
		says  string // part of the message
	}{
		"right":            {func(*Result, *Verdict) {}, "", ""},
		"a statement more": {func(r *Result, _ *Verdict) { r.SQLPerOrder = 3.01 }, TooManyStatements, "3.01"},
		"two came late":    {func(_ *Result, v *Verdict) { v.Late = 2 }, "", ""},
		"three came late":  {func(_ *Result, v *Verdict) { v.Late = 3 }, Unfair, "3 of 20"},
		"oversold, and more": {func(r *Result, v *Verdict) {
			r.Right, r.Oversold, r.Sold, r.Unsold, v.Kind = false, 1, 21, 1, LostUpdate
		}, LostUpdate, "21 orders"},
		"lost":                {func(r *Result, v *Verdict) { r.Right, r.Lost, v.Kind = false, 4, LostPromise }, LostPromise, "4 buyers"},
		"twice":               {func(r *Result, v *Verdict) { r.Right, r.Duplicates, v.Kind = false, 5, DoubleDelivery }, DoubleDelivery, "5 orders"},
		"after the end":       {func(r *Result, v *Verdict) { r.Right, v.AfterEnd, v.Kind = false, 6, CheckThenAct }, CheckThenAct, "6 units"},
		"denied":              {func(r *Result, v *Verdict) { r.Right, r.Denied, v.Kind = false, 3, DeniedOrder }, DeniedOrder, "3 buyers"},
		"unsold":              {func(r *Result, v *Verdict) { r.Right, r.Unsold, v.Kind = false, 7, StaysUnsold }, StaysUnsold, "7 units"},
		"an error":            {func(r *Result, v *Verdict) { r.Right, r.Error, v.Kind = false, "line 3", Failed }, Failed, "line 3"},
		"a schedule, no more": {func(r *Result, v *Verdict) { r.Right, v.Kind = false, UnknownOutcome }, UnknownOutcome, "schedule"},
	} {
		r, v := right, Verdict{}
		c.spoil(&r, &v)
		r.Verdict = &v
		one := check.judge(r)
		if one.Kind != c.kind || one.Passed != (c.kind == "") || !strings.Contains(one.Message.En, c.says) || (one.Message.Zh == "") != (c.kind == "") {
			t.Errorf("%s: %+v", name, one)
		}
	}
}

// Statements that run before a program's own come first in both languages, and the numbers of its lines stay.
func TestStatementsBeforeAProgram(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]Program{
		"Lua":               {Lua, "function prepare()\n  said = said .. ' own'\nend\n"},
		"Lua, no prepare":   {Lua, "said = ''"},
		"SQL":               {SQL, "-- prepare\nown;\n-- buy\nupdate c;"},
		"SQL, all is buy":   {SQL, "update c;"},
		"SQL, with no end":  {SQL, "begin;\nupdate c;"},
		"Lua, with no end":  {Lua, "function buy("},
		"Lua, in a comment": {Lua, "said = '' -- the end"},
	} {
		if got := before(p, nil); got != p {
			t.Errorf("%s, without statements: %+v", name, got)
		}
		got := before(p, []string{"create a", "create b"})
		if _, err := compileProgram(p); err != nil {
			if _, again := compileProgram(got); again == nil {
				t.Errorf("%s is a program now: %s", name, got.Source)
			}
			continue
		}
		l := glua.NewState()
		defer l.Close()
		l.SetGlobal("said", glua.LString(""))
		l.SetGlobal("sql", l.NewFunction(func(l *glua.LState) int {
			l.SetGlobal("said", glua.LString(l.GetGlobal("said").String()+" "+l.CheckString(1)))
			return 0
		}))
		if err := l.DoString(got.Source + "prepare()"); err != nil {
			t.Errorf("%s: %v\n%s", name, err, got.Source)
		}
		want := " create a create b"
		if strings.Contains(p.Source, "own") {
			want += " own"
		}
		if said := l.GetGlobal("said").String(); said != want {
			t.Errorf("%s says%q, want%q", name, said, want)
		}
		if p.Language == Lua && !strings.HasPrefix(got.Source, p.Source) {
			t.Errorf("%s: the lines have moved: %s", name, got.Source)
		}
	}
}

// An order is late if four times as many buyers as units had come before its buyer.
func TestLateOrdersAreCounted(t *testing.T) {
	t.Parallel()
	r := &programRun{}
	for user := range int64(9) {
		r.positions.Store(100+user, user+1)
	}
	if n := r.late([]int64{100, 107, 108, 999}, 2); n != 1 {
		t.Errorf("%d orders of the places 1, 8 and 9 are late for 2 units, want 1", n)
	}
}
