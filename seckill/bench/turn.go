package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// driver runs the turns of one run.
type driver struct {
	Config
	to        target
	progress  io.Writer
	list      []byte // the request for the list of sales
	expected  List   // the list that the responses are compared with
	captchaOn bool   // the sale requires a captcha
}

// plan is how the buyers of a turn arrive and behave.
type plan struct {
	name       string
	buyers     []Buyer
	arrivals   int                       // clicks; after the last buyer the first clicks again
	when       func(k int) time.Duration // since the start of the turn; nil: as soon as a connection is free
	duration   time.Duration             // no one arrives later
	patience   time.Duration             // a slower response is aborted; 0: never
	retry      bool                      // buyers retry when the shop tells them to
	conns      int                       // one worker each
	background func(context.Context)     // runs during the turn
	fixed      bool                      // the number of buyers is fixed: that all have arrived is not RanOut
	firstStep  step                      // poll or list; the zero value: buy
	strangers  bool                      // who poll have no ticket
	visits     bool                      // after the list come the sale and the click
}

// resultWait is how long buyers may wait for their result after the last arrival.
const resultWait = 60 * time.Second

// turn is the execution of a plan.
type turn struct {
	*driver
	plan          plan
	sale          string
	began, end    time.Time
	cursor        atomic.Int64
	arrivalsEnded atomic.Int64 // nanoseconds since began, 0 while buyers arrive
	tallies       [16]*tally
}

// claim returns the next buyer to arrive, or nil after the last.
func (t *turn) claim() *buyer {
	k := int(t.cursor.Add(1) - 1)
	at, last := time.Now(), t.began.Add(t.plan.duration)
	if t.plan.when != nil {
		at = t.began.Add(t.plan.when(k))
	}
	// After the end a late bench does not catch up: what it has not sent is not offered.
	if k >= t.plan.arrivals || at.After(last) || time.Now().After(last) {
		ended := t.plan.duration
		if k >= t.plan.arrivals { // perhaps claimed before its time
			ended = min(ended, max(time.Since(t.began), at.Sub(t.began)))
		}
		t.arrivalsEnded.CompareAndSwap(0, int64(ended))
		return nil
	}
	b := &buyer{Buyer: t.plan.buyers[k%len(t.plan.buyers)], index: k, sale: t.sale, planned: at, due: at}
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

// total returns the sum of all tallies. The workers must have ended.
func (t *turn) total() *tally {
	all := newTally()
	for _, one := range t.tallies {
		all.merge(one)
	}
	return all
}

// turn runs a plan and waits until what was accepted is settled.
func (d *driver) turn(ctx context.Context, p plan) (Turn, error) {
	before, err := d.sold(ctx)
	if err != nil {
		return Turn{}, err
	}
	spent := d.spent(ctx)
	t := d.newTurn(p)
	workers := t.workers(ctx)
	var cold *turn
	if len(d.Cold) > 0 {
		cold = d.coldTurn(p)
		workers = append(workers, cold.workers(ctx)...)
		cold.began = time.Now()
		cold.end = cold.began.Add(p.duration + resultWait)
	}
	t.began = time.Now()
	t.end = t.began.Add(p.duration + resultWait)
	background, stop := context.WithCancel(ctx)
	defer stop()
	var watch, g sync.WaitGroup
	var samples []Sample
	var peak int64
	watch.Go(func() { samples, peak = t.watch(background, before) })
	if p.background != nil {
		watch.Go(func() { p.background(background) })
	}
	for _, w := range workers {
		g.Go(func() { w.run(ctx) })
	}
	g.Wait()
	elapsed := time.Since(t.began)
	all := t.total()
	sold, settled, err := d.settle(ctx, before, int(all.Accepted))
	stop()
	watch.Wait()
	err = cmp.Or(err, ctx.Err())
	arriving := min(time.Duration(t.arrivalsEnded.Load()), p.duration)
	r := turnReport(p, all, arriving, max(arriving, min(elapsed, p.duration)))
	if cold != nil {
		some := cold.total()
		r.Cold = &Cold{cold.saleCount(), some.Counts, some.refused, some.failed, latency(some.accept)}
	}
	r.RanOut = !p.fixed && arriving < p.duration*9/10
	r.Samples, r.Sold = samples, sold-before
	if d.Sold != nil {
		r.Committed = perSecond(r.Sold, settled.Sub(t.began))
		r.Samples = append(r.Samples, Sample{time.Since(t.began).Seconds(), r.Sold, all.Counts})
	}
	after := d.spent(ctx)
	if spent.shop != nil && after.shop != nil {
		r.Shop = &Usage{CPU: after.shop.CPU - spent.shop.CPU, Memory: max(peak, after.shop.Memory)}
	}
	switch {
	case cold != nil: // the shop's work for the other sales is not known
	case r.Sold > 0:
		r.Cost = cost(spent, after, "purchase", r.Sold, p.visits)
	default:
		r.Cost = cost(spent, after, "response", int(all.Requests), false)
	}
	return r, err
}

// workers returns workers with open connections, like browsers that show the page. A worker that
// cannot connect tries again when a buyer arrives; then a failure counts.
func (t *turn) workers(ctx context.Context) []*worker {
	all := make([]*worker, t.plan.conns)
	var g errgroup.Group
	g.SetLimit(32)
	for i := range all {
		all[i] = &worker{t: t, tally: t.tallies[i%len(t.tallies)], client: client{to: t.to}}
		g.Go(func() error { return all[i].client.connect(ctx) })
	}
	g.Wait()
	return all
}

func (d *driver) saleRequest() []byte {
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept-Encoding: identity\r\n\r\n",
		saleURL(d.Sale), d.to.host)
}

// waitUntilOpen waits until the shop knows the sale, which may have been created a moment ago.
func (d *driver) waitUntilOpen(ctx context.Context) error {
	c := client{to: d.to}
	defer c.close()
	request := d.saleRequest()
	until := time.Now().Add(10 * time.Second)
	for {
		resp, err := c.do(ctx, request, responseLimit)
		var sale struct {
			Code string
			Data struct {
				State   string
				Captcha bool
			}
		}
		if err == nil {
			err = json.Unmarshal(resp.body, &sale)
		}
		if err == nil && (sale.Data.State == "open" || sale.Data.State == "sold_out") {
			d.captchaOn = sale.Data.Captcha
			return nil
		}
		if time.Now().After(until) {
			said := strings.TrimSpace(sale.Code + " " + sale.Data.State)
			return fmt.Errorf("sale %d is not open at %s: its state is %q (%v)", d.Sale, d.URL, said, err)
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}
