package experiments

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"miaosha/seckill/lab"
)

// A variant whose verdict depends on times has none in a process that did not get its turn. (Not in parallel: it takes the turns of this process.)
func TestAStarvedRunTellsNothing(t *testing.T) {
	try := paced(func(ctx context.Context) (Finding, error) {
		lab.Pause(ctx, 100*time.Millisecond)
		return Finding{Verdict: Wrong}, nil
	})
	synctest.Test(t, func(t *testing.T) { // where all wake up when they should
		if row, err := try(t.Context()); err != nil || row.Verdict != Wrong {
			t.Errorf("with time: %+v, %v", row, err)
		}
	})
	sure := paced(func(ctx context.Context) (Finding, error) {
		row, err := try(ctx)
		return Finding{Verdict: row.Verdict + ", sold twice", sure: true}, err
	})
	var over atomic.Bool
	var busy sync.WaitGroup
	for range 8 * runtime.GOMAXPROCS(0) {
		busy.Go(func() {
			for !over.Load() {
			}
		})
	}
	row, err := sure(t.Context())
	over.Store(true)
	busy.Wait()
	if err != nil || row.Verdict != Busy+", sold twice" {
		t.Errorf("without time, and wrong at any pace: %+v, %v", row, err)
	}
}
