package goods

import (
	"context"
	"sync"
	"testing"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// Before an opening everything about it is read again and again, in few queries for any number of sales. So the first visitors
// cause none, also in the middle of the interval and a second after the opening.
func TestVisitorsOfAnOpeningCauseNoQuery(t *testing.T) {
	t.Parallel()
	c := newTestCache(t)
	opens := c.now().Truncate(SlotLength).Add(SlotLength)
	var sales []int64
	for range 30 {
		sales = append(sales, sellFor(t, c.other, Terms{Price: 100, Total: 5, StartsAt: opens, EndsAt: opens.Add(time.Hour)}))
	}
	c.advance(opens.Add(-warmAhead - time.Second).Sub(c.now()))
	if c.warm(t.Context(), c.now().UTC()) {
		t.Error("sales that open later than in 20 s are kept warm")
	}
	for c.advance(time.Second); c.now().Before(opens.Add(freshFor)); c.advance(warmEvery) {
		at := c.now().Sub(opens)
		if n := c.countQueries(func() {
			if !c.warm(t.Context(), c.now().UTC()) {
				t.Errorf("%v: the sales are not kept warm", at)
			}
		}); n > 4 {
			t.Errorf("%v: %d queries, want 4 at most", at, n)
		}
		if n := c.countQueries(func() {
			c.advance(warmEvery) // as long as the next look may take
			c.visit(t, opens, sales)
			c.advance(-warmEvery)
		}); n != 0 {
			t.Errorf("%v: visitors caused %d queries", at, n)
		}
	}
	if c.warm(t.Context(), opens.Add(freshFor)) {
		t.Error("sales that have opened are kept warm")
	}
}

// visit reads the list, the slot and the sales, which must not be old.
func (c *testCache) visit(t *testing.T, slot time.Time, sales []int64) {
	t.Helper()
	list, old, err := c.Live(t.Context())
	if len(list) != len(sales) || old != 0 || err != nil {
		t.Errorf("the list: %d sales, age %v, %v", len(list), old, err)
	}
	list, old, err = c.Slot(t.Context(), slot)
	if len(list) != len(sales) || old != 0 || err != nil {
		t.Errorf("the slot: %d sales, age %v, %v", len(list), old, err)
	}
	for _, id := range sales {
		if s, old, err := c.Sale(t.Context(), id); s.ID != id || old != 0 || err != nil {
			t.Errorf("sale %d: %d, age %v, %v", id, s.ID, old, err)
		}
	}
}

// The list that KeepWarm read may be older than a detail that a visitor has read meanwhile.
func TestWarmingKeepsANewerDetail(t *testing.T) {
	t.Parallel()
	c := newTestCache(t)
	opens := c.now().Add(10 * time.Second)
	sale := sellFor(t, c.other, Terms{Price: 100, Total: 5, StartsAt: opens, EndsAt: opens.Add(time.Hour)})
	if _, _, err := c.Live(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.advance(freshFor / 5)
	exec(t, c.other, `update sales set stock = 4 where id = $1`, sale)
	for range 2 {
		if s, _, err := c.Sale(t.Context(), sale); err != nil || s.Stock != 4 {
			t.Errorf("%d units, %v; want 4", s.Stock, err)
		}
		c.warm(t.Context(), c.now().UTC())
	}
}

// Postgres falls silent right before the opening, and no visitor has come before.
func TestAnOpeningNeedsNoPostgres(t *testing.T) {
	t.Parallel()
	c := newTestCache(t)
	opens := time.Now().Add(time.Hour).Truncate(time.Second)
	sale := sellFor(t, c.other, Terms{Price: 100, Total: 5, StartsAt: opens, EndsAt: opens.Add(time.Hour)})
	ctx, stop := context.WithCancel(t.Context())
	var warming sync.WaitGroup
	warming.Go(func() {
		if err := c.KeepWarm(ctx, time.UTC, func() time.Time { return opens.Add(-warmAhead / 2) }); err != nil {
			t.Error(err)
		}
	})
	sandboxtest.Until(t, "the sale's detail is there", func() bool {
		_, ok := c.entries.GetIfPresent(key{one, sale})
		return ok
	})
	stop()
	warming.Wait()
	c.pool.Close()
	if n := c.countQueries(func() { c.visit(t, opens.UTC().Truncate(SlotLength), []int64{sale}) }); n != 0 {
		t.Errorf("visitors caused %d queries", n)
	}
}
