package audit_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/audit"
	"miaosha/seckill/sandbox/sandboxtest"
)

// beside is a lively database, with a change of its sale unless that is "", and a Redis. key names the sale's keys there.
func beside(t *testing.T, change string) (db *pgxpool.Pool, rdb redis.UniversalClient, sale int64, key func(string) string) {
	t.Helper()
	db, sale, _ = lively(t)
	if change != "" {
		execute(t, db, `update sales set `+change)
	}
	return db, sandboxtest.Redis(t), sale, func(name string) string { return fmt.Sprintf("ms:{%d}:%s", sale, name) }
}

func TestGatesAreHeldAgainstPostgres(t *testing.T) {
	type gate map[string]any
	fits := gate{"epoch": 1, "ops": 0, "stock": 2, "state": "published"}
	off := gate{"epoch": 1, "ops": 0, "stock": 3, "state": "published"}
	for _, test := range []struct {
		name    string
		gate    gate
		journal bool
		sale    string // what is done to the sale
		broken  bool
	}{
		{"fits", fits, false, "", false},
		{"absent", nil, false, "", false},
		{"differs", off, false, "", true},
		{"differs, paused", off, false, `state = 'paused'`, true},
		{"differs, being worked on", off, true, "", false},
		{"differs, sale over", off, false, `starts_at = now() - interval '2 h', ends_at = now() - interval '1 h'`, false},
		{"differs, sale to come", off, false, `starts_at = now() + interval '10 s'`, false},
		{"differs, draft", off, false, `state = 'draft'`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // a broken one takes its time
			db, rdb, sale, key := beside(t, test.sale)
			if test.gate != nil {
				if err := rdb.HSet(t.Context(), key("gate"), map[string]any(test.gate)).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if test.journal {
				if err := rdb.Do(t.Context(), "xadd", key("journal"), "*", "user", 1).Err(); err != nil {
					t.Fatal(err)
				}
			}
			var out strings.Builder
			clean, err := audit.Run(t.Context(), db, rdb, &out)
			want := "every invariant holds\n"
			if test.broken {
				want = fmt.Sprintf("BROKEN I6: an idle gate's stock is not the sale's\n    sale=%d gate=3 postgres=2\n", sale)
			}
			if diff := cmp.Diff(want, out.String()); err != nil || clean == test.broken || diff != "" {
				t.Errorf("clean %v, %v: %s", clean, err, diff)
			}
		})
	}
}

