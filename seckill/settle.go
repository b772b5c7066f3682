package seckill

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/failpoint"
	"miaosha/seckill/gate"
)

const (
	settleLimit = 1500 * time.Millisecond // for one settle transaction
	retryFirst  = 20 * time.Millisecond
	retryLast   = time.Second
	slowTries   = 3

	maxDeliveries = 64 // a ticket with more owners than this is probably why they died
)

// settler decides batches of tickets in Postgres, and passes the results on.
type settler struct {
	cfg         Config
	db          *pgxpool.Pool
	orders      *order.Store
	gate        *gate.Gate
	acks        *acks
	subscribers *subscribers
	metrics     *metrics
}

// lockedCheck decides in a settle transaction whether anything may be placed.
type lockedCheck func(sale goods.Locked) error

// settle decides a batch of tickets of one sale in one transaction: it locks the sale's row, places the orders, and stores
// a result for each ticket of a gate that got none. After an error either nothing is decided, or everything is and only the
// reply was lost. Settling the same batch again finds out which.
//
// A gated ticket was granted inside the window, so state and window are not checked again, except that a closed sale places
// nothing. Without a gate, check does it, under the row's lock: nothing is placed after its error, and a unit that is sold
// counts as a bypass.
//
// It calls sent before it sends COMMIT: until then it has decided nothing.
func (s *settler) settle(ctx context.Context, sale int64, tickets []order.Ticket, check lockedCheck, sent func()) (results []order.Result, err error) {
	if s.cfg.SettlePause > 0 {
		select {
		case <-time.After(s.cfg.SettlePause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	if err := failpoint.Hit(failpoint.F3); err != nil {
		return nil, err
	}
	err = s.inTransaction(ctx, func(tx pgx.Tx) error {
		locked, err := goods.Lock(ctx, tx, sale)
		if err != nil {
			return err
		}
		if check != nil {
			if err := check(locked); err != nil {
				return err
			}
		}
		place := s.orders.Place
		if check != nil {
			place = s.orders.PlaceAtOnce
		}
		if results, err = place(ctx, tx, locked, tickets); err != nil {
			return err
		}
		if check != nil && slices.ContainsFunc(results, func(r order.Result) bool { return r.Outcome == order.Ordered }) {
			if err := goods.CountBypass(ctx, tx, sale); err != nil {
				return err
			}
		}
		sent()
		return failpoint.Hit(failpoint.F4)
	})
	if err != nil {
		return nil, err
	}
	s.metrics.settling.Observe(float64(len(tickets)))
	for _, r := range results {
		s.metrics.settled.WithLabelValues(r.Outcome).Inc()
	}
	return results, nil
}

// inTransaction does work in a transaction, and measures how long it holds its connection.
func (s *settler) inTransaction(ctx context.Context, work func(pgx.Tx) error) error {
	return s.db.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		began := time.Now()
		defer func() { s.metrics.held.Observe(time.Since(began).Seconds()) }()
		return pgx.BeginFunc(ctx, conn, work)
	})
}

// reject stores the result invalid for tickets that Postgres refuses.
func (s *settler) reject(ctx context.Context, sale int64, tickets []order.Ticket) (results []order.Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	err = s.inTransaction(ctx, func(tx pgx.Tx) error {
		// While this transaction has the lock, no other owner can place the same tickets.
		if _, err := goods.Lock(ctx, tx, sale); err != nil && !errors.Is(err, goods.ErrNoSale) {
			return err
		}
		results, err = s.orders.Reject(ctx, tx, sale, tickets)
		return err
	})
	return results, err
}

// settleUntilDone settles a batch and passes the results on. After a fault it settles the same batch again, for as long as
// needed: no ticket is refused because of an outage. A batch with a poisoned ticket is halved until that ticket is alone. A
// batch that was too slow three times is halved as well. Only the end of ctx stops it early; undecided tickets then stay in
// the journal.
func (s *settler) settleUntilDone(ctx context.Context, sale int64, batch []order.Ticket, sent func()) {
	slow := 0
	for wait := retryFirst; ; wait = min(2*wait, retryLast) {
		results, err := s.settle(ctx, sale, batch, nil, sent)
		if isSlow(err) {
			slow++
		}
		if len(batch) > 1 && (isPoison(err) || slow == slowTries) {
			s.settleUntilDone(ctx, sale, batch[:len(batch)/2], sent)
			s.settleUntilDone(ctx, sale, batch[len(batch)/2:], sent)
			return
		}
		if isPoison(err) {
			s.metrics.log.Error("a ticket can't be settled", "sale", sale, "ticket", batch[0].ID, "user", batch[0].UserID, "err", err)
			sent()
			results, err = s.reject(ctx, sale, batch)
			if isPoison(err) { // its refusal cannot be stored either, but it must not hold up the queue of its sale
				results, err = []order.Result{{Ticket: batch[0].ID, UserID: batch[0].UserID, Outcome: order.Invalid}}, nil
			}
			if err == nil {
				s.deadLetter(ctx, sale, batch[0])
			}
		}
		if err == nil {
			s.finish(ctx, sale, results)
			return
		}
		s.metrics.retries.Inc()
		s.metrics.logFault("settle", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait/2 + rand.N(wait)):
		}
	}
}

// rejectExhausted rejects a ticket that has had too many owners. If Postgres is away, the next claim tries again.
func (s *settler) rejectExhausted(ctx context.Context, sale int64, t order.Ticket) {
	results, err := s.reject(ctx, sale, []order.Ticket{t})
	if err != nil {
		s.metrics.logFault("reject an exhausted ticket", err)
		return
	}
	s.metrics.log.Error("a ticket has outlived its owners", "sale", sale, "ticket", t.ID, "user", t.UserID, "deliveries", maxDeliveries)
	s.deadLetter(ctx, sale, t)
	s.finish(ctx, sale, results)
}

// finish passes committed results on, first to the gate and then to the subscribers.
func (s *settler) finish(ctx context.Context, sale int64, results []order.Result) {
	if !s.cfg.gateOff() && failpoint.Hit(failpoint.F5) == nil {
		s.acks.ackOrKeep(ctx, sale, results)
	}
	s.subscribers.publish(sale, results)
}

func (s *settler) deadLetter(ctx context.Context, sale int64, t order.Ticket) {
	s.metrics.countDead(s.gate.DeadLetter(ctx, sale, t))
}
