package lab

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"
)

// tryCache breaks a cache in the three ways that have names, and mends each.
//
// Penetration: somebody asks for ids that don't exist. A cache that keeps only what there is sends each of these questions to
// the database, for ever. So a "there is none" is kept, too. (It costs an entry: a cache has to be bounded, and goods.Cache
// refuses ids past the newest without one.)
//
// Breakdown: the entry that everybody reads runs out, and all who come in the next milliseconds read the same row. With a
// single flight the first one reads and the others wait for what he finds. He has to look into the cache again before he
// reads: a flight may have landed between his look and his start.
//
// Avalanche: entries that were filled together run out together. When each lives a little longer or shorter than the next, the
// same number of reads spreads out.
//
// sql is the number of statements, and at_once the most of them that were under way, or waiting for a connection, at one time.
func tryCache(ctx context.Context, s Stores, seed uint64) (rows []Found, err error) {
	r, err := openRoom(ctx, s, `create table items as select id, id * 100 as price from generate_series(1, 1000) id;
		alter table items add primary key (id)`, cacheConns)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close(ctx)) }()
	for _, try := range []struct {
		way   string
		shelf *shelf
		rush  func(context.Context, *shelf, uint64) (int, error)
		right func(f map[string]float64) bool
	}{
		{"unknown ids, misses not remembered", &shelf{single: true}, penetrate, fewMisses},
		{"unknown ids, misses remembered", &shelf{single: true, misses: true}, penetrate, fewMisses},
		{"hot id expires, everybody reads", &shelf{}, breakDown, oneRead},
		{"hot id expires, single flight", &shelf{single: true}, breakDown, oneRead},
		{"500 ids expire at once", &shelf{single: true}, avalanche, spread},
		{"500 ids expire with jitter", &shelf{single: true, jitter: avalancheSpread}, avalanche, spread},
	} {
		c := try.shelf
		c.db, c.entries, c.rng = r.db, map[int64]shelved{}, rand.New(rand.NewPCG(seed, 1))
		reads, err := try.rush(ctx, c, seed)
		if err != nil {
			return nil, err
		}
		f := map[string]float64{"reads": float64(reads), "sql": float64(c.sql.Load()), "at_once": float64(c.most.Load())}
		rows = append(rows, Found{try.way, try.right(f), f})
	}
	return rows, nil
}

const (
	cacheConns      = 16
	unknownIDs      = 100                     // asked for in turn
	unknownReads    = 1000                    // in all
	hotReaders      = 500                     // of one id
	avalancheIDs    = 500                     // with one reader each
	avalancheLife   = 150 * time.Millisecond  // of an entry
	avalancheSpread = 1500 * time.Millisecond // more, at most, with jitter: even a slow database keeps up then
	avalancheEvery  = 40 * time.Millisecond   // each reader's pause
)

func fewMisses(f map[string]float64) bool { return f["sql"] <= unknownIDs }
func oneRead(f map[string]float64) bool   { return f["sql"] == 1 }
func spread(f map[string]float64) bool    { return f["at_once"] < avalancheIDs/2 }

// shelf is a cache of prices with what a cache needs as switches.
type shelf struct {
	single bool          // who reads the database does it for all who ask for the same
	misses bool          // what isn't there is remembered, too
	life   time.Duration // of an entry; 0: for ever
	jitter time.Duration // an entry lives up to so much longer

	db interface {
		QueryRow(context.Context, string, ...any) pgx.Row
	}
	mu             sync.Mutex
	entries        map[int64]shelved
	rng            *rand.Rand
	flight         singleflight.Group
	sql, now, most atomic.Int64
}

type shelved struct {
	price int64 // -1: there is no such item
	until time.Time
}

// price reads through the shelf; -1 for an id that doesn't exist.
func (c *shelf) price(ctx context.Context, id int64) (int64, error) {
	if price, ok := c.look(id); ok {
		return price, nil
	}
	if !c.single {
		return c.read(ctx, id)
	}
	v, err, _ := c.flight.Do(strconv.FormatInt(id, 10), func() (any, error) {
		if price, ok := c.look(id); ok {
			return price, nil
		}
		return c.read(ctx, id)
	})
	if err != nil {
		return 0, err
	}
	return v.(int64), nil
}

func (c *shelf) look(id int64) (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[id]
	return e.price, ok && (e.until.IsZero() || time.Now().Before(e.until))
}

func (c *shelf) put(id, price int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := shelved{price: price}
	if c.life > 0 {
		e.until = time.Now().Add(c.life)
	}
	if c.jitter > 0 {
		e.until = e.until.Add(time.Duration(c.rng.Int64N(int64(c.jitter))))
	}
	c.entries[id] = e
}

// read asks the database, which takes ten milliseconds, and keeps what it says.
func (c *shelf) read(ctx context.Context, id int64) (price int64, err error) {
	c.sql.Add(1)
	now := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
	}
	err = c.db.QueryRow(ctx, `select price from items, pg_sleep(0.01) where id = $1`, id).Scan(&price)
	switch {
	case errors.Is(err, pgx.ErrNoRows) && !c.misses:
		return -1, nil
	case errors.Is(err, pgx.ErrNoRows):
		price = -1
	case err != nil:
		return 0, err
	}
	c.put(id, price)
	return price, nil
}

// penetrate asks again and again for ids that don't exist.
func penetrate(ctx context.Context, c *shelf, seed uint64) (reads int, err error) {
	rng := rand.New(rand.NewPCG(seed, 2))
	var all errgroup.Group
	all.SetLimit(cacheConns)
	for range unknownReads {
		id := 1_000_000 + rng.Int64N(unknownIDs)
		all.Go(func() error {
			_, err := c.price(ctx, id)
			return err
		})
	}
	return unknownReads, all.Wait()
}

// breakDown lets a crowd read one id at the moment after its entry has run out.
func breakDown(ctx context.Context, c *shelf, seed uint64) (reads int, err error) {
	id := 1 + rand.New(rand.NewPCG(seed, 3)).Int64N(avalancheIDs)
	var all errgroup.Group
	open := make(chan struct{})
	for range hotReaders {
		all.Go(func() error {
			<-open
			_, err := c.price(ctx, id)
			return err
		})
	}
	close(open)
	return hotReaders, all.Wait()
}

// avalanche fills the shelf at one moment, and has each id read every few milliseconds until all entries have run out once.
func avalanche(ctx context.Context, c *shelf, seed uint64) (reads int, err error) {
	c.life = avalancheLife
	for id := range int64(avalancheIDs) {
		c.put(id+1, 100*(id+1))
	}
	end := time.Now().Add(c.life + c.jitter)
	c.life = time.Hour // once is enough
	var all errgroup.Group
	var n atomic.Int64
	rng := rand.New(rand.NewPCG(seed, 4))
	for id := range int64(avalancheIDs) {
		first := time.Duration(rng.Int64N(int64(avalancheEvery)))
		all.Go(func() error {
			pause(ctx, first)
			for last := false; !last; pause(ctx, avalancheEvery) {
				last = time.Now().After(end)
				if _, err := c.price(ctx, id+1); err != nil {
					return err
				}
				n.Add(1)
			}
			return nil
		})
	}
	err = all.Wait()
	return int(n.Load()), err
}
