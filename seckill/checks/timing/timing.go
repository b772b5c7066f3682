// Command timing finds tests that say how fast something happened instead of what happened. Such a test fails on a
// busy machine, and its author does not see it fail. It reads every file _test.go and package sandboxtest, of all
// build tags and systems, and reports:
//
//   - time.Sleep;
//   - a comparison with time.Since or time.Now().Sub, or with a variable that holds such a value, except with
//     sandboxtest.Hang; the rest that is left after that time (an hour - time.Since) may be compared;
//   - a limit other than sandboxtest.Hang: time.After, time.NewTimer, time.AfterFunc, context.WithTimeout and
//     WithDeadline, net.DialTimeout, the Timeout of an http.Client or net.Dialer, SetDeadline;
//   - a loop until a deadline;
//   - sandboxtest.PollFor;
//   - the hour or the day of time.Now, and time.Local;
//   - a port that is fixed, or that the test has just released.
//
// In a bubble of testing/synctest time is virtual, so the forms that only wait or measure are right there. A function
// is in a bubble if all its uses are. Files with the tag latency and package seckill/faults have time as their
// subject: only their ports are checked. A limit that has passed already (zero or less) is a state and no limit.
//
// The comment //timing: with a reason, on the line or alone on the line above it, makes an exception. One without a
// reason and one that excuses nothing are reported too.
package main

import (
	"go/ast"
	"go/build/constraint"
	"go/constant"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/tools/go/analysis"
)

// analyzer works on a package whose types are known only in part: see main.go.
var analyzer = &analysis.Analyzer{
	Name:             "timing",
	Doc:              "find tests that say how fast something happened",
	Run:              run,
	RunDespiteErrors: true,
}

// hang is the value of sandboxtest.Hang.
const hang = time.Minute

// The texts of the findings.
const (
	sleeps   = "a test sleeps: wait for a state (sandboxtest.Until), or use synctest"
	compares = "a test compares how long something took: use synctest, or a test with the tag latency"
	limits   = "a limit of the test's own: use t.Context() or sandboxtest.Hang"
	loops    = "a loop until a deadline: use sandboxtest.Until"
	pollsFor = "PollFor is for the fault suite: use sandboxtest.Poll"
	wall     = "the wall clock's hour or day, or the zone of this machine: fix the clock and the zone"
	fixed    = "a fixed port: listen on port 0"
	released = "a port that was released may belong to another process by now: keep it open (sandboxtest.Proxy)"
	noReason = "an exception without a reason"
	unused   = "an exception that excuses nothing"
)

// exception begins a comment that excuses the findings of its line, or of the line below.
const exception = "//timing:"

func run(pass *analysis.Pass) (any, error) {
	c := &checker{pass: pass, assigned: map[types.Object][]ast.Expr{}, elapsed: map[types.Object]bool{},
		found: map[finding]bool{}}
	var tests []*ast.File
	for _, f := range pass.Files {
		name := pass.Fset.File(f.FileStart).Name()
		if strings.HasSuffix(name, "_test.go") || path.Base(pass.Pkg.Path()) == "sandboxtest" {
			tests = append(tests, f)
		}
	}
	for _, f := range tests {
		c.collect(f)
	}
	c.bubbles = findBubbles(pass.TypesInfo, tests)
	for _, f := range tests {
		excused, err := c.exceptions(f)
		if err != nil {
			return nil, err
		}
		c.subject = strings.HasSuffix(pass.Pkg.Path(), "seckill/faults") || onlyLatency(f)
		c.excused = excused
		ast.Inspect(f, c.visit)
		for _, e := range excused {
			switch {
			case e.reason == "":
				pass.Reportf(e.at, noReason)
			case !e.used:
				pass.Reportf(e.at, unused)
			}
		}
	}
	return nil, nil
}

// checker looks at one package.
type checker struct {
	pass     *analysis.Pass
	bubbles  *bubbles
	assigned map[types.Object][]ast.Expr // what is assigned to a variable or a field, anywhere in the tests
	elapsed  map[types.Object]bool       // whether a variable holds a time that has passed, as far as it is known
	found    map[finding]bool
	loops    []ast.Expr // the conditions that may end a loop

	// Of the file.
	excused map[int]*excuse
	subject bool // time is the subject of this file
}

// finding is reported once a line.
type finding struct {
	file string
	line int
	text string
}

type excuse struct {
	at     token.Pos
	reason string
	used   bool
}

