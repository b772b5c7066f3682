package seckill

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/failpoint"
	"miaosha/seckill/gate"
	"miaosha/seckill/queue"
	"miaosha/seckill/rebuild"
	"miaosha/seckill/watch"
)

const (
	laneBatch   = 256                   // users in one reserve call at most
	laneWaiting = 4096                  // clicks that may wait for a lane; the rest are answered "busy"
	laneIdle    = time.Minute           // a lane without a click for longer ends
	laneWait    = 20 * time.Millisecond // as many clicks may wait as are served in this time

	soldOutMark  = 50 * time.Millisecond // how long a lane refuses strangers itself after a gate was sold out
	holdersLimit = 50_000                // users of a sale above which a lane reads none and refuses no click itself
	waitLimit    = 3 * time.Second       // a click or a query that has waited longer is dropped
)

// lanes holds a lane for each sale that receives clicks.
type lanes struct {
	bySale sync.Map // sale id -> *lane
	opened chan *lane
	ended  chan struct{} // closed when no further lane is opened

	reading sync.WaitGroup // of holders

	gateOff   bool
	batch     int           // clicks in one reserve call at most
	markFor   time.Duration // the life of a sold-out mark
	gate      *gate.Gate
	queue     *queue.Queue
	direct    *direct
	rebuilder *rebuild.Rebuilder
	facts     *watch.Facts
	metrics   *metrics
	trace     Trace
}

func newLanes(
	cfg Config, g *gate.Gate, q *queue.Queue, d *direct, r *rebuild.Rebuilder, f *watch.Facts, m *metrics, t Trace,
) *lanes {
	return &lanes{opened: make(chan *lane), ended: make(chan struct{}), gateOff: cfg.gateOff(), batch: cfg.LaneBatch,
		markFor: cfg.SoldOutMark,
		gate:    g, queue: q, direct: d, rebuilder: r, facts: f, metrics: m, trace: t}
}

// Bought is the reply to a buy: a queued ticket, or its outcome where there is no gate, or an error.
type Bought struct {
	Ticket string
	Status Status
	err    error

	atGate bool // as far as the gate knows: the user may have an order that it does not know
	older  bool // the user had the ticket already
}

// mustConfirm reports whether a gate's reply may only be told after a look into Postgres: if the user had the ticket
// already, or if this process was not sure of the gate when the click came.
func (b Bought) mustConfirm(sure bool) bool {
	return b.atGate && (b.err == nil && b.older || !sure && (b.err == nil || errors.Is(b.err, goods.ErrSoldOut)))
}

// click is one user's place in a lane. All requests of the user that wait for the reply share it.
type click struct {
	gate.Request
	at    time.Time
	done  chan struct{} // closed when reply is set
	reply Bought
}

func newClick(user int64, at time.Time) *click {
	return &click{Request: gate.Request{UserID: user, Nonce: uuid.NewString()}, at: at, done: make(chan struct{})}
}

// lane is the request coalescer of one sale (group commit): all waiting clicks go to the gate in one call. A single
// click does not wait for others.
type lane struct {
	sale    int64
	in      chan *click
	soldOut atomic.Pointer[soldOut]
	reading atomic.Bool  // the holders are being read
	room    atomic.Int64 // clicks that may wait, set by measure
	refused atomic.Int64 // clicks that came no further than admit
	ended   chan struct{}

	mu     sync.Mutex
	clicks map[int64]*click // by user: those without a reply
	came   int64            // all clicks but the refused ones
}

// soldOut is the mark of a sale without units: until it ends, the lane refuses all users but the holders, who hear what
// they hold. While no unit is left, no user joins the holders.
type soldOut struct {
	until   time.Time
	holders map[int64]struct{} // users with a ticket or an order
	atGate  bool               // as far as the gate knows
}

func newLane(sale int64) *lane {
	l := &lane{sale: sale, in: make(chan *click, laneWaiting), ended: make(chan struct{}), clicks: map[int64]*click{}}
	l.soldOut.Store(&soldOut{})
	l.room.Store(laneWaiting)
	return l
}

// click returns the user's click that has no reply yet, or puts one in: here a double click in one process is one.
// Between processes reserve.lua finds the first ticket. ErrBusy if there is no room for it.
func (l *lane) click(user int64) (*click, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.came++
	if c, waits := l.clicks[user]; waits {
		return c, nil
	}
	if l.full() {
		return nil, ErrBusy
	}
	c := newClick(user, time.Now())
	l.clicks[user] = c
	l.in <- c // has room: l is not full, and only this function sends, under mu
	return c, nil
}

