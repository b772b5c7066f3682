package goods

import (
	"context"
	"fmt"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/singleflight"
)

const (
	freshFor  = time.Second             // an entry is served without a query
	staleFor  = 60 * time.Second        // an entry is served if Postgres does not answer
	staleWait = 50 * time.Millisecond   // a caller with a stale entry waits at most so long for a new one
	readLimit = 1500 * time.Millisecond // for one read; a sale may need two, and a request has 3 s
	cacheSize = 20_000                  // entries, including those of unknown ids
)

// Cache serves the catalogue from memory. An entry is fresh for a second; then one caller reads it
// for all (single flight). Without Postgres, an entry up to a minute old is served with its age.
//
// An unknown id has an entry too, and an id above the newest is refused without one: guessing ids
// costs Postgres nothing.
type Cache struct {
	store   *Store
	entries entries
	flight  singleflight.Group
	now     func() time.Time
}

// entries has the methods of otter.Cache that are used here; user, seckill and web do the same. With
// the generic type as a field, each package that uses a Cache would spend seconds to compile otter.
type entries interface {
	GetIfPresent(key) (entry, bool)
	Set(key, entry) (entry, bool)
	ComputeIfPresent(key, func(entry) (entry, otter.ComputeOp)) (entry, bool)
}

// key names an entry: its kind, and a slot's start (seconds since 1970) or a sale's id.
type key struct {
	kind kind
	n    int64
}

type kind int

const (
	live kind = iota
	slot
	one
	last // the newest sale's id
)

type entry struct {
	sales []Sale
	last  int64
	at    time.Time
	tried time.Time // the last read that failed or took too long
}

// NewCache returns a Cache of what s reads.
func NewCache(s *Store) *Cache {
	return &Cache{store: s, now: time.Now, entries: otter.Must(&otter.Options[key, entry]{
		MaximumSize:      cacheSize,
		ExpiryCalculator: otter.ExpiryWriting[key, entry](staleFor),
	})}
}

// Live lists every sale that has not ended. If Postgres did not answer, old is the age of the list;
// otherwise it is 0.
func (c *Cache) Live(ctx context.Context) (sales []Sale, old time.Duration, err error) {
	e, old, err := c.load(ctx, key{kind: live})
	return e.sales, old, err
}

// Slot lists the sales of the slot that begins at start. old is as for Live.
func (c *Cache) Slot(ctx context.Context, start time.Time) (sales []Sale, old time.Duration, err error) {
	e, old, err := c.load(ctx, key{slot, start.Unix()})
	return e.sales, old, err
}

// Sale returns one sale, or ErrNoSale. old is as for Live.
func (c *Cache) Sale(ctx context.Context, id int64) (sale Sale, old time.Duration, err error) {
	newest, _, err := c.load(ctx, key{kind: last})
	if err != nil {
		return Sale{}, 0, err
	}
	if id < 1 || id > newest.last {
		return Sale{}, 0, ErrNoSale
	}
	e, old, err := c.load(ctx, key{one, id})
	if err != nil {
		return Sale{}, 0, err
	}
	if len(e.sales) == 0 {
		return Sale{}, 0, ErrNoSale
	}
	return e.sales[0], old, nil
}

func (c *Cache) read(ctx context.Context, k key) (e entry, err error) {
	switch k.kind {
	case live:
		e.sales, err = c.store.live(ctx)
	case slot:
		start := time.Unix(k.n, 0)
		e.sales, err = c.store.between(ctx, start, start.Add(SlotLength))
	case one:
		e.sales, err = c.store.byID(ctx, k.n)
	case last:
		e.last, err = c.store.lastID(ctx)
	}
	return e, err
}

func (c *Cache) load(ctx context.Context, k key) (entry, time.Duration, error) {
	cached, ok := c.entries.GetIfPresent(k)
	if ok && c.now().Sub(cached.at) < freshFor {
		return cached, 0, nil
	}
	old := ok && c.now().Sub(cached.at) < staleFor
	if old && c.now().Sub(cached.tried) < freshFor {
		return cached, c.now().Sub(cached.at), nil // a read has just failed: do not wait for the next one
	}
	// The read is shared, so it must not end with the caller that started it.
	reading := c.flight.DoChan(fmt.Sprint(k.kind, k.n), func() (any, error) {
		if e, ok := c.entries.GetIfPresent(k); ok && c.now().Sub(e.at) < freshFor {
			return e, nil // another read has ended since the check above
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
		defer cancel()
		e, err := c.read(ctx, k)
		if err != nil {
			return nil, err
		}
		e.at = c.now()
		c.entries.Set(k, e)
		return e, nil
	})
	var timeout <-chan time.Time
	if old {
		timeout = time.After(staleWait)
	}
	var err error
	select {
	case got := <-reading:
		if err = got.Err; err == nil {
			return got.Val.(entry), 0, nil
		}
	case <-timeout:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if old {
		c.entries.ComputeIfPresent(k, func(e entry) (entry, otter.ComputeOp) {
			if e.at.After(cached.at) {
				return e, otter.CancelOp // the read has just ended
			}
			e.tried = c.now()
			return e, otter.WriteOp
		})
		return cached, c.now().Sub(cached.at), nil
	}
	return entry{}, 0, fmt.Errorf("read the catalogue: %w", err)
}
