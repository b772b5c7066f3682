//go:build faults && linux

package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// edit replaces the one place in a file where old stands.
type edit struct{ file, old, new string }

// mutant is the shop with a defence taken out. Where a second defence does the same work, which is how it should be, that
// one is taken out first, as base: then the control, base alone, must still be exact, and the mutant must not.
type mutant struct {
	name     string
	scenario string   // the one that has to catch it
	breaks   []string // the invariants of which it has to break one
	base     []edit
	sql      []string // base in the database
	edits    []edit
	mutates  []string // the edit in the database
}

var (
	noLock  = edit{"goods/stock.go", "\n\t\tfor    no key update of s`", "`"}
	noGuard = edit{"goods/stock.go", "and stock > 0 and stock >= $2", ""}
	noLook  = edit{"order/place.go", "and    not exists (select from orders o where o.user_id = t.user_id and o.sale_id = $1)", ""}
	noCheck = "alter table sales drop constraint stock_within_total"

	// With these two meet in every run: noLock for one who acts on the row only a while after he read it, and batches so small
	// that both clicks of somebody find a unit.
	lateNoLock = edit{noLock.file, noLock.old, "\n\t\tand    pg_sleep(0.02) is not null`"}
	few        = edit{"seckill/lane.go", "waits && len(batch) < laneBatch;", "waits && len(batch) < 4;"}
)

var mutants = []mutant{
	{name: "no row lock", scenario: "a crowd without a gate", breaks: []string{"I1"},
		base: []edit{noGuard}, sql: []string{noCheck}, edits: []edit{lateNoLock}},
	{name: "no guard", scenario: "a crowd without a gate", breaks: []string{"I1"},
		base: []edit{lateNoLock}, sql: []string{noCheck}, edits: []edit{noGuard}},
	{name: "no unique index", scenario: "a crowd without a gate", breaks: []string{"I2"},
		base: []edit{noLock, noLook, few}, mutates: []string{"alter table orders drop constraint one_order_per_user_and_sale"}},
	{name: "no reconcile", scenario: "cancelled here, bought there", breaks: []string{"I5", "I6"},
		edits: []edit{{"seckill/seckill.go", "g.Go(func() error { return every(ctx, reconcileEvery, e.reconcile) })", ""}}},
	{name: "no reclaim", scenario: "kill -9 at F2", breaks: []string{"I4"},
		edits: []edit{{"seckill/seckill.go", "g.Go(func() error { return every(ctx, time.Second, e.reclaim) })", ""}}},
	{name: "script not idempotent", scenario: "a reply swallowed", breaks: []string{"I2"},
		edits: []edit{{"seckill/scripts/reserve.lua", "local has = granted[user] or had[i]", "local has = false"}}},
	{name: "boot overwrites stock", scenario: "both processes killed and started", breaks: []string{"I1"},
		edits: []edit{{"seckill/seckill.go", "	settling, settled :=",
			"	e.db.Exec(ctx, `update sales set stock = total`)\n	settling, settled :="}}},
	{name: "INCR on cancel", scenario: "cancelled here, bought there", breaks: []string{"I6"},
		edits: []edit{
			{"web/order.go", "	if err := s.Orders.Cancel(", "	s.Rush.Incr(r.Context())\n	if err := s.Orders.Cancel("},
			{"seckill/clock.go", "// Now is", `func (e *Engine) Incr(ctx context.Context) {
	gates, _ := e.gate.rdb.Keys(ctx, "ms:*:gate").Result()
	for _, g := range gates {
		e.gate.rdb.HIncrBy(ctx, g, "stock", 1)
	}
}

// Now is`}}},
	{name: "order row locked before sale row", scenario: "pay, cancel and five sweepers", breaks: []string{"I4"},
		edits: []edit{{"order/expire.go", `		if _, err := goods.Lock(ctx, tx, o.SaleID); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, ` + "`" + `
			update orders set status = 'cancelled'
			where  id = $1 and user_id = $2 and status = 'pending'` + "`" + `, id, userID)
		if err != nil {
			return fmt.Errorf("cancel order %s: %w", id, err)
		}
`, `		tag, err := tx.Exec(ctx, ` + "`" + `
			update orders set status = 'cancelled'
			where  id = $1 and user_id = $2 and status = 'pending'` + "`" + `, id, userID)
		if err != nil {
			return fmt.Errorf("cancel order %s: %w", id, err)
		}
		time.Sleep(100 * time.Millisecond) // so that two meet in every run
		if _, err := goods.Lock(ctx, tx, o.SaleID); err != nil {
			return err
		}
`}}},
	{name: "expiry by the process's clock", scenario: "a clock five minutes ahead", breaks: []string{"I9"},
		edits: []edit{
			{"order/expire.go", "where  sale_id = $1 and status = 'pending' and expires_at <= clock_timestamp()",
				"where  sale_id = $1 and status = 'pending' and expires_at <= $3"},
			{"order/expire.go", "limit  $2)`, sale, expireBatch)", "limit  $2)`, sale, expireBatch, time.Now())"},
			{"order/expire.go", "where  status = 'pending' and expires_at <= clock_timestamp()\n		limit  100`)",
				"where  status = 'pending' and expires_at <= $1\n		limit  100`, time.Now())"}}},
}