// exceptions returns the exceptions of a file, by the line that they excuse.
func (c *checker) exceptions(f *ast.File) (map[int]*excuse, error) {
	file := c.pass.Fset.File(f.FileStart)
	var lines []string
	excused := map[int]*excuse{}
	for _, group := range f.Comments {
		for _, comment := range group.List {
			reason, ok := strings.CutPrefix(comment.Text, exception)
			if !ok {
				continue
			}
			if lines == nil {
				raw, err := c.pass.ReadFile(file.Name())
				if err != nil {
					return nil, err
				}
				lines = strings.Split(string(raw), "\n")
			}
			line := file.Line(comment.Pos())
			if strings.HasPrefix(strings.TrimSpace(lines[line-1]), exception) {
				line++
			}
			reason, _, _ = strings.Cut(reason, "// want") // what a test of this command expects
			excused[line] = &excuse{at: comment.Pos(), reason: strings.TrimSpace(reason)}
		}
	}
	return excused, nil
}

// onlyLatency reports whether a file is compiled with the tag latency only.
func onlyLatency(f *ast.File) bool {
	for _, group := range f.Comments {
		if group.Pos() > f.Package {
			return false
		}
		for _, comment := range group.List {
			expr, err := constraint.Parse(comment.Text)
			if err != nil {
				continue
			}
			for _, others := range []bool{true, false} {
				with := expr.Eval(func(tag string) bool { return others || tag == "latency" })
				without := expr.Eval(func(tag string) bool { return others && tag != "latency" })
				if with && !without {
					return true
				}
			}
		}
	}
	return false
}

// collect notes what is assigned to each variable and field, and which conditions may end a loop.
func (c *checker) collect(f *ast.File) {
	assign := func(to, value ast.Expr) {
		if object := c.object(to); object != nil {
			c.assigned[object] = append(c.assigned[object], value)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i := range n.Lhs {
				if len(n.Lhs) == len(n.Rhs) {
					assign(n.Lhs[i], n.Rhs[i])
				}
			}
		case *ast.ValueSpec:
			for i := range n.Names {
				if len(n.Names) == len(n.Values) {
					assign(n.Names[i], n.Values[i])
				}
			}
		case *ast.KeyValueExpr:
			assign(n.Key, n.Value)
		case *ast.RangeStmt:
			if n.Value != nil {
				assign(n.Value, n.X)
			}
		case *ast.ForStmt:
			if n.Cond != nil {
				c.loops = append(c.loops, n.Cond)
			}
			c.endsLoop(n.Body)
		}
		return true
	})
}

// endsLoop notes the conditions in the body of a loop.
func (c *checker) endsLoop(body *ast.BlockStmt) {
	ast.Inspect(body, func(n ast.Node) bool {
		if n, ok := n.(*ast.IfStmt); ok {
			c.loops = append(c.loops, n.Cond)
		}
		_, lit := n.(*ast.FuncLit)
		return !lit
	})
}

// object returns the variable, field or function that an expression names, or whose element it names.
func (c *checker) object(e ast.Expr) types.Object {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return c.pass.TypesInfo.ObjectOf(e)
	case *ast.SelectorExpr:
		return c.pass.TypesInfo.ObjectOf(e.Sel)
	case *ast.IndexExpr:
		return c.object(e.X)
	case *ast.StarExpr:
		return c.object(e.X)
	}
	return nil
}

// function returns the package and the name of the function that a call calls: "time" and "Sleep", or for a method of
// time.Time "time.Time" and "Sub". Both are "" if that is not known; the package alone is "" for a method of a value of
// which nothing is known.
func (c *checker) function(call *ast.CallExpr) (of, name string) {
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		if object := c.pass.TypesInfo.ObjectOf(fun); object != nil && object.Pkg() != nil {
			return object.Pkg().Path(), fun.Name
		}
		return "", fun.Name
	case *ast.SelectorExpr:
		if x, ok := fun.X.(*ast.Ident); ok {
			if imported, ok := c.pass.TypesInfo.ObjectOf(x).(*types.PkgName); ok {
				return imported.Imported().Path(), fun.Sel.Name
			}
		}
		return c.typeName(fun.X), fun.Sel.Name
	}
	return "", ""
}

// typeName returns the name of the type of a value, or of what it points to: "net/http.Client".
func (c *checker) typeName(e ast.Expr) string {
	t := c.pass.TypesInfo.TypeOf(e)
	if t == nil {
		return ""
	}
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := types.Unalias(t).(*types.Named); ok && n.Obj().Pkg() != nil {
		return n.Obj().Pkg().Path() + "." + n.Obj().Name()
	}
	return ""
}

