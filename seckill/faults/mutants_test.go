//go:build faults && linux

package faults

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// edit replaces old by new at its only place in a file.
type edit struct{ file, old, new string }

// mutant is the shop without one of its defences. If a second defence protects the same invariant, base removes that one
// first. Then the control, which is the shop with base alone, must break no invariant, and the mutant must break one.
type mutant struct {
	name     string
	scenario string      // the scenario that must find it
	breaks   []string    // the mutant must break at least one of these invariants; "history" is the check by a model
	plan     func(*plan) // changes the crowd of the scenario
	base     []edit
	sql      []string // base in the database
	edits    []edit
	mutates  []string // the edit in the database
}

// isFoundBy reports whether a finding is of an invariant that the mutant must break.
func (m mutant) isFoundBy(broken string) bool {
	name, _, _ := strings.Cut(broken, ":")
	return slices.Contains(m.breaks, name)
}

var (
	noLock  = edit{"goods/stock.go", "\n\t\tfor    no key update of s`", "`"}
	noGuard = edit{"goods/stock.go", "and stock > 0 and stock >= $2", ""}
	noDupes = edit{"order/place.go", "and    not exists (select from orders o where o.user_id = t.user_id and o.sale_id = $1)", ""}
	noCheck = "alter table sales drop constraint stock_within_total"

	// These make the race happen in every run. lateNoLock also waits between the read of the row and the write. small makes the
	// batches so small that both clicks of a buyer find a unit.
	lateNoLock = edit{noLock.file, noLock.old, "\n\t\tand    pg_sleep(0.02) is not null`"}
	small      = edit{"seckill/lane.go", "waits && len(batch) < ls.batch;", "waits && len(batch) < 4;"}
)