// TestMutants holds the suite against mutants: each has to break an invariant that is named here, in the scenario that is
// named here, and its control must not. The short run only looks whether the shop still has what they take out.
func TestMutants(t *testing.T) {
	byName := map[string]scenario{}
	for _, sc := range scenarios() {
		byName[sc.name] = sc
	}
	var rows strings.Builder
	for i, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			sc, ok := byName[m.scenario]
			if !ok {
				t.Fatalf("there is no scenario %q", m.scenario)
			}
			sc.name = m.name
			sc.setup.sql = slices.Concat(m.sql, m.mutates)
			sc.setup.edits = slices.Concat(m.base, m.edits)
			list := overlay(t, sc.name, sc.setup.edits...)
			if testing.Short() {
				t.Skip("in the long run only: each mutant is built and run")
			}
			if len(m.base)+len(m.sql) > 0 {
				control := sc
				control.name, control.setup.sql, control.setup.edits = m.name+" (control)", m.sql, m.base
				broken := seen(play(t, control, build(t, overlay(t, control.name, m.base...)), seed+uint64(i)))
				if slices.Contains(m.base, lateNoLock) || slices.Contains(m.base, noLock) {
					// Without the lock two batches place the same buyers at once, and Postgres now and then ends one of them.
					broken = slices.DeleteFunc(broken, func(b string) bool { return strings.HasPrefix(b, "I4: deadlock") })
				}
				if len(broken) > 0 {
					t.Errorf("the control breaks something: %v", broken)
				}
			}
			broken := seen(play(lenient{t}, sc, build(t, list), seed+uint64(i)))
			t.Logf("%s: %v", m.name, broken)
			found := slices.IndexFunc(broken, func(b string) bool {
				name, _, _ := strings.Cut(b, ":")
				return slices.Contains(m.breaks, name)
			})
			if found < 0 {
				t.Fatalf("the mutant lives: it breaks none of %v", m.breaks)
			}
			why, _, _ := strings.Cut(broken[found], "\n")
			fmt.Fprintf(&rows, "| %s | %s | %s |\n", m.name, m.scenario, why)
		})
	}
	if tableWritten && !t.Failed() {
		if err := appendToTable("\n| mutant: the shop with | caught by | because |\n|---|---|---|\n" + rows.String()); err != nil {
			t.Error(err)
		}
	}
}

// lenient lets a mutant do what else it likes: it is judged by the invariants alone.
type lenient struct{ testing.TB }

func (l lenient) Error(args ...any)                 { l.Log(args...) }
func (l lenient) Errorf(format string, args ...any) { l.Logf(format, args...) }

// seen leaves out what the audit says of constraints that are missing: that they are is not news here.
func seen(broken []string) []string {
	return slices.DeleteFunc(broken, func(b string) bool { return strings.Contains(b, "is missing") })
}

// clockAhead has a whole process five minutes ahead of the others: the go command compiles its time package with a wrong
// clock. A mutant's edits may come on top.
var clockAhead = edit{"@time/time.go", "	sec, nsec, mono := runtimeNow()\n	if mono == 0 {", "	sec, nsec, mono := runtimeNow()\n	sec += 300\n	if mono == 0 {"}

// overlay writes the edited files, and the list of them that go build -overlay reads, and gives its path. A file that is not
// as the edit takes it to be is a fault of the test: the mutant would be none.
func overlay(t testing.TB, name string, edits ...edit) string {
	t.Helper()
	if len(edits) == 0 {
		return ""
	}
	dir := filepath.Join(ground.dir, "overlays", strings.ReplaceAll(name, " ", "-"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, replace := map[string]string{}, map[string]string{}
	for _, e := range edits {
		path := filepath.Join(root, e.file)
		if std, ok := strings.CutPrefix(e.file, "@"); ok {
			path = filepath.Join(strings.TrimSpace(string(goroot)), "src", std)
		}
		if _, read := text[path]; !read {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text[path] = string(b)
			replace[path] = filepath.Join(dir, fmt.Sprintf("%d-%s", len(replace), filepath.Base(path)))
		}
		if n := strings.Count(text[path], e.old); n != 1 {
			t.Fatalf("mutant %q: %d places in %s have what it replaces, want one:\n%s", name, n, e.file, e.old)
		}
		text[path] = strings.Replace(text[path], e.old, e.new, 1)
	}
	for path, to := range replace {
		if err := os.WriteFile(to, []byte(text[path]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, list, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