// A gate that is behind for a moment is what reconcile is for.
func TestAGateThatComesRoundIsNotBroken(t *testing.T) {
	db, rdb, _, key := beside(t, "")
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

// A gate that moves is not idle, however often the two readings differ.
func TestAGateThatMovesIsNotBroken(t *testing.T) {
	db, rdb, _, key := beside(t, "")
	gate := key("gate")
	if err := rdb.HSet(t.Context(), gate, "epoch", 1, "ops", 0, "stock", 4).Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var moving errgroup.Group
	moving.Go(func() error {
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
	moving.Wait()
	if err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
}

func TestNoTicketWaitsForLong(t *testing.T) {
	for _, test := range []struct {
		name   string
		age    time.Duration
		sale   string // what is done to the sale
		gone   bool   // it is settled meanwhile
		broken bool
	}{
		{name: "fresh", age: 0},
		{name: "in reclaim's time", age: 12 * time.Second},
		{name: "left", age: 20 * time.Second, broken: true},
		{name: "left in a paused sale", age: 20 * time.Second, sale: `state = 'paused'`, broken: true},
		{name: "left in a closed sale", age: 20 * time.Second, sale: `state = 'closed'`, broken: true},
		{name: "left after the end", age: 20 * time.Second, sale: `starts_at = now() - interval '26 h', ends_at = now() - interval '24 h'`, broken: true},
		{name: "settled in the end", age: 20 * time.Second, gone: true},
		{name: "long over", age: 20 * time.Second, sale: `starts_at = now() - interval '27 h', ends_at = now() - interval '26 h'`},
		{name: "to come", age: 20 * time.Second, sale: `starts_at = now() + interval '1 m'`},
		{name: "draft", age: 20 * time.Second, sale: `state = 'draft'`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			db, rdb, sale, key := beside(t, test.sale)
			now, err := rdb.Time(t.Context()).Result()
			if err != nil {
				t.Fatal(err)
			}
			journal, entry := key("journal"), fmt.Sprintf("%d-0", now.Add(-test.age).UnixMilli())
			for _, id := range []string{entry, "*"} { // only the oldest is old
				if err := rdb.Do(t.Context(), "xadd", journal, id, "user", 1).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if gates, err := seckill.ReadGates(t.Context(), rdb, []int64{sale}); err != nil || gates[sale].Waiting != 2 {
				t.Fatalf("this is not the journal of package seckill: %+v, %v", gates, err)
			}
			if test.gone {
				defer time.AfterFunc(700*time.Millisecond, func() { rdb.XDel(context.WithoutCancel(t.Context()), journal, entry) }).Stop()
			}
			var out strings.Builder
			clean, err := audit.Run(t.Context(), db, rdb, &out)
			want := "every invariant holds\n"
			if test.broken {
				want = fmt.Sprintf("BROKEN I4: a ticket has waited in the journal for longer than reclaim takes\n    sale=%d entry=%s waits=2", sale, entry)
			}
			if err != nil || clean == test.broken || !strings.HasPrefix(out.String(), want) {
				t.Errorf("clean %v, %v: %s", clean, err, &out)
			}
		})
	}
}

// A ticket that is late at the last try alone has not been so for long, though another sale's is.
func TestALateTicketIsLateEachTime(t *testing.T) {
	db, left, _ := lively(t)
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
	for sale, age := range map[int64]time.Duration{left: 20 * time.Second, fresh: 14200 * time.Millisecond} {
		entry := fmt.Sprintf("%d-0", now.Add(-age).UnixMilli())
		if err := rdb.Do(t.Context(), "xadd", fmt.Sprintf("ms:{%d}:journal", sale), entry, "user", 1).Err(); err != nil {
			t.Fatal(err)
		}
	}
	found, err := audit.Gates(t.Context(), db, rdb)
	if err != nil || len(found) != 1 || len(found[0].Rows) != 1 || !strings.HasPrefix(found[0].Rows[0], fmt.Sprintf("sale=%d ", left)) {
		t.Errorf("found %v, %v, want sale %d alone", found, err, left)
	}
}

// What the rush buries is told of, and breaks nothing.
func TestDeadLettersAreNoted(t *testing.T) {
	db, rdb, sale, key := beside(t, "")
	s := goods.New(db)
	rush, err := seckill.New(seckill.Config{Captcha: "off", Gate: "redis", GateFactor: 5, PathTTL: time.Minute, MaxInFlight: 10, QMax: 100},
		seckill.Deps{DB: db, Redis: rdb, Sales: s, Cache: goods.NewCache(s), Orders: order.New(db, order.Config{PayWithin: time.Hour}),
			Secret: make([]byte, 32), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := rdb.Do(t.Context(), "xadd", key("journal"), "*", "no", "ticket").Err(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running errgroup.Group
	running.Go(func() error { return rush.Run(ctx) })
	defer running.Wait()
	defer cancel()
	want := fmt.Sprintf("note: sale %d has 2 dead letters\nevery invariant holds\n", sale)
	var got string
	for deadline := time.Now().Add(20 * time.Second); got != want && time.Now().Before(deadline); {
		var out strings.Builder
		if clean, err := audit.Run(t.Context(), db, rdb, &out); err != nil || !clean {
			t.Fatalf("%v: %s", err, &out)
		}
		got = out.String()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
