package goods

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/singleflight"
)

const (
	freshFor  = time.Second             // an entry is served without a query
	staleFor  = 60 * time.Second        // an entry is served if Postgres does not answer
	staleWait = 50 * time.Millisecond   // the longest wait of a caller with a stale entry for a new one
	readLimit = 1500 * time.Millisecond // for one read; a sale may need two, and a request has 3 s

	replicaLimit = 300 * time.Millisecond // of it, for the replica; the store gets the rest
	replicaPause = time.Second            // after a read at the replica that failed
	cacheSize    = 20_000                 // entries, including those of unknown ids
)

// Cache serves the catalogue from memory. An entry is fresh for a second; then one caller reads it
// for all (single flight). Without Postgres, an entry up to a minute old is served with its age.
//
// An unknown id has an entry too, and an id above the newest is refused without one: guessing ids
// costs Postgres nothing.
type Cache struct {
	store   *Store
	replica *Store       // nil without one
	failed  atomic.Int64 // when a read at the replica last failed, in nanoseconds since 1970
	entries entries
	flight  singleflight.Group
	fresh   time.Duration // an entry is served without a query
	now     func() time.Time

	staleWait, readLimit, replicaLimit time.Duration
}

// Config has the settings of the catalogue.
type Config struct {
	CatalogueLife time.Duration `name:"catalogue-life" default:"1s" hidden:"" help:"For measuring: how long sales are shown without a query. With the sandbox's own stores only."`
}

// CatalogueLife is that of a shop that is not slowed down for measuring.
const CatalogueLife = freshFor

// Validate returns an error for a life that makes no sense.
func (c Config) Validate() error {
	if c.CatalogueLife < 1 || c.CatalogueLife > freshFor {
		return fmt.Errorf("--catalogue-life: 1ns to %v", freshFor)
	}
	return nil
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
	held // what a sale has held
)

type entry struct {
	sales []Sale
	last  int64
	held  *Held
	at    time.Time
	tried time.Time // the last read that failed or took too long
}

// NewCache returns a Cache of what s reads.
func NewCache(s *Store) *Cache {
	return &Cache{store: s, fresh: freshFor, now: time.Now, staleWait: staleWait, readLimit: readLimit,
		replicaLimit: replicaLimit, entries: otter.Must(&otter.Options[key, entry]{
			MaximumSize:      cacheSize,
			ExpiryCalculator: otter.ExpiryWriting[key, entry](staleFor),
		})}
}

// ReadFrom makes c read at a replica, and at the store only when the replica fails. The replica has to fail when it is
// too old: c takes what it reads there for new. Call it before c is used.
func (c *Cache) ReadFrom(replica *Store) { c.replica = replica }

// SetLife sets how long an entry is served without a query, before the first call.
func (c *Cache) SetLife(cfg Config) { c.fresh = cfg.CatalogueLife }

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

func (c *Cache) read(ctx context.Context, k key) (entry, error) {
	if c.replica != nil && c.now().UnixNano()-c.failed.Load() >= int64(replicaPause) {
		limited, cancel := context.WithTimeout(ctx, c.replicaLimit)
		e, err := c.replica.read(limited, k)
		cancel()
		if err == nil {
			return e, nil
		}
		c.failed.Store(c.now().UnixNano())
	}
	return c.store.read(ctx, k)
}

func (s *Store) read(ctx context.Context, k key) (e entry, err error) {
	switch k.kind {
	case live:
		e.sales, err = s.live(ctx)
	case slot:
		start := time.Unix(k.n, 0)
		e.sales, err = s.between(ctx, start, start.Add(SlotLength))
	case one:
		e.sales, err = s.byID(ctx, k.n)
	case last:
		e.last, err = s.lastID(ctx)
	case held:
		e.held, err = s.held(ctx, k.n)
	}
	return e, err
}

func (c *Cache) load(ctx context.Context, k key) (entry, time.Duration, error) {
	cached, ok := c.entries.GetIfPresent(k)
	fresh := c.fresh
	if k.kind == held {
		fresh = heldFor
	}
	if ok && c.now().Sub(cached.at) < fresh {
		return cached, 0, nil
	}
	old := ok && c.now().Sub(cached.at) < staleFor
	if old && c.now().Sub(cached.tried) < freshFor {
		return cached, c.now().Sub(cached.at), nil // a read has just failed: do not wait for the next one
	}
	reading := c.reading(ctx, k, fresh)
	var timeout <-chan time.Time
	if old {
		timeout = time.After(c.staleWait)
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

// reading reads an entry, unless it is younger than fresh by then. The read is shared, so it must not end with the
// caller that started it.
func (c *Cache) reading(ctx context.Context, k key, fresh time.Duration) <-chan singleflight.Result {
	return c.flight.DoChan(fmt.Sprint(k.kind, k.n), func() (any, error) {
		if e, ok := c.entries.GetIfPresent(k); ok && c.now().Sub(e.at) < fresh {
			return e, nil // another read has ended since the caller looked
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.readLimit)
		defer cancel()
		e, err := c.read(ctx, k)
		if err != nil {
			return nil, err
		}
		e.at = c.now()
		c.entries.Set(k, e)
		return e, nil
	})
}
