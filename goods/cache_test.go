package goods

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/seckill/sandbox/sandboxtest"
)

// queryTracer counts the queries of a pool; hold, if set, is called at the start of each, with its context.
type queryTracer struct {
	queries atomic.Int64
	hold    atomic.Pointer[func(context.Context)]
}

func (q *queryTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	q.queries.Add(1)
	if hold := q.hold.Load(); hold != nil {
		(*hold)(ctx)
	}
	return ctx
}

func (q *queryTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// testCache is a Cache with a clock that the test moves and a pool that counts its queries. other
// is a second pool on the same database.
type testCache struct {
	*Cache
	queryTracer
	pool  *pgxpool.Pool
	other *pgxpool.Pool
	ahead atomic.Int64
}

func newTestCache(t *testing.T) *testCache {
	t.Helper()
	url := sandboxtest.DatabaseURL(t)
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	c := &testCache{}
	cfg.ConnConfig.Tracer = &c.queryTracer
	if c.pool, err = pgxpool.NewWithConfig(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.pool.Close)
	if c.other, err = pgxpool.New(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.other.Close)
	c.Cache = NewCache(New(c.pool))
	c.staleWait, c.readLimit, c.replicaLimit = sandboxtest.Hang, 2*sandboxtest.Hang, sandboxtest.Hang // a Postgres that is slow is not away
	began := time.Now()
	c.now = func() time.Time { return began.Add(time.Duration(c.ahead.Load())) }
	return c
}

func (c *testCache) advance(d time.Duration) { c.ahead.Add(int64(d)) }

// newest returns what read returns, which must not be old.
func newest[T any](t *testing.T, read func() (T, time.Duration, error)) T {
	t.Helper()
	got, old, err := read()
	if err != nil || old != 0 {
		t.Errorf("a read is %v old, %v", old, err)
	}
	return got
}

// countQueries returns the number of queries that do makes.
func (c *testCache) countQueries(do func()) int64 {
	before := c.queries.Load()
	do()
	return c.queries.Load() - before
}

// expectLive fails the test unless Live returns one sale that is not old.
func (c *testCache) expectLive(t *testing.T, what string) {
	t.Helper()
	sales := newest(t, func() ([]Sale, time.Duration, error) { return c.Live(t.Context()) })
	if len(sales) != 1 {
		t.Errorf("%s: %d sales, want one", what, len(sales))
	}
}

func TestConcurrentCallersShareOneRead(t *testing.T) {
	c := newTestCache(t)
	sell(t, c.other, 5)
	c.pool.Ping(t.Context()) // opens a connection
	for _, round := range []string{"nothing cached", "cached and old"} {
		var entered atomic.Int64
		everyone := make(chan struct{})
		hold := func(context.Context) { <-everyone }
		c.hold.Store(&hold)
		n := c.countQueries(func() {
			var crowd sync.WaitGroup
			for range 100 {
				crowd.Go(func() {
					if entered.Add(1) == 100 {
						close(everyone)
					}
					c.expectLive(t, round)
				})
			}
			crowd.Wait()
		})
		if n != 1 {
			t.Errorf("%s: 100 callers made %d queries, want 1", round, n)
		}
		c.advance(freshFor)
	}
}

// A caller finds an old entry and is delayed. When it comes to the read, another caller's read has
// just ended.
func TestADelayedCallerUsesTheLatestRead(t *testing.T) {
	c := newTestCache(t)
	sell(t, c.other, 5)
	if _, _, err := c.Live(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.advance(freshFor)
	clock, delayed, goOn := c.now, make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	c.now = func() time.Time {
		now := clock()
		if first.CompareAndSwap(false, true) {
			close(delayed)
			<-goOn
		}
		return now
	}
	n := c.countQueries(func() {
		var caller sync.WaitGroup
		caller.Go(func() { c.expectLive(t, "delayed caller") })
		<-delayed
		if _, _, err := c.Live(t.Context()); err != nil {
			t.Error(err)
		}
		close(goOn)
		caller.Wait()
	})
	if n != 1 {
		t.Errorf("%d queries, want 1", n)
	}
}

func TestAnEntryIsFreshForASecond(t *testing.T) {
	c := newTestCache(t)
	sale := sell(t, c.other, 5)
	read := func() (stock int) {
		return newest(t, func() (Sale, time.Duration, error) { return c.Sale(t.Context(), sale) }).Stock
	}
	read()
	exec(t, c.other, `update sales set stock = 4 where id = $1`, sale)
	c.advance(freshFor - 1)
	if n := c.countQueries(func() {
		if got := read(); got != 5 {
			t.Errorf("within the second: %d units, want the 5 of the first read", got)
		}
	}); n != 0 {
		t.Errorf("within the second: %d queries, want none", n)
	}
	c.advance(1)
	if got := read(); got != 4 {
		t.Errorf("after a second: %d units, want 4", got)
	}
}

// A reader reads an old row, stalls, and caches it after the write: with a delete as the only remedy the
// entry would stay old. Here it does so for a second, and another process is right at once.
func TestAStalledReadIsCachedForASecondAtMost(t *testing.T) {
	c := newTestCache(t)
	sale := sell(t, c.other, 5)
	clock, stalled, goOn := c.now, make(chan struct{}), make(chan struct{})
	var once sync.Once
	c.now = func() time.Time { // the first call comes after the query
		once.Do(func() { close(stalled); <-goOn })
		return clock()
	}
	read := func(c *Cache) (stock int) {
		sales := newest(t, func() ([]Sale, time.Duration, error) { return c.Live(t.Context()) })
		if len(sales) != 1 {
			t.Errorf("%d sales, want one", len(sales))
			return -1
		}
		return sales[0].Stock
	}
	var reader sync.WaitGroup
	reader.Go(func() { c.Live(t.Context()) })
	<-stalled
	exec(t, c.other, `update sales set stock = 4 where id = $1`, sale)
	if got := read(NewCache(New(c.other))); got != 4 {
		t.Errorf("another process shows %d units, want 4", got)
	}
	close(goOn)
	reader.Wait()
	if got := read(c.Cache); got != 5 {
		t.Errorf("within the second: %d units, want the 5 of the stalled read", got)
	}
	c.advance(freshFor)
	if got := read(c.Cache); got != 4 {
		t.Errorf("after a second: %d units, want 4", got)
	}
}

func TestACancelledCallerDoesNotEndASharedRead(t *testing.T) {
	c := newTestCache(t)
	sell(t, c.other, 5)
	ctx, cancel := context.WithCancel(t.Context())
	reading, released := make(chan struct{}), make(chan struct{})
	var once sync.Once
	hold := func(context.Context) { once.Do(func() { close(reading) }); <-released }
	c.hold.Store(&hold)
	var crowd sync.WaitGroup
	crowd.Go(func() { c.Live(ctx) })
	<-reading
	crowd.Go(func() {
		if sales, _, err := c.Live(t.Context()); err != nil || len(sales) != 1 {
			t.Errorf("%d sales, %v", len(sales), err)
		}
	})
	cancel()
	close(released)
	crowd.Wait()
}

func TestUnknownIDsNeedNoQuery(t *testing.T) {
	c := newTestCache(t)
	gap := sell(t, c.other, 1)
	exec(t, c.other, `delete from sales`)
	last := sell(t, c.other, 1)
	unknown := func(id int64) {
		t.Helper()
		if _, _, err := c.Sale(t.Context(), id); !errors.Is(err, ErrNoSale) {
			t.Errorf("sale %d: %v, want ErrNoSale", id, err)
		}
	}
	if _, _, err := c.Sale(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	if n := c.countQueries(func() { unknown(gap) }); n != 1 {
		t.Errorf("an unknown id below the newest: %d queries, want 1", n)
	}
	if n := c.countQueries(func() { unknown(gap); unknown(gap) }); n != 0 {
		t.Errorf("the same id again: %d queries, want none", n)
	}
	c.pool.Close()
	for _, id := range []int64{0, -1, last + 1, last + 1000, 1<<63 - 1} {
		unknown(id)
	}
}

func TestAnEmptyCatalogueHasNoSale(t *testing.T) {
	c := newTestCache(t)
	if _, _, err := c.Sale(t.Context(), 1); !errors.Is(err, ErrNoSale) {
		t.Errorf("sale 1: %v, want ErrNoSale", err)
	}
	if sales, _, err := c.Live(t.Context()); err != nil || len(sales) != 0 {
		t.Errorf("Live: %d sales, %v; want none", len(sales), err)
	}
}

func TestWithoutPostgresStaleSalesAreServedForAMinuteWithTheirAge(t *testing.T) {
	c := newTestCache(t)
	sale := sell(t, c.other, 5)
	start := c.now().Truncate(SlotLength)
	reads := map[string]func() ([]Sale, time.Duration, error){
		"live": func() ([]Sale, time.Duration, error) { return c.Live(t.Context()) },
		"slot": func() ([]Sale, time.Duration, error) { return c.Slot(t.Context(), start) },
		"sale": func() ([]Sale, time.Duration, error) {
			s, old, err := c.Sale(t.Context(), sale)
			return []Sale{s}, old, err
		},
	}
	before := map[string][]Sale{}
	for name, read := range reads {
		sales, old, err := read()
		if err != nil || old != 0 {
			t.Fatalf("%s: error %v, age %v; want none and 0", name, err, old)
		}
		if len(sales) != 1 || sales[0].ID != sale {
			t.Fatalf("%s: %v, want sale %d", name, sales, sale)
		}
		before[name] = sales
	}
	c.pool.Close()
	for _, step := range []struct{ at, old time.Duration }{{freshFor - 1, 0}, {freshFor, freshFor}, {staleFor - 1, staleFor - 1}} {
		c.ahead.Store(int64(step.at))
		for name, read := range reads {
			sales, old, err := read()
			if err != nil || old != step.old {
				t.Errorf("%s after %v: age %v, %v; want %v", name, step.at, old, err, step.old)
			}
			if diff := cmp.Diff(before[name], sales); diff != "" {
				t.Errorf("%s after %v: %s", name, step.at, diff)
			}
		}
	}
	c.ahead.Store(int64(staleFor))
	for name, read := range reads {
		if _, _, err := read(); err == nil || errors.Is(err, ErrNoSale) {
			t.Errorf("%s after a minute: %v, want a fault", name, err)
		}
	}
	if _, _, err := c.Slot(t.Context(), start.Add(SlotLength)); err == nil {
		t.Error("a slot that was never read is served without Postgres")
	}
}

func TestTheCacheShowsTheRightSales(t *testing.T) {
	c := newTestCache(t)
	slot := time.Now().Add(time.Hour).Truncate(SlotLength)
	shown := map[string][3]bool{} // in the list, in the slot, by id
	ids := map[string]int64{}
	for _, s := range []struct {
		name, state      string
		from, to         time.Time
		live, slot, byID bool
	}{
		{"published", Published, slot, slot.Add(SlotLength), true, true, true},
		{"paused", Paused, slot, slot.Add(SlotLength), true, true, true},
		{"closed", Closed, slot, slot.Add(SlotLength), false, true, true},
		{"draft", Draft, slot, slot.Add(SlotLength), false, false, false},
		{"ended", Published, slot.Add(-9 * time.Hour), slot.Add(-8 * time.Hour), false, false, true},
		{"ends as the slot begins", Published, slot.Add(-SlotLength), slot, slot.After(time.Now()), false, true},
		{"reaches into the slot", Published, slot.Add(-SlotLength), slot.Add(SlotLength), true, true, true},
		{"begins as the slot ends", Published, slot.Add(SlotLength), slot.Add(2 * SlotLength), true, false, true},
	} {
		id := sellFor(t, c.other, Terms{Total: 1, StartsAt: s.from, EndsAt: s.to})
		exec(t, c.other, `update sales set state = $2 where id = $1`, id, s.state)
		ids[s.name], shown[s.name] = id, [3]bool{s.live, s.slot, s.byID}
	}
	live, _, err := c.Live(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	inSlot, _, err := c.Slot(t.Context(), slot)
	if err != nil {
		t.Fatal(err)
	}
	has := func(sales []Sale, id int64) bool {
		return slices.ContainsFunc(sales, func(s Sale) bool { return s.ID == id })
	}
	for name, id := range ids {
		_, _, err := c.Sale(t.Context(), id)
		if err != nil && !errors.Is(err, ErrNoSale) {
			t.Fatal(err)
		}
		if got := [3]bool{has(live, id), has(inSlot, id), err == nil}; got != shown[name] {
			t.Errorf("%s: in the list, in the slot, by id: %v, want %v", name, got, shown[name])
		}
	}
}

func TestTheReplicaIsReadFirst(t *testing.T) {
	c, replica := newTestCache(t), newTestCache(t)
	sale := sell(t, c.other, 5)
	if also := sell(t, replica.other, 5); also != sale {
		t.Fatalf("the sale is %d at the store and %d at the replica", sale, also)
	}
	exec(t, replica.other, `update sales set stock = 4`)
	c.ReadFrom(New(replica.pool))
	reads := map[string]func() ([]Sale, error){
		"live": func() ([]Sale, error) { sales, _, err := c.Live(t.Context()); return sales, err },
		"slot": func() ([]Sale, error) {
			sales, _, err := c.Slot(t.Context(), time.Now().Truncate(SlotLength))
			return sales, err
		},
		"sale": func() ([]Sale, error) { s, _, err := c.Sale(t.Context(), sale); return []Sale{s}, err },
	}
	expect := func(when string, stock int) {
		t.Helper()
		for name, read := range reads {
			if sales, err := read(); err != nil || len(sales) != 1 || sales[0].Stock != stock {
				t.Errorf("%s %s: %+v, %v; want a sale with %d units", name, when, sales, err, stock)
			}
		}
	}
	if n := c.countQueries(func() { expect("at the replica", 4) }); n != 0 {
		t.Errorf("%d queries of the store, want none", n)
	}
	slow := func(limited context.Context) { <-limited.Done() }
	replica.hold.Store(&slow)
	c.replicaLimit = replicaLimit
	c.advance(staleFor) // no caller takes a stale entry instead of waiting
	if n := replica.countQueries(func() { expect("while the replica is slow", 5) }); n != 1 {
		t.Errorf("%d queries of the slow replica, want one in a second", n)
	}
	replica.hold.Store(nil)
	c.replicaLimit = sandboxtest.Hang
	c.advance(staleFor)
	expect("at the replica again", 4)
}