// report reports a finding, unless an exception excuses it.
func (c *checker) report(at token.Pos, text string) {
	place := c.pass.Fset.Position(at)
	if e := c.excused[place.Line]; e != nil {
		if e.used = true; e.reason != "" {
			return
		}
	}
	if f := (finding{place.Filename, place.Line, text}); !c.found[f] {
		c.found[f] = true
		c.pass.Report(analysis.Diagnostic{Pos: at, Message: text})
	}
}

// reportTime reports a finding of a form that is right where time is virtual, or the subject.
func (c *checker) reportTime(at token.Pos, text string) {
	if !c.subject && !c.bubbles.holds(at) {
		c.report(at, text)
	}
}

func (c *checker) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		c.call(n)
	case *ast.BinaryExpr:
		c.comparison(n)
	case *ast.CompositeLit:
		c.literal(n)
	case *ast.AssignStmt:
		for i, to := range n.Lhs {
			if field, ok := to.(*ast.SelectorExpr); ok && len(n.Lhs) == len(n.Rhs) &&
				c.timeoutOf(c.typeName(field.X), field.Sel.Name) {
				c.limit(n.Rhs[i], n.Rhs[i].Pos())
			}
		}
		return !c.setsLocal(n)
	case *ast.SelectorExpr:
		if c.isOf(n, "time", "Local") && !c.subject {
			c.report(n.Pos(), wall)
		}
	case *ast.FuncDecl:
		if n.Body != nil {
			c.ports(n.Body)
		}
	case *ast.FuncLit:
		c.ports(n.Body)
	}
	return true
}

// setsLocal reports whether a statement fixes the zone of the process.
func (c *checker) setsLocal(n *ast.AssignStmt) bool {
	return len(n.Lhs) == 1 && c.isOf(n.Lhs[0], "time", "Local")
}

