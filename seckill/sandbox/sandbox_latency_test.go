//go:build latency

package sandbox

import (
	"testing"
	"time"
)

// A start on an old folder is faster than the first one, which makes the database.
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
