package goods

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/seckill/sandbox/sandboxtest"
)

// counted counts the queries of a pool; hold, if set, is called at the start of each.
type counted struct {
	queries atomic.Int64
	hold    atomic.Pointer[func()]
}

func (c *counted) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.queries.Add(1)
	if hold := c.hold.Load(); hold != nil {
		(*hold)()
	}
	return ctx
}

func (c *counted) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// shopWindow is a Cache whose clock is set by hand and whose queries are counted, and another pool on its database.
type shopWindow struct {
	*Cache
	counted
	pool  *pgxpool.Pool
	other *pgxpool.Pool
	ahead atomic.Int64
}

func newShopWindow(t *testing.T) *shopWindow {
	t.Helper()
	url := sandboxtest.DatabaseURL(t)
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	w := &shopWindow{}
	cfg.ConnConfig.Tracer = &w.counted
	if w.pool, err = pgxpool.NewWithConfig(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.pool.Close)
	if w.other, err = pgxpool.New(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.other.Close)
	w.Cache = NewCache(New(w.pool))
	began := time.Now()
	w.now = func() time.Time { return began.Add(time.Duration(w.ahead.Load())) }
	return w
}

func (w *shopWindow) wait(d time.Duration) { w.ahead.Add(int64(d)) }

// asked gives how many queries do makes.
func (w *shopWindow) asked(do func()) int64 {
	before := w.queries.Load()
	do()
	return w.queries.Load() - before
}

func TestACrowdReadsOnce(t *testing.T) {
	w := newShopWindow(t)
	sell(t, w.other, 5)
	w.pool.Ping(t.Context()) // a connection
	for _, round := range []string{"nothing cached", "cached and old"} {
		var entered atomic.Int64
		everyone := make(chan struct{})
		hold := func() { <-everyone }
		w.hold.Store(&hold)
		n := w.asked(func() {
			var crowd sync.WaitGroup
			for range 100 {
				crowd.Go(func() {
					if entered.Add(1) == 100 {
						close(everyone)
					}
					if sales, old, err := w.Live(t.Context()); err != nil || len(sales) != 1 || old != 0 {
						t.Errorf("%s: %d sales, %v old, %v", round, len(sales), old, err)
					}
				})
			}
			crowd.Wait()
		})
		if n != 1 {
			t.Errorf("%s: 100 callers made %d queries, want 1", round, n)
		}
		w.wait(fresh)
	}
}