func (l *lane) reply(c *click, b Bought) {
	l.mu.Lock()
	delete(l.clicks, c.UserID)
	l.mu.Unlock()
	c.reply = b
	close(c.done)
}

func (l *lane) replyAll(batch []*click, b Bought) {
	for _, c := range batch {
		l.reply(c, b)
	}
}

// full reports whether as many clicks wait as will be served soon. One more should be refused at once.
func (l *lane) full() bool { return int64(len(l.in)) >= l.room.Load() }

// measure sets how many clicks may wait, after a batch was served in d: as many as full batches serve in laneWait, and
// at least one batch. Half of the new value comes from the old one.
func (l *lane) measure(d time.Duration) {
	soon := min(laneWaiting, laneBatch*int64(laneWait)/int64(max(1, d)))
	l.room.Store(max(laneBatch, (l.room.Load()+soon)/2))
}

// has reports whether the sale has a lane.
func (ls *lanes) has(sale int64) bool {
	_, open := ls.bySale.Load(sale)
	return open
}

// admit refuses a click that a lane would refuse: goods.ErrSoldOut, ErrBusy.
func (ls *lanes) admit(sale, user int64) error {
	if l, ok := ls.bySale.Load(sale); ok {
		l := l.(*lane)
		if ls.refuses(l, user) {
			l.refused.Add(1)
			return goods.ErrSoldOut
		}
		if l.full() {
			l.refused.Add(1)
			return ls.metrics.shedFor("lane")
		}
	}
	return nil
}

// refuses reports whether the sale was sold out a moment ago, and the user surely holds nothing of it.
func (ls *lanes) refuses(l *lane, user int64) bool {
	m := l.soldOut.Load()
	if time.Now().After(m.until) {
		return false
	}
	_, holds := m.holders[user]
	return !holds && (!m.atGate || ls.facts.Sure(l.sale))
}

// count returns how many clicks each lane has had.
func (ls *lanes) count() map[int64]int64 {
	clicks := map[int64]int64{}
	for sale, l := range ls.bySale.Range {
		l := l.(*lane)
		l.mu.Lock()
		clicks[sale.(int64)] = l.came + l.refused.Load()
		l.mu.Unlock()
	}
	return clicks
}

// of returns the sale's lane and opens one if there is none. The caller must have checked that the sale exists, because
// only the number of sales bounds the number of lanes.
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

// Run starts lanes as they are opened, until ctx ends, and waits for all of them.
func (ls *lanes) Run(ctx context.Context) {
	defer close(ls.ended)
	var open sync.WaitGroup
	defer func() { open.Wait(); ls.reading.Wait() }()
	for {
		select {
		case l := <-ls.opened:
			open.Go(func() { ls.runLane(ctx, l) })
		case <-ctx.Done():
			return
		}
	}
}

func (ls *lanes) runLane(ctx context.Context, l *lane) {
	defer close(l.ended)
	defer ls.bySale.CompareAndDelete(l.sale, l)
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
		for waits := true; waits && len(batch) < ls.batch; {
			select {
			case c := <-l.in:
				batch = append(batch, c)
			default:
				waits = false
			}
		}
		began := time.Now()
		if batch := ls.inTime(l, batch, began); len(batch) > 0 {
			ls.serve(ctx, l, batch)
			l.measure(time.Since(began))
		}
		idle.Reset(laneIdle)
	}
}

// inTime refuses the clicks of a batch that have waited too long, and returns the others.
func (ls *lanes) inTime(l *lane, batch []*click, now time.Time) []*click {
	late := 0
	for late < len(batch) && now.Sub(batch[late].at) > waitLimit { // the first have waited longest
		l.reply(batch[late], Bought{err: ls.metrics.shedFor("late")})
		late++
	}
	return batch[late:]
}

