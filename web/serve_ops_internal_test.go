package web

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// However many ask, each store is asked once a second, and one that hangs makes no other look away.
func TestReadinessIsAskedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		var state atomic.Pointer[error]
		well := error(nil)
		state.Store(&well)
		ready := readiness{checks: []Check{
			{"hangs", func(ctx context.Context) error { <-ctx.Done(); return errors.New("away") }},
			{"redis", func(context.Context) error { asked.Add(1); return *state.Load() }},
		}}
		ask := func(want map[string]string) {
			t.Helper()
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					if got := ready.now(); got.ready || !cmp.Equal(got.stores, want) {
						t.Errorf("%v, want %v, not ready", got, want)
					}
				})
			}
			all.Wait()
		}
		ask(map[string]string{"hangs": "away", "redis": "ok"})
		full := errors.New("full")
		state.Store(&full)
		ask(map[string]string{"hangs": "away", "redis": "ok"})
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times in a second, want once", n)
		}
		time.Sleep(readyFor)
		ask(map[string]string{"hangs": "away", "redis": "full"})
		if n := asked.Load(); n != 2 {
			t.Errorf("asked %d times, want twice", n)
		}
	})
}
