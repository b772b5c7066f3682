package live

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// newMonitor returns the Monitor of a process whose engine does not run.
func newMonitor(t *testing.T, name string, db *pgxpool.Pool, rdb redis.UniversalClient) *Monitor {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	sales, orders := goods.New(db), order.New(db, order.Config{PayWithin: time.Hour})
	engine, err := seckill.New(seckill.Config{Gate: "redis", GateFactor: 5, AddressTTL: time.Minute, MaxInFlight: 64, QMax: 64, QueueWorkers: 6, Optimisations: seckill.AllOptimisations()},
		seckill.Deps{DB: db, Redis: rdb, Sales: sales, Cache: goods.NewCache(sales), Orders: orders, Secret: make([]byte, 32), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	m := New(Deps{DB: db, Redis: rdb, Engine: engine, Counts: NewCounts(), Version: "v1", Log: log})
	m.name = name
	m.exchangeLimit, m.countLimit = sandboxtest.Hang, sandboxtest.Hang // a store that is slow is not away
	return m
}

// shown is a live event as a page reads it.
type shown struct {
	Redis, Postgres string
	Tracked         bool
	Units           *units
	Totals          map[string]int64
	Rates           map[string]float64
	Processes       []Process
	Sales           []saleView
	Point           map[string]*float32
}

func see(t *testing.T, m *Monitor, sale int64, guest bool) (e shown, text string) {
	t.Helper()
	v, _ := m.Latest()
	b, err := v.Event(sale, guest)
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	if err != nil {
		t.Fatal(err)
	}
	return e, string(b)
}

func newSale(t *testing.T, db *pgxpool.Pool, title string, stock int) int64 {
	t.Helper()
	id, err := goods.New(db).Sell(t.Context(), goods.Item{Title: title},
		goods.Terms{Price: 1, Total: stock, StartsAt: time.Now().Add(-time.Minute), EndsAt: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// Two processes see the same shop: the counts of both, the units and orders of Postgres, and each other.
func TestTwoProcessesAreAddedUp(t *testing.T) {
	t.Parallel()
	db, rdb := sandboxtest.DB(t), sandboxtest.Redis(t)
	a, b := newMonitor(t, "a", db, rdb), newMonitor(t, "b", db, rdb)
	tea, cup := newSale(t, db, "tea", 10), newSale(t, db, "cup", 5)
	for _, sql := range []string{
		`insert into orders (id, user_id, sale_id, ticket, title, price, expires_at)
		 select gen_random_uuid(), n, $1, n::text, 'tea', 1, now() from generate_series(1, 3) n`,
		`update orders set status = 'paid', paid_at = now() where sale_id = $1 and user_id > 1`,
		`update orders set status = 'refunded' where sale_id = $1 and user_id > 2`,
		`update sales set stock = 8 where id = $1`,
	} {
		if _, err := db.Exec(t.Context(), sql, tea); err != nil {
			t.Fatal(err)
		}
	}
	a.tick(t.Context()) // one of them reads Postgres for both
	b.tick(t.Context())
	for range 3 {
		a.Counts.Answered(tea, Buy, Accepted, time.Millisecond)
		b.Counts.Answered(tea, Buy, SoldOut, time.Millisecond)
	}
	b.Counts.Answered(cup, Address, TooMany, 0) // may be a sale that does not exist
	a.tick(t.Context())
	b.tick(t.Context())
	a.tick(t.Context())
	for name, m := range map[string]*Monitor{"a": a, "b": b} {
		sale, _ := see(t, m, tea, false)
		if sale.Totals["buy.ok"] != 3 || sale.Totals["buy.sold_out"] != 3 || sale.Redis != "ok" || sale.Postgres != "ok" || !sale.Tracked {
			t.Errorf("process %s shows of the sale %+v", name, sale)
		}
		if u := sale.Units; u == nil || u.Left != 8 || u.Sold != 2 || u.Paid != 1 || u.Pending != 1 || u.Refunded != 1 || u.Cancelled != 0 {
			t.Errorf("process %s shows units %+v", name, u)
		}
		all, _ := see(t, m, shop, false)
		if all.Units.Total != 15 || all.Units.Left != 13 || all.Totals["path.too_many"] != 1 || len(all.Sales) != 2 {
			t.Errorf("process %s shows of the shop %+v", name, all)
		}
		if len(all.Processes) != 2 || all.Processes[1].Name != "b" || all.Processes[1].State != "here" || all.Processes[1].Version != "v1" || all.Processes[1].Memory == 0 {
			t.Errorf("process %s sees %+v", name, all.Processes)
		}
		if other, _ := see(t, m, cup, false); other.Totals["path.too_many"] != 0 {
			t.Errorf("an answer that does not show that the sale exists has a count of its own: %v", other.Totals)
		}
		if gone, _ := see(t, m, 99, false); gone.Tracked {
			t.Error("a sale that does not exist is tracked")
		}
		if h, err := m.History(99); err != nil || !strings.Contains(string(h), `"columns":{"`) {
			t.Errorf("the history of a sale that is not tracked yet is %s, %v", h, err)
		}
		guest, text := see(t, m, tea, true)
		if len(guest.Processes) != 2 || strings.Contains(text, `"v1"`) || strings.Contains(text, `"a"`) || strings.Contains(text, "goroutines") {
			t.Errorf("a guest sees processes: %s", text)
		}
	}
}

// Orders that cannot be counted are not known, which is not zero. Units are read beside them.
func TestOrdersThatAreNotCountedAreUnknown(t *testing.T) {
	t.Parallel()
	db, rdb := sandboxtest.DB(t), sandboxtest.Redis(t)
	m := newMonitor(t, "a", db, rdb)
	tea := newSale(t, db, "tea", 10)
	for i, sql := range []string{`alter table orders rename to elsewhere`, `alter table elsewhere rename to orders`} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
		counted := i == 1
		sandboxtest.Until(t, fmt.Sprint("orders are counted: ", counted), func() bool {
			m.countAt = time.Time{}
			m.tick(t.Context())
			sale, _ := see(t, m, tea, false)
			all, _ := see(t, m, shop, false)
			return sale.Units != nil && sale.Units.Left == 10 && all.Units.Left == 10 && (sale.Units.Orders != nil) == counted && (all.Units.Orders != nil) == counted
		})
		if sale, text := see(t, m, tea, false); !counted && (sale.Point["paid"] != nil || strings.Contains(text, `"pending"`)) {
			t.Errorf("orders that are not counted are shown: %s", text)
		}
	}
}

// A process that writes nothing any more is missing by the clock of Redis; one that stops is not.
func TestADeadProcessIsMissing(t *testing.T) {
	t.Parallel()
	db, rdb := sandboxtest.DB(t), sandboxtest.Redis(t)
	a, dead, stopped := newMonitor(t, "a", db, rdb), newMonitor(t, "dead", db, rdb), newMonitor(t, "stopped", db, rdb)
	dead.Counts.Answered(1, Buy, Accepted, 0)
	for _, m := range []*Monitor{dead, stopped, a} {
		m.tick(t.Context())
	}
	if all, _ := see(t, a, shop, false); len(all.Processes) != 3 {
		t.Fatalf("%+v, want three", all.Processes)
	}
	stopped.leave(t.Context())
	past := float64(time.Now().Add(-5 * time.Second).UnixMilli())
	rdb.ZAdd(t.Context(), processesKey, redis.Z{Score: past, Member: "dead"}, redis.Z{Score: past, Member: "died before"},
		redis.Z{Score: past - float64(forgetAfter.Milliseconds()), Member: "long ago"})
	rdb.Del(t.Context(), figuresKey("dead"))
	a.tick(t.Context())
	all, _ := see(t, a, shop, false)
	states := map[string]string{}
	for _, p := range all.Processes {
		states[p.Name] = p.State
	}
	if len(states) != 3 || states["a"] != "here" || states["dead"] != "missing" || states["died before"] != "missing" || all.Processes[1].SilentMS < 4900 {
		t.Errorf("%+v", all.Processes)
	}
	if all.Totals["buy.ok"] != 1 {
		t.Errorf("the counts of the dead process are lost: %v", all.Totals)
	}
	if left, err := rdb.ZRange(t.Context(), processesKey, 0, -1).Result(); err != nil || slices.Contains(left, "long ago") || slices.Contains(left, "stopped") {
		t.Errorf("in Redis there are %v, %v", left, err)
	}
}

// Without Redis a process shows itself alone and says so. Without Postgres the last units stay. What is not known is null.
func TestAnOutageIsNoZero(t *testing.T) {
	t.Parallel()
	db, at := sandboxtest.DB(t), sandboxtest.RedisURL(t)
	proxy, through := sandboxtest.ProxyTo(t, at)
	opts, err := redis.ParseURL(through)
	if err != nil {
		t.Fatal(err)
	}
	opts.MaxRetries = -1
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout = sandboxtest.Hang, sandboxtest.Hang, sandboxtest.Hang
	behind := redis.NewClient(opts)
	t.Cleanup(func() { behind.Close() })
	a, b := newMonitor(t, "a", db, behind), newMonitor(t, "b", db, behind)
	tea := newSale(t, db, "tea", 10)
	b.tick(t.Context())
	a.tick(t.Context())
	proxy.Cut()
	a.tick(t.Context())
	sale, _ := see(t, a, tea, false)
	if sale.Redis != "away" || sale.Postgres != "ok" || sale.Units == nil || sale.Units.Left != 10 {
		t.Errorf("without Redis: %+v", sale)
	}
	if len(sale.Processes) != 2 || sale.Processes[0].State != "here" || sale.Processes[1].State != "unknown" {
		t.Errorf("without Redis the processes are %+v", sale.Processes)
	}
	if sale.Point["requests"] != nil || sale.Point["orders"] != nil || sale.Point["left"] == nil {
		t.Errorf("without Redis, what others did is known: %+v", sale.Point)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	a.totals.At = a.totals.At.Add(-fresh)
	a.tick(gone) // no store replies
	if sale, _ = see(t, a, tea, false); sale.Postgres != "away" || sale.Units == nil || sale.Units.Left != 10 || sale.Units.AgeMS < fresh.Milliseconds() || sale.Point["left"] != nil {
		t.Errorf("without Postgres: %+v", sale)
	}
	if err := proxy.Join(); err != nil {
		t.Fatal(err)
	}
	sandboxtest.Until(t, "Redis is back", func() bool {
		b.tick(t.Context())
		a.tick(t.Context())
		sale, _ = see(t, a, tea, false)
		return sale.Redis == "ok" && sale.Postgres == "ok" && sale.Processes[1].State == "here" && sale.Point["requests"] != nil
	})
}
