package operator

import (
	"context"
	"errors"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// LimitMemory lets Go collect garbage rarely, but before the process reaches the memory limit of
// its container, which the servers of a sandbox share. ownGOGC reports whether the environment has
// GOGC: then it applies, as GOMEMLIMIT does.
func LimitMemory(sandboxed, ownGOGC bool) error {
	ratio := 0.9
	if sandboxed {
		ratio = 0.5
	}
	if !ownGOGC {
		debug.SetGCPercent(300) // a rush produces much garbage and keeps little
	}
	_, err := memlimit.Set(memlimit.WithRatio(ratio))
	if errors.Is(err, memlimit.ErrCgroupsNotSupported) {
		err = nil
	}
	return err
}

const (
	releaseEvery = 4 * time.Second
	quietBytes   = 8 << 20  // at most this much allocated in one interval
	releaseBytes = 32 << 20 // at least this much more held than after the last release
)

// ReleaseMemory returns the memory of a rush to the system when the process is quiet again, until
// ctx ends. Go alone would do so only after minutes, since a quiet process produces no garbage
// that starts a collection.
func ReleaseMemory(ctx context.Context) error {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"}}
	read := func() (allocated, held uint64) {
		metrics.Read(samples)
		return samples[0].Value.Uint64(), samples[1].Value.Uint64() - samples[2].Value.Uint64()
	}
	var released uint64 // held after the last release; 0 at first, so the memory of the start is released too
	before, _ := read()
	tick := time.NewTicker(releaseEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		allocated, held := read()
		if allocated-before < quietBytes && held > released+releaseBytes {
			debug.FreeOSMemory()
			allocated, released = read()
		}
		before = allocated
	}
}
