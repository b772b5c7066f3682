package seckill

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// simEdit replaces old by new at its only place in a file of the module.
type simEdit struct{ file, old, new string }

// simMutants are decisions of the protocol that are taken out. The simulation must find each of
// them. Decisions in SQL are out of its reach, because its Postgres is a model: seckill/faults has
// mutants of those. One mutant is of the model: a trigger that does nothing.
var simMutants = []struct {
	name  string
	edits []simEdit
}{
	{"a fix ignores the tickets in flight", []simEdit{
		{"seckill/gate/scripts/fix.lua", "math.min(math.max(had, durable - waiting), durable)", "durable"},
		{"seckill/diagnose.go", "o.sale.Stock-o.gate.InFlight", "o.sale.Stock"}}},
	{"a fix does not compare before it sets", []simEdit{
		{"seckill/gate/scripts/fix.lua", "gate[1] ~= ARGV[1] or gate[2] ~= ARGV[2] or not gate[3]", "not gate[3]"}}},
	{"no fix", []simEdit{
		{"seckill/diagnose.go", "if o.own && o.drift() > 0 {", "if false {"}}},
	{"a rebuild does not seed the owners", []simEdit{
		{"seckill/rebuild/rebuild.go", "seeded := created || gates[sale].Epoch == 0", "seeded := created && gates[sale].Epoch < 0"}}},
	{"reconcile forgets a sale that is not near", []simEdit{
		{"seckill/diagnose.go", "(o.sale.Near || o.gate.Epoch != 0)", "o.sale.Near"}}},
	{"reconcile looks for no gate of before a change", []simEdit{
		{"seckill/reconcile.go", "r.last = r.andChanged(ctx, sales)", "r.last = sales"}}},
	{"a change takes no epoch", []simEdit{
		{"seckill/simulation_postgres_test.go", "s.epoch = m.epoch\n\t\tif", "if"}}},
	{"an ack comes before the commit", []simEdit{
		{"seckill/settle.go", "return failpoint.Hit(failpoint.BeforeCommit)", "s.acks.ackOrKeep(ctx, sale, results)\n\t\treturn failpoint.Hit(failpoint.BeforeCommit)"}}},
	{"the queue drops its tail", []simEdit{
		{"seckill/queue/queue.go", "s.batch, s.waiting = s.waiting[:n:n], s.waiting[n:]", "s.batch, s.waiting = s.waiting[:min(n, 1)], nil"}}},
	{"the lane keeps the room that it does not need", []simEdit{
		{"seckill/lane.go", "ls.queue.ReleaseRoom(room - len(granted))", ""}}},
	{"reserve does not look for the user's ticket", []simEdit{
		{"seckill/gate/scripts/reserve.lua", "local has = had[i]\n", "local has = false\n"}}},
	{"install ignores the epoch", []simEdit{
		{"seckill/gate/scripts/install.lua", "if has and tonumber(has) >= epoch then", "if false then"},
		{"seckill/rebuild/rebuild.go", "} else if has >= locked.Epoch {", "} else if false {"}}},
	{"install ignores the journal", []simEdit{
		{"seckill/gate/scripts/install.lua", "tonumber(ARGV[5]) - in_flight", "tonumber(ARGV[5])"}}},
	{"an entry leaves before all of its tickets have results", []simEdit{
		{"seckill/queue/queue.go", "for n < len(s.waiting) && gate.SameEntry(s.waiting[n-1], s.waiting[n]) {", "n = 1\n\tfor false {"},
		{"seckill/gate/scripts/ack.lua", "n <= given and string", "string"}}},
	{"an entry that is settled in parts stays", []simEdit{
		{"seckill/queue/queue.go", "for n < len(s.waiting) && gate.SameEntry(s.waiting[n-1], s.waiting[n]) {", "n = 1\n\tfor false {"}}},
	{"an ack leaves the count of the journal", []simEdit{
		{"seckill/gate/scripts/ack.lua", "tonumber(gate[2]) - gone", "tonumber(gate[2])"}}},
	{"an ack does not count", []simEdit{
		{"seckill/gate/scripts/ack.lua", "redis.call('HINCRBY', KEYS[1], 'ops', 1)", ""}}},
	{"a process is dead after a second", []simEdit{
		{"seckill/alive/beats.go", "DeadAfter   = 5 * time.Second ", "DeadAfter   = 5 * time.Second\n\tmutated     = time.Second "},
		{"seckill/alive/beats.go", "After: DeadAfter,", "After: mutated,"}}},
	{"owners are dead at once", []simEdit{
		{"seckill/alive/beats.go", "held = b.silence(owner)", "held = 2 * b.After"}}},
	{"no takeover of what dead processes left", []simEdit{
		{"seckill/reclaim.go", "return r.takeOver(ctx, sale, left)", "return nil"}}},
	{"no look for what a process does not know to be its own", []simEdit{
		{"seckill/reclaim.go", "if held > gate.ReserveLimit {", "if false {"}}},
	{"a missing gate is sold out", []simEdit{
		{"seckill/gate/errors.go", "\tcase \"NOGATE\":\n\t\treturn ErrNoGate", "\tcase \"NOGATE\":\n\t\treturn goods.ErrSoldOut"}}},
	{"no owner is seeded after a sale without the gate", []simEdit{
		{"seckill/diagnose.go", "case o.gate.Known < o.sale.Bypasses:", "case false:"}}},
	{"no window without the gate", []simEdit{
		{"seckill/direct.go", "if err := sale.Window(); err != nil {", "if err := sale.Window(); err != nil && false {"}}},
	{"a sale without the gate does not wait for its mark", []simEdit{
		{"seckill/direct.go", "time.Sleep(d.untilSeen(locked))", ""},
		{"seckill/direct.go", " || d.untilSeen(sale) > 0", ""}}},
	{"an unsure process confirms nothing", []simEdit{
		{"seckill/lane.go", "!sure && (b.err", "false && (b.err"}}},
	{"a mark is taken off at once", []simEdit{
		{"seckill/diagnose.go", "quietFor = 3 * time.Second", "quietFor = 0 * time.Second"},
		{"seckill/diagnose.go", "case o.gate.Known < o.sale.Bypasses:", "case false:"}}},
	{"a reading is believed for ever, and Redis goes back unseen", []simEdit{
		{"seckill/watch/readings.go", "r.bySale == nil || r.stamp.IsZero() || !stamp.Equal(r.stamp)", "r.bySale == nil || stamp.Before(r.stamp) && false"},
		{"seckill/watch/readings.go", "age > g.believedFor(), must", "must"},
		{"seckill/watch/readings.go", "g.believedFor() - now.Sub(g.at)", "time.Hour - now.Sub(g.at)"}}},
	{"an order takes no unit", []simEdit{
		{"order/place.go", "if len(won) > 0 {", "if false {"}}},
	{"the unit of an order that ends does not come back", []simEdit{
		{"order/expire.go", "return goods.GiveBack(ctx, tx, sale, n)", "return nil"}}},
	{"a late capture counts", []simEdit{
		{"order/pay.go", "status = \"refund_due\"\n\tif tag", "status = \"captured\"\n\tif tag"}}},
}

