package experiments

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"miaosha/seckill/lab"
)

// runCacheConsistency changes prices in Postgres while readers read them through a cache in Redis (cache
// aside: on a miss a reader reads Postgres and fills the cache). No order of the two writes makes the
// two stores agree at every moment.
//
// Delete, then write: a reader that comes between the two reads the old price and caches it again. It
// stays until the entry expires. This needs no rare moment.
//
// Write, then delete: other readers see the old price only until the delete. But a reader that missed
// before the write, and stalls, may cache the old price after the delete.
//
// Delete twice (延时双删): a second delete, some time after the write, removes what such a reader has
// cached, unless the reader stalls for longer than that time.
//
// Short life: no delete. Every entry expires soon, so a wrong price lasts no longer than a life, after
// any stall and any crash. The shop's goods.Cache does this: it lives for a second in each process,
// and no code that sells reads it.
//
// 20 prices change once each. The writer's transaction takes 20 ms. Five entries have just expired when
// their write begins, and a reader has just read the old price: three of these readers stall until after
// the write, two for longer than the second delete waits.
//
// The figures are reads; stale: reads that began after a commit and returned the price before it;
// longest_ms: the longest time after a commit at which a reader read the old price; stays_old: prices that
// are still old in the cache at the end, where they stay for the minute that an entry lives.
func runCacheConsistency(ctx context.Context, s lab.Stores, seed uint64) (rows []Finding, err error) {
	w, err := openWorkspace(ctx, s, fmt.Sprintf(`create table items as select id, 1 as price from generate_series(1, %d) id;
		alter table items add primary key (id)`, cachedItems), cacheConns)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close(ctx)) }()
	c, err := openCounter(s)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	try := func(p cachePolicy) func(context.Context) (Finding, error) {
		return func(ctx context.Context) (Finding, error) { return changePrices(ctx, w, c, seed, p) }
	}
	return tryAll(ctx, []variant{
		{"delete, then write", try(cachePolicy{before: true, life: time.Minute})},
		{"write, then delete", try(cachePolicy{after: true, life: time.Minute})},
		{"delete twice", try(cachePolicy{before: true, again: true, life: time.Minute})},
		{"short life", try(cachePolicy{life: shortLife})},
	})
}

const (
	cachedItems  = 20
	stalledReads = 5 // items whose entry has just expired, with a reader that stalls
	longStalls   = 2 // of these, longer than the second delete waits
	priceReaders = 2 // of each item
	readEvery    = 8 * time.Millisecond
	writeTakes   = 20 * time.Millisecond
	secondDelete = 50 * time.Millisecond // after the commit
	shortLife    = 100 * time.Millisecond
	expiresLate  = 1100 * time.Millisecond // the Redis inside the process removes entries once a second
)

// cachePolicy says what a writer does beside the write, and how long an entry lives.
type cachePolicy struct {
	before, after, again bool // delete the entry before the write, after it, and again later
	life                 time.Duration
}

// cachedItem is a price in Postgres and its entry in Redis.
type cachedItem struct {
	workspace
	counter
	cachePolicy
	id        int
	committed atomic.Int64  // when the new price was committed, in Unix nanoseconds; 0: not yet
	missed    chan struct{} // closed when the stalled reader has read the old price
	written   chan struct{} // closed when the writer has committed, and deleted if it does so at once
	late      chan struct{} // closed when the stalled reader has filled the cache, or there is none
	done      chan struct{} // closed when the writer has done everything

	rounds                [priceReaders]atomic.Int64 // reads that each reader has done
	reads, stale, longest atomic.Int64
}

func (i *cachedItem) entry() string { return i.Key(fmt.Sprintf("price:%d", i.id)) }

// changePrices tries one policy on all items.
func changePrices(ctx context.Context, w workspace, c counter, seed uint64, p cachePolicy) (row Finding, err error) {
	if _, err := w.db.Exec(ctx, `update items set price = 1`); err != nil {
		return row, err
	}
	items, entries := make([]*cachedItem, cachedItems), make([]string, cachedItems)
	for i := range items {
		items[i] = &cachedItem{workspace: w, counter: c, cachePolicy: p, id: i + 1, missed: make(chan struct{}),
			written: make(chan struct{}), late: make(chan struct{}), done: make(chan struct{})}
		entries[i] = items[i].entry()
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lab.CleanupTimeout)
		defer cancel()
		err = errors.Join(err, c.Del(ctx, entries...).Err())
	}()
	figures := func() map[string]float64 {
		f, longest := map[string]float64{}, int64(0)
		for _, item := range items {
			f["reads"] += float64(item.reads.Load())
			f["stale"] += float64(item.stale.Load())
			longest = max(longest, item.longest.Load())
		}
		f["longest_ms"] = lab.Round(float64(longest)/float64(time.Millisecond), 0)
		return f
	}
	show(ctx, figures)
	var all errgroup.Group
	for n, i := range rand.New(rand.NewPCG(seed, 30)).Perm(cachedItems) {
		all.Go(func() error {
			lab.Pause(ctx, time.Duration(n)*5*time.Millisecond)
			return items[i].change(ctx, n < stalledReads, n < longStalls)
		})
	}
	if err := all.Wait(); err != nil {
		return row, err
	}
	kept, err := countOld(ctx, c, items)
	if p.life == shortLife {
		for until := time.Now().Add(p.life + expiresLate); err == nil && kept > 0 && time.Now().Before(until); {
			lab.Pause(ctx, readEvery)
			kept, err = countOld(ctx, c, items)
		}
	}
	if err != nil {
		return row, err
	}
	f := figures()
	f["stays_old"] = float64(kept)
	return Finding{Verdict: verdict(kept == 0, Wrong), Figures: f}, ctx.Err()
}

