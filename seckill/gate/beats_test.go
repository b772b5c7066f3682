package gate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"miaosha/seckill/sandbox/sandboxtest"
)

// A process raises its own beat and sees those of all. A beat that was removed begins once more.
func TestBeat(t *testing.T) {
	t.Parallel()
	rdb := sandboxtest.Redis(t)
	here, there := New(rdb, "here", time.Second), New(rdb, "there with a space", time.Second)
	beat := func(g *Gate, want map[string]int64) {
		t.Helper()
		own, all, err := g.Beat(t.Context())
		if diff := cmp.Diff(want, all); diff != "" || own != want[g.process] || err != nil {
			t.Errorf("own beat %d, %v, all (-want +got):\n%s", own, err, diff)
		}
	}
	beat(here, map[string]int64{"here": 1})
	beat(here, map[string]int64{"here": 2})
	beat(there, map[string]int64{"here": 2, "there with a space": 1})
	if ttl := rdb.PTTL(t.Context(), beatsKey).Val(); ttl <= 0 || ttl > beatsLife {
		t.Errorf("the beats end in %v, want at most %v", ttl, beatsLife)
	}
	if err := here.EndBeats(t.Context(), "here", "nobody"); err != nil {
		t.Fatal(err)
	}
	beat(there, map[string]int64{"there with a space": 2})
	beat(here, map[string]int64{"here": 1, "there with a space": 2})
	rdb.HSet(t.Context(), beatsKey, "here", "x") // no process wrote this
	if _, all, err := here.Beat(t.Context()); err == nil {
		t.Errorf("%v after a beat that is no number, want an error: the process is not seen to live", all)
	}
}
