package seckill

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"miaosha/goods"
)

// A simulation proves nothing of what it never does. So each run counts what it has reached, by name: the counters of
// the engine with each of their labels, the repairs of a gate, the lines of the log, the faults that are noticed, the
// scripts and the statements that a store has carried out, what users are told, and the actions of the simulation. What
// there is to reach is read from the code, so what is new there and what no seed reaches any more is named.

// reachedSeeds is how many seeds must reach everything.
const reachedSeeds = 500

// simReached counts by name. A name with 0 is known and not reached.
type simReached map[string]int

// seldom is why many seeds need not reach something.
const seldom = "seldom"

// beyondSimulation has what no seed can reach, and why; or what is reached seldom.
var beyondSimulation = map[string]string{
	"buy: " + None:    "a click is granted, refused, or busy",
	"buy: " + SoldOut: "it is a refusal",

	"counter: miaosha_addresses_wasted_total":    "TestBigGateFollowsItsModel",
	"address: TooManyError":                      "TestBigGateFollowsItsModel",
	"address: goods.ErrNoSale":                   "the gate is asked, and not the cache before it",
	"script: draw":                               "there are no sums",
	"script: take":                               "there are no sums",
	"counter: miaosha_gate_faults_total captcha": "there are no sums",

	"counter: miaosha_shed_total in flight":     "TestShedRequestsAreCounted",
	"counter: miaosha_shed_total lane":          "there are too few buyers",
	"counter: miaosha_shed_total results":       "there are too few buyers",
	"counter: miaosha_gate_replies_total fault": seldom, // Redis loses its data twice during one call
	"fault: mark a sale as sold out":            seldom, // between a refusal and the read of the owners
	"fault: inherit":                            "what it calls is called without it",
	"fault: end the beat":                       "a process ends without a word",
	"fault: forget dead processes":              "no run is so long",

	"log: a journal entry holds no ticket":  "no entry is damaged",
	"fault: settle a damaged entry":         "no entry is damaged",
	"log: a ticket has outlived its owners": "no entry has so many owners",
	"fault: reject an exhausted ticket":     "no entry has so many owners",
	"fault: settle a ticket alone":          "no entry has so many owners",
}

// partsBeside are files of parts that the simulation does not run. Their lines of the log are not asked for.
var partsBeside = []string{"seckill.go"}

// partsBelow are packages of parts that the simulation runs.
var partsBelow = []string{"alive", "queue", "rebuild", "watch"}

// reach counts what has happened. The goroutines of tasks call it too.
func (s *simulation) reach(kind, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reached[kind+": "+what]++
}

// simLog counts the lines of the log, the faults and the repairs.
type simLog struct{ s *simulation }

func (simLog) Enabled(context.Context, slog.Level) bool { return true }
func (l simLog) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l simLog) WithGroup(string) slog.Handler          { return l }
func (l simLog) Handle(_ context.Context, r slog.Record) error {
	l.s.reach("log", r.Message)
	if by := claimer(); by != "" {
		l.s.reach("claimed by", by)
	}
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "doing":
			l.s.reach("fault", a.Value.String())
		case "repair":
			l.s.reach("repair", a.Value.String())
		}
		return true
	})
	return nil
}

// claimer returns the method that queues tickets that it has claimed, if one does now.
func claimer() (name string) {
	pcs := make([]uintptr, 20)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	for queued := false; ; {
		f, more := frames.Next()
		if name = f.Function[strings.LastIndex(f.Function, ".")+1:]; queued {
			return name
		}
		if queued = name == "enqueueEntries"; !more {
			return ""
		}
	}
}

// reachRequest counts what a store has carried out.
func (s *simulation) reachRequest(r *request) {
	if r.end != nil {
		s.reach("statement", r.what)
	} else {
		s.reach("script", r.what)
	}
}

// reachTold counts what a user was told.
func (s *simulation) reachTold(r simReply) {
	if r.err == nil {
		s.reach(r.kind, r.status.State)
		return
	}
	for name, is := range simRefusals {
		if is(r.err) {
			s.reach(r.kind, name)
		}
	}
}

// reachMetrics counts what a process has counted.
func (s *simulation) reachMetrics(p *simProcess) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(p.Collectors()...)
	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		if f.GetType() != dto.MetricType_COUNTER {
			continue
		}
		for _, m := range f.GetMetric() {
			name := "counter: " + f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			s.reached[name] += int(m.GetCounter().GetValue())
		}
	}
}

// simRefusals are the refusals that comments name.
var simRefusals = map[string]func(error) bool{
	"goods.ErrNoSale": is(goods.ErrNoSale), "goods.ErrEnded": is(goods.ErrEnded), "goods.ErrPaused": is(goods.ErrPaused),
	"goods.ErrSoldOut": is(goods.ErrSoldOut), "ErrBusy": is(ErrBusy),
	"goods.NotStartedError": func(err error) bool { return errors.As(err, new(goods.NotStartedError)) },
	"TooManyError":          func(err error) bool { return errors.As(err, new(TooManyError)) },
}