// countOld returns how many entries have the old price.
func countOld(ctx context.Context, c counter, items []*cachedItem) (n int, err error) {
	for _, item := range items {
		price, err := c.Get(ctx, item.entry()).Int()
		if err != nil && !errors.Is(err, redis.Nil) {
			return n, err
		}
		if price == 1 {
			n++
		}
	}
	return n, nil
}

// change changes the price of an item while readers read it. If a reader stalls, it fills the cache
// before the second delete, or after it if long.
func (i *cachedItem) change(ctx context.Context, stalls, long bool) error {
	all, ctx := errgroup.WithContext(ctx)
	if stalls {
		all.Go(func() error { return i.readAndStall(ctx, long) })
	} else {
		close(i.missed)
		close(i.late)
		if err := i.Set(ctx, i.entry(), 1, i.life).Err(); err != nil {
			return err
		}
	}
	all.Go(func() error { return i.write(ctx, long) })
	for n := range priceReaders {
		all.Go(func() error { return i.readUntilDone(ctx, n) })
	}
	return all.Wait()
}

// write changes the price as the policy says.
func (i *cachedItem) write(ctx context.Context, long bool) error {
	defer close(i.done)
	<-i.missed
	err := i.commit(ctx)
	close(i.written)
	if err != nil {
		return err
	}
	lab.Pause(ctx, secondDelete)
	if !long {
		<-i.late
	}
	if i.again {
		return i.Del(ctx, i.entry()).Err()
	}
	return nil
}

// commit writes the price to Postgres, with the deletes right before and after.
func (i *cachedItem) commit(ctx context.Context) error {
	//lab:here
	if i.before {
		if err := i.Del(ctx, i.entry()).Err(); err != nil {
			return err
		}
	}
	_, err := i.db.Exec(ctx, `with other_work as (select pg_sleep($2)) update items set price = 2 from other_work where id = $1`, i.id, writeTakes.Seconds())
	i.committed.Store(time.Now().UnixNano())
	if err == nil && i.after {
		lab.Pause(ctx, time.Millisecond) // the way from one store to the other
		err = i.Del(ctx, i.entry()).Err()
	}
	//lab:end
	return err
}

// readAndStall reads the old price before the write, and caches it after the write. By then another
// reader has filled the cache with the new price.
func (i *cachedItem) readAndStall(ctx context.Context, long bool) error {
	defer close(i.late)
	price, err := i.load(ctx)
	close(i.missed)
	if err != nil {
		return err
	}
	//lab:here
	<-i.written
	if long {
		<-i.done
	}
	i.awaitReaders(ctx)
	return i.Set(ctx, i.entry(), price, i.life).Err()
	//lab:end
}

// awaitReaders waits until each reader has done a read that began after the call. None of them then has
// a price that it is still to cache.
func (i *cachedItem) awaitReaders(ctx context.Context) {
	for n := range i.rounds {
		for last := i.rounds[n].Load() + 2; i.rounds[n].Load() < last && ctx.Err() == nil; {
			// the first of the two may be under way
			lab.Pause(ctx, readEvery)
		}
	}
}

func (i *cachedItem) load(ctx context.Context) (price int, err error) {
	err = i.db.QueryRow(ctx, `select price from items where id = $1`, i.id).Scan(&price)
	return price, err
}

// readUntilDone reads the price, as reader n, until some time after the writer and the stalled reader are done.
func (i *cachedItem) readUntilDone(ctx context.Context, n int) error {
	for last := false; !last && ctx.Err() == nil; lab.Pause(ctx, readEvery) {
		last = isClosed(i.done) && isClosed(i.late)
		began := time.Now()
		price, err := i.Get(ctx, i.entry()).Int()
		if errors.Is(err, redis.Nil) {
			if price, err = i.load(ctx); err == nil {
				err = i.Set(ctx, i.entry(), price, i.life).Err()
			}
		}
		if err != nil {
			return err
		}
		i.reads.Add(1)
		i.rounds[n].Add(1)
		if committed := i.committed.Load(); price == 1 && committed != 0 && began.UnixNano() > committed {
			i.stale.Add(1)
			after := began.UnixNano() - committed
			for old := i.longest.Load(); after > old && !i.longest.CompareAndSwap(old, after); {
				old = i.longest.Load() // another reader was first
			}
		}
	}
	return ctx.Err()
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
