package seckill

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/errgroup"

	"miaosha/order"
)

const (
	lookers     = 2    // round trips at once, to Redis and to Postgres each
	lookBatch   = 256  // questions in one of them
	looksQueued = 4096 // more hear busy
	lookLimit   = time.Second
	ordersKnown = 100_000 // owners this process remembers; about 15 MB
)

// looks answers those who ask for their result. Whatever waits is looked up together, first at the gates. What a gate
// says of an order is so. All else may be overtaken: it may have lost a ticket or be set back, and somebody may have bought
// past it, even who has a ticket too. So that is looked up in Postgres.
type looks struct {
	gate, truth chan *look
	ended       chan struct{} // closed when nobody looks any more

	// ordered is who has an order, as far as this process has settled it or looked it up: that never changes any more, so it
	// is told without asking. It is an otter.Cache: see goods.Cache for why it is not named.
	ordered interface {
		GetIfPresent(watch) (uuid.UUID, bool)
		Set(watch, uuid.UUID) (uuid.UUID, bool)
	}
}

// look is one question.
type look struct {
	sale, user int64
	at         time.Time
	gate       Status      // what the gate said
	ticket     string      // the one that waits, as far as the gate knows
	down       bool        // it did not answer
	answer     chan looked // takes one
}

type looked struct {
	Status
	err error
}

func newLooks() looks {
	return looks{gate: make(chan *look, looksQueued), truth: make(chan *look, looksQueued), ended: make(chan struct{}),
		ordered: otter.Must(&otter.Options[watch, uuid.UUID]{MaximumSize: ordersKnown})}
}

func (ls *looks) remember(sale int64, results ...order.Result) {
	for _, r := range results {
		if r.OrderID != uuid.Nil {
			ls.ordered.Set(watch{sale, r.UserID}, r.OrderID)
		}
	}
}

func (e *Engine) runLooks(ctx context.Context) error {
	defer close(e.looks.ended)
	var g errgroup.Group
	for range lookers {
		g.Go(func() error { gather(ctx, e.looks.gate, e.lookAtGates); return nil })
		g.Go(func() error { gather(ctx, e.looks.truth, e.lookAtTruth); return nil })
	}
	return g.Wait()
}

// gather hands what waits in a channel to do, by sale, until ctx ends. Alone, a question waits for nobody.
func gather(ctx context.Context, in <-chan *look, do func(ctx context.Context, sale int64, asked []*look)) {
	for {
		bySale := map[int64][]*look{}
		take := func(l *look) {
			if time.Since(l.at) > waitLimit {
				l.answer <- looked{err: ErrBusy}
				return
			}
			bySale[l.sale] = append(bySale[l.sale], l)
		}
		select {
		case <-ctx.Done():
			return
		case l := <-in:
			take(l)
		}
		for n := 1; n < lookBatch; n++ {
			select {
			case l := <-in:
				take(l)
				continue
			default:
			}
			break
		}
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookLimit) // for all: one hangs, all hang
		for sale, asked := range bySale {
			do(limited, sale, asked)
		}
		cancel()
	}
}

// Result tells a user what became of his ticket. ErrBusy when it can't be said: an outage is never a no.
func (e *Engine) Result(ctx context.Context, sale, user int64) (Status, error) {
	if id, known := e.looks.ordered.GetIfPresent(watch{sale, user}); known {
		return Status{State: Ordered, OrderID: id}, nil
	}
	if _, _, err := e.cache.Sale(ctx, sale); err != nil {
		return Status{}, err
	}
	l := &look{sale: sale, user: user, at: time.Now(), answer: make(chan looked, 1)}
	select {
	case e.looks.gate <- l:
	default:
		return Status{}, e.shed("results")
	}
	select {
	case got := <-l.answer:
		return got.Status, got.err
	case <-e.looks.ended:
	case <-ctx.Done():
	}
	return Status{}, ErrBusy
}

func (e *Engine) lookAtGates(ctx context.Context, sale int64, asked []*look) {
	users := make([]int64, len(asked))
	for i, l := range asked {
		users[i] = l.user
	}
	// Before the gate is asked: a ticket leaves the queue after the gate was told.
	ahead := e.pool.ahead(sale, users)
	values, waiting, err := make([]string, len(asked)), 0, error(nil)
	if e.cfg.Gate == "redis" {
		err = e.ask(ctx, redisLimit, func(ctx context.Context) (err error) {
			values, waiting, err = e.gate.ticketsOf(ctx, sale, users)
			return err
		})
		if err != nil {
			e.logFault("result", err)
			values = make([]string, len(asked))
		}
	}
	for i, l := range asked {
		n, here := ahead[l.user]
		l.gate, l.down, l.ticket = statusOf(values[i]), err != nil, strings.TrimPrefix(values[i], "Q")
		switch {
		case l.gate.State == Ordered:
			e.looks.remember(sale, order.Result{UserID: l.user, OrderID: l.gate.OrderID})
			l.answer <- looked{Status: l.gate}
			continue
		case here: // Redis may have lost the ticket, or not answer
			l.gate = queuedBehind(n)
		case l.gate.State == Queued: // another process has it: at most all that is in the journal
			l.gate = queuedBehind(max(0, waiting-1))
		}
		select {
		case e.looks.truth <- l:
		default:
			l.answer <- looked{err: e.shed("results")}
		}
	}
}

func queuedBehind(n int) Status { return Status{State: Queued, Ahead: n, NextPoll: nextPoll(n, false)} }

func (e *Engine) lookAtTruth(ctx context.Context, sale int64, asked []*look) {
	users := make([]int64, len(asked))
	for i, l := range asked {
		users[i] = l.user
	}
	outcomes, err := e.orders.Outcomes(ctx, sale, users)
	if err != nil {
		e.logFault("result", err)
	}
	e.layBehind(ctx, sale, asked, outcomes)
	for _, l := range asked {
		switch r, known := outcomes[l.user]; {
		case l.gate.State == Queued && (err != nil || r.OrderID == uuid.Nil && r.Ticket != l.ticket): // or it is an older ticket's
			l.answer <- looked{Status: l.gate}
		case err != nil, !known && l.down: // he may hold a ticket that only Redis knows
			l.answer <- looked{err: ErrBusy}
		case known:
			e.looks.remember(sale, r)
			l.answer <- looked{Status: statusOf(remembered(r))}
		default: // he has nothing; or a no that could not be stored
			l.answer <- looked{Status: l.gate}
		}
	}
}

// layBehind tells the gate of orders whose tickets wait there still, before their owners are told: who has heard of his order
// is not to hear that he is queued, should Postgres be away when he asks another process. It is told all the same if the gate
// doesn't answer.
func (e *Engine) layBehind(ctx context.Context, sale int64, asked []*look, outcomes map[int64]order.Result) {
	var owners []order.Owner
	for _, l := range asked {
		if r := outcomes[l.user]; r.OrderID != uuid.Nil && l.gate.State == Queued && l.ticket != "" {
			owners = append(owners, order.Owner{UserID: l.user, OrderID: r.OrderID})
		}
	}
	if len(owners) == 0 {
		return
	}
	if err := e.ask(ctx, gateLimit, func(ctx context.Context) error { return e.gate.lay(ctx, sale, owners) }); err != nil {
		e.logFault("result", err)
	}
}
