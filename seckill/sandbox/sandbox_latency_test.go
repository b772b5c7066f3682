//go:build latency

package sandbox

import (
	"testing"
	"time"
)

// The servers start in 20 s on a new folder and in 5 s on an old one, beside the time that their programs need by themselves.
func TestLatencyOfOpen(t *testing.T) {
	needServer(t)
	cfg := both(t)
	cfg.RedisKind = Server
	var took [2]time.Duration
	for i := range took {
		began := time.Now()
		s := open(t, cfg)
		took[i] = time.Since(began)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("cold %v, warm %v, %.2f of it", took[0], took[1], took[1].Seconds()/took[0].Seconds())
	if took[1] > took[0] {
		t.Errorf("a start on an old folder took %v, longer than the %v on a new one", took[1], took[0])
	}
}
