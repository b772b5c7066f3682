//go:build faults && linux

package faults

import (
	"context"
	"time"

	"miaosha/seckill/audit"
)

// sample is the truth at a moment, and how many wanted a unit then.
type sample struct {
	at                     time.Time
	stock, pending, orders int
	wanting, arrived       int
	journal                int // entries, as last known
}

const (
	sampleEvery = 100 * time.Millisecond
	hungerBound = 5 * time.Second // I5
)

// watcher looks at a world while the crowd is in it.
type watcher struct {
	w       *World
	c       *Crowd
	calm    chan struct{} // closed when the scenario's faults are over
	samples []sample
	journal int
	audits  int
	hungry  time.Time // since when there is stock, and demand that doesn't get it
	still   int       // samples in a row in which nothing can come back on sale
}

// run looks until stop.
func (o *watcher) run(stop <-chan struct{}) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		o.sample()
		if n%5 == 0 {
			o.w.scrape()
		}
		if n%10 == 0 {
			o.safety()
		}
	}
}

// sample reads the truth; without Postgres there is none.
func (o *watcher) sample() {
	ctx, cancel := context.WithTimeout(context.Background(), 800*time.Millisecond)
	defer cancel()
	s := sample{wanting: int(o.c.wanting.Load()), arrived: int(o.c.arrived.Load())}
	err := o.w.pool.QueryRow(ctx, `
		select stock, (select count(*) from orders where sale_id = $1 and status = 'pending'), (select count(*) from orders where sale_id = $1)
		from   sales where id = $1`, o.w.Sale).Scan(&s.stock, &s.pending, &s.orders)
	if err != nil {
		o.hungry, o.still = time.Time{}, 0
		return
	}
	short, done := context.WithTimeout(ctx, sampleEvery)
	if n, err := o.w.rdb.XLen(short, o.w.key("journal")).Result(); err == nil {
		o.journal = int(n)
	}
	done()
	s.at, s.journal = time.Now(), o.journal
	o.samples = append(o.samples, s)
	o.hunger(s)
	o.sellout(s)
}

// hunger holds I5: when the faults are over and all have come, who wants a unit gets it while there is one.
func (o *watcher) hunger(s sample) {
	if s.stock == 0 || s.wanting == 0 || !o.isCalm() || int(o.c.arrived.Load()) < len(o.c.buyers) {
		o.hungry = time.Time{}
		return
	}
	_, ended := o.w.struck()
	switch {
	case o.hungry.IsZero() || o.hungry.Before(ended):
		o.hungry = s.at
	case s.at.Sub(o.hungry) > hungerBound:
		o.w.Violate("I5: %d units lie unsold and %d buyers wait for more than %v", s.stock, s.wanting, hungerBound)
		o.hungry = s.at.Add(time.Hour) // once is enough
	}
}

// sellout lets the losers go when nothing can come back: every order is with a buyer who knows of it and keeps it.
func (o *watcher) sellout(s sample) {
	givers := o.c.giving.Load() > 0 || int(o.c.ordered.Load()) != s.orders || o.w.sc.setup.payWithin > 0 && s.pending > 0
	if s.stock > 0 || givers || !o.isCalm() {
		o.still = 0
		return
	}
	if o.still++; o.still == 5 && !o.c.over() {
		close(o.c.sellout)
	}
}

func (o *watcher) isCalm() bool {
	select {
	case <-o.calm:
		return true
	default:
		return false
	}
}

// safety holds what must be so at every instant, as far as the stores answer.
func (o *watcher) safety() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if found, err := audit.Postgres(ctx, o.w.pool); err == nil {
		o.audits++
		for _, f := range found {
			o.w.Violate("%s: in the middle: %s: %v", f.Invariant, f.Meaning, f.Rows)
		}
	}
	var deadlocks int
	if err := o.w.pool.QueryRow(ctx, `select deadlocks from pg_stat_database where datname = current_database()`).Scan(&deadlocks); err == nil && deadlocks > 0 {
		o.w.Violate("I4: deadlock: Postgres counts %d", deadlocks)
	}
	if g, err := o.w.readGate(ctx); err == nil {
		if g.stock < 0 {
			o.w.Violate("I6: the gate's stock is %d", g.stock)
		}
		if units := o.w.sc.crowd.units; g.stock > units {
			o.w.Violate("I6: the gate offers %d of %d units", g.stock, units)
		}
	}
}
