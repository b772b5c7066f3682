package user

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
)

const (
	// a copy is used without a read; an event stream looks each second and has to end within two
	freshFor    = 900 * time.Millisecond
	staleFor    = 10 * time.Minute      // a copy is used if Redis does not answer
	staleWait   = 50 * time.Millisecond // the longest wait of a caller with an older copy for Redis
	maxEntries  = 200_000               // about 50 MB
	readsAtOnce = 2
)

// copies implements scs.Store: Redis, with a cache in this process. Its tokens are hashed.
type copies struct {
	remote  *remote
	reads   *reads
	entries entries
	fresh   time.Duration // a copy is used without a read
	wait    time.Duration // of a caller with an older copy, for Redis
	now     func() time.Time

	hits, misses, stale atomic.Int64 // of find
}

// entries has the methods of otter.Cache that are used here; goods/cache.go says why.
type entries interface {
	GetIfPresent(string) (entry, bool)
	Set(string, entry) (entry, bool)
	Compute(string, func(entry, bool) (entry, otter.ComputeOp)) (entry, bool)
	Invalidate(string) (entry, bool)
	All() iter.Seq2[string, entry]
	StopAllGoroutines() bool
}

// entry is a session as of a time, or the mark that the session was ended here. Tokens are never
// used again, so the mark stays for the life of a session, even if a read that began earlier, or a
// Redis that was down when the user logged out, returns the session. Only a process with more than
// maxEntries copies and marks forgets marks earlier.
type entry struct {
	record  []byte // nil if ended
	at      time.Time
	renewAt time.Time // no use before it asks for a renewal
}

// newCopies returns copies of sessions with this life.
func newCopies(r *remote, life time.Duration) *copies {
	c := &copies{remote: r, fresh: freshFor, wait: staleWait, now: time.Now, entries: newEntries(life, nil)}
	c.reads = newReads(readsAtOnce, c.fetch)
	return c
}

func newEntries(life time.Duration, clock otter.Clock) entries {
	return otter.Must(&otter.Options[string, entry]{
		MaximumSize: maxEntries,
		Clock:       clock,
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[string, entry]) time.Duration {
			if e.Value.record == nil {
				return max(life, staleFor)
			}
			return staleFor
		}),
	})
}

// FindCtx implements scs.CtxStore. The session may have expired; the caller checks the deadline.
func (c *copies) FindCtx(ctx context.Context, token string) (record []byte, found bool, err error) {
	e, err := c.find(ctx, token)
	return e.record, e.record != nil, err
}

// find returns a session, without a record if there is none.
func (c *copies) find(ctx context.Context, token string) (entry, error) {
	cached, ok := c.entries.GetIfPresent(token)
	if ok && (cached.record == nil || c.now().Sub(cached.at) < c.fresh) {
		c.hits.Add(1)
		return cached, nil
	}
	stale := ok && c.now().Sub(cached.at) < staleFor
	if stale {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.wait)
		defer cancel()
	}
	record, err := c.reads.get(ctx, token)
	if err != nil && stale {
		c.stale.Add(1)
		return cached, nil
	}
	c.misses.Add(1)
	return entry{record: record, renewAt: cached.renewAt}, err
}

// fetch reads sessions and keeps copies of them, dated when the read began.
func (c *copies) fetch(ctx context.Context, tokens []string) ([][]byte, error) {
	began := c.now()
	records, err := c.remote.records(ctx, tokens)
	if err != nil {
		return nil, err
	}
	c.keep(tokens, records, began)
	return records, nil
}

// keep keeps copies of what was read, and takes sessions that were ended meanwhile out of records. A
// token that Redis does not know has no copy: strangers can invent any number of tokens.
func (c *copies) keep(tokens []string, records [][]byte, at time.Time) {
	for i, token := range tokens {
		c.entries.Compute(token, func(old entry, ok bool) (entry, otter.ComputeOp) {
			switch {
			case ok && old.record == nil:
				records[i] = nil
				return old, otter.CancelOp
			case records[i] == nil:
				return old, otter.InvalidateOp
			default:
				return entry{records[i], at, old.renewAt}, otter.WriteOp
			}
		})
	}
}

// ownerKey is the key of the owner in the context of a commit.
type ownerKey struct{}

var errNoOwner = errors.New("a session without an owner")

// CommitCtx implements scs.CtxStore. It writes a new session of the owner in ctx.
func (c *copies) CommitCtx(ctx context.Context, token string, record []byte, expiry time.Time) error {
	of, ok := ctx.Value(ownerKey{}).(owner)
	if !ok {
		return errNoOwner // it could not be ended
	}
	ended, err := c.remote.list(ctx, of, token, record, expiry, c.now())
	for _, token := range ended {
		c.ended(token)
	}
	return err
}

// DeleteCtx implements scs.CtxStore.
func (c *copies) DeleteCtx(_ context.Context, token string) error {
	c.entries.Invalidate(token)
	if err := c.remote.try("end a session", func() error { return c.remote.store.Delete(token) }); err != nil {
		return err
	}
	c.ended(token)
	return nil
}

// ended marks a session that was removed from Redis, or that its user has ended while Redis was down.
func (c *copies) ended(token string) { c.entries.Set(token, entry{at: c.now()}) }

// Find, Commit and Delete implement scs.Store; scs itself calls the variants with a context.
func (c *copies) Find(token string) ([]byte, bool, error) {
	return c.FindCtx(context.Background(), token)
}

func (c *copies) Commit(token string, record []byte, expiry time.Time) error {
	return c.CommitCtx(context.Background(), token, record, expiry)
}

func (c *copies) Delete(token string) error { return c.DeleteCtx(context.Background(), token) }
