package lab

import (
	"sync"
	"time"
)

const pulseEvery = 5 * time.Millisecond

// FeelPulse measures, until starved is called, how much later than asked this process wakes up. The experiments last
// for a second and have pauses of milliseconds, so a process that gets its turn late measures the machine. starved
// reports whether it has slept for three quarters longer than it should have, all in all; beside a few other programs
// it is a tenth. The sleep that starved ends counts, too: the process may not have woken up once.
func FeelPulse() (starved func() bool) {
	over := make(chan struct{})
	var beats, slept time.Duration
	var pulse sync.WaitGroup
	last := time.Now()
	pulse.Go(func() {
		for {
			select {
			case <-over:
				if late := time.Since(last); late > pulseEvery {
					beats, slept = beats+pulseEvery, slept+late
				}
				return
			case <-time.After(pulseEvery):
			}
			now := time.Now()
			beats, slept, last = beats+pulseEvery, slept+now.Sub(last), now
		}
	})
	return func() bool {
		close(over)
		pulse.Wait()
		return slept > beats*7/4
	}
}
