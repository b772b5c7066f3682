package user

import (
	"context"
	"sync"
)

// reads joins what many ask for at one moment. One key is read once however many ask, and keys that are asked for
// while the connections are busy go together in the next round trip: when a sale opens and thousands come for the
// first time, Redis sees a few large reads. Alone, a read waits for nobody.
//
// A batch is read to its end, whoever of those that wait for it leaves.
type reads struct {
	fetch func(ctx context.Context, keys []string) ([][]byte, error)
	slots chan struct{}  // round trips at once
	work  sync.WaitGroup // reads under way

	mu        sync.Mutex
	gathering *batch            // takes more keys; nil if there is none
	open      map[string]*batch // key -> the batch that has it, gathering or under way
}

type batch struct {
	keys   []string
	at     map[string]int
	done   chan struct{}
	values [][]byte // after done
	err    error    // after done
}

const largestBatch = 512

func newReads(atOnce int, fetch func(context.Context, []string) ([][]byte, error)) *reads {
	return &reads{fetch: fetch, slots: make(chan struct{}, atOnce), open: map[string]*batch{}}
}

// get returns the value of a key, nil if there is none. It may have been read up to one round trip before the call.
func (r *reads) get(ctx context.Context, key string) ([]byte, error) {
	b, carry := r.join(key)
	if carry {
		r.work.Go(func() { r.carry(ctx, b) })
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

// join returns the batch that reads the key, and whether the caller has to have it carried.
func (r *reads) join(key string) (b *batch, carry bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.open[key]; b != nil {
		return b, false
	}
	if b = r.gathering; b == nil {
		b = &batch{at: map[string]int{}, done: make(chan struct{})}
		r.gathering, carry = b, true
	}
	b.at[key] = len(b.keys)
	b.keys = append(b.keys, key)
	r.open[key] = b
	if len(b.keys) == largestBatch {
		r.gathering = nil
	}
	return b, carry
}

// carry waits for a slot, closes the batch to more keys, and reads it.
func (r *reads) carry(ctx context.Context, b *batch) {
	r.slots <- struct{}{} // fetch has its own time limit, so this has one too
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
