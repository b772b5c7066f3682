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
	"golang.org/x/sync/errgroup"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/audit"
	"miaosha/seckill/gate"
	"miaosha/seckill/sandbox/sandboxtest"
)

// activeSale returns the database of an active shop, and a Redis without a gate. change, unless it is "", changes the
// sale. key returns the sale's keys in Redis.
func activeSale(t *testing.T, change string) (db *pgxpool.Pool, rdb redis.UniversalClient, sale int64, key func(string) string) {
	t.Helper()
	db, sale, _ = activeShop(t)
	if change != "" {
		execute(t, db, `update sales set `+change)
	}
	return db, sandboxtest.Redis(t), sale, func(name string) string { return fmt.Sprintf("ms:{%d}:%s", sale, name) }
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
	for _, test := range []struct {
		name    string
		gate    gate
		journal string // a journal with an entry of two tickets
		sale    string // a change of the sale
		broken  string
	}{
		{"right", with(2, 0), "", "", ""},
		{"right, and an empty journal has no tickets", with(2, 5), "", "", ""},
		{"absent", nil, "", "", ""},
		{"wrong", with(3, 0), "", "", wrong},
		{"wrong, paused", with(3, 0), "", `state = 'paused'`, wrong},
		{"wrong, with tickets in the journal", with(3, 2), "journal2", "", ""},
		{"wrong, with tickets in the former journal", with(3, 0), "journal", "", ""},
		{"a wrong count", with(2, 1), "journal2", "", miscount},
		{"a wrong count after the sale", with(2, 1), "journal2", `starts_at = now() - interval '2 h', ends_at = now() - interval '1 h'`, miscount},
		{"without a gate", nil, "journal2", "", ""},
		{"wrong, after the sale", with(3, 0), "", `starts_at = now() - interval '2 h', ends_at = now() - interval '1 h'`, ""},
		{"wrong, before the sale", with(3, 0), "", `starts_at = now() + interval '10 s'`, ""},
		{"wrong, draft", with(3, 0), "", `state = 'draft'`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // a broken gate takes more than a second
			db, rdb, sale, key := activeSale(t, test.sale)
			if test.gate != nil {
				if err := rdb.HSet(t.Context(), key("gate"), map[string]any(test.gate)).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if test.journal != "" {
				tickets := "1 " + uuid.NewString() + " 2 " + uuid.NewString()
				if err := rdb.Do(t.Context(), "xadd", key(test.journal), "*", "epoch", 1, "n", 2, "tickets", tickets).Err(); err != nil {
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
	for _, test := range []struct {
		name   string
		since  time.Duration
		stock  int // at the last refusal
		gate   int // stock of the gate now
		sale   string
		broken bool
	}{
		{name: "two lives and more", since: 130 * time.Second, stock: 2, gate: 2, broken: true},
		{name: "units came back", since: 130 * time.Second, stock: 1, gate: 2, broken: true},
		{name: "less than two lives", since: 100 * time.Second, stock: 2, gate: 2},
		{name: "a unit was sold since", since: 130 * time.Second, stock: 3, gate: 2},
		{name: "after the sale", since: 130 * time.Second, stock: 2, gate: 2, sale: `starts_at = now() - interval '2 h', ends_at = now() - interval '1 h'`},
		{name: "no refusal", gate: 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			db, rdb, sale, key := activeSale(t, test.sale)
			now, err := rdb.Time(t.Context()).Result()
			if err != nil {
				t.Fatal(err)
			}
			if err := rdb.HSet(t.Context(), key("gate"), "epoch", 1, "ops", 0, "stock", test.gate, "state", "published").Err(); err != nil {
				t.Fatal(err)
			}
			if test.since > 0 {
				if err := rdb.HSet(t.Context(), key("refusing"), "since", now.Add(-test.since).UnixMilli(), "stock", test.stock, "ops", 0, "life", 60_000).Err(); err != nil {
					t.Fatal(err)
				}
			}
			found, err := audit.Gates(t.Context(), db, rdb)
			if err != nil {
				t.Fatal(err)
			}
			var rows []string
			for _, f := range found {
				rows = append(rows, f.Invariant+" "+strings.Join(f.Rows, ", "))
			}
			if broken := len(rows) == 1 && strings.HasPrefix(rows[0], fmt.Sprintf("I5 sale=%d left=2 refuses=2m1", sale)); broken != test.broken || !broken && len(rows) > 0 {
				t.Errorf("found %q", rows)
			}
		})
	}
}

// A gate may be wrong for a moment, until reconcile corrects it.
func TestAGateThatIsCorrectedIsNotBroken(t *testing.T) {
	db, rdb, _, key := activeSale(t, "")
	gate := key("gate")
	if err := rdb.HSet(t.Context(), gate, "epoch", 1, "ops", 0, "stock", 4).Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	timer := time.AfterFunc(500*time.Millisecond, func() { rdb.HSet(ctx, gate, "stock", 2) })
	defer timer.Stop()
	if found, err := audit.Gates(t.Context(), db, rdb); err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
}

// A gate that changes is not idle. It may differ from Postgres each time.
func TestAGateThatChangesIsNotBroken(t *testing.T) {
	db, rdb, _, key := activeSale(t, "")
	gate := key("gate")
	if err := rdb.HSet(t.Context(), gate, "epoch", 1, "ops", 0, "stock", 4).Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var changing errgroup.Group
	changing.Go(func() error {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			rdb.HIncrBy(ctx, gate, "ops", 1)
			<-tick.C
		}
		return nil
	})
	found, err := audit.Gates(t.Context(), db, rdb)
	cancel()
	changing.Wait()
	if err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
}

func TestNoTicketWaitsTooLong(t *testing.T) {
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
		{name: "before the sale", age: 20 * time.Second, sale: `starts_at = now() + interval '1 m'`},
		{name: "draft", age: 20 * time.Second, sale: `state = 'draft'`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			db, rdb, sale, key := activeSale(t, test.sale)
			now, err := rdb.Time(t.Context()).Result()
			if err != nil {
				t.Fatal(err)
			}
			journal, entry := key("journal2"), fmt.Sprintf("%d-0", now.Add(-test.age).UnixMilli())
			for _, id := range []string{entry, "*"} { // only the first is old
				if err := rdb.Do(t.Context(), "xadd", journal, id, "user", 1).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if gates, err := gate.States(t.Context(), rdb, []int64{sale}); err != nil || gates[sale].Entries != 2 {
				t.Fatalf("the gate does not read this journal: %+v, %v", gates, err)
			}
			if test.settle {
				defer time.AfterFunc(700*time.Millisecond, func() { rdb.XDel(context.WithoutCancel(t.Context()), journal, entry) }).Stop()
			}
			var out strings.Builder
			clean, err := audit.Run(t.Context(), db, rdb, &out)
			want := "every invariant holds\n"
			if test.broken {
				want = fmt.Sprintf("BROKEN I4: a ticket has waited in the journal for longer than reclaim needs\n    sale=%d entry=%s waits=2", sale, entry)
			}
			if err != nil {
				t.Fatal(err)
			}
			if clean == test.broken {
				t.Errorf("clean is %v", clean)
			}
			if !strings.HasPrefix(out.String(), want) {
				t.Errorf("the audit printed %q, want %q at its start", &out, want)
			}
		})
	}
}

// A ticket must be overdue at each try. One that becomes overdue during the tries is not reported, though the ticket of
// another sale is.
func TestATicketMustBeOverdueAtEachTry(t *testing.T) {
	db, overdue, _ := activeShop(t)
	now := time.Now()
	fresh, err := goods.New(db).Sell(t.Context(), goods.Item{Title: "tea"},
		goods.Terms{Price: 1, Total: 1, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	rdb := sandboxtest.Redis(t)
	if now, err = rdb.Time(t.Context()).Result(); err != nil {
		t.Fatal(err)
	}
	for journal, age := range map[string]time.Duration{
		gate.FormerJournalKey(overdue): 20 * time.Second,
		gate.JournalKey(fresh):         14200 * time.Millisecond,
	} {
		entry := fmt.Sprintf("%d-0", now.Add(-age).UnixMilli())
		if err := rdb.Do(t.Context(), "xadd", journal, entry, "user", 1).Err(); err != nil {
			t.Fatal(err)
		}
	}
	found, err := audit.Gates(t.Context(), db, rdb)
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
	db, rdb, sale, key := activeSale(t, "")
	s := goods.New(db)
	engine, err := seckill.New(seckill.Config{Captcha: "off", Gate: "redis", GateFactor: 5, PathTTL: time.Minute, MaxInFlight: 10, QMax: 100, Optimisations: seckill.AllOptimisations()},
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
