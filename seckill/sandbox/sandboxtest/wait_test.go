package sandboxtest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestPollStopsAtTheConditionOrTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name         string
			limit, after time.Duration // the condition becomes true after this time
			want         bool
		}{
			{"true at once", 0, 0, true},
			{"true within the limit", time.Second, 900 * time.Millisecond, true},
			{"true too late", time.Second, 2 * time.Second, false},
		} {
			began := time.Now()
			if got := sandboxtest.PollFor(c.limit, func() bool { return time.Since(began) >= c.after }); got != c.want {
				t.Errorf("%s: Poll returned %t", c.name, got)
			}
			if took, most := time.Since(began), min(c.limit, c.after)+10*time.Millisecond; took > most {
				t.Errorf("%s: Poll took %v, want at most %v", c.name, took, most)
			}
		}
	})
}
