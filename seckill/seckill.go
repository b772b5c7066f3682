// Package seckill is the rush: it admits the right buyers, remembers whom it admitted, and turns each ticket into an
// order or a final refusal.
//
//	captcha -> hidden address -> lane -> gate (Redis) -> queue -> settle (Postgres) -> gate -> polls and event streams
//
// Redis thins the crowd and remembers tickets. Postgres alone decides who owns what. Only Postgres ever refills Redis.
// While Redis is away, a buyer with an address still buys, straight in Postgres (direct.go); no new address is granted.
// The script that grants a ticket also writes it to the sale's journal. So the queue lives in this process and yet
// survives it: the tickets of a dead process are taken over by another one, or by the same one after its restart.
//
// Who wins: among clicks, the order in which the reserve script serves them; among processes, the one that locks the
// sale's row first; among one user's tickets, the first. The unique index one_order_per_user_and_sale and the guarded
// update in goods.Take always have the last word.
//
// Two parts repair: reclaim finds tickets that no process works on (reclaim.go), reconcile compares gates with Postgres
// (reconcile.go).
//
// README.md in this folder explains the words, one purchase step by step, and recovery.
package seckill

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/address"
	"miaosha/seckill/alive"
	"miaosha/seckill/gate"
	"miaosha/seckill/news"
	"miaosha/seckill/queue"
	"miaosha/seckill/rebuild"
	"miaosha/seckill/rounds"
	"miaosha/seckill/watch"
)

// Deps has what an Engine needs. DB should be a pool of its own with short lock and statement timeouts.
type Deps struct {
	DB     *pgxpool.Pool
	Redis  redis.UniversalClient
	Sales  *goods.Store
	Cache  *goods.Cache
	Orders *order.Store
	Secret []byte // at least 32 bytes, the same in every process
	Trace  Trace  // nil: nothing is traced
	Log    *slog.Logger

	name string // of this process in the journals; "" for a new one, except in tests
}

// Engine is the rush of one process. Package web calls its methods. The parts do the work; each is a type in a file of
// its own.
type Engine struct {
	cfg      Config
	cache    *goods.Cache
	inFlight atomic.Int64
	metrics  *metrics

	clock       *gate.Clock
	addresses   *address.Signer
	lot         *address.Lot
	bigGate     *bigGate
	lanes       *lanes
	queue       *queue.Queue
	results     *resultReader
	subscribers *news.Subscribers
	beats       *alive.Beats
	reclaimer   *reclaimer
	rebuilder   *rebuild.Rebuilder
	reconciler  *reconciler
	returns     *returns
	trace       Trace
}

// New returns an Engine. It does nothing until Run.
func New(cfg Config, d Deps) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	presence := alive.NewPresence(d.Secret, d.name)
	e := &Engine{cfg: cfg, cache: d.Cache}
	gates := gate.New(d.Redis, presence.Name, watch.Every)
	m := newMetrics(d.Log, func() int { return e.queue.Queued() }, e.inFlight.Load, gates.Available)
	background := gates.Background()
	owners, readings := newOrderCache(), watch.NewReadings(background, presence.Name, m.logFault)

	e.metrics = m
	if e.trace = d.Trace; e.trace == nil {
		e.trace = untraced{}
	}
	e.clock = gate.NewClock(gates)
	e.subscribers = &news.Subscribers{}
	acks := &acks{gate: gates, orders: owners, limit: cfg.QMax, metrics: m, trace: e.trace}
	settler := &settler{cfg: cfg, db: d.DB, orders: d.Orders, gate: background, acks: acks, subscribers: e.subscribers,
		metrics: m, trace: e.trace}
	e.queue = queue.New(cfg.QMax, cfg.SettleBatch, cfg.QueueWorkers, settler.settleUntilDone)
	e.results = newResultReader(cfg, gates, e.queue, d.Orders, owners, m)
	e.beats = alive.NewBeats(background, presence.Name, m.logFault)
	e.rebuilder = rebuild.New(rebuild.Deps{DB: d.DB, Gate: background, Sales: d.Sales, Orders: d.Orders, QMax: cfg.QMax,
		Log: d.Log, Fault: m.logFault, Rebuilt: m.rebuilds.Inc})
	e.addresses = address.New(d.Secret)
	e.lot = address.NewLot(d.Secret)
	e.bigGate = &bigGate{cfg: cfg, gate: gates, rebuilder: e.rebuilder, metrics: m}
	direct := newDirect(cfg, d.DB, settler, d.Orders, e.queue, m)
	e.lanes = newLanes(cfg, gates, e.queue, direct, e.rebuilder, readings.Facts, m, e.trace)
	e.reclaimer = &reclaimer{reads: readings, sales: d.Sales, gate: background, queue: e.queue, settler: settler,
		acks: acks, qmax: cfg.QMax, metrics: m, trace: e.trace,
		beats: e.beats, alive: presence, rounds: rounds.New(), looks: rounds.New(), looking: make(chan struct{}, 1),
		died: map[string]time.Time{}, busy: map[string]time.Time{}}
	e.reconciler = &reconciler{cfg: cfg, sales: d.Sales, gate: background, acks: acks, readings: readings,
		rebuilder: e.rebuilder,
		reclaimer: e.reclaimer, metrics: m, rounds: rounds.New(), every: watch.Every}
	e.returns = &returns{reconciler: e.reconciler, sales: map[int64]bool{}, rounds: rounds.New()}
	return e, nil
}

