//go:build faults && linux

package faults

import (
	"net/http"
	"time"
)

// redisSlow are the scenarios in which the network to Redis is bad.
func redisSlow() []scenario {
	return []scenario{
		{name: "Redis slow by 2 s", long: true, settles: true, crowd: enough,
			run: func(w *World, c *Crowd) {
				c.For(1500 * time.Millisecond)
				w.Strike("Redis slow", func() {
					for _, s := range w.Shops {
						s.ToRedis.Hurt("latency", "downstream", `{"latency": 2000}`)
					}
					c.For(5 * time.Second)
					for _, s := range w.Shops {
						s.ToRedis.Heal()
					}
				})
			},
			after: func(w *World, c *Crowd) { w.answersWithin(c, 40, 0.9, time.Second) }},
		{name: "connections to Redis reset every 200 ms", long: true, crowd: enough,
			run: func(w *World, c *Crowd) {
				c.For(1500 * time.Millisecond)
				w.Strike("connections reset", func() {
					for range 20 {
						for _, s := range w.Shops { // with the next reply, which is lost
							s.ToRedis.Hurt("reset_peer", "downstream", `{"timeout": 0}`)
						}
						c.For(20 * time.Millisecond)
						for _, s := range w.Shops {
							s.ToRedis.Heal()
						}
						c.For(180 * time.Millisecond)
					}
				})
			},
			after: func(w *World, c *Crowd) { w.answersWithin(c, 40, 0.9, time.Second) }},
	}
}

// enough is a crowd with a unit for everybody: while a gate is gone for seconds tickets and orders must go on, and nobody
// may hear that it is sold out. The shops know them, or a Redis without sessions would let no buyer get as far as the gate.
var enough = plan{buyers: 300, units: 400, span: 7 * time.Second, twice: 30, pays: 40, cancels: 5,
	payAfter: 300 * time.Millisecond, known: true, limit: 40 * time.Second}

// answersWithin: while it is broken a share of the buys is answered within a limit, and what isn't an order or a place
// in the queue is a clear refusal that says when to come again. There must have been some, or it proves nothing.
func (w *World) answersWithin(c *Crowd, some int, share float64, limit time.Duration) {
	buys := w.during(c.ledger.all(of("buy")))
	if len(buys) < some {
		w.T.Errorf("only %d buys during the fault", len(buys))
	}
	if p := quantile(latencies(buys), share); p > limit {
		w.Violate("I10: during the fault %.0f%% of the buys are answered only after %v", 100*share, p)
	}
	for _, a := range buys {
		switch {
		case a.Status == http.StatusServiceUnavailable && a.RetryAfter > 0, a.Status == http.StatusAccepted:
		default:
			w.Violate("I10: during the fault a buy heard %d %s %s, Retry-After %v", a.Status, a.Code, a.Data.State, a.RetryAfter)
		}
	}
}