// mutantSeeds is how many seeds may run before a mutant is found.
const mutantSeeds = 3000

// TestSimulationFindsMutants compiles each mutant and runs the simulation until it fails. It takes
// minutes, so it does so only with MIAOSHA_SIM_MUTANTS set (make simulate). Otherwise it checks
// that the text which a mutant removes is still there.
func TestSimulationFindsMutants(t *testing.T) {
	build := os.Getenv("MIAOSHA_SIM_MUTANTS") != ""
	for _, m := range simMutants {
		t.Run(m.name, func(t *testing.T) {
			list := mutantOverlay(t, m.edits)
			if !build {
				return
			}
			binary := filepath.Join(t.TempDir(), "mutant.test")
			if out, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", list, "-o", binary, ".").CombinedOutput(); err != nil {
				t.Fatalf("compile: %v\n%s", err, out)
			}
			run := exec.Command(binary, "-test.run", "^TestSimulation$")
			run.Env = append(os.Environ(), fmt.Sprint("MIAOSHA_SIM_SEEDS=", mutantSeeds), "MIAOSHA_SIM_SHRINK=off", "MIAOSHA_SIM_SECONDS=",
				"MIAOSHA_SIM_FIRST=", "MIAOSHA_SIM=")
			out, err := run.CombinedOutput()
			found := regexp.MustCompile(`seed \d+, the (\d+)th: (.*)`).FindStringSubmatch(string(out))
			switch {
			case err == nil:
				t.Errorf("the simulation does not find this mutant in %d seeds", mutantSeeds)
			case found == nil:
				t.Errorf("the mutant does not run: %v\n%s", err, out)
			default:
				t.Logf("found by seed %s: %s", found[1], found[2])
			}
		})
	}
}

// mutantOverlay writes the edited files and the list of them for go test -overlay, and returns the
// path of the list.
func mutantOverlay(t *testing.T, edits []simEdit) string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir, replace := t.TempDir(), map[string]string{}
	for i, e := range edits {
		path := filepath.Join(root, e.file)
		from := path
		if edited, ok := replace[path]; ok {
			from = edited
		}
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(b), e.old); n != 1 {
			t.Fatalf("the text to replace is %d times in %s, want once:\n%s", n, e.file, e.old)
		}
		replace[path] = filepath.Join(dir, fmt.Sprintf("%d-%s", i, filepath.Base(path)))
		if err := os.WriteFile(replace[path], []byte(strings.Replace(string(b), e.old, e.new, 1)), 0o644); err != nil {
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