// He found an old entry and was held up; when he comes to read, somebody else's read has just ended.
func TestALatecomerTakesWhatWasJustRead(t *testing.T) {
	w := newShopWindow(t)
	sell(t, w.other, 5)
	if _, _, err := w.Live(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wait(fresh)
	clock, looking, goOn := w.now, make(chan struct{}), make(chan struct{})
	var held atomic.Bool
	w.now = func() time.Time {
		now := clock()
		if held.CompareAndSwap(false, true) {
			close(looking)
			<-goOn
		}
		return now
	}
	n := w.asked(func() {
		var latecomer sync.WaitGroup
		latecomer.Go(func() {
			if sales, old, err := w.Live(t.Context()); err != nil || len(sales) != 1 || old != 0 {
				t.Errorf("%d sales, %v old, %v", len(sales), old, err)
			}
		})
		<-looking
		if _, _, err := w.Live(t.Context()); err != nil {
			t.Error(err)
		}
		close(goOn)
		latecomer.Wait()
	})
	if n != 1 {
		t.Errorf("%d queries, want 1", n)
	}
}

func TestAnEntryLivesASecond(t *testing.T) {
	w := newShopWindow(t)
	sale := sell(t, w.other, 5)
	look := func() (stock int) {
		got, old, err := w.Sale(t.Context(), sale)
		if err != nil || old != 0 {
			t.Fatalf("%v, %v old", err, old)
		}
		return got.Stock
	}
	look()
	exec(t, w.other, `update sales set stock = 4 where id = $1`, sale)
	w.wait(fresh - 1)
	if n := w.asked(func() {
		if got := look(); got != 5 {
			t.Errorf("within the second %d units, want the 5 that were read", got)
		}
	}); n != 0 {
		t.Errorf("within the second %d queries, want none", n)
	}
	w.wait(1)
	if got := look(); got != 4 {
		t.Errorf("after a second %d units, want 4", got)
	}
}

func TestASecondCallerOfACancelledReadStillGetsIt(t *testing.T) {
	w := newShopWindow(t)
	sell(t, w.other, 5)
	ctx, cancel := context.WithCancel(t.Context())
	reading, released := make(chan struct{}), make(chan struct{})
	var once sync.Once
	hold := func() { once.Do(func() { close(reading) }); <-released }
	w.hold.Store(&hold)
	var crowd sync.WaitGroup
	crowd.Go(func() { w.Live(ctx) })
	<-reading
	crowd.Go(func() {
		if sales, _, err := w.Live(t.Context()); err != nil || len(sales) != 1 {
			t.Errorf("%d sales, %v", len(sales), err)
		}
	})
	cancel()
	close(released)
	crowd.Wait()
}

func TestIDsNobodySellsCostPostgresNothing(t *testing.T) {
	w := newShopWindow(t)
	gap := sell(t, w.other, 1)
	exec(t, w.other, `delete from sales`)
	last := sell(t, w.other, 1)
	unknown := func(id int64) {
		t.Helper()
		if _, _, err := w.Sale(t.Context(), id); !errors.Is(err, ErrNoSale) {
			t.Errorf("sale %d: %v, want ErrNoSale", id, err)
		}
	}
	if _, _, err := w.Sale(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	if n := w.asked(func() { unknown(gap) }); n != 1 {
		t.Errorf("an id below the newest that is not there: %d queries, want 1", n)
	}
	if n := w.asked(func() { unknown(gap); unknown(gap) }); n != 0 {
		t.Errorf("the same again: %d queries, want none", n)
	}
	w.pool.Close()
	for _, id := range []int64{0, -1, last + 1, last + 1000, 1<<63 - 1} {
		unknown(id)
	}
}

func TestAnEmptyCatalogueKnowsNoSale(t *testing.T) {
	w := newShopWindow(t)
	if _, _, err := w.Sale(t.Context(), 1); !errors.Is(err, ErrNoSale) {
		t.Errorf("sale 1: %v, want ErrNoSale", err)
	}
	if sales, _, err := w.Live(t.Context()); err != nil || len(sales) != 0 {
		t.Errorf("live: %d, %v", len(sales), err)
	}
}

func TestWithoutPostgresStaleSalesAreServedForAMinuteAndMarked(t *testing.T) {
	w := newShopWindow(t)
	sale := sell(t, w.other, 5)
	start := w.now().Truncate(SlotLength)
	reads := map[string]func() ([]Sale, time.Duration, error){
		"live": func() ([]Sale, time.Duration, error) { return w.Live(t.Context()) },
		"slot": func() ([]Sale, time.Duration, error) { return w.Slot(t.Context(), start) },
		"sale": func() ([]Sale, time.Duration, error) {
			s, old, err := w.Sale(t.Context(), sale)
			return []Sale{s}, old, err
		},
	}
	had := map[string][]Sale{}
	for name, read := range reads {
		sales, old, err := read()
		if err != nil || old != 0 || len(sales) != 1 || sales[0].ID != sale {
			t.Fatalf("%s: %v, %v old, %v", name, sales, old, err)
		}
		had[name] = sales
	}
	w.pool.Close()
	for _, step := range []struct{ at, old time.Duration }{{fresh - 1, 0}, {fresh, fresh}, {stale - 1, stale - 1}} {
		w.ahead.Store(int64(step.at))
		for name, read := range reads {
			sales, old, err := read()
			if err != nil || old != step.old {
				t.Errorf("%s after %v: %v old, %v; want %v", name, step.at, old, err, step.old)
			}
			if diff := cmp.Diff(had[name], sales); diff != "" {
				t.Errorf("%s after %v: %s", name, step.at, diff)
			}
		}
	}
	w.ahead.Store(int64(stale))
	for name, read := range reads {
		if _, _, err := read(); err == nil || errors.Is(err, ErrNoSale) {
			t.Errorf("%s after a minute: %v, want a fault", name, err)
		}
	}
	if _, _, err := w.Slot(t.Context(), start.Add(SlotLength)); err == nil {
		t.Error("a slot that was never read is served")
	}
}

func TestTheShopWindowShowsWhatItShould(t *testing.T) {
	w := newShopWindow(t)
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
		id := sellFor(t, w.other, Terms{Total: 1, StartsAt: s.from, EndsAt: s.to})
		exec(t, w.other, `update sales set state = $2 where id = $1`, id, s.state)
		ids[s.name], shown[s.name] = id, [3]bool{s.live, s.slot, s.byID}
	}
	live, _, err := w.Live(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	inSlot, _, err := w.Slot(t.Context(), slot)
	if err != nil {
		t.Fatal(err)
	}
	has := func(sales []Sale, id int64) bool {
		for _, s := range sales {
			if s.ID == id {
				return true
			}
		}
		return false
	}
	for name, id := range ids {
		_, _, err := w.Sale(t.Context(), id)
		if err != nil && !errors.Is(err, ErrNoSale) {
			t.Fatal(err)
		}
		if got := [3]bool{has(live, id), has(inSlot, id), err == nil}; got != shown[name] {
			t.Errorf("%s: in the list, in the slot, by id: %v, want %v", name, got, shown[name])
		}
	}
}
