package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// driver does the turns of one run.
type driver struct {
	Config
	to       target
	progress io.Writer
	list     []byte // the request for it
	page     Page   // what is expected then
	asksSums bool   // before it gives an address
}

// plan is how the buyers of a turn come.
type plan struct {
	name     string
	buyers   []Buyer
	arrivals int                         // how many clicks; beyond the buyers they begin again
	when     func(k int) time.Duration   // since the turn began; nil: as soon as a connection is free
	coming   time.Duration               // nobody comes later
	patience time.Duration               // an answer that takes longer is given up, 0: none is
	again    bool                        // who is told to come back does
	conns    int                         // workers
	beside   func(context.Context) error // runs meanwhile
	all      bool                        // everybody is to come, however long it takes
	first    step                        // what each does first, if it isn't to buy: poll or list
}

// afterwards is how long those who came may take to learn their result.
const afterwards = 60 * time.Second

// turn is one plan being carried out.
type turn struct {
	*driver
	plan       plan
	sale       string
	began, end time.Time
	cursor     atomic.Int64
	came       atomic.Int64 // nanoseconds until somebody found that nobody comes any more
	tallies    [16]*tally
}

// claim gives the next buyer who comes, nil when nobody does any more.
func (t *turn) claim() *buyer {
	k := int(t.cursor.Add(1) - 1)
	at, last := time.Now(), t.began.Add(t.plan.coming)
	if t.plan.when != nil {
		at = t.began.Add(t.plan.when(k))
	}
	// A tool that lags doesn't catch up after the end: what it hasn't sent by then is not offered.
	if k >= t.plan.arrivals || at.After(last) || time.Now().After(last) {
		came := t.plan.coming
		if k >= t.plan.arrivals { // claimed ahead of its time, perhaps
			came = min(came, max(time.Since(t.began), at.Sub(t.began)))
		}
		t.came.CompareAndSwap(0, int64(came))
		return nil
	}
	b := &buyer{Buyer: t.plan.buyers[k%len(t.plan.buyers)], k: k, sale: t.sale, planned: at, at: at}
	if b.Sale != 0 && b.Sale != t.Sale {
		b.sale = saleURL(b.Sale)
	}
	return b
}

func saleURL(id int64) string { return fmt.Sprintf("/api/sales/%d", id) }

func (d *driver) newTurn(p plan) *turn {
	t := &turn{driver: d, plan: p, sale: saleURL(d.Sale)}
	for i := range t.tallies {
		t.tallies[i] = newTally()
	}
	return t
}

// sum is all that was counted, once nobody counts any more.
func (t *turn) sum() *tally {
	all := newTally()
	for _, one := range t.tallies {
		all.merge(one)
	}
	return all
}

// turn carries a plan out and waits until what was accepted is settled.
func (d *driver) turn(ctx context.Context, p plan) (Turn, error) {
	before, err := d.sold(ctx)
	if err != nil {
		return Turn{}, err
	}
	usage := d.usage(ctx)
	t := d.newTurn(p)
	workers := t.workers(ctx)
	var cold *turn
	if len(d.Cold) > 0 {
		cold = d.coldTurn(p)
		workers = append(workers, cold.workers(ctx)...)
		cold.began = time.Now()
		cold.end = cold.began.Add(p.coming + afterwards)
	}
	t.began = time.Now()
	t.end = t.began.Add(p.coming + afterwards)
	background, stop := context.WithCancel(ctx)
	defer stop()
	var watch, g errgroup.Group
	var samples []Sample
	var peak int64
	watch.Go(func() error { samples, peak = t.watch(background, before); return nil })
	if p.beside != nil {
		watch.Go(func() error { return p.beside(background) })
	}
	for _, w := range workers {
		g.Go(func() error { return w.run(ctx) })
	}
	g.Wait()
	drove := time.Since(t.began)
	all := t.sum()
	sold, settled, err := d.settle(ctx, before, int(all.Accepted))
	stop()
	if failed := watch.Wait(); err == nil {
		err = failed
	}
	if err == nil {
		err = ctx.Err()
	}
	came := min(time.Duration(t.came.Load()), p.coming)
	r := report(p, all, came, max(came, min(drove, p.coming)))
	if cold != nil {
		some := cold.sum()
		r.Cold = &Cold{cold.sales(), some.counts, some.refused, some.failed, latency(some.accept)}
	}
	r.RanOut = !p.all && came < p.coming*9/10
	r.Samples, r.Sold = samples, sold-before
	if d.Sold != nil {
		r.Committed = perSecond(r.Sold, settled.Sub(t.began))
		r.Samples = append(r.Samples, Sample{time.Since(t.began).Seconds(), r.Sold, all.counts})
	}
	if after := d.usage(ctx); usage != nil && after != nil {
		r.Shop = &Usage{CPU: after.CPU - usage.CPU, Memory: max(peak, after.Memory)}
	}
	return r, err
}

// workers makes them and connects them, as browsers are that show the page. Who can't be connected tries again when a
// buyer comes, and then it counts.
func (t *turn) workers(ctx context.Context) []*worker {
	all := make([]*worker, t.plan.conns)
	var g errgroup.Group
	g.SetLimit(32)
	for i := range all {
		all[i] = &worker{t: t, tally: t.tallies[i%len(t.tallies)], wire: wire{to: t.to}}
		g.Go(func() error { return all[i].wire.open(ctx) })
	}
	g.Wait()
	return all
}

func (d *driver) saleRequest() []byte {
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept-Encoding: identity\r\n\r\n", saleURL(d.Sale), d.to.host)
}

// untilOpen waits for the shop to have heard of a sale that was made a moment ago.
func (d *driver) untilOpen(ctx context.Context) error {
	w := wire{to: d.to}
	defer w.close()
	request := d.saleRequest()
	until := time.Now().Add(10 * time.Second)
	for {
		a, err := w.ask(ctx, request, answerLimit)
		var sale struct {
			Code string
			Data struct {
				State   string
				Captcha bool
			}
		}
		if err == nil {
			err = json.Unmarshal(a.body, &sale)
		}
		if err == nil && (sale.Data.State == "open" || sale.Data.State == "sold_out") {
			d.asksSums = sale.Data.Captcha
			return nil
		}
		if time.Now().After(until) {
			said := strings.TrimSpace(sale.Code + " " + sale.Data.State)
			return fmt.Errorf("sale %d is not open at %s: it says %q (%v)", d.Sale, d.URL, said, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
