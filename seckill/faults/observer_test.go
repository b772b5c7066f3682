//go:build faults && linux

package faults

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/audit"
)

// sample is the state of the sale at one moment. arrived and waiting count the buyers at that moment.
type sample struct {
	at                     time.Time
	stock, pending, orders int
	waiting, arrived       int
	journal                int // tickets, as last read
}

const (
	sampleEvery = 100 * time.Millisecond
	unsoldBound = 5 * time.Second // I5
)

// observer samples an environment and checks it while the crowd buys.
type observer struct {
	env            *Environment
	c              *Crowd
	faultsOver     chan struct{} // closed when the faults of the scenario are over
	samples        []sample
	journal        int
	audits         int
	unsoldSince    time.Time // since when there is stock, and buyers wait
	soldOutSamples int       // samples in a row in which no unit could come back on sale
}

// run observes until stop is closed.
func (o *observer) run(stop <-chan struct{}) {
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
			o.env.scrape()
		}
		if n%10 == 0 {
			o.checkInvariants()
		}
	}
}

// sample takes one sample. Without Postgres there is none.
func (o *observer) sample() {
	ctx, cancel := context.WithTimeout(context.Background(), 800*time.Millisecond)
	defer cancel()
	s := sample{waiting: int(o.c.waiting.Load()), arrived: int(o.c.arrived.Load())}
	rows, _ := o.env.pool.Query(ctx, `
		select stock,
		       (select count(*) from orders where sale_id = $1 and status = 'pending') as pending,
		       (select count(*) from orders where sale_id = $1) as orders
		from   sales where id = $1`, o.env.Sale)
	sale, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[struct{ Stock, Pending, Orders int }])
	if err != nil {
		o.unsoldSince, o.soldOutSamples = time.Time{}, 0
		return
	}
	short, done := context.WithTimeout(ctx, sampleEvery)
	if g, err := o.env.readGate(short); err == nil {
		o.journal = len(g.tickets)
		o.env.checkOwners(g)
	}
	done()
	s.stock, s.pending, s.orders = sale.Stock, sale.Pending, sale.Orders
	s.at, s.journal = time.Now(), o.journal
	o.samples = append(o.samples, s)
	o.checkUnsold(s)
	o.detectSoldOut(s)
}

// checkUnsold checks I5: when the faults are over and all buyers have arrived, a buyer who waits gets a unit while there is
// one.
func (o *observer) checkUnsold(s sample) {
	if s.stock == 0 || s.waiting == 0 || !o.areFaultsOver() || int(o.c.arrived.Load()) < len(o.c.buyers) {
		o.unsoldSince = time.Time{}
		return
	}
	_, ended := o.env.injected()
	switch {
	case o.unsoldSince.IsZero() || o.unsoldSince.Before(ended):
		o.unsoldSince = s.at
	case s.at.Sub(o.unsoldSince) > unsoldBound:
		o.env.Late("I5: %d units are unsold and %d buyers wait for more than %v", s.stock, s.waiting, unsoldBound)
		o.unsoldSince = s.at.Add(time.Hour) // report it once only
	}
}

// detectSoldOut lets the buyers without a unit go when no unit can come back on sale. That is so when every order has a
// buyer who knows of it and keeps it.
func (o *observer) detectSoldOut(s sample) {
	undecided := o.c.deciding.Load() > 0 || int(o.c.ordered.Load()) != s.orders || o.env.sc.setup.payWithin > 0 && s.pending > 0
	if s.stock > 0 || undecided || !o.areFaultsOver() {
		o.soldOutSamples = 0
		return
	}
	if o.soldOutSamples++; o.soldOutSamples == 5 && !o.c.isSoldOut() {
		close(o.c.soldOut)
	}
}

func (o *observer) areFaultsOver() bool {
	select {
	case <-o.faultsOver:
		return true
	default:
		return false
	}
}

// checkInvariants checks what must be true at every moment, as far as the stores respond.
func (o *observer) checkInvariants() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if found, err := audit.Postgres(ctx, o.env.pool); err == nil {
		o.audits++
		for _, f := range found {
			o.env.Report("%s: during the sale: %s: %v", f.Invariant, f.Meaning, f.Rows)
		}
	}
	rows, _ := o.env.pool.Query(ctx, `select deadlocks from pg_stat_database where datname = current_database()`)
	if deadlocks, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int]); err == nil && deadlocks > 0 {
		o.env.Report("I4: deadlock: Postgres counts %d", deadlocks)
	}
	if g, err := o.env.readGate(ctx); err == nil {
		o.env.checkTakeovers(g)
		if g.stock < 0 {
			o.env.Report("I6: the gate's stock is %d", g.stock)
		}
		if units := o.env.sc.crowd.units; g.stock > units {
			o.env.Report("I6: the gate offers %d of %d units", g.stock, units)
		}
	}
}
