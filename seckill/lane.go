package seckill

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/failpoint"
)

const (
	laneBatch   = 256                    // users a reserve call takes at most
	laneWaiting = 4096                   // clicks that may wait for a lane; more hear busy
	laneIdle    = time.Minute            // a lane nobody clicks on ends
	laneWait    = 20 * time.Millisecond  // as many may wait as are served in this time
	gateLimit   = 250 * time.Millisecond // for one reserve, with its retry if Redis was quick to fail
	lateTicks   = 10                     // of reconcile, in which a call without an answer may yet be carried out
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
	room    atomic.Int64 // clicks that may wait, by how fast they are served now
	ended   chan struct{}

	mu     sync.Mutex
	clicks map[int64]*click // by user: those without an answer
}

func newLane(sale int64) *lane {
	l := &lane{sale: sale, in: make(chan *click, laneWaiting), ended: make(chan struct{}), clicks: map[int64]*click{}}
	l.room.Store(laneWaiting)
	return l
}

// click gives the user's click that has no answer yet, or puts one in. ErrBusy if there is no room for it.
func (l *lane) click(user int64) (*click, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c, waits := l.clicks[user]; waits {
		return c, nil
	}
	if l.full() {
		return nil, ErrBusy
	}
	c := newClick(user, time.Now())
	select {
	case l.in <- c:
		l.clicks[user] = c
		return c, nil
	default:
		return nil, ErrBusy
	}
}

// tell answers a click.
func (l *lane) tell(c *click, b Bought) {
	l.mu.Lock()
	delete(l.clicks, c.user)
	l.mu.Unlock()
	c.answer = b
	close(c.done)
}

func (l *lane) tellAll(batch []*click, b Bought) {
	for _, c := range batch {
		l.tell(c, b)
	}
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
	l := newLane(sale)
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
		began := time.Now()
		if batch := e.inTime(l, batch, began); len(batch) > 0 {
			e.serve(ctx, l, batch)
			l.measure(time.Since(began))
		}
		idle.Reset(laneIdle)
	}
}

// full tells that more wait already than are served soon: who comes now is better told so at once.
func (l *lane) full() bool { return int64(len(l.in)) >= l.room.Load() }

// measure sets how many may wait after a batch was served in d, half from what it was before: as many as full batches
// carry in laneWait, and never fewer than one of them.
func (l *lane) measure(d time.Duration) {
	soon := min(laneWaiting, laneBatch*int64(laneWait)/int64(max(1, d)))
	l.room.Store(max(laneBatch, (l.room.Load()+soon)/2))
}

// inTime answers those of a batch who have waited too long, and gives the others.
func (e *Engine) inTime(l *lane, batch []*click, now time.Time) []*click {
	late := 0
	for late < len(batch) && now.Sub(batch[late].at) > waitLimit { // the first have waited longest
		l.tell(batch[late], Bought{err: e.shed("late")})
		late++
	}
	return batch[late:]
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
	l.tellAll(batch[room:], Bought{err: ErrBusy})
	if batch = batch[:room]; room == 0 {
		return
	}
	crowd := make([]asked, len(batch))
	for i, c := range batch {
		crowd[i] = c.asked
	}
	answers, err := e.reserve(context.WithoutCancel(ctx), l.sale, crowd) // who is asked about is answered, stop or not
	if errors.Is(err, errBreaker) {                                      // it has opened since: nothing was asked
		e.pool.release(room)
		e.serveDirect(ctx, l, batch)
		return
	}
	if err = e.asRefusal("reserve", err); err != nil {
		e.view.late.Store(l.sale, lateTicks)
		e.pool.release(room)
		l.tellAll(batch, Bought{err: err})
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
	e.pool.release(room - len(granted))
	ahead := e.pool.submit(l.sale, granted)
	for i, c := range batch {
		l.tell(c, e.bought(answers[i], ahead))
	}
	e.metrics.granted.Add(float64(len(granted)))
}

// reserve makes the call: once more in the same time if its answer was lost, which the nonces make safe, and once more if
// the gate had to be rebuilt.
func (e *Engine) reserve(ctx context.Context, sale int64, crowd []asked) (answers []answer, err error) {
	if err := failpoint.Hit(failpoint.F1); err != nil {
		return nil, err
	}
	ask := func() error {
		return e.ask(ctx, gateLimit, func(ctx context.Context) error {
			first, cancel := context.WithTimeout(ctx, gateLimit/2)
			defer cancel()
			if answers, err = e.gate.reserve(first, sale, crowd); isSilence(err) {
				answers, err = e.gate.reserve(ctx, sale, crowd)
			}
			return err
		})
	}
	if err = ask(); err == nil && errors.Is(answers[0].err, errNoGate) {
		limited, cancel := context.WithTimeout(ctx, gateLimit)
		defer cancel()
		if err = e.rebuild(limited, sale); err == nil {
			err = ask()
		}
	}
	if err == nil && slices.ContainsFunc(answers, func(a answer) bool { return a.ticket != "" }) {
		err = failpoint.Hit(failpoint.F2)
	}
	return answers, err
}

// bought turns the gate's word into the answer to a buyer.
func (e *Engine) bought(a answer, ahead int) Bought {
	switch {
	case a.err != nil:
		return Bought{err: e.asRefusal("reserve", a.err)}
	case a.ticket != "":
		return Bought{Ticket: a.ticket, Status: Status{State: Queued, Ahead: ahead, NextPoll: nextPoll(ahead, true)}}
	}
	b := Bought{Status: statusOf(a.has)}
	if b.Status.State == Queued {
		b.Ticket = a.has[1:]
		b.Status.Ahead, b.Status.NextPoll = ahead, nextPoll(ahead, true)
	}
	return b
}
