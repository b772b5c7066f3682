package experiments

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"miaosha/seckill/lab"
)

// runCache shows the three well-known failures of a cache, and the remedy for each.
//
// Penetration: a client asks for ids that do not exist. A cache of existing items sends each of these
// requests to the database. The remedy is to cache "there is none", too. That costs an entry, so the
// cache must be bounded; goods.Cache refuses ids beyond the newest without an entry.
//
// Breakdown: a hot entry expires, and all requests of the next milliseconds read the same row. With
// a single flight, the first request reads and the others wait for its result. It must look into the
// cache again before it reads: another flight may have ended since its first look.
//
// Avalanche: entries that were filled together expire together. With jitter, each entry lives a
// little longer or shorter, and the same number of reads spreads over time.
//
// The figures are sql: the number of statements; at_once: the most statements at one time that were
// running or waiting for a connection. After these, cacheLevels says what a read costs at each level.
func runCache(ctx context.Context, s lab.Stores, seed uint64) (rows []Finding, err error) {
	w, err := openWorkspace(ctx, s, `create table items as select id, id * 100 as price from generate_series(1, 1000) id;
		alter table items add primary key (id)`, cacheConns)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close(ctx)) }()
	r, err := openCounter(s)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	defer r.Del(context.WithoutCancel(ctx), w.Key("price"))
	try := func(c *priceCache, rush func(context.Context, *priceCache, uint64) (int, error),
		judge func(map[string]float64) string) func(context.Context) (Finding, error) {
		return func(ctx context.Context) (Finding, error) {
			c.db, c.entries, c.rng = w.db, map[int64]cacheEntry{}, rand.New(rand.NewPCG(seed, 1))
			figures := func() map[string]float64 {
				return map[string]float64{"sql": float64(c.sql.Load()), "at_once": float64(c.most.Load())}
			}
			show(ctx, figures)
			reads, err := rush(ctx, c, seed)
			f := figures()
			f["reads"] = float64(reads)
			return Finding{Verdict: judge(f), Figures: f}, err
		}
	}
	return tryAll(ctx, append([]variant{
		{"unknown ids, misses not remembered", try(&priceCache{single: true}, penetrate, fewMisses)},
		{"unknown ids, misses remembered", try(&priceCache{single: true, misses: true}, penetrate, fewMisses)},
		{"hot id expires, everybody reads", try(&priceCache{}, breakDown, oneRead)},
		{"hot id expires, single flight", try(&priceCache{single: true}, breakDown, oneRead)},
		{"500 ids expire at once", paced(try(&priceCache{single: true}, avalanche, spread))},
		{"500 ids expire with jitter", paced(try(&priceCache{single: true, jitter: avalancheSpread},
			avalanche, spread))},
	}, cacheLevels(w, r)...))
}

const (
	cacheConns      = 16
	unknownIDs      = 100                     // requested at random
	unknownReads    = 1000                    // in total
	hotReaders      = 500                     // of one id
	avalancheIDs    = 500                     // with one reader each
	avalancheLife   = 150 * time.Millisecond  // of an entry
	avalancheSpread = 1500 * time.Millisecond // the most that jitter adds: enough for a slow database
	avalancheEvery  = 40 * time.Millisecond   // between two reads of a reader
)

// All variants return the right prices. What differs is how much the database has to read for them.
func fewMisses(f map[string]float64) string { return verdict(f["sql"] <= unknownIDs, Unbounded) }
func oneRead(f map[string]float64) string   { return verdict(f["sql"] == 1, Unbounded) }
func spread(f map[string]float64) string    { return verdict(f["at_once"] < avalancheIDs/2, Slow) }

// priceCache is a cache of prices. Each remedy is an option.
type priceCache struct {
	single bool          // one request reads for all that want the same id
	misses bool          // ids that do not exist are cached, too
	life   time.Duration // of an entry; 0: no limit
	jitter time.Duration // the most that an entry lives longer

	db             *pgxpool.Pool
	mu             sync.Mutex
	entries        map[int64]cacheEntry
	rng            *rand.Rand
	flight         singleflight.Group
	sql, now, most atomic.Int64
}

type cacheEntry struct {
	price int64 // -1: the item does not exist
	until time.Time
}

// price returns the price of an item, and -1 for an id that does not exist.
func (c *priceCache) price(ctx context.Context, id int64) (int64, error) {
	if price, ok := c.get(id); ok {
		return price, nil
	}
	if !c.single {
		return c.read(ctx, id)
	}
	//lab:here
	v, err, _ := c.flight.Do(strconv.FormatInt(id, 10), func() (any, error) {
		if price, ok := c.get(id); ok {
			return price, nil
		}
		return c.read(ctx, id)
	})
	//lab:end
	if err != nil {
		return 0, err
	}
	return v.(int64), nil
}

func (c *priceCache) get(id int64) (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[id]
	return e.price, ok && (e.until.IsZero() || time.Now().Before(e.until))
}

func (c *priceCache) put(id, price int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := cacheEntry{price: price}
	if c.life > 0 {
		e.until = time.Now().Add(c.life)
	}
	//lab:here
	if c.jitter > 0 {
		e.until = e.until.Add(time.Duration(c.rng.Int64N(int64(c.jitter))))
	}
	//lab:end
	c.entries[id] = e
}

// read reads the price from the database, which takes ten milliseconds, and caches it.
func (c *priceCache) read(ctx context.Context, id int64) (price int64, err error) {
	c.sql.Add(1)
	now := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
	}
	err = c.db.QueryRow(ctx, `select price from items, pg_sleep(0.01) where id = $1`, id).Scan(&price)
	switch {
	//lab:here
	case errors.Is(err, pgx.ErrNoRows) && !c.misses:
		return -1, nil
	case errors.Is(err, pgx.ErrNoRows):
		price = -1
	//lab:end
	case err != nil:
		return 0, err
	}
	c.put(id, price)
	return price, nil
}

// penetrate requests ids that do not exist, each many times.
func penetrate(ctx context.Context, c *priceCache, seed uint64) (reads int, err error) {
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

// breakDown lets a crowd read one id at once, right after its entry has expired.
func breakDown(ctx context.Context, c *priceCache, seed uint64) (reads int, err error) {
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

// avalanche fills the cache at one moment. It then reads each id every few milliseconds until all
// entries have expired once.
func avalanche(ctx context.Context, c *priceCache, seed uint64) (reads int, err error) {
	c.life = avalancheLife
	for id := range int64(avalancheIDs) {
		c.put(id+1, 100*(id+1))
	}
	end := time.Now().Add(c.life + c.jitter)
	c.life = time.Hour // each entry expires once
	var all errgroup.Group
	var n atomic.Int64
	rng := rand.New(rand.NewPCG(seed, 4))
	for id := range int64(avalancheIDs) {
		first := time.Duration(rng.Int64N(int64(avalancheEvery)))
		all.Go(func() error {
			lab.Pause(ctx, first)
			for last := false; !last; lab.Pause(ctx, avalancheEvery) {
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