var mutants = []mutant{
	{name: "no row lock", scenario: "a crowd without a gate", breaks: []string{"I1"},
		base: []edit{noGuard}, sql: []string{noCheck}, edits: []edit{lateNoLock}},
	{name: "no guard", scenario: "a crowd without a gate", breaks: []string{"I1"},
		base: []edit{lateNoLock}, sql: []string{noCheck}, edits: []edit{noGuard}},
	{name: "no unique index", scenario: "a crowd without a gate", breaks: []string{"I2"},
		base: []edit{noLock, noDupes, small}, mutates: []string{"alter table orders drop constraint one_order_per_user_and_sale"}},
	{name: "no reconcile", scenario: "cancelled at one process, bought at the other", breaks: []string{"I5", "I6"},
		edits: []edit{{"seckill/seckill.go", "doors.Go(func() { e.reconciler.Run(ctx) })", ""}}},
	{name: "no reclaim", scenario: "kill -9 at AfterReserve", breaks: []string{"I4"},
		edits: []edit{{"seckill/seckill.go", "doors.Go(func() { e.reclaimer.Run(ctx) })", ""}}},
	{name: "no look at what a process does not know to be its own", scenario: "a lost reply, and then silence", breaks: []string{"I6"},
		edits: []edit{{"seckill/reclaim.go", "if held > gate.ReserveLimit {", "if false {"}}},
	{name: "entries without an owner stay", scenario: "poison messages in the journal", breaks: []string{"I4", "I6"},
		edits: []edit{{"seckill/reclaim.go", "r.beats.Takes(e.Owner, held):", `e.Owner != "" && r.beats.Takes(e.Owner, held):`}}},
	{name: "silence is no death", scenario: threeMachines, breaks: []string{"I4"},
		edits: []edit{{"seckill/alive/beats.go", "return is.quiet\n", "return 0\n"}}},
	{name: "every moment is silence", scenario: tenMinutes, breaks: []string{"I4"}, plan: shortRush,
		edits: []edit{{"seckill/alive/beats.go", "return is.quiet\n", "return 2 * b.After\n"}}},
	{name: "silence by the time that an entry has waited", scenario: tenMinutes, breaks: []string{"I4"}, plan: shortRush,
		edits: []edit{{"seckill/alive/beats.go", "held = b.silence(owner)", "b.silence(owner)"}}},
	{name: "a takeover that does not count", scenario: threeMachines, breaks: []string{"I4"},
		edits: []edit{{"seckill/gate/scripts/takeover.lua", "string.format('%d', owners + 1)", "string.format('%d', owners)"}}},
	{name: "an ack that leaves the takeover", scenario: "kill -9 at BeforeAck", breaks: []string{"I10"},
		edits: []edit{{"seckill/gate/scripts/ack.lua", "redis.call('HDEL', KEYS[4], unpack(left))", ""}}},
	{name: "a journal without an expiry", scenario: "none", breaks: []string{"I10"},
		edits: []edit{{"seckill/gate/scripts/reserve.lua", "redis.call('PEXPIREAT', KEYS[3]", "redis.call('EXISTS', KEYS[3]"}}},
	{name: "script not idempotent", scenario: "a lost reply", breaks: []string{"I2"},
		edits: []edit{{"seckill/gate/scripts/reserve.lua", "local has = had[i]\n", "local has = false\n"}}},
	{name: "boot overwrites stock", scenario: "both processes killed and started", breaks: []string{"I1"},
		edits: []edit{{"seckill/seckill.go", "	settling, settled :=",
			"	e.rebuilder.DB.Exec(ctx, `update sales set stock = total`)\n	settling, settled :="}}},
	{name: "INCR on cancel", scenario: "cancelled at one process, bought at the other", breaks: []string{"I6"},
		edits: []edit{
			{"web/shop_orders.go", "	if err := s.orders.Cancel(", "	s.rush.Incr(r.Context())\n	if err := s.orders.Cancel("},
			{"seckill/seckill.go", "// Now returns", "func (e *Engine) Incr(ctx context.Context) { e.lanes.gate.Incr(ctx) }\n\n// Now returns"},
			{"seckill/gate/gate.go", "// State is", `func (g *Gate) Incr(ctx context.Context) {
	gates, _ := g.rdb.Keys(ctx, "ms:*:gate").Result()
	for _, gate := range gates {
		g.rdb.HIncrBy(ctx, gate, "stock", 1)
	}
}

// State is`}}},
	{name: "order row locked before sale row", scenario: "pay, cancel and five sweepers", breaks: []string{"I4"},
		edits: []edit{{"order/expire.go", `s.giveBack(ctx, s.locked.InTx, o.SaleID, `, `s.giveBack(ctx, orderFirst(s.locked.InTx, id), o.SaleID, `},
			{"order/expire.go", "// inTx tries", `func orderFirst(try inTx, id uuid.UUID) inTx {
	return func(ctx context.Context, db goods.DB, sale int64, do func(pgx.Tx) error) error {
		return try(ctx, db, sale, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "select from orders where id = $1 and status = 'pending' for no key update", id); err != nil {
				return err
			}
			time.Sleep(100 * time.Millisecond) // so that two meet in every run
			return do(tx)
		})
	}
}

// inTx tries`}, // and what else keeps two that meet from a deadlock
			{"order/expire.go", "limit  $2\n		       for    no key update skip locked)", "limit  $2)"},
			{"goods/locked.go", "LockWait = 100 * time.Millisecond", "LockWait = 1200 * time.Millisecond"}}},
	{name: "expiry by the process's clock", scenario: "a clock five minutes ahead", breaks: []string{"I9"},
		edits: []edit{
			{"order/expire.go", "where  sale_id = $1 and status = 'pending' and expires_at <= statement_timestamp()",
				"where  sale_id = $1 and status = 'pending' and expires_at <= $3"},
			{"order/expire.go", "for    no key update skip locked))`, sale, expireBatch)", "for    no key update skip locked))`, sale, expireBatch, time.Now())"},
			{"order/expire.go", "where  expires_at <= statement_timestamp() and sale_id <> all($1)\n		order  by expires_at\n		limit  100`, except)",
				"where  expires_at <= $2 and sale_id <> all($1)\n		order  by expires_at\n		limit  100`, except, time.Now())"}}},

	// Lies that no count sees: sold out while a unit is free, two answers about one ticket, two owners of one unit.
	{name: "a sold-out mark of four seconds", scenario: "none", breaks: []string{"history"},
		plan: func(p *plan) { p.units, p.span, p.cancels = 60, 8*time.Second, 60 }, // so that many units come back under a mark
		edits: []edit{{"seckill/lane.go", "soldOutMark  = 50 * time.Millisecond", "soldOutMark  = 4 * time.Second"},
			{"seckill/config.go", `default:"50ms"`, `default:"4s"`}}},
	{name: "sold out before the ticket is decided", scenario: "the sale's row locked for 5 s", breaks: []string{"history"},
		edits: []edit{{"seckill/seckill.go", "err == nil && status.State == None && e.reconciler.soldOut(sale)", "err == nil && !status.Final() && e.reconciler.soldOut(sale)"}}},
	{name: "the unit given back before the order is cancelled", scenario: "a crowd without a gate", breaks: []string{"history"},
		plan: func(p *plan) { p.cancels = 5 },
		edits: []edit{
			{"order/expire.go", "return goods.GiveBack(ctx, tx, sale, n)", "return nil"}, // of this scenario's orders none ends in another way
			{"order/expire.go", "	_, err = s.giveBack(ctx, s.locked.InTx, o.SaleID,", `	if o.Status == "pending" {
		if err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error { return goods.GiveBack(ctx, tx, o.SaleID, 1) }); err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond) // so that the unit is sold again in every run
	}
	_, err = s.giveBack(ctx, s.locked.InTx, o.SaleID,`},
			{"seckill/direct.go", "directMark = 5\n", "directMark = 0\n"}}},
	{name: "payment after the time to pay", scenario: "pay, cancel and five sweepers", breaks: []string{"history"},
		edits: []edit{{"order/pay.go", "where  id = $1 and status || '' = 'pending' and expires_at > clock_timestamp()`, c.OrderID)",
			"where  id = $1 and status = 'pending'`, c.OrderID)"}}},

	{name: "a gate that sells one unit too many", scenario: "none", breaks: []string{"I6"},
		edits: []edit{{"seckill/gate/scripts/reserve.lua", "elseif stock <= 0 then", "elseif stock < 0 then"}}},
	{name: "an ack that leaves the entry in the journal", scenario: "cancelled at one process, bought at the other", breaks: []string{"I4", "I5", "I6"},
		edits: []edit{{"seckill/gate/scripts/ack.lua", "redis.call('XDEL', KEYS[3], unpack(left))", ""}}},
	{name: "a fix that never lowers the stock", scenario: "Redis restored from an older AOF", breaks: []string{"I6"},
		plan:  func(p *plan) { p.units = 400 }, // so that the gate does not become right because all is sold
		edits: []edit{{"seckill/gate/scripts/fix.lua", "math.min(math.max(had, durable - waiting), durable)", "math.max(had, durable - waiting)"}}},
	{name: "an order cancelled twice", scenario: "cancelled at one process, bought at the other", breaks: []string{"I1", "I8"},
		mutates: []string{noCheck},
		edits: []edit{{"order/expire.go", "where  id = $1 and user_id = $2 and status || '' = 'pending'`, id, userID)", "where  id = $1 and user_id = $2`, id, userID)"},
			{"order/expire.go", "if o.Status != Pending {", "if false {"}}}, // the look before the lock spares the update most of them
	{name: "a payment of any amount", scenario: notices, breaks: []string{"I7"},
		edits: []edit{{"order/pay.go", "case c.Amount != price:", "case false:"}}},
	{name: "a payment of another order", scenario: notices, breaks: []string{"I7"},
		edits: []edit{{"order/pay.go", "case paidOrder != c.OrderID:", "case false:"}}},
	{name: "a notice without a signature", scenario: notices, breaks: []string{"I7"},
		edits: []edit{{"seckill/payment/notice.go", `if !hmac.Equal([]byte(Sign(key, timestamp, body)), []byte(h.Get("X-Signature"))) {`, "if false {"}}},
	{name: "no refunds", scenario: notices, breaks: []string{"I6"},
		edits: []edit{{"order/expire.go", "return s.DrainRefunds(ctx, p)", "return 0, nil"}}},
	{name: "an action without its line in the log", scenario: "two administrators in the rush", breaks: []string{"log"},
		edits: []edit{{"seckill/admin/admin.go", "		err := a.write(ctx, tx, by)\n", "		var err error\n"}}},
	{name: "a commit that warns counts", scenario: standbyIsAway, breaks: []string{"I3", "I4", "I7"},
		edits: []edit{{"seckill/backend/failover.go", "if bytes.Contains(notice, notReplicated) {", "if bytes.Contains(notice, notReplicated) && false {"}}},
	{name: "orders told of that the standby does not have", scenario: standbyIsAway, breaks: []string{"I3"},
		edits: []edit{{"order/order.go", "const durable = `(select current_setting('synchronous_standby_names') = '' or pg_logical_emit_message(true, 'miaosha', '') is not null)`",
			"const durable = `true`"}}},
	{name: "a dead master called for a minute", scenario: "a Cluster's master killed", breaks: []string{"I4", "I6"},
		edits: []edit{{"seckill/backend/redis.go", "nodesEvery = 300 * time.Millisecond", "nodesEvery = time.Hour"}}}, // for the minute that the suite waits
}