const (
	drainLimit = 10 * time.Second // to settle what is queued when the process stops
	stopLimit  = 2 * time.Second  // for the last acks and the last tick of reconcile
	roundLimit = 5 * time.Second  // for one round of a background part: a store that hangs ends the round, not the part
)

// Run runs all parts until ctx ends. Then no lane admits a click any more, and queued tickets are settled for at most
// drainLimit. The rest stays in the journals.
func (e *Engine) Run(ctx context.Context) {
	settling, settled := context.WithCancel(context.WithoutCancel(ctx))
	defer settled()
	beating, leave := context.WithCancel(settling)
	defer leave()
	var doors, workers sync.WaitGroup
	workers.Go(func() { e.queue.Run(settling) })
	doors.Go(func() { e.lanes.Run(ctx) })
	doors.Go(func() { e.results.Run(ctx) })
	if !e.cfg.gateOff() {
		if err := e.reclaimer.alive.Enter(); err != nil {
			e.metrics.log.Warn("the tickets of this process will wait a while if it dies", "err", err)
		}
		defer e.reclaimer.alive.Leave()
		workers.Go(func() { e.beats.Run(beating) })
		doors.Go(func() { e.clock.Run(ctx) })
		doors.Go(func() { e.reclaimer.Run(ctx) })
	}
	doors.Go(func() { e.reconciler.Run(ctx) })
	doors.Go(func() { e.returns.Run(ctx) })
	doors.Wait()
	leave() // no call is under way that may grant a ticket: what this process does not settle any more is for its heir
	e.queue.Drain(drainLimit)
	settled()
	workers.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	e.returns.bringBack(last) // what came back last
	e.reconciler.tick(last)
	e.reconciler.leave(last)
	e.rebuilder.Close()
}

// Admit claims a place for a buy request in flight. The caller must call Release if there is no error. Admit calls no
// store. Refusals: goods.ErrSoldOut if the sale was sold out a moment ago and the user holds nothing of it; ErrBusy if
// all places are taken, or the lane or the queue is full.
func (e *Engine) Admit(sale, user int64) error {
	if err := e.lanes.admit(sale, user); err != nil {
		return err
	}
	if e.queue.Full(sale) {
		return e.metrics.shedFor("queue")
	}
	if e.inFlight.Add(1) > int64(e.cfg.MaxInFlight) {
		e.inFlight.Add(-1)
		return e.metrics.shedFor("in flight")
	}
	return nil
}

// Release frees the place that Admit claimed.
func (e *Engine) Release() { e.inFlight.Add(-1) }

// Buy asks for a unit of a sale for a user. Accepted is not bought: a Status of Queued means that the ticket is in the
// journal, or in this process's queue after Redis has lost it, and will get one final result. Refusals:
// goods.ErrNoSale, goods.NotStartedError, goods.ErrEnded, goods.ErrPaused, goods.ErrSoldOut, ErrBusy.
//
// At most one click of a user on a sale is in flight in this process. A user who clicks again meanwhile receives the
// reply to that click.
func (e *Engine) Buy(ctx context.Context, sale, user int64) (Bought, error) {
	if !e.lanes.has(sale) { // only a sale that exists gets a lane
		if _, _, err := e.cache.Sale(ctx, sale); err != nil {
			return Bought{}, err
		}
	}
	sure := e.lanes.facts.Sure(sale) // before the click goes to the gate
	b, err := e.lanes.buy(ctx, sale, user)
	if b.mustConfirm(sure) {
		b.Status, err = e.results.confirm(ctx, sale, user, err)
	}
	if err == nil && b.Status.State == Queued && b.Ticket == "" { // the gate said sold out: it has lost the ticket
		if b.Ticket = e.queue.Ticket(sale, user); b.Ticket == "" {
			return Bought{}, ErrBusy // settled meanwhile, or in another process
		}
	}
	return b, err
}