func is(refusal error) func(error) bool {
	return func(err error) bool { return errors.Is(err, refusal) }
}

var simStates = map[string]string{"None": None, "Queued": Queued, "Ordered": Ordered, "SoldOut": SoldOut, "Closed": Closed, "Invalid": Invalid}

// toReach reads from the code what there is to reach. What the runs have counted has the counters.
func toReach(t *testing.T) simReached {
	t.Helper()
	all := simReached{}
	for _, a := range simActions {
		all["action: "+a.name] = 0
	}
	for name := range pgStatements {
		all["statement: "+name] = 0
	}
	scripts, err := filepath.Glob("gate/scripts/*.lua")
	if err != nil || len(scripts) == 0 {
		t.Fatal("no scripts: ", err)
	}
	for _, path := range scripts {
		all["script: "+strings.TrimSuffix(filepath.Base(path), ".lua")] = 0
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range partsBelow {
		below, err := filepath.Glob(part + "/*.go")
		if err != nil || len(below) == 0 {
			t.Fatal("no code of ", part, ": ", err)
		}
		files = append(files, below...)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(partsBeside, path) {
			ast.Inspect(file, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					all.addCall(call)
				}
				return true
			})
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				all.addConstants(t, d)
			case *ast.FuncDecl:
				all.addRefusals(t, d)
				all.addClaimer(d)
			}
		}
	}
	return all
}

// addCall adds what a call logs.
func (all simReached) addCall(call *ast.CallExpr) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	kind, at := "", 0
	switch method.Sel.Name {
	case "Debug", "Info", "Warn", "Error":
		kind = "log"
	case "logFault", "refusal", "Fault":
		kind = "fault"
	case "fault":
		kind, at = "fault", len(call.Args)-2
	}
	if kind == "" || at < 0 || len(call.Args) <= at {
		return
	}
	if text, ok := call.Args[at].(*ast.BasicLit); ok {
		name, _ := strconv.Unquote(text.Value)
		all[kind+": "+name] = 0
	}
}

// addConstants adds the repairs, and the states that a user is told.
func (all simReached) addConstants(t *testing.T, d *ast.GenDecl) {
	t.Helper()
	states := strings.HasPrefix(d.Doc.Text(), "States of a buyer")
	for _, spec := range d.Specs {
		c, ok := spec.(*ast.ValueSpec)
		if !ok || d.Tok != token.CONST {
			continue
		}
		if kind, ok := c.Type.(*ast.Ident); ok && kind.Name == "repair" {
			name, _ := strconv.Unquote(c.Values[0].(*ast.BasicLit).Value)
			all["repair: "+name] = 0
		}
		if states {
			state, known := simStates[c.Names[0].Name]
			if !known {
				t.Errorf("the simulation does not know the state %s", c.Names[0].Name)
			}
			all["buy: "+state], all["result: "+state] = 0, 0
		}
	}
}

// addRefusals adds the refusals that the comments of Engine.Buy and Engine.Address name.
func (all simReached) addRefusals(t *testing.T, d *ast.FuncDecl) {
	t.Helper()
	if d.Recv == nil || d.Name.Name != "Buy" && d.Name.Name != "Address" {
		return
	}
	_, list, found := strings.Cut(strings.Join(strings.Fields(d.Doc.Text()), " "), "Refusals: ")
	list, _, whole := strings.Cut(list+" ", ". ")
	if !found || !whole {
		t.Fatalf("the comment of %s lists no refusals", d.Name.Name)
	}
	for _, name := range strings.Split(list, ", ") {
		if simRefusals[name] == nil {
			t.Errorf("the simulation does not know the refusal %s of %s", name, d.Name.Name)
		}
		all[strings.ToLower(d.Name.Name)+": "+name] = 0
	}
}

// addClaimer adds a method that queues what it has claimed.
func (all simReached) addClaimer(d *ast.FuncDecl) {
	ast.Inspect(d, func(n ast.Node) bool {
		if method, ok := n.(*ast.SelectorExpr); ok && method.Sel.Name == "enqueueEntries" {
			all["claimed by: "+d.Name.Name] = 0
		}
		return true
	})
}

// check reports what so many seeds have reached, and what they should have.
func (all simReached) check(t *testing.T, seeds uint64) {
	t.Helper()
	for name := range toReach(t) {
		all[name] += 0
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		n, why := all[name], beyondSimulation[name]
		fmt.Fprintf(&text, "%9d %s %s\n", n, name, why)
		switch {
		case seeds < reachedSeeds, why == seldom:
		case n == 0 && why == "":
			t.Errorf("%d seeds never reach %q", seeds, name)
		case n > 0 && why != "":
			t.Errorf("%q is reached, so it is not beyond the simulation", name)
		}
	}
	for name := range beyondSimulation {
		if _, known := all[name]; !known {
			t.Errorf("there is no %q", name)
		}
	}
	t.Logf("reached by %d seeds:\n%s", seeds, &text)
}