const (
	notices       = "payment notices repeated, late, reordered, forged, wrong"
	standbyIsAway = "the standby away, commits without it, then it is promoted"
)

// TestMutants proves that the suite finds faults of the shop. Each mutant must break one of its invariants in its scenario,
// and its control must break none. The short run only checks that the code which a mutant removes is still there.
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
			if m.plan != nil {
				m.plan(&sc.crowd)
			}
			list := overlay(t, sc.name, sc.setup.edits...)
			if testing.Short() {
				t.Skip("in the long run only: each mutant is built and run")
			}
			if len(m.base)+len(m.sql) > 0 {
				control := sc
				control.name, control.setup.sql, control.setup.edits = m.name+" (control)", m.sql, m.base
				v := repeat(t, control.name, func(t testing.TB) verdict {
					return runScenario(t, control, build(t, overlay(t, control.name, m.base...)), seed+uint64(i))
				})
				broken := withoutMissing(slices.Concat(v.wrong(), v.open()))
				if slices.Contains(m.base, lateNoLock) || slices.Contains(m.base, noLock) {
					// Without the lock two batches place the same buyers at once, and Postgres sometimes ends one as a deadlock.
					// A batch that will be rolled back holds units meanwhile, so another is told "sold out" too soon.
					broken = slices.DeleteFunc(broken, func(b string) bool {
						return strings.HasPrefix(b, "I4: deadlock") || strings.HasPrefix(b, "history: ") && strings.Contains(b, "told sold out fits nowhere")
					})
				}
				if len(broken) > 0 {
					t.Errorf("the control breaks an invariant: %v", broken)
				}
			}
			// A bound that is missed while others have the processors proves nothing about a mutant either.
			var broken []string
			for n := 0; n < runs && !slices.ContainsFunc(broken, m.isFoundBy); n++ {
				v := once(t, func(t testing.TB) verdict { return runScenario(lenient{t}, sc, build(t, list), seed+uint64(i)) })
				broken = withoutMissing(v.wrong())
				t.Logf("%s: %v; inconclusive: %v; others had %s of the processors", m.name, broken, slices.Concat(v.late, v.little), formatShare(v.outside))
				if len(v.little) == 0 && !v.starved() {
					break // another run would find the same
				}
			}
			if alone := len(broken) > 0 && !slices.ContainsFunc(broken, func(b string) bool { return !strings.HasPrefix(b, "history: ") }); alone {
				t.Log("the history alone finds it: no count is wrong")
			}
			found := slices.IndexFunc(broken, m.isFoundBy)
			if found < 0 {
				t.Fatalf("the suite does not find the mutant: it breaks none of %v", m.breaks)
			}
			why, _, _ := strings.Cut(broken[found], "\n")
			rows.WriteString(tableRow(m.name, m.scenario, why))
		})
	}
	if resultsWritten && !t.Failed() {
		if err := appendToResults("\n" + tableHead(mutantColumns) + rows.String()); err != nil {
			t.Error(err)
		}
	}
}

// lenient ignores the other errors of a mutant: only the invariants count.
type lenient struct{ testing.TB }

func (l lenient) Error(args ...any)                 { l.Log(args...) }
func (l lenient) Errorf(format string, args ...any) { l.Logf(format, args...) }

// withoutMissing removes the findings about missing constraints: the mutant removed them on purpose.
func withoutMissing(broken []string) []string {
	return slices.DeleteFunc(broken, func(b string) bool { return strings.Contains(b, "is missing") })
}