// isOf reports whether e is name of an imported package.
func (c *checker) isOf(e ast.Expr, pkg, name string) bool {
	s, ok := ast.Unparen(e).(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	if !ok {
		return false
	}
	imported, ok := c.pass.TypesInfo.ObjectOf(x).(*types.PkgName)
	return ok && (imported.Imported().Path() == pkg || strings.HasSuffix(imported.Imported().Path(), "/"+pkg))
}

// limitAt says which argument of a function is how long it waits.
var limitAt = map[string]int{
	"time.After": 0, "time.Tick": 0, "time.NewTimer": 0, "time.AfterFunc": 0, "net.DialTimeout": 2,
	"context.WithTimeout": 1, "context.WithTimeoutCause": 1,
}

// deadlineAt says which argument of a function is the time until which it waits.
var deadlineAt = map[string]int{"context.WithDeadline": 1, "context.WithDeadlineCause": 1}

func (c *checker) call(n *ast.CallExpr) {
	of, name := c.function(n)
	if i, ok := limitAt[of+"."+name]; ok && i < len(n.Args) {
		c.limit(n.Args[i], n.Pos())
	}
	if i, ok := deadlineAt[of+"."+name]; ok && i < len(n.Args) && c.ownDeadline(n.Args[i]) {
		c.reportTime(n.Pos(), limits)
	}
	switch name {
	case "Sleep":
		if of == "time" {
			c.reportTime(n.Pos(), sleeps)
		}
	case "SetDeadline", "SetReadDeadline", "SetWriteDeadline":
		if len(n.Args) == 1 && c.ownDeadline(n.Args[0]) {
			c.reportTime(n.Pos(), limits)
		}
	case "PollFor":
		if path.Base(of) == "sandboxtest" && len(n.Args) > 0 && !c.allowed(n.Args[0]) {
			c.reportTime(n.Pos(), pollsFor)
		}
	case "Before", "After", "Compare":
		c.deadline(n)
	case "Hour", "Minute", "Day", "YearDay", "Weekday", "Month", "Year", "Date", "Clock":
		if of == "time.Time" && c.isNow(receiver(n)) {
			c.reportTime(n.Pos(), wall)
		}
	case "Format":
		if of == "time.Time" && c.isNow(receiver(n)) && c.hourOnly(n.Args[0]) {
			c.reportTime(n.Pos(), wall)
		}
	}
	c.fixedPort(n, of, name)
}

// receiver returns the value of which a call calls a method.
func receiver(n *ast.CallExpr) ast.Expr {
	if s, ok := ast.Unparen(n.Fun).(*ast.SelectorExpr); ok {
		return s.X
	}
	return nil
}

// hourOnly reports whether a layout has an hour and no day.
func (c *checker) hourOnly(layout ast.Expr) bool {
	value := c.pass.TypesInfo.Types[layout].Value
	if value == nil || value.Kind() != constant.String {
		return false
	}
	early := time.Date(2031, 11, 23, 17, 0, 0, 0, time.UTC)
	text := func(t time.Time) string { return t.Format(constant.StringVal(value)) }
	return text(early) != text(early.Add(time.Hour)) && text(early) == text(early.AddDate(0, 0, 1))
}

// limit reports a limit that is neither sandboxtest.Hang nor over at once.
func (c *checker) limit(d ast.Expr, at token.Pos) {
	if !c.allowed(d) {
		c.reportTime(at, limits)
	}
}

// allowed reports whether d is sandboxtest.Hang or not above zero.
func (c *checker) allowed(d ast.Expr) bool {
	value := c.pass.TypesInfo.Types[d].Value
	return c.isHang(d) || value != nil && value.Kind() == constant.Int && constant.Sign(value) <= 0
}

// isHang reports whether d is sandboxtest.Hang, or a constant of the package itself that equals it: some tests are in a
// package that sandboxtest imports.
func (c *checker) isHang(d ast.Expr) bool {
	d = ast.Unparen(d)
	if c.isOf(d, "sandboxtest", "Hang") {
		return true
	}
	name, ok := d.(*ast.Ident)
	if !ok || strings.HasSuffix(c.pass.Pkg.Name(), "_test") {
		return false
	}
	named, ok := c.pass.TypesInfo.ObjectOf(name).(*types.Const)
	if !ok || named.Parent() != c.pass.Pkg.Scope() {
		return false
	}
	n, exact := constant.Int64Val(constant.ToInt(named.Val()))
	return exact && time.Duration(n) == hang
}

// ownDeadline reports whether e is time.Now().Add of something else than Hang.
func (c *checker) ownDeadline(e ast.Expr) bool {
	own, _ := c.deadlineKind(e, nil)
	return own
}

// deadlineKind reports whether e is time.Now().Add of a limit of its own, and whether it is one of Hang. It follows
// variables.
func (c *checker) deadlineKind(e ast.Expr, seen []types.Object) (own, guard bool) {
	e = ast.Unparen(e)
	if call, ok := e.(*ast.CallExpr); ok {
		if of, name := c.function(call); of == "time.Time" && name == "Add" && len(call.Args) == 1 &&
			c.isNow(receiver(call)) {
			return !c.allowed(call.Args[0]), c.allowed(call.Args[0])
		}
		return false, false
	}
	object := c.object(e)
	if object == nil || slices.Contains(seen, object) {
		return false, false
	}
	seen = append(seen, object)
	for _, value := range c.assigned[object] {
		o, g := c.deadlineKind(value, seen)
		own, guard = own || o, guard || g
	}
	return own, guard && !own
}

// isNow reports whether e is time.Now() or is made of it by methods of time.Time. It follows variables.
func (c *checker) isNow(e ast.Expr) bool { return c.nowOf(e, nil) }

func (c *checker) nowOf(e ast.Expr, seen []types.Object) bool {
	if e == nil {
		return false
	}
	e = ast.Unparen(e)
	if call, ok := e.(*ast.CallExpr); ok {
		of, name := c.function(call)
		switch {
		case of == "time" && name == "Now":
			return true
		case of == "time.Time" && slices.Contains([]string{"Add", "AddDate", "UTC", "Local", "In", "Round", "Truncate"},
			name):
			return c.nowOf(receiver(call), seen)
		}
		return false
	}
	if _, ok := e.(*ast.Ident); !ok {
		return false
	}
	object := c.object(e)
	if object == nil || slices.Contains(seen, object) {
		return false
	}
	for _, value := range c.assigned[object] {
		if c.nowOf(value, append(seen, object)) {
			return true
		}
	}
	return false
}

// callsNow reports whether e is the call time.Now() itself; reads, whether it is that or a variable that is set to it.
func (c *checker) callsNow(e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return false
	}
	of, name := c.function(call)
	return of == "time" && name == "Now"
}

