//go:build faults && linux

package faults

import (
	"syscall"
	"time"
)

// processes kills the shops from outside.
func processes() []scenario {
	return []scenario{
		{name: "both processes killed and started", crowd: usual,
			run: func(w *World, c *Crowd) {
				c.Sold(40)
				w.Strike("both killed", func() {
					for _, s := range w.Shops {
						s.Kill()
					}
					for n := range w.Shops {
						w.restart(n)
					}
				})
			}},
		{name: "SIGTERM under load, then kill -9", detail: "half a second later, before it has drained", crowd: usual,
			run: func(w *World, c *Crowd) {
				c.Sold(40)
				w.Strike("SIGTERM and kill", func() {
					w.lockSale(func() { // so that its queue can't be drained
						c.For(300 * time.Millisecond)
						if w.Shops[0].termThenKill(500 * time.Millisecond) {
							w.T.Error("it ended before it was killed")
						}
					})
					w.restart(0)
				})
			},
			after: func(w *World, c *Crowd) {
				w.scrape()
				if w.total("miaosha_tickets_claimed_total") == 0 {
					w.T.Error("nothing was left behind: the kill came too late")
				}
			}},
	}
}

// termThenKill asks a shop to end, and kills it after a while; true if it had ended by then.
func (s *Shop) termThenKill(after time.Duration) (ended bool) {
	s.w.scrape() // its counters end with it
	s.mu.Lock()
	s.ending, s.open = true, false
	p := s.p
	s.mu.Unlock()
	p.Signal(syscall.SIGTERM)
	time.Sleep(after)
	ended = p.Ended()
	s.Kill()
	return ended
}
