package seckill

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/failpoint"
)

const (
	laneBatch    = 256                    // users a reserve call takes at most
	laneWaiting  = 4096                   // clicks that may wait for a lane; more hear busy
	laneIdle     = time.Minute            // a lane nobody clicks on ends
	gateLimit    = 250 * time.Millisecond // for one reserve, with its retry if Redis was quick to fail
	lateTicks    = 10                     // of reconcile, in which a call without an answer may yet be carried out
	soldOutMark  = 250 * time.Millisecond // how long a sold-out answer is repeated without asking
	directAtOnce = 2                      // settles without a gate, in this process
	directTicket = "direct:"              // what their tickets begin with
)

// lanes has a goroutine per sale somebody clicks on.
type lanes struct {
	bySale sync.Map // sale id -> *lane
	opened chan *lane
	ended  chan struct{} // closed when no lane is opened any more
}

// lane gathers the clicks on one sale: whatever waits goes to the gate in one call. Alone, a click waits for nobody.
type lane struct {
	sale    int64
	in      chan *click
	soldOut atomic.Int64 // until when, in nanoseconds since 1970 by our clock, the sale is known to be sold out
	ended   chan struct{}
}

// click is one buy request that waits for its answer.
type click struct {
	asked
	answer chan Bought // takes one
}

// Bought is the answer to a buy: a queued ticket, or where there is no gate what became of it, or an error.
type Bought struct {
	Ticket string
	Status Status
	err    error
}

// run starts lanes as they are opened and waits for them all.
func (ls *lanes) run(ctx context.Context, e *Engine) error {
	defer close(ls.ended)
	var g errgroup.Group
	for {
		select {
		case l := <-ls.opened:
			g.Go(func() error { e.runLane(ctx, l); return nil })
		case <-ctx.Done():
			return g.Wait()
		}
	}
}

// of gives the sale's lane, opening one if need be. The caller must know that the sale exists: lanes are bounded by
// the sales there are.
func (ls *lanes) of(ctx context.Context, sale int64) (*lane, error) {
	if l, ok := ls.bySale.Load(sale); ok {
		return l.(*lane), nil
	}
	l := &lane{sale: sale, in: make(chan *click, laneWaiting), ended: make(chan struct{})}
	if first, had := ls.bySale.LoadOrStore(sale, l); had {
		return first.(*lane), nil
	}
	select {
	case ls.opened <- l:
		return l, nil
	case <-ctx.Done():
	case <-ls.ended:
	}
	ls.bySale.CompareAndDelete(sale, l)
	close(l.ended)
	return nil, ErrBusy
}

// SoldOut tells whether the sale was sold out a moment ago. It asks nobody.
func (e *Engine) SoldOut(sale int64) bool {
	l, ok := e.lanes.bySale.Load(sale)
	return ok && time.Now().UnixNano() < l.(*lane).soldOut.Load()
}

// Enter takes one of the places for buy requests in flight, and must be followed by Leave if it gives true.
func (e *Engine) Enter() bool {
	if e.inFlight.Add(1) <= int64(e.cfg.MaxInFlight) {
		return true
	}
	e.inFlight.Add(-1)
	e.metrics.shed.WithLabelValues("in flight").Inc()
	return false
}

// Leave gives the place of an Enter back.
func (e *Engine) Leave() { e.inFlight.Add(-1) }

// Buy asks for a unit of a sale for a user. Accepted is not bought: a Status of Queued means that the ticket is in the
// journal and will get one final result. Refusals: goods.ErrNoSale, goods.NotStartedError, goods.ErrEnded,
// goods.ErrPaused, goods.ErrSoldOut, ErrBusy.
func (e *Engine) Buy(ctx context.Context, sale, user int64) (Bought, error) {
	if _, _, err := e.cache.Sale(ctx, sale); err != nil {
		return Bought{}, err
	}
	b, err := e.click(ctx, sale, user)
	if errors.Is(err, errLaneEnded) { // it idled out as we came
		b, err = e.click(ctx, sale, user)
	}
	return b, err
}

