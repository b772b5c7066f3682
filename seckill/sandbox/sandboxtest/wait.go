package sandboxtest

import (
	"testing"
	"time"
)

// Hang is how long a test waits for something that must happen before it takes the shop for one that
// hangs. It is no promise of the shop, and it is far above every wait on a busy machine: a test says
// what happened, never how fast.
const Hang = time.Minute

// pollEvery is the time between two checks of a condition.
const pollEvery = 5 * time.Millisecond

// Poll checks ok every few milliseconds and reports whether it became true. It stops after Hang. It
// checks at least once.
func Poll(ok func() bool) bool { return PollFor(Hang, ok) }

// PollFor is Poll with another limit. It is for the fault suite, because time is its subject: how
// soon the shop is well again is a promise.
func PollFor(limit time.Duration, ok func() bool) bool {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); !ok(); <-tick.C {
		if time.Now().After(deadline) { //timing: the one place in which a test waits
			return false
		}
	}
	return true
}

// Until waits until ok returns true. If that takes longer than Hang, the test fails at once and names
// what it has waited for.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !Poll(ok) {
		t.Fatalf("waited %v in vain: %s", Hang, what)
	}
}
