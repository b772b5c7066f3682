package operator

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// What a rush took is given back once it is over, though nobody collects garbage.
func TestMemoryIsGivenBack(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // as in an idle process: no collection comes by itself
	held := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.Sys - m.HeapReleased
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- TidyMemory(ctx) }()
	before := held()
	rush := make([]byte, 256<<20)
	for i := 0; i < len(rush); i += 4096 { // a byte of each page will do, and is done before the first look
		rush[i] = 1
	}
	if now := held(); now < before+(250<<20) {
		t.Fatalf("%d MB held, want 256 more than %d", now>>20, before>>20)
	}
	rush = nil
	for until := time.Now().Add(15 * time.Second); held() > before+(64<<20); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%d MB are still held, %d before", held()>>20, before>>20)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
