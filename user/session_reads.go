package user

import (
	"context"
	"sync"
)

// reads combines concurrent reads. A key is read once for all callers that wait for it, and keys
// that arrive while the connections are busy go together into the next round trip: when thousands
// of users come at once, Redis receives a few large reads. A single read is not delayed.
//
// A batch is read completely, even if callers leave.
type reads struct {
	fetch func(ctx context.Context, keys []string) ([][]byte, error)
	slots chan struct{}  // concurrent round trips
	work  sync.WaitGroup // reads under way

	mu        sync.Mutex
	gathering *batch          // takes more keys; nil if there is none
	open      map[string]read // by key: those that are gathered or under way
}

// read is the read of one key: its place in a batch.
type read struct {
	*batch
	at int
}

type batch struct {
	keys   []string
	done   chan struct{}
	values [][]byte // after done
	err    error    // after done
}

const largestBatch = 512

func newReads(atOnce int, fetch func(context.Context, []string) ([][]byte, error)) *reads {
	return &reads{fetch: fetch, slots: make(chan struct{}, atOnce), open: map[string]read{}}
}

// get returns the value of a key, or nil, as of at most one round trip before the call.
func (r *reads) get(ctx context.Context, key string) ([]byte, error) {
	joined, first := r.join(key)
	if first {
		r.work.Go(func() { r.run(ctx, joined.batch) })
	}
	select {
	case <-joined.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if joined.err != nil {
		return nil, joined.err
	}
	return joined.values[joined.at], nil
}

// join returns the read of a key. If the caller is the first of its batch, the caller starts the batch.
func (r *reads) join(key string) (joined read, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if joined, ok := r.open[key]; ok {
		return joined, false
	}
	b := r.gathering
	if b == nil {
		b = &batch{done: make(chan struct{})}
		r.gathering, first = b, true
	}
	joined = read{b, len(b.keys)}
	b.keys = append(b.keys, key)
	r.open[key] = joined
	if len(b.keys) == largestBatch {
		r.gathering = nil
	}
	return joined, first
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
