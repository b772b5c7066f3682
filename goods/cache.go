package goods

import (
	"context"
	"fmt"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/singleflight"
)

const (
	fresh     = time.Second             // how long an entry is served without a question
	stale     = 60 * time.Second        // how long it is served when Postgres does not answer
	patience  = 50 * time.Millisecond   // how long who could be served an older one waits for a new one
	readLimit = 1500 * time.Millisecond // how long a read may take; a sale may need two, and a request has 3 s
	cacheSize = 20_000                  // entries, unknown ids among them
)

// Cache answers the shop window from memory. An entry lives a second; then it is read anew, once for all who ask (single
// flight). When Postgres does not answer, or not soon, an entry up to a minute old is served and marked. An
// id nobody sells is an entry too, and an id past the newest is refused without one, so guessing ids costs Postgres
// nothing.
type Cache struct {
	store   *Store
	entries entries
	flight  singleflight.Group
	now     func() time.Time
}

// entries is what is used of an otter.Cache. Were that type a field, each package that knows a Cache would compile otter for
// it once more, which takes seconds; so it is in user, seckill and web.
type entries interface {
	GetIfPresent(key) (entry, bool)
	Set(key, entry) (entry, bool)
	ComputeIfPresent(key, func(entry) (entry, otter.ComputeOp)) (entry, bool)
}

// key is what was read: a kind, and a slot's start (seconds since 1970) or a sale's id.
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
	tried time.Time // when a newer one was last asked for in vain
}

// NewCache gives a Cache over s.
func NewCache(s *Store) *Cache {
	return &Cache{store: s, now: time.Now, entries: otter.Must(&otter.Options[key, entry]{
		MaximumSize:      cacheSize,
		ExpiryCalculator: otter.ExpiryWriting[key, entry](stale),
	})}
}

// Live lists every sale that has not ended. Old tells that Postgres did not answer and how old the list is; it is 0
// otherwise.
func (c *Cache) Live(ctx context.Context) (sales []Sale, old time.Duration, err error) {
	e, old, err := c.load(ctx, key{kind: live})
	return e.sales, old, err
}

// Slot lists the sales of the slot that begins at start.
func (c *Cache) Slot(ctx context.Context, start time.Time) (sales []Sale, old time.Duration, err error) {
	e, old, err := c.load(ctx, key{slot, start.Unix()})
	return e.sales, old, err
}

// Sale gives one sale, or ErrNoSale.
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
	had, ok := c.entries.GetIfPresent(k)
	if ok && c.now().Sub(had.at) < fresh {
		return had, 0, nil
	}
	old := ok && c.now().Sub(had.at) < stale
	if old && c.now().Sub(had.tried) < fresh {
		return had, c.now().Sub(had.at), nil // Postgres has just not answered: not everybody need wait to see that
	}
	// The read is shared, so it must not die with the caller who happened to begin it.
	reading := c.flight.DoChan(fmt.Sprint(k.kind, k.n), func() (any, error) {
		if e, ok := c.entries.GetIfPresent(k); ok && c.now().Sub(e.at) < fresh {
			return e, nil // somebody's read ended between our look and here
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
		c.entries.ComputeIfPresent(k, func(e entry) (entry, otter.ComputeOp) {
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
