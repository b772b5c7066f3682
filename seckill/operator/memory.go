package operator

import (
	"context"
	"errors"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// LimitMemory lets Go collect its garbage seldom, but before the container's limit ends the process. GOGC and GOMEMLIMIT say
// otherwise. The sandbox's servers live in the same container.
func LimitMemory(sandboxed bool) error {
	ratio := 0.9
	if sandboxed {
		ratio = 0.5
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300) // a rush makes much garbage beside little that stays
	}
	_, err := memlimit.Set(memlimit.WithRatio(ratio))
	if errors.Is(err, memlimit.ErrCgroupsNotSupported) {
		err = nil
	}
	return err
}

const (
	tidyEvery = 4 * time.Second
	quiet     = 8 << 20  // bytes allocated since the last look, at most
	worthIt   = 32 << 20 // bytes that came since the last tidying
)

// TidyMemory gives the memory of a rush back to the system once it is quiet, until ctx ends: without new garbage Go would
// look for the old only after minutes.
func TidyMemory(ctx context.Context) error {
	now := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	look := func() (allocated, held uint64) {
		metrics.Read(now)
		return now[0].Value.Uint64(), now[1].Value.Uint64() - now[2].Value.Uint64()
	}
	var level uint64 // after the last tidying; what the start took goes back too
	before, _ := look()
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		allocated, held := look()
		if allocated-before < quiet && held > level+worthIt {
			debug.FreeOSMemory()
			allocated, level = look()
		}
		before = allocated
	}
}
