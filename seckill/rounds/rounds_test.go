package rounds_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"miaosha/seckill/rounds"
)

func TestARoundComesAtOnceAndThenAfterEachPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		var at []time.Duration
		r := rounds.New()
		r.Run(ctx, time.Minute, rounds.Every(time.Second), func(context.Context) {
			if at = append(at, time.Since(began)); len(at) == 3 {
				cancel()
			}
			time.Sleep(300 * time.Millisecond)
		})
		if len(at) != 3 || at[0] != 0 || at[1] != time.Second || at[2] != 2*time.Second {
			t.Errorf("rounds began after %v", at)
		}
	})
}

func TestNowReturnsAfterARoundThatBeganAfterTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := rounds.New()
		var state, seen atomic.Int64
		go r.Run(ctx, time.Hour, rounds.Every(time.Hour), func(context.Context) {
			read := state.Load()
			time.Sleep(time.Second)
			seen.Store(read) // what a round that has ended has seen
		})
		for change, idle := range []bool{true, false, true, false, false} {
			if idle {
				time.Sleep(2 * time.Second) // no round runs at the call
			} else {
				go r.Now(ctx)
				synctest.Wait() // one runs, and has read the state of before
			}
			state.Store(int64(change) + 1)
			if err := r.Now(ctx); err != nil || seen.Load() != state.Load() {
				t.Errorf("change %d: %v; the round saw %d, want %d", change, err, seen.Load(), state.Load())
			}
		}
		cancel()
		time.Sleep(2 * time.Second) // the last round ends
	})
}

func TestNowEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := rounds.New().Now(ctx); !errors.Is(err, context.DeadlineExceeded) { // it never runs
			t.Errorf("%v", err)
		}
	})
}

func TestARoundHasALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		rounds.New().Run(ctx, 5*time.Second, rounds.Every(time.Second), func(round context.Context) {
			began := time.Now()
			<-round.Done()
			if took := time.Since(began); took != 5*time.Second {
				t.Errorf("the round ended after %v", took)
			}
			cancel()
		})
	})
}
