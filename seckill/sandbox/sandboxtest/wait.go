package sandboxtest

import (
	"os"
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

// PollFor is Poll with another limit. Only the fault suite uses it, because time is its subject: how
// soon the shop is well again is a promise.
func PollFor(limit time.Duration, ok func() bool) bool {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); !ok(); <-tick.C {
		if time.Now().After(deadline) {
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

// Alone reports whether no other test runs beside this one, so that it may compare waiting times.
// make latency sets it.
func Alone() bool { return os.Getenv("MIAOSHA_TEST_ALONE") != "" }

// Within returns the time that a test allows for something: the promised time if the test runs
// Alone, and five times as much where other tests keep the machine busy.
func Within(promised time.Duration) time.Duration {
	if Alone() {
		return promised
	}
	return 5 * promised
}