// Result returns what became of a user's ticket, or ErrBusy if that is not known: an outage is never a refusal. A user
// without a ticket or an order is told None, or SoldOut for as long as no unit is left. See Status.NoTicket.
func (e *Engine) Result(ctx context.Context, sale, user int64) (Status, error) {
	if status, known := e.results.known(sale, user); known {
		return status, nil
	}
	if _, seen := e.reconciler.leftOf(sale); !seen { // a sale that reconcile has seen exists
		if _, _, err := e.cache.Sale(ctx, sale); err != nil {
			return Status{}, err
		}
	}
	status, err := e.results.read(ctx, sale, user)
	if err == nil && status.State == None && e.reconciler.soldOut(sale) {
		status = Status{State: SoldOut, NextPoll: soldOutPoll}
	}
	return status, err
}

// Watch returns a channel that says when this process has settled a ticket of one user in one sale, from now on: a hint
// to call Result, which alone knows of the user's other tickets. Nothing waits for a slow reader. The caller must call
// stop.
func (e *Engine) Watch(sale, user int64) (news <-chan struct{}, stop func()) {
	return e.subscribers.Add(order.Buyer{SaleID: sale, UserID: user})
}

// Left returns how many units of a sale are left, as far as this process knows. While both stores reply the number is
// seldom more than half a second old; in an outage of Postgres it is the last one known.
func (e *Engine) Left(s goods.Sale) int {
	if n, ok := e.reconciler.leftOf(s.ID); ok {
		return n
	}
	return s.Stock
}

// InFlight returns how many tickets each sale has in its journal, as the processes have read it for one another, or
// false if Redis did not reply.
func (e *Engine) InFlight() (bySale map[int64]int, ok bool) { return e.reconciler.readings.InFlight() }

// Clicks returns how many clicks each sale has had in this process, whatever became of them. The count of a sale
// without a click for a minute ends.
func (e *Engine) Clicks() map[int64]int64 { return e.lanes.count() }

// UnitsReturned tells the Engine that units of a sale came back, so that it brings them to the gate at once, whichever
// process reads that. It does not wait.
func (e *Engine) UnitsReturned(sale int64) { e.returns.add(sale) }

// Address returns a user's hidden address of a sale, inside the window and while the big gate has room. sum is the
// user's answer, nil where the shop asks for none; it is judged only inside the window, and its refusal is returned.
// Requests of the first second are answered in random order. Refusals: goods.ErrNoSale, goods.NotStartedError,
// goods.ErrEnded, goods.ErrPaused, goods.ErrSoldOut, TooManyError, ErrBusy.
func (e *Engine) Address(
	ctx context.Context, sale, user int64, token string, sum Sum,
) (address string, expiry time.Time, err error) {
	s, _, err := e.cache.Sale(ctx, sale)
	if err != nil {
		return "", time.Time{}, err
	}
	if err := s.Window(e.clock.Now()); err != nil {
		return "", time.Time{}, err
	}
	began := time.Now()
	if sum != nil { // without sums there is no lot: nothing would bound the requests that wait
		if err := sum.Check(ctx); err != nil {
			return "", time.Time{}, err
		}
		began = time.Now()
		if e.lot.Wait(ctx, s, user, e.clock.Now()) != nil {
			return "", time.Time{}, ErrBusy
		}
	}
	if expiry, err = e.bigGate.admit(ctx, sale, user, e.clock.Now()); err != nil {
		return "", time.Time{}, err
	}
	e.trace.AddressGiven(sale, user, began)
	return e.addresses.Sign(user, sale, token, expiry), expiry, nil
}

// CheckAddress returns the user for whom address was made, or ErrBadAddress. It calls no store.
func (e *Engine) CheckAddress(sale int64, token, address string) (user int64, err error) {
	return e.addresses.Verify(address, sale, token, e.clock.Now())
}

// Now returns the time by the clock that judges windows and expiries.
func (e *Engine) Now() time.Time { return e.clock.Now() }

// Collectors returns the rush's metrics, to be registered once.
func (e *Engine) Collectors() []prometheus.Collector { return e.metrics.collectors() }
