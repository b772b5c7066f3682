package goods

import (
	"context"
	"slices"
	"time"

	"miaosha/seckill/rounds"
)

const (
	warmLook = 5 * time.Second // between two looks at what opens
	// before an opening; with a quarter of freshFor and the reads it is shorter than freshFor
	warmEvery = 400 * time.Millisecond
	warmAhead = 20 * time.Second // before a sale opens
)

// KeepWarm keeps what visitors of an opening ask for fresh (预热), from 20 s before a sale opens until a second after,
// and until ctx ends: the list, the sale's slot, and its detail. So the first of them waits for no query. clock is the
// shop's time; zone is that of the slots.
//
// It takes a query in five seconds, and before an opening about three in 0.4 s, however many sales open: the list has
// their details. A read that fails is left to the next look.
func (c *Cache) KeepWarm(ctx context.Context, zone *time.Location, clock func() time.Time) error {
	pause := warmLook
	rounds.New().Run(ctx, warmLook, func(time.Duration) time.Duration { return pause }, func(look context.Context) {
		if pause = warmLook; c.warm(look, clock().In(zone)) {
			pause = warmEvery
		}
	})
	return nil
}

// warm reads what visitors of the sales that open soon ask for. It reports whether there are such sales.
func (c *Cache) warm(ctx context.Context, now time.Time) bool {
	sales, old, err := c.Live(ctx)
	soon := func(s Sale) bool {
		ahead := s.StartsAt.Sub(now)
		return ahead <= warmAhead && ahead > -freshFor
	}
	if err != nil || !slices.ContainsFunc(sales, soon) {
		return false
	}
	if old > 0 {
		return true // Postgres does not reply
	}
	list := key{kind: live}
	c.renew(ctx, key{kind: last})
	c.renew(ctx, list)
	for _, s := range Slots(now) {
		if slices.ContainsFunc(sales, func(g Sale) bool {
			return soon(g) && !g.StartsAt.Before(s.StartAt) && g.StartsAt.Before(s.EndAt)
		}) {
			c.renew(ctx, key{slot, s.StartAt.Unix()})
		}
	}
	e, _ := c.entries.GetIfPresent(list)
	for _, s := range e.sales {
		k := key{one, s.ID}
		if d, ok := c.entries.GetIfPresent(k); soon(s) && (!ok || d.at.Before(e.at)) {
			c.entries.Set(k, entry{sales: []Sale{s}, at: e.at})
		}
	}
	return true
}

// renew reads an entry, unless that has just been done.
func (c *Cache) renew(ctx context.Context, k key) {
	select {
	case <-c.reading(ctx, k, c.fresh/4):
	case <-ctx.Done():
	}
}
