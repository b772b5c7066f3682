package seckill

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestSimulation(t *testing.T) {
	began := time.Now()
	for seed := uint64(1); seed <= 2000; seed++ {
		var s *simulation
		trace := &strings.Builder{}
		synctest.Test(t, func(t *testing.T) { s = runSimulation(seed, nil, trace) })
		if s.failure != nil {
			os.WriteFile(fmt.Sprintf("/tmp/trace.%d", seed), []byte(trace.String()), 0o644)
			t.Errorf("seed %d: %v", seed, s.failure)
		}
	}
	t.Log(time.Since(began))
}
