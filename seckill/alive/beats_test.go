package alive

import (
	"testing"
	"testing/synctest"
	"time"
)

// A process is dead when its beat has not changed for five seconds in which this process could read and beat itself.
func TestWhoIsDead(t *testing.T) {
	const other = "other"
	for name, c := range map[string]struct {
		live func(b *Beats, pass func(d time.Duration, own, other int64, read bool))
		dead bool
	}{
		"beats": {func(b *Beats, pass func(time.Duration, int64, int64, bool)) {
			for i := range int64(20) {
				pass(time.Second, i+1, i/4+1, true) // every four seconds
			}
		}, false},
		"silent for five seconds": {func(b *Beats, pass func(time.Duration, int64, int64, bool)) {
			for i := range int64(6) {
				pass(time.Second, i+1, 1, true)
			}
		}, true},
		"silent for less": {func(b *Beats, pass func(time.Duration, int64, int64, bool)) {
			for i := range int64(5) {
				pass(time.Second, i+1, 1, true)
			}
		}, false},
		"missing for five seconds": {func(b *Beats, pass func(time.Duration, int64, int64, bool)) {
			b.silence(other) // asked for the first time
			for i := range int64(6) {
				pass(time.Second, i+1, 0, true)
			}
		}, true},
		"missing since the first question": {func(b *Beats, pass func(time.Duration, int64, int64, bool)) {
			for i := range int64(6) {
				pass(time.Second, i+1, 0, true)
			}
		}, false},
		"lost by Redis, and raised again": {func(b *Beats, pass func(time.Duration, int64, int64, bool)) {
			for i := range int64(20) {
				pass(time.Second, i+1, []int64{7, 7, 0, 0, 1}[i%5], true)
			}
		}, false},
		"every second round fails": {func(b *Beats, pass func(time.Duration, int64, int64, bool)) {
			for i := range int64(30) {
				pass(time.Second, i+1, 1, i%2 == 0)
			}
		}, false},
		"Redis goes back each second": {func(b *Beats, pass func(time.Duration, int64, int64, bool)) {
			for range int64(30) {
				pass(time.Second, 1, 1, true)
			}
		}, false},
		"this process was stopped": {func(b *Beats, pass func(time.Duration, int64, int64, bool)) {
			pass(time.Second, 1, 1, true)
			pass(time.Hour, 2, 1, true)
			pass(time.Second, 3, 1, true)
		}, false},
		"dead, and this process was stopped since": {func(b *Beats, pass func(time.Duration, int64, int64, bool)) {
			for i := range int64(6) {
				pass(time.Second, i+1, 1, true)
			}
			time.Sleep(2 * BeatEvery) //timing: simulated time
		}, false},
		"dead, and Redis is away now": {func(b *Beats, pass func(time.Duration, int64, int64, bool)) {
			for i := range int64(6) {
				pass(time.Second, i+1, 1, true)
			}
			pass(time.Second, 8, 1, false)
		}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := NewBeats(nil, "own", nil)
			c.live(b, func(d time.Duration, own, others int64, read bool) {
				time.Sleep(d)
				all := map[string]int64{"own": own}
				if others != 0 {
					all[other] = others
				}
				b.note(time.Now(), own, all, read)
			})
			if got := b.Takes(other, 0); got != c.dead {
				t.Errorf("%s: dead is %v", name, got)
			}
			if b.Takes("own", 0) {
				t.Errorf("%s: this process is dead", name)
			}
		})
	}
}

// Of the living one is the heir, and all that see the same agree. A process that does not see itself is none.
func TestOneHeir(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []string{"a-1", "a-2", "a-3", "b-1"}
		heirs, of := map[string]int{}, 0
		for _, owner := range []string{"", "dead-1", "dead-2", "dead-3", "dead-4", "dead-5", "dead-6", "dead-7", "dead-8"} {
			found := 0
			for _, name := range names {
				b := NewBeats(nil, name, nil)
				if b.heirOf(owner) {
					t.Errorf("%s is an heir, and has not seen itself", name)
				}
				for i := range int64(8) {
					time.Sleep(time.Second)
					b.note(time.Now(), i+1, map[string]int64{"a-1": i + 1, "a-2": i + 1, "a-3": i + 1, "b-1": i + 1, "dead-1": 1, "dead-2": 1}, true)
				}
				if b.heirOf(owner) {
					heirs[name]++
					found++
				}
				if b.note(time.Now(), 9, nil, false); b.heirOf(owner) {
					t.Errorf("%s is an heir, and cannot read", name)
				}
			}
			if of++; found != 1 {
				t.Errorf("%q has %d heirs", owner, found)
			}
		}
		if len(heirs) < 2 {
			t.Errorf("of %d dead processes all have the same heir: %v", of, heirs)
		}
	})
}

// The heir may have no room. After twice the time every process may take over what a dead one has left.
func TestAnyMayTakeOverAfterTwiceTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := 0
		for _, name := range []string{"a-1", "a-2", "a-3"} {
			b := NewBeats(nil, name, nil)
			round := func(n int64) {
				time.Sleep(time.Second)
				b.note(time.Now(), n, map[string]int64{"a-1": n, "a-2": n, "a-3": n, "dead": 1}, true)
			}
			for n := range int64(7) {
				round(n + 1)
			}
			if b.Takes("dead", 0) {
				first++
			}
			for n := range int64(5) {
				round(n + 8)
			}
			if !b.Takes("dead", 0) || !b.Takes("", 2*DeadAfter) || b.Takes("", DeadAfter-1) {
				t.Errorf("%s: dead for twice the time: %v, without an owner for twice: %v, for less than once: %v", name, b.Takes("dead", 0), b.Takes("", 2*DeadAfter), b.Takes("", DeadAfter-1))
			}
		}
		if first != 1 {
			t.Errorf("%d processes are the heir at first, want one", first)
		}
	})
}

// A process that died long ago is forgotten, by all.
func TestDeadProcessesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBeats(nil, "own", nil)
		all, own := map[string]int64{"own": 1, "dead": 1}, int64(0)
		round := func() []string {
			time.Sleep(time.Second)
			own++
			all["own"] = own
			return b.note(time.Now(), own, all, true)
		}
		var gone []string
		for gone = round(); len(gone) == 0 && own < 2000; gone = round() {
		}
		if len(gone) != 1 || gone[0] != "dead" || time.Duration(own)*time.Second < forgetAfter {
			t.Fatalf("after %d seconds %v, want the dead process", own, gone)
		}
		delete(all, "dead")
		for range 2 * forgetAfter / time.Second {
			if gone := round(); len(gone) != 0 {
				t.Fatalf("%v is removed again", gone)
			}
		}
		if len(b.seen) != 1 {
			t.Errorf("%d processes are remembered, want this one", len(b.seen))
		}
	})
}
