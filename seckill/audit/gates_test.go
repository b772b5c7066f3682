package audit_test

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/audit"
	"miaosha/seckill/gate"
	"miaosha/seckill/sandbox/sandboxtest"
)

// activeSale returns a new sale of two units, and a Redis without a gate. change, unless it is "", changes
// the sale. key returns the sale's keys in Redis. The gates of other sales in the database are in another
// Redis.
func activeSale(t *testing.T, db *pgxpool.Pool, change string) (rdb redis.UniversalClient, sale int64, key func(string) string) {
	t.Helper()
	now := time.Now()
	sale, err := goods.New(db).Sell(t.Context(), goods.Item{Title: "kettle"},
		goods.Terms{Price: 100, Total: 2, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if change != "" {
		execute(t, db, fmt.Sprintf(`update sales set %s where id = %d`, change, sale))
	}
	return sandboxtest.Redis(t), sale, func(name string) string { return fmt.Sprintf("ms:{%d}:%s", sale, name) }
}

func TestGatesAreCheckedAgainstPostgres(t *testing.T) {
	type gate map[string]any
	with := func(stock, inFlight int) gate {
		return gate{"epoch": 1, "ops": 0, "stock": stock, "in_flight": inFlight, "state": "published"}
	}
	const (
		wrong    = "BROKEN I6: an idle gate's stock is not the sale's\n    sale=%d gate=3 postgres=2\n"
		miscount = "BROKEN I6: a gate does not count the tickets in its journal right\n    sale=%d gate=1 journal=2\n"
	)
	db := sandboxtest.DB(t)
	for _, test := range []struct {
		name    string
		gate    gate
		journal bool   // it has a journal with an entry of two tickets
		sale    string // a change of the sale
		broken  string
	}{
		{"right", with(2, 0), false, "", ""},
		{"right, and an empty journal has no tickets", with(2, 5), false, "", ""},
		{"absent", nil, false, "", ""},
		{"wrong", with(3, 0), false, "", wrong},
		{"wrong, paused", with(3, 0), false, `state = 'paused'`, wrong},
		{"wrong, with tickets in the journal", with(3, 2), true, "", ""},
		{"a wrong count", with(2, 1), true, "", miscount},
		{"a wrong count after the sale", with(2, 1), true, `starts_at = now() - interval '2 h', ends_at = now() - interval '1 h'`, miscount},
		{"without a gate", nil, true, "", ""},
		{"wrong, after the sale", with(3, 0), false, `starts_at = now() - interval '2 h', ends_at = now() - interval '1 h'`, ""},
		{"wrong, before the sale", with(3, 0), false, `starts_at = now() + interval '30 m'`, ""},
		{"wrong, draft", with(3, 0), false, `state = 'draft'`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // a broken gate takes more than a second
			rdb, sale, key := activeSale(t, db, test.sale)
			if test.gate != nil {
				if err := rdb.HSet(t.Context(), key("gate"), map[string]any(test.gate)).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if test.journal {
				tickets := "1 " + uuid.NewString() + " 2 " + uuid.NewString()
				if err := rdb.Do(t.Context(), "xadd", key("journal2"), "*", "epoch", 1, "n", 2, "tickets", tickets).Err(); err != nil {
					t.Fatal(err)
				}
			}
			var out strings.Builder
			clean, err := audit.Run(t.Context(), db, rdb, &out)
			want := "every invariant holds\n"
			if test.broken != "" {
				want = fmt.Sprintf(test.broken, sale)
			}
			if err != nil {
				t.Fatal(err)
			}
			if clean != (test.broken == "") {
				t.Errorf("clean is %v", clean)
			}
			if diff := cmp.Diff(want, out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A big gate that refuses buyers for two address lives, while units are left and none is sold, breaks I5.
func TestUnitsLeftBesideRefusals(t *testing.T) {
	db := sandboxtest.DB(t)
	for _, test := range []struct {
		name   string
		since  time.Duration
		stock  int // at the last refusal
		gate   int // stock of the gate now
		sale   string
		broken bool
	}{
		{name: "two lives and more", since: 2*time.Hour + time.Second, stock: 2, gate: 2, broken: true},
		{name: "units came back", since: 2*time.Hour + time.Second, stock: 1, gate: 2, broken: true},
		{name: "less than two lives", since: 100 * time.Minute, stock: 2, gate: 2},
		{name: "a unit was sold since", since: 2*time.Hour + time.Second, stock: 3, gate: 2},
		{name: "after the sale", since: 2*time.Hour + time.Second, stock: 2, gate: 2, sale: `starts_at = now() - interval '2 h', ends_at = now() - interval '1 h'`},
		{name: "no refusal", gate: 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			rdb, sale, key := activeSale(t, db, test.sale)
			now, err := rdb.Time(t.Context()).Result()
			if err != nil {
				t.Fatal(err)
			}
			if err := rdb.HSet(t.Context(), key("gate"), "epoch", 1, "ops", 0, "stock", test.gate, "in_flight", 0, "state", "published").Err(); err != nil {
				t.Fatal(err)
			}
			if test.since > 0 {
				if err := rdb.HSet(t.Context(), key("refusing"), "since", now.Add(-test.since).UnixMilli(), "stock", test.stock, "ops", 0, "life", time.Hour.Milliseconds()).Err(); err != nil {
					t.Fatal(err)
				}
			}
			found, err := audit.GatesWith(t.Context(), db, rdb, func(int) {})
			if err != nil {
				t.Fatal(err)
			}
			var rows []string
			for _, f := range found {
				rows = append(rows, f.Invariant+" "+strings.Join(f.Rows, ", "))
			}
			if broken := len(rows) == 1 && strings.HasPrefix(rows[0], fmt.Sprintf("I5 sale=%d left=2 refuses=2h", sale)); broken != test.broken || !broken && len(rows) > 0 {
				t.Errorf("found %q", rows)
			}
		})
	}
}

// A gate may be wrong for a moment, until reconcile corrects it.
func TestAGateThatIsCorrectedIsNotBroken(t *testing.T) {
	db := sandboxtest.DB(t)
	rdb, _, key := activeSale(t, db, "")
	gate, tries := key("gate"), 0
	if err := rdb.HSet(t.Context(), gate, "epoch", 1, "ops", 0, "stock", 4, "in_flight", 0).Err(); err != nil {
		t.Fatal(err)
	}
	found, err := audit.GatesWith(t.Context(), db, rdb, func(try int) {
		if tries = try; try == 2 {
			rdb.HSet(t.Context(), gate, "stock", 2)
		}
	})
	if err != nil || len(found) > 0 || tries != 2 {
		t.Errorf("found %v, %v, after %d more tries, want nothing after 2", found, err, tries)
	}
}

// A gate that changes is not idle. It may differ from Postgres each time.
func TestAGateThatChangesIsNotBroken(t *testing.T) {
	db := sandboxtest.DB(t)
	rdb, _, key := activeSale(t, db, "")
	gate := key("gate")
	if err := rdb.HSet(t.Context(), gate, "epoch", 1, "ops", 0, "stock", 4, "in_flight", 0).Err(); err != nil {
		t.Fatal(err)
	}
	changed := 0
	found, err := audit.GatesWith(t.Context(), db, rdb, func(int) {
		changed++
		rdb.HIncrBy(t.Context(), gate, "ops", 1)
	})
	if err != nil || len(found) > 0 || changed == 0 {
		t.Errorf("found %v, %v, and the gate changed %d times", found, err, changed)
	}
}

func TestNoTicketWaitsTooLong(t *testing.T) {
	waits := regexp.MustCompile(`waits=(2[0-9]|[3-9][0-9])s|waits=\d+m\d+s`) // 20 s and what the test took
	db := sandboxtest.DB(t)
	for _, test := range []struct {
		name   string
		age    time.Duration
		sale   string // a change of the sale
		settle bool   // during the audit
		broken bool
	}{
		{name: "fresh", age: 0},
		{name: "within the time of reclaim", age: 12 * time.Second},
		{name: "overdue", age: 20 * time.Second, broken: true},
		{name: "overdue in a paused sale", age: 20 * time.Second, sale: `state = 'paused'`, broken: true},
		{name: "overdue in a closed sale", age: 20 * time.Second, sale: `state = 'closed'`, broken: true},
		{name: "overdue after the end", age: 20 * time.Second, sale: `starts_at = now() - interval '26 h', ends_at = now() - interval '24 h'`, broken: true},
		{name: "settled during the audit", age: 20 * time.Second, settle: true},
		{name: "long after the end", age: 20 * time.Second, sale: `starts_at = now() - interval '27 h', ends_at = now() - interval '26 h'`},
		{name: "before the sale", age: 20 * time.Second, sale: `starts_at = now() + interval '30 m'`},
		{name: "draft", age: 20 * time.Second, sale: `state = 'draft'`},
	} {
		t.Run(test.name, func(t *testing.T) {
			rdb, sale, key := activeSale(t, db, test.sale)
			journal, entry := key("journal2"), ""
			var found []audit.Finding
			sandboxtest.Until(t, "an audit ends before a ticket gets overdue", func() bool {
				now, err := rdb.Time(t.Context()).Result()
				if err != nil {
					t.Fatal(err)
				}
				rdb.Del(t.Context(), journal)
				entry = fmt.Sprintf("%d-0", now.Add(-test.age).UnixMilli())
				for _, id := range []string{entry, "*"} { // only the first is old
					if err := rdb.Do(t.Context(), "xadd", journal, id, "user", 1).Err(); err != nil {
						t.Fatal(err)
					}
				}
				if gates, err := gate.States(t.Context(), rdb, []int64{sale}); err != nil || gates[sale].Entries != 2 {
					t.Fatalf("the gate does not read this journal: %+v, %v", gates, err)
				}
				found, err = audit.GatesWith(t.Context(), db, rdb, func(try int) {
					if test.settle && try == 2 {
						rdb.XDel(t.Context(), journal, entry)
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				return test.age > audit.TicketLimit || test.age+rdb.Time(t.Context()).Val().Sub(now) < audit.TicketLimit
			})
			var got []string
			for _, f := range found {
				got = append(got, f.Invariant+" "+f.Meaning+" "+waits.ReplaceAllString(strings.Join(f.Rows, " "), "waits=T"))
			}
			var want []string
			if test.broken {
				want = []string{fmt.Sprintf("I4 a ticket has waited in the journal for longer than reclaim needs sale=%d entry=%s waits=T", sale, entry)}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A ticket must be overdue at each try. One that becomes overdue during the tries is not reported, though the ticket of
// another sale is.
func TestATicketMustBeOverdueAtEachTry(t *testing.T) {
	db := sandboxtest.DB(t)
	rdb, overdue, _ := activeSale(t, db, "")
	_, fresh, _ := activeSale(t, db, "")
	now, err := rdb.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	entry := fmt.Sprintf("%d-0", now.Add(-20*time.Second).UnixMilli())
	add := func(journal string) {
		if err := rdb.Do(t.Context(), "xadd", journal, entry, "user", 1).Err(); err != nil {
			t.Fatal(err)
		}
	}
	add(gate.JournalKey(overdue))
	found, err := audit.GatesWith(t.Context(), db, rdb, func(try int) {
		if try == 1 {
			add(gate.JournalKey(fresh))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var sales []string
	for _, f := range found {
		for _, row := range f.Rows {
			sale, _, _ := strings.Cut(row, " ")
			sales = append(sales, sale)
		}
	}
	if diff := cmp.Diff([]string{fmt.Sprintf("sale=%d", overdue)}, sales); diff != "" {
		t.Errorf("found %v: %s", found, diff)
	}
}

// Dead letters of the engine are noted. They break no invariant.
func TestDeadLettersAreNoted(t *testing.T) {
	db := sandboxtest.DB(t)
	rdb, sale, key := activeSale(t, db, "")
	s := goods.New(db)
	engine, err := seckill.New(seckill.Config{Gate: "redis", GateFactor: 5, AddressTTL: time.Minute, MaxInFlight: 10, QMax: 100, QueueWorkers: 6, Optimisations: seckill.AllOptimisations()},
		seckill.Deps{DB: db, Redis: rdb, Sales: s, Cache: goods.NewCache(s), Orders: order.New(db, order.Config{PayWithin: time.Hour}),
			Secret: make([]byte, 32), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := rdb.Do(t.Context(), "xadd", key("journal2"), "*", "no", "ticket").Err(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { engine.Run(ctx) })
	defer running.Wait()
	defer cancel()
	want := fmt.Sprintf("note: sale %d has 2 dead letters\n    T entry=E was_no=ticket\n    T entry=E was_no=ticket\nevery invariant holds\n", sale)
	atAndEntry := regexp.MustCompile(`2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\dZ entry=\d+-\d+ `)
	var got string
	sandboxtest.Poll(func() bool {
		var out strings.Builder
		if clean, err := audit.Run(t.Context(), db, rdb, &out); err != nil || !clean {
			t.Fatalf("clean %v, %v: %s", clean, err, &out)
		}
		got = atAndEntry.ReplaceAllString(out.String(), "T entry=E ")
		return got == want
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
