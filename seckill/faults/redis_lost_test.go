//go:build faults && linux

package faults

import (
	"context"
	"time"
)

// redisLost are the scenarios in which Redis loses what it holds, all of it or the latest.
func redisLost() []scenario {
	return []scenario{
		{name: "FLUSHALL five times in a sale", mayLose: true, setup: setup{sessionsApart: true}, crowd: usual,
			run: func(w *World, c *Crowd) {
				for n := range 5 {
					c.Sold(15 * (n + 1))
					w.Strike("FLUSHALL", w.flush)
				}
			}},
		{name: "Redis killed and started again (appendfsync everysec)", detail: "with a process that held a queue, so that only the journal has it",
			realRedis: true, mayLose: true, crowd: usual,
			run: func(w *World, c *Crowd) {
				c.Sold(10)
				w.lockSale(func() { // so that the queue is older than what may be lost
					c.For(3 * time.Second)
					w.Strike("Redis and a shop killed", func() {
						w.Shops[0].Kill()
						w.Redis.Kill()
						c.For(500 * time.Millisecond)
						w.restartRedis()
						w.restart(0)
					})
				})
			},
			after: lostOnlyTheLatest},
		{name: "Redis set back to an older journal", realRedis: true, mayLose: true,
			crowd: plan{buyers: 300, units: 260, span: 7 * time.Second, twice: 20, pays: 40, cancels: 5,
				payAfter: 300 * time.Millisecond, limit: 40 * time.Second},
			run: setBack,
			after: func(w *World, c *Crowd) {
				w.scrape()
				if w.total(`miaosha_gate_fixes_total{direction="down"}`) == 0 {
					w.T.Error("no gate was too high: the old journal was none")
				}
			}},
		{name: "five processes on an empty Redis",
			setup: setup{shops: 5, startsIn: 4 * time.Second, sessionsApart: true},
			crowd: plan{buyers: 200, units: 80, span: 4 * time.Second, twice: 30, pays: 40, cancels: 15,
				payAfter: 300 * time.Millisecond, limit: 40 * time.Second},
			run: func(w *World, c *Crowd) {
				w.rebuilt(1)
				w.Strike("FLUSHALL", w.flush) // nobody has a ticket yet
				c.storm()                     // so that all find at once that there is no gate
			},
			after: func(w *World, c *Crowd) { w.rebuilt(2) }},
	}
}

// lostOnlyTheLatest: a Redis that syncs each second may have lost the last two before the kill: it postpones for so long.
// What is older has its outcome.
func lostOnlyTheLatest(w *World, c *Crowd) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	tr, err := w.readTruth(ctx)
	if err != nil {
		w.T.Error(err)
		return
	}
	strikes, _ := w.struck()
	from, to := strikes[0].begin.Add(-2*time.Second), strikes[0].end
	lost, waited := map[string]bool{}, 0
	for _, a := range c.ledger.all(of("buy")) {
		if a.Data.State != "queued" {
			continue
		}
		at := granted(a.Data.Ticket)
		r, ok := tr.tickets[a.Data.Ticket]
		if ok && at.Before(from) && r.at.After(to) {
			waited++
		}
		if ok {
			continue
		}
		if lost[a.Data.Ticket] = true; at.Before(from) || at.After(to) {
			w.Violate("I4: ticket %s is lost: granted %v after the kill, it is not of the two seconds before it", a.Data.Ticket, at.Sub(strikes[0].begin))
		}
	}
	w.T.Logf("tickets lost: %d; of those older than two seconds %d were settled after the kill", len(lost), waited)
}

// setBack gives Redis its journal of an earlier moment, at which tickets were queued that have their order since.
func setBack(w *World, c *Crowd) {
	c.Sold(15)
	w.lockSale(func() {
		c.For(400 * time.Millisecond)
		if err := w.Redis.SaveAOF(); err != nil {
			w.T.Error(err)
		}
	})
	c.Sold(100)
	owners := c.owners()
	if len(owners) < 50 {
		w.T.Errorf("only %d buyers have an order", len(owners))
	}
	// They look at what they have all the time, so that a word that is false for a moment is heard: until 2 s after.
	back := make(chan struct{})
	for n := range 4 {
		c.looks.Go(func() {
			back := back
			for i, end := n, time.Now().Add(time.Minute); time.Now().Before(end); i++ {
				select {
				case <-back:
					back, end = nil, time.Now().Add(2*time.Second)
				case <-time.After(2 * time.Millisecond):
				}
				b := owners[i*7%len(owners)]
				c.ledger.ask(w.anyShop(i), b.id, b.token, "result", "GET", w.salePath()+"/result", "")
			}
		})
	}
	w.Strike("Redis set back", func() {
		w.Redis.Kill()
		if err := w.Redis.RestoreAOF(); err != nil {
			w.T.Error(err)
		}
		w.restartRedis()
	})
	close(back)
}

// rebuilt: so many gates were set up, by all processes together.
func (w *World) rebuilt(want float64) {
	w.scrape()
	if n := w.total("miaosha_gate_rebuilds_total"); n != want {
		w.Violate("I6: %d processes set up %.0f gates, want %.0f", len(w.Shops), n, want)
	}
}
