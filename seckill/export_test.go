package seckill

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"miaosha/goods"
	"miaosha/order"
)

var (
	GateKey, TicketsKey, JournalKey, DeadKey, CaptchaKey = gateKey, ticketsKey, journalKey, deadKey, captchaKey
)

// ReconcileEvery is how often gates are held against Postgres.
const ReconcileEvery = reconcileEvery

// Deliveries is how often a ticket may be handed out.
const Deliveries = deliveries

// Retire forgets the consumers of a sale's journal that have been silent for so long.
func Retire(ctx context.Context, rdb redis.UniversalClient, sale int64, silent time.Duration) error {
	return gate{rdb: rdb}.retire(ctx, sale, silent)
}

// ReclaimAfter shortens the time after which an entry is anybody's.
func (e *Engine) ReclaimAfter(d time.Duration) { e.reclaimIdle = d }

func (e *Engine) Rebuild(ctx context.Context, sale int64) error { return e.rebuild(ctx, sale) }

// Reconcile is one tick.
func (e *Engine) Reconcile(ctx context.Context) { e.reconcile(ctx) }

// Probe takes the breaker's leave to call Redis; false where it gives none.
func (e *Engine) Probe() (done func(error), ok bool) {
	done, err := e.breaker.Allow()
	return done, err == nil
}

// Settle is what a worker does with a batch.
func (e *Engine) Settle(ctx context.Context, sale int64, tickets ...order.Ticket) {
	e.pool.settle(ctx, sale, tickets)
}

// Decide is the transaction alone: what becomes of tickets in Postgres, told to nobody.
func (e *Engine) Decide(ctx context.Context, sale int64, tickets []order.Ticket) ([]order.Result, error) {
	return e.settle(ctx, sale, tickets, true)
}

// ReserveAll is one call of the script, for many users. It gives how many have a new ticket, which nobody settles.
func (e *Engine) ReserveAll(ctx context.Context, sale int64, users []int64) (granted int, err error) {
	crowd := make([]asked, len(users))
	for i, u := range users {
		crowd[i] = asked{u, uuid.NewString()}
	}
	answers, err := e.gate.reserve(ctx, sale, crowd)
	for _, a := range answers {
		if a.ticket != "" {
			granted++
		}
	}
	return granted, err
}

// Reserve gets a ticket for a user as another process would, and does nothing with it.
func Reserve(ctx context.Context, rdb redis.UniversalClient, process string, sale, user int64) (ticket string, err error) {
	answers, err := gate{rdb: rdb, consumer: process}.reserve(ctx, sale, []asked{{user, uuid.NewString()}})
	if err != nil {
		return "", err
	}
	return answers[0].ticket, answers[0].err
}

// Tell tells the gate results, as a process does that has committed them.
func Tell(ctx context.Context, rdb redis.UniversalClient, sale int64, results ...order.Result) error {
	return gate{rdb: rdb, consumer: "teller"}.settle(ctx, sale, results)
}

// Consumer is the process's name in the journals.
func (e *Engine) Consumer() string { return e.gate.consumer }

// GoWithoutAnswer is what the lane does when a reserve call got none.
func (e *Engine) GoWithoutAnswer(sale int64) { e.view.late.Store(sale, lateTicks) }

// SoldOut tells whether the sale was sold out a moment ago.
func (e *Engine) SoldOut(sale int64) bool {
	err := e.Enter(sale)
	if err == nil {
		e.Leave()
	}
	return errors.Is(err, goods.ErrSoldOut)
}

// LaneRoom is how many may wait for a lane after it has served batches that took so long.
func LaneRoom(took ...time.Duration) int {
	l := newLane(1)
	for _, d := range took {
		l.measure(d)
	}
	return int(l.room.Load())
}

// ServeLate serves a batch of clicks, the first user's first, that have waited so long, and gives what each hears.
func (e *Engine) ServeLate(ctx context.Context, sale int64, waited ...time.Duration) []error {
	l := newLane(sale)
	return serveLate(waited, func(batch []*click) { e.serve(ctx, l, e.inTime(l, batch, time.Now())) })
}

// ServeDirectly is ServeLate without a gate.
func (e *Engine) ServeDirectly(ctx context.Context, sale int64, waited ...time.Duration) []error {
	return serveLate(waited, func(batch []*click) { e.serveDirect(ctx, newLane(sale), batch) })
}

// TakeDirect takes all places for settling without a gate.
func (e *Engine) TakeDirect() (free func()) {
	for range directAtOnce {
		e.direct <- struct{}{}
	}
	return func() {
		for range directAtOnce {
			<-e.direct
		}
	}
}

func serveLate(waited []time.Duration, serve func([]*click)) (errs []error) {
	now, batch := time.Now(), []*click{}
	for i, d := range waited {
		batch = append(batch, newClick(int64(i+1), now.Add(-d)))
	}
	serve(batch)
	for _, c := range batch {
		<-c.done
		errs = append(errs, c.answer.err)
	}
	return errs
}