var errLaneEnded = fmt.Errorf("%w: the lane has ended", ErrBusy)

// click puts a click into the sale's lane and waits for its answer.
func (e *Engine) click(ctx context.Context, sale, user int64) (Bought, error) {
	l, err := e.lanes.of(ctx, sale)
	if err != nil {
		return Bought{}, err
	}
	c := &click{asked: asked{user: user, nonce: uuid.NewString()}, answer: make(chan Bought, 1)}
	select {
	case l.in <- c:
	default:
		e.metrics.shed.WithLabelValues("lane").Inc()
		return Bought{}, ErrBusy
	}
	select {
	case b := <-c.answer:
		return b, b.err
	case <-l.ended:
		// The lane ended between our look and our click. What it answered before that stands.
		select {
		case b := <-c.answer:
			return b, b.err
		default:
			return Bought{}, errLaneEnded
		}
	case <-ctx.Done():
		return Bought{}, ErrBusy
	}
}

func (e *Engine) runLane(ctx context.Context, l *lane) {
	defer close(l.ended)
	defer e.lanes.bySale.CompareAndDelete(l.sale, l)
	idle := time.NewTimer(laneIdle)
	defer idle.Stop()
	batch := make([]*click, 0, laneBatch)
	for {
		select {
		case <-ctx.Done():
			return
		case <-idle.C:
			return
		case c := <-l.in:
			batch = append(batch[:0], c)
		}
		for waits := true; waits && len(batch) < laneBatch; {
			select {
			case c := <-l.in:
				batch = append(batch, c)
			default:
				waits = false
			}
		}
		e.serve(ctx, l, batch)
		idle.Reset(laneIdle)
	}
}

// serve answers every click of a batch.
func (e *Engine) serve(ctx context.Context, l *lane, batch []*click) {
	e.metrics.batch.Observe(float64(len(batch)))
	if e.cfg.Gate == "off" || !e.breaker.closed() {
		e.serveDirect(ctx, l, batch)
		return
	}
	room := e.pool.reserve(len(batch))
	e.metrics.shed.WithLabelValues("queue").Add(float64(len(batch) - room))
	answerAll(batch[room:], Bought{err: ErrBusy})
	if batch = batch[:room]; room == 0 {
		return
	}
	crowd := make([]asked, len(batch))
	for i, c := range batch {
		crowd[i] = c.asked
	}
	answers, err := e.reserve(ctx, l.sale, crowd)
	if errors.Is(err, errBreaker) { // it has opened since: nothing was asked
		e.pool.release(room)
		e.serveDirect(ctx, l, batch)
		return
	}
	if err = e.asRefusal("reserve", err); err != nil {
		e.view.late.Store(l.sale, lateTicks)
		e.pool.release(room)
		answerAll(batch, Bought{err: err})
		return
	}
	granted := make([]order.Ticket, 0, len(batch))
	for i, a := range answers {
		if a.ticket != "" {
			granted = append(granted, order.Ticket{ID: a.ticket, UserID: crowd[i].user})
		}
		if errors.Is(a.err, goods.ErrSoldOut) {
			l.soldOut.Store(time.Now().Add(soldOutMark).UnixNano())
		}
		if errors.Is(a.err, ErrBusy) {
			e.metrics.shed.WithLabelValues("journal").Inc()
		}
	}
	if len(granted) > 0 {
		if err := e.asRefusal("reserve", failpoint.Hit(failpoint.F2)); err != nil {
			e.view.late.Store(l.sale, lateTicks)
			e.pool.release(room)
			answerAll(batch, Bought{err: err})
			return
		}
	}
	e.pool.release(room - len(granted))
	ahead := e.pool.submit(l.sale, granted)
	for i, c := range batch {
		c.answer <- e.bought(answers[i], ahead)
	}
	e.metrics.granted.Add(float64(len(granted)))
}

