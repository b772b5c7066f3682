package operator

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

// The memory of a rush is returned to the system after it, although no garbage collection runs by
// itself.
func TestMemoryIsReleased(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // as in an idle process: no automatic collection
	held := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.Sys - m.HeapReleased
	}
	debug.FreeOSMemory() // what other tests have left is not part of the comparison
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- ReleaseMemory(ctx) }()
		synctest.Wait()
		before := held()
		rush := make([]byte, 256<<20)
		for i := 0; i < len(rush); i += 4096 { // one byte of each page is enough
			rush[i] = 1
		}
		if now := held(); now < before+(250<<20) {
			t.Fatalf("%d MB held, want 256 more than %d", now>>20, before>>20)
		}
		rush = nil
		time.Sleep(2*releaseEvery + 1) // the rush, and then a quiet time
		synctest.Wait()
		if now := held(); now > before+(64<<20) {
			t.Errorf("%d MB are still held, %d before", now>>20, before>>20)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
