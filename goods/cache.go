package goods

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/singleflight"
)

const (
	fresh     = time.Second           // how long an entry is served without a question
	stale     = 60 * time.Second      // how long it is served when Postgres does not answer
	patience  = 50 * time.Millisecond // how long who could be served an older one waits for a new one
	cacheSize = 20_000                // entries, unknown ids among them
)

// Cache answers the shop window from memory. An entry lives a second; then it is read anew, once for all who ask (single
// flight). When Postgres does not answer, or not soon, an entry up to a minute old is served and marked. An
// id nobody sells is an entry too, and an id past the newest is refused without one, so guessing ids costs Postgres
// nothing.
type Cache struct {
	store   *Store
	entries *otter.Cache[string, entry]
	flight  singleflight.Group
	now     func() time.Time
}

type entry struct {
	sales []Sale
	last  int64
	at    time.Time
	tried time.Time // when a newer one was last asked for in vain
}

// NewCache gives a Cache over s.
func NewCache(s *Store) *Cache {
	return &Cache{store: s, now: time.Now, entries: otter.Must(&otter.Options[string, entry]{
		MaximumSize:      cacheSize,
		ExpiryCalculator: otter.ExpiryWriting[string, entry](stale),
	})}
}

// Live lists every sale that has not ended. Old tells that Postgres did not answer and how old the list is; it is 0
// otherwise.
func (c *Cache) Live(ctx context.Context) (sales []Sale, old time.Duration, err error) {
	return c.get(ctx, "live", c.store.live)
}

// Slot lists the sales of the slot that begins at start.
func (c *Cache) Slot(ctx context.Context, start time.Time) (sales []Sale, old time.Duration, err error) {
	return c.get(ctx, "slot "+strconv.FormatInt(start.Unix(), 10), func(ctx context.Context) ([]Sale, error) {
		return c.store.between(ctx, start, start.Add(SlotLength))
	})
}

// Sale gives one sale, or ErrNoSale.
func (c *Cache) Sale(ctx context.Context, id int64) (sale Sale, old time.Duration, err error) {
	last, _, err := c.load(ctx, "last", func(ctx context.Context) (entry, error) {
		id, err := c.store.lastID(ctx)
		return entry{last: id}, err
	})
	if err != nil {
		return Sale{}, 0, err
	}
	if id < 1 || id > last.last {
		return Sale{}, 0, ErrNoSale
	}
	sales, old, err := c.get(ctx, strconv.FormatInt(id, 10), func(ctx context.Context) ([]Sale, error) {
		return c.store.byID(ctx, id)
	})
	if err != nil {
		return Sale{}, 0, err
	}
	if len(sales) == 0 {
		return Sale{}, 0, ErrNoSale
	}
	return sales[0], old, nil
}

func (c *Cache) get(ctx context.Context, key string, read func(context.Context) ([]Sale, error)) ([]Sale, time.Duration, error) {
	e, old, err := c.load(ctx, key, func(ctx context.Context) (entry, error) {
		sales, err := read(ctx)
		return entry{sales: sales}, err
	})
	return e.sales, old, err
}

func (c *Cache) load(ctx context.Context, key string, read func(context.Context) (entry, error)) (entry, time.Duration, error) {
	had, ok := c.entries.GetIfPresent(key)
	if ok && c.now().Sub(had.at) < fresh {
		return had, 0, nil
	}
	old := ok && c.now().Sub(had.at) < stale
	if old && c.now().Sub(had.tried) < fresh {
		return had, c.now().Sub(had.at), nil // Postgres has just not answered: not everybody need wait to see that
	}
	// The read is shared, so it must not die with the caller who happened to begin it.
	reading := c.flight.DoChan(key, func() (any, error) {
		if e, ok := c.entries.GetIfPresent(key); ok && c.now().Sub(e.at) < fresh {
			return e, nil // somebody's read ended between our look and here
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		e, err := read(ctx)
		if err != nil {
			return nil, err
		}
		e.at = c.now()
		c.entries.Set(key, e)
		return e, nil
	})
	var enough <-chan time.Time
	if old {
		enough = time.After(patience)
	}
	var err error
	select {
	case got := <-reading:
		if err = got.Err; err == nil {
			return got.Val.(entry), 0, nil
		}
	case <-enough:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if old {
		c.entries.ComputeIfPresent(key, func(e entry) (entry, otter.ComputeOp) {
			if e.at.After(had.at) {
				return e, otter.CancelOp // the read has ended after all
			}
			e.tried = c.now()
			return e, otter.WriteOp
		})
		return had, c.now().Sub(had.at), nil
	}
	return entry{}, 0, fmt.Errorf("goods cache: %w", err)
}