func (c *checker) readsNow(e ast.Expr) bool {
	if object := c.object(e); object != nil {
		return slices.ContainsFunc(c.assigned[object], c.callsNow)
	}
	return c.callsNow(e)
}

// deadline reports a comparison of the time with a deadline of the test's own, and every one that may end a loop
// unless the deadline is known to be one of Hang.
func (c *checker) deadline(n *ast.CallExpr) {
	x := receiver(n)
	if x == nil || len(n.Args) != 1 {
		return
	}
	other := n.Args[0]
	if !c.callsNow(x) {
		if !c.callsNow(other) {
			return
		}
		other = x
	}
	own, guard := c.deadlineKind(other, nil)
	inLoop := slices.ContainsFunc(c.loops, func(cond ast.Expr) bool {
		return cond.Pos() <= n.Pos() && n.End() <= cond.End()
	})
	if _, field := ast.Unparen(other).(*ast.SelectorExpr); own && !field || inLoop && !guard {
		c.reportTime(n.Pos(), loops)
	}
}

func (c *checker) comparison(n *ast.BinaryExpr) {
	switch n.Op {
	case token.EQL, token.NEQ:
		if c.isZero(n.X) || c.isZero(n.Y) { // whether there is a value at all
			return
		}
	case token.LSS, token.GTR, token.LEQ, token.GEQ:
	default:
		return
	}
	if c.isElapsed(n.X) && !c.isHang(n.Y) || c.isElapsed(n.Y) && !c.isHang(n.X) {
		c.reportTime(n.Pos(), compares)
	}
}

func (c *checker) isZero(e ast.Expr) bool {
	value := c.pass.TypesInfo.Types[e].Value
	return value != nil && (value.Kind() == constant.Int || value.Kind() == constant.Float) && constant.Sign(value) == 0
}

// isElapsed reports whether e is a time that has passed, or is computed from one.
func (c *checker) isElapsed(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.UnaryExpr:
		return c.isElapsed(e.X)
	case *ast.BinaryExpr:
		switch e.Op {
		case token.ADD, token.MUL, token.QUO, token.REM:
			return c.isElapsed(e.X) || c.isElapsed(e.Y)
		case token.SUB: // what is left at least when that time has passed is the same on every machine
			return c.isElapsed(e.X)
		}
	case *ast.CallExpr:
		return c.givesElapsed(e)
	case *ast.SliceExpr:
		return c.isElapsed(e.X)
	case *ast.Ident, *ast.SelectorExpr, *ast.IndexExpr, *ast.StarExpr:
		object := c.object(e)
		if _, ok := object.(*types.Var); !ok {
			return false
		}
		if known, ok := c.elapsed[object]; ok {
			return known
		}
		c.elapsed[object] = false // for one that is computed from itself
		c.elapsed[object] = slices.ContainsFunc(c.assigned[object], c.isElapsed)
		return c.elapsed[object]
	}
	return false
}

func (c *checker) givesElapsed(e *ast.CallExpr) bool {
	if t := c.pass.TypesInfo.Types[e.Fun]; t.IsType() || t.IsBuiltin() {
		name, _ := ast.Unparen(e.Fun).(*ast.Ident)
		return (t.IsType() || slices.Contains([]string{"min", "max", "append"}, name.Name)) &&
			slices.ContainsFunc(e.Args, c.isElapsed)
	}
	switch of, name := c.function(e); of {
	case "time":
		return name == "Since"
	case "time.Duration":
		return c.isElapsed(receiver(e))
	case "math", "slices":
		return slices.ContainsFunc(e.Args, c.isElapsed)
	case "time.Time":
		if name != "Sub" || len(e.Args) != 1 {
			return false
		}
		x, y := receiver(e), e.Args[0]
		return c.callsNow(x) || c.callsNow(y) || c.readsNow(x) && c.readsNow(y)
	}
	return false
}

// timeoutOf reports whether a field of a type is how long a client waits.
func (c *checker) timeoutOf(of, field string) bool {
	return (of == "net/http.Client" || of == "net.Dialer") && field == "Timeout"
}

func (c *checker) literal(n *ast.CompositeLit) {
	of := c.typeName(n)
	for _, element := range n.Elts {
		field, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		name, ok := field.Key.(*ast.Ident)
		if !ok {
			continue
		}
		if c.timeoutOf(of, name.Name) {
			c.limit(field.Value, field.Pos())
		}
		if of == "net/http.Server" && name.Name == "Addr" {
			c.fixedIn(field.Value, false)
		}
	}
}
