// Package sandboxtest stands for the real one. Its own files are checked too.
package sandboxtest

import "time"

const Hang = time.Minute

func Poll(ok func() bool) bool { return PollFor(Hang, ok) }

func PollFor(limit time.Duration, ok func() bool) bool {
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(time.Millisecond) { // want `sleeps`
		if time.Now().After(deadline) { // want `until a deadline`
			return false
		}
	}
	return true
}

func Until(ok func() bool) {
	for deadline := time.Now().Add(Hang); !ok() && time.Now().Before(deadline); {
	}
}

func Open(settings ...string) {}
