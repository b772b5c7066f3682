package sandboxtest

import (
	"os"
	"testing"
	"time"
)

// pollEvery is the time between two checks of a condition.
const pollEvery = 5 * time.Millisecond

// Poll checks ok every few milliseconds and reports whether it became true within limit. It checks
// at least once.
func Poll(limit time.Duration, ok func() bool) bool {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// Until waits until ok returns true. If that takes longer than Within(limit), the test fails at
// once and names what it has waited for. A test whose limit must hold on a busy machine too takes
// Poll.
func Until(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	if limit = Within(limit); !Poll(limit, ok) {
		t.Fatalf("waited %v in vain: %s", limit, what)
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
