// Package rounds runs the background work of the shop. Each part works in rounds: one at once, and
// then one whenever the pause is over. A part can be told to run now, and says when it has run, so
// that neither a test nor another part has to wait for the time of the next round.
//
// The package imports no other package of this project, so every package may use it.
package rounds

import (
	"context"
	"sync"
	"time"
)

// Rounds are the rounds of one background part. Run runs them in one goroutine; the other methods may
// be called from any goroutine.
type Rounds struct {
	early chan struct{} // has room for one

	mu    sync.Mutex
	ended chan struct{} // closed when the round that runs, or else the next one, has ended
	runs  bool          // a round runs
}

// New returns the rounds of a part that does not run yet.
func New() *Rounds {
	return &Rounds{early: make(chan struct{}, 1), ended: make(chan struct{})}
}

// Every returns the pause after a round for a part that is to begin one every d.
func Every(d time.Duration) func(took time.Duration) time.Duration {
	return func(took time.Duration) time.Duration { return max(0, d-took) }
}

// Run calls f at once, and again when pause is over or a round is asked for, until ctx ends. It passes
// to pause how long the last round took. The context of a round ends after limit, so that a store which
// hangs ends the round and not the part. f logs its own faults.
func (r *Rounds) Run(
	ctx context.Context, limit time.Duration, pause func(took time.Duration) time.Duration, f func(context.Context),
) {
	for ctx.Err() == nil {
		began := time.Now()
		r.begin()
		round, cancel := context.WithTimeout(ctx, limit)
		f(round)
		cancel()
		r.end()
		timer := time.NewTimer(pause(time.Since(began)))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-r.early:
		}
		timer.Stop()
	}
}

// Soon asks for a round without waiting for it. Several requests before the next round are one.
func (r *Rounds) Soon() {
	select {
	case r.early <- struct{}{}:
	default:
	}
}

// Now asks for a round, and returns when one that began after the call has ended. It returns ctx's
// error if ctx ends first.
func (r *Rounds) Now(ctx context.Context) error {
	r.mu.Lock()
	ended, runs := r.ended, r.runs
	r.mu.Unlock()
	for {
		r.Soon()
		select {
		case <-ended:
		case <-ctx.Done():
			return ctx.Err()
		}
		if !runs {
			return nil
		}
		runs = false // the round that ran at the call has ended: wait for one more
		r.mu.Lock()
		ended = r.ended
		r.mu.Unlock()
	}
}

func (r *Rounds) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs = true
}

func (r *Rounds) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs = false
	close(r.ended)
	r.ended = make(chan struct{})
}