// reserve makes the call, once more if its answer was lost (the nonces make that safe), and once more if the gate had
// to be rebuilt.
func (e *Engine) reserve(ctx context.Context, sale int64, crowd []asked) (answers []answer, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), gateLimit)
	defer cancel()
	if err := failpoint.Hit(failpoint.F1); err != nil {
		return nil, err
	}
	err = e.ask(ctx, gateLimit, func(ctx context.Context) error {
		first, cancel := context.WithTimeout(ctx, gateLimit/2)
		defer cancel()
		if answers, err = e.gate.reserve(first, sale, crowd); isSilence(err) {
			answers, err = e.gate.reserve(ctx, sale, crowd)
		}
		return err
	})
	if err == nil && errors.Is(answers[0].err, errNoGate) {
		if err = e.rebuild(ctx, sale); err == nil {
			answers, err = e.gate.reserve(ctx, sale, crowd)
		}
	}
	return answers, err
}

// bought turns the gate's word into the answer to a buyer.
func (e *Engine) bought(a answer, ahead int) Bought {
	switch {
	case a.err != nil:
		return Bought{err: e.asRefusal("reserve", a.err)}
	case a.ticket != "":
		return Bought{Ticket: a.ticket, Status: Status{State: Queued, Ahead: ahead, NextPoll: nextPoll(ahead)}}
	}
	b := Bought{Status: statusOf(a.has)}
	if b.Status.State == Queued {
		b.Ticket = a.has[1:]
		b.Status.Ahead, b.Status.NextPoll = ahead, nextPoll(ahead)
	}
	return b
}

// serveDirect is the way without a gate: the batch goes straight to the transaction that decides, few at a time, and
// the answers are final. No journal holds these tickets, so nobody is told anything before the commit.
func (e *Engine) serveDirect(ctx context.Context, l *lane, batch []*click) {
	select {
	case e.direct <- struct{}{}:
		defer func() { <-e.direct }()
	case <-ctx.Done():
		answerAll(batch, Bought{err: ErrBusy})
		return
	}
	tickets := make([]order.Ticket, len(batch))
	for i, c := range batch {
		tickets[i] = order.Ticket{ID: directTicket + c.nonce, UserID: c.user}
	}
	results, err := e.settle(context.WithoutCancel(ctx), l.sale, tickets, false)
	if e.cfg.Gate == "redis" {
		e.view.soldPast(l.sale)
	}
	if err != nil {
		if !isRefusal(err) {
			e.metrics.retries.Inc()
			e.logFault("settle without a gate", err)
			err = ErrBusy
		}
		e.refuse(ctx, l.sale, batch, err)
		return
	}
	byTicket := make(map[string]order.Result, len(results))
	for _, r := range results {
		byTicket[r.Ticket] = r
	}
	for i, c := range batch {
		r := byTicket[tickets[i].ID]
		b := Bought{Ticket: r.Ticket, Status: statusOf(remembered(r))}
		if r.Outcome == order.SoldOut {
			l.soldOut.Store(time.Now().Add(soldOutMark).UnixNano())
			b.err = goods.ErrSoldOut
		}
		c.answer <- b
	}
}

// refuse answers a batch that the sale's state or window refused, but for those who have an order: as a gate would, it
// tells them of it.
func (e *Engine) refuse(ctx context.Context, sale int64, batch []*click, err error) {
	users := make([]int64, len(batch))
	for i, c := range batch {
		users[i] = c.user
	}
	has := map[int64]Status{}
	if !errors.Is(err, ErrBusy) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleLimit)
		owners, fault := e.orders.OwnersAmong(ctx, sale, users)
		cancel()
		if fault != nil {
			err = ErrBusy
		}
		for _, o := range owners {
			has[o.UserID] = Status{State: Ordered, OrderID: o.OrderID}
		}
	}
	for _, c := range batch {
		if st, ok := has[c.user]; ok {
			c.answer <- Bought{Status: st}
		} else {
			c.answer <- Bought{err: err}
		}
	}
}

func answerAll(batch []*click, b Bought) {
	for _, c := range batch {
		c.answer <- b
	}
}
