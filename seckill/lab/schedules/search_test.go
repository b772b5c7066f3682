package schedules

import (
	"testing"
	"time"

	"miaosha/seckill/lab/program"
)

// A search that has tried hardly a schedule does not end with its time.
func TestASlowSearchHasMoreTime(t *testing.T) {
	t.Parallel()
	s := &search{Limits: program.Limits{Search: time.Second}}
	for _, test := range []struct {
		tried       int
		spent, more time.Duration
	}{{0, 0, 2 * time.Second}, {fewTried - 1, time.Minute, 4 * time.Second}, {fewTried, time.Second / 2, time.Second / 2}, {fewTried, time.Minute, 2 * time.Second}} {
		s.tried, s.spent = test.tried, test.spent
		if more := s.more(); more != test.more {
			t.Errorf("after %d schedules, with %v in the program: %v more, want %v", test.tried, test.spent, more, test.more)
		}
	}
}