// serve replies to every click of a batch.
func (ls *lanes) serve(ctx context.Context, l *lane, batch []*click) {
	began := time.Now()
	ls.metrics.batch.Observe(float64(len(batch)))
	ls.metrics.waited.Observe(began.Sub(batch[0].at).Seconds())
	if ls.gateOff || !ls.gate.Available() {
		ls.direct.serve(ctx, l, batch)
		return
	}
	room := ls.queue.ClaimRoom(l.sale, len(batch))
	ls.metrics.shed.WithLabelValues("queue").Add(float64(len(batch) - room))
	l.replyAll(batch[room:], Bought{err: ErrBusy})
	if batch = batch[:room]; room == 0 {
		return
	}
	requests := make([]gate.Request, len(batch))
	for i, c := range batch {
		requests[i] = c.Request
	}
	// a batch is finished even if the process stops
	replies, err := ls.reserve(context.WithoutCancel(ctx), l.sale, requests)
	replied := time.Now()
	ls.metrics.reserve.Observe(replied.Sub(began).Seconds())
	if errors.Is(err, gate.ErrUnavailable) { // the breaker has opened since: Redis was not called
		ls.queue.ReleaseRoom(room)
		ls.direct.serve(ctx, l, batch)
		return
	}
	if err = ls.metrics.refusal("reserve", err); err != nil {
		ls.queue.ReleaseRoom(room)
		l.replyAll(batch, Bought{err: err})
		return
	}
	ls.metrics.countReplies(replies)
	granted, users := make([]order.Ticket, 0, len(batch)), 0
	for i, r := range replies {
		if r.Ticket != "" {
			granted = append(granted, order.Ticket{ID: r.Ticket, UserID: requests[i].UserID})
		}
		users = max(users, r.Users)
		if errors.Is(r.Err, ErrBusy) {
			ls.metrics.shed.WithLabelValues("journal").Inc()
		}
	}
	if len(granted) > 0 {
		l.soldOut.Store(&soldOut{}) // a unit came back; the mark does not know these holders
	}
	ls.queue.ReleaseRoom(room - len(granted))
	ahead := ls.queue.Submit(l.sale, granted, true)
	ls.trace.Grant(l.sale, len(batch), batch[0].at, granted, began, replied, ahead)
	for i, c := range batch {
		l.reply(c, ls.bought(replies[i], ahead))
	}
	ls.metrics.granted.Add(float64(len(granted)))
	if users > 0 && users <= holdersLimit {
		ls.markSoldOut(ctx, l, users)
	}
}

// markSoldOut marks a sale whose gate is sold out and remembers that many users. Unless the lane knows them all, it
// reads them beside the lane, once at a time; a ticket that is granted meanwhile discards what was read.
func (ls *lanes) markSoldOut(ctx context.Context, l *lane, users int) {
	was := l.soldOut.Load()
	if len(was.holders) == users {
		l.soldOut.Store(&soldOut{time.Now().Add(ls.markFor), was.holders, true})
		return
	}
	if !l.reading.CompareAndSwap(false, true) {
		return
	}
	ls.reading.Go(func() {
		defer l.reading.Store(false)
		holders, err := ls.gate.Users(context.WithoutCancel(ctx), l.sale)
		if err != nil {
			ls.metrics.logFault("mark a sale as sold out", err)
			return
		}
		l.soldOut.CompareAndSwap(was, &soldOut{time.Now().Add(ls.markFor), holders, true})
	})
}

// reserve makes the call, and once more if the gate had to be rebuilt.
func (ls *lanes) reserve(ctx context.Context, sale int64, requests []gate.Request) (replies []gate.Reply, err error) {
	if err := failpoint.Hit(failpoint.BeforeReserve); err != nil {
		return nil, err
	}
	replies, err = ls.gate.Reserve(ctx, sale, requests)
	if err == nil && errors.Is(replies[0].Err, gate.ErrNoGate) {
		limited, cancel := context.WithTimeout(ctx, gate.ReserveLimit)
		defer cancel()
		if err := ls.rebuilder.Rebuild(limited, sale); err != nil {
			return nil, err
		}
		replies, err = ls.gate.Reserve(ctx, sale, requests)
	}
	if err == nil && slices.ContainsFunc(replies, func(r gate.Reply) bool { return r.Ticket != "" }) {
		err = failpoint.Hit(failpoint.AfterReserve)
	}
	return replies, err
}

// bought returns the buyer's reply for the gate's. A ticket that the user had already may have become an order
// meanwhile.
func (ls *lanes) bought(r gate.Reply, ahead int) Bought {
	ticket := r.Ticket
	switch {
	case r.Err != nil:
		return Bought{err: ls.metrics.refusal("reserve", r.Err), atGate: true}
	case r.Existing != nil && r.Existing.State != Queued:
		return Bought{Status: statusAtGate(*r.Existing)}
	case r.Existing != nil:
		ticket = r.Existing.Ticket
	}
	return Bought{Ticket: ticket, atGate: true, older: r.Existing != nil,
		Status: Status{State: Queued, Ahead: ahead, NextPoll: nextPoll(ahead, true)}}
}
