package user

import (
	"context"
	"time"

	"github.com/maypok86/otter/v2"
)

const (
	freshFor  = 900 * time.Millisecond // a copy answers alone; an event stream looks each second, and has to end within two
	staleFor  = 10 * time.Minute       // a copy answers when Redis doesn't
	copyWait  = 50 * time.Millisecond  // who has an older copy waits so long for Redis
	mostKept  = 200_000                // about 50 MB
	readsOnce = 2
)

// copies is the scs.Store: Redis, with a copy in this process of what was read there. Tokens are hashed before they
// come here.
type copies struct {
	remote *remote
	reads  *reads
	kept   keptByToken
	now    func() time.Time
}

// keptByToken is what is used of an otter.Cache: see goods.Cache for why it is not a field itself.
type keptByToken interface {
	GetIfPresent(string) (kept, bool)
	Set(string, kept) (kept, bool)
	Compute(string, func(kept, bool) (kept, otter.ComputeOp)) (kept, bool)
	Invalidate(string) (kept, bool)
	StopAllGoroutines() bool
}

// kept is a session as it was at a time, or the mark of one that was ended here: tokens never come back, so neither
// does the session, whatever a read that was under way brings.
type kept struct {
	record []byte // nil: ended
	at     time.Time
}

func newCopies(r *remote) (*copies, error) {
	cache, err := otter.New(&otter.Options[string, kept]{
		MaximumSize:      mostKept,
		ExpiryCalculator: otter.ExpiryWriting[string, kept](staleFor),
	})
	if err != nil {
		return nil, err
	}
	c := &copies{remote: r, kept: cache, now: time.Now}
	c.reads = newReads(readsOnce, c.fetch)
	return c, nil
}

// FindCtx implements scs.CtxStore. It may find a session that has expired; who asks looks at the deadline.
func (c *copies) FindCtx(ctx context.Context, token string) (record []byte, found bool, err error) {
	copied, have := c.kept.GetIfPresent(token)
	if have && (copied.record == nil || c.now().Sub(copied.at) < freshFor) {
		return copied.record, copied.record != nil, nil
	}
	if have = have && c.now().Sub(copied.at) < staleFor; have {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, copyWait)
		defer cancel()
	}
	record, err = c.reads.get(ctx, token)
	if err != nil && have {
		return copied.record, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	if now, ok := c.kept.GetIfPresent(token); ok && now.record == nil {
		return nil, false, nil // ended while we read
	}
	return record, record != nil, nil
}

// fetch reads sessions and keeps copies of them, as old as the question.
func (c *copies) fetch(ctx context.Context, tokens []string) ([][]byte, error) {
	asked := c.now()
	records, err := c.remote.records(ctx, tokens)
	if err != nil {
		return nil, err
	}
	c.keep(tokens, records, asked)
	return records, nil
}

// keep copies what was read, but for what was ended meanwhile. A token that Redis doesn't know leaves no copy:
// strangers can make up any number of them.
func (c *copies) keep(tokens []string, records [][]byte, asked time.Time) {
	for i, token := range tokens {
		c.kept.Compute(token, func(old kept, have bool) (kept, otter.ComputeOp) {
			switch {
			case have && old.record == nil:
				return old, otter.CancelOp
			case records[i] == nil:
				return old, otter.InvalidateOp
			default:
				return kept{records[i], asked}, otter.WriteOp
			}
		})
	}
}

// CommitCtx implements scs.CtxStore.
func (c *copies) CommitCtx(_ context.Context, token string, record []byte, expiry time.Time) error {
	c.kept.Invalidate(token)
	return c.remote.try("keep a session", func() error { return c.remote.store.Commit(token, record, expiry) })
}

// DeleteCtx implements scs.CtxStore.
func (c *copies) DeleteCtx(_ context.Context, token string) error {
	c.kept.Invalidate(token)
	if err := c.remote.try("end a session", func() error { return c.remote.store.Delete(token) }); err != nil {
		return err
	}
	c.ended(token)
	return nil
}

// ended marks a session that is no longer in Redis.
func (c *copies) ended(token string) { c.kept.Set(token, kept{at: c.now()}) }

// Find, Commit and Delete implement scs.Store; scs calls the three above.
func (c *copies) Find(token string) ([]byte, bool, error) {
	return c.FindCtx(context.Background(), token)
}

func (c *copies) Commit(token string, record []byte, expiry time.Time) error {
	return c.CommitCtx(context.Background(), token, record, expiry)
}

func (c *copies) Delete(token string) error { return c.DeleteCtx(context.Background(), token) }
