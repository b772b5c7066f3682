package user

import (
	"context"
	"sync"
)

// reads combines concurrent reads. A key is read once for all callers that wait for it, and keys
// that arrive while the connections are busy go together into the next round trip: when thousands
// of users come at once, Redis receives a few large reads. A single read is not delayed.
//
// A batch is read to its end, even if callers leave.
type reads struct {
	fetch func(ctx context.Context, keys []string) ([][]byte, error)
	slots chan struct{}  // concurrent round trips
	work  sync.WaitGroup // reads under way

	mu        sync.Mutex
	gathering *batch            // takes more keys; nil if there is none
	open      map[string]*batch // key -> its batch, gathering or under way
}

type batch struct {
	keys   []string
	at     map[string]int // key -> its index
	done   chan struct{}
	values [][]byte // after done
	err    error    // after done
}

const largestBatch = 512

func newReads(atOnce int, fetch func(context.Context, []string) ([][]byte, error)) *reads {
	return &reads{fetch: fetch, slots: make(chan struct{}, atOnce), open: map[string]*batch{}}
}

// get returns the value of a key, or nil, as of at most one round trip before the call.
func (r *reads) get(ctx context.Context, key string) ([]byte, error) {
	b, first := r.join(key)
	if first {
		r.work.Go(func() { r.run(ctx, b) })
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if b.err != nil {
		return nil, b.err
	}
	return b.values[b.at[key]], nil
}

// join returns the batch that reads the key. If the caller is its first, the caller starts it.
func (r *reads) join(key string) (b *batch, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.open[key]; b != nil {
		return b, false
	}
	if b = r.gathering; b == nil {
		b = &batch{at: map[string]int{}, done: make(chan struct{})}
		r.gathering, first = b, true
	}
	b.at[key] = len(b.keys)
	b.keys = append(b.keys, key)
	r.open[key] = b
	if len(b.keys) == largestBatch {
		r.gathering = nil
	}
	return b, first
}

// run waits for a slot, closes the batch for more keys, and reads it.
func (r *reads) run(ctx context.Context, b *batch) {
	r.slots <- struct{}{} // bounded: fetch has a time limit
	r.mu.Lock()
	if r.gathering == b {
		r.gathering = nil
	}
	r.mu.Unlock()

	b.values, b.err = r.fetch(context.WithoutCancel(ctx), b.keys)

	r.mu.Lock()
	for _, key := range b.keys {
		delete(r.open, key)
	}
	r.mu.Unlock()
	close(b.done)
	<-r.slots
}
