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
	"miaosha/seckill/news"
)

const (
	settleLimit = 1500 * time.Millisecond // for one settle transaction
	settleBatch = 2000                    // tickets in it at most, and the rest of the last one's journal entry
	retryFirst  = 20 * time.Millisecond
	retryLast   = time.Second
	slowTries   = 3

	aloneOwners = 32 // after this many owners of an entry, each of its tickets is settled alone
	maxOwners   = 64 // a ticket with more owners than this, and without a result, is probably why they died
)

// settler decides batches of tickets in Postgres, and passes the results on.
type settler struct {
	cfg         Config
	db          *pgxpool.Pool
	orders      *order.Store
	gate        *gate.Gate
	acks        *acks
	subscribers *news.Subscribers
	metrics     *metrics
	trace       Trace
	locked      goods.LockedSales // for single tickets: batches have the queue
}

// lockedCheck decides in a settle transaction whether anything may be placed.
type lockedCheck func(sale goods.Locked) error

// settle decides a batch of tickets of one sale in one transaction: it locks the sale's row, places the orders, and
// stores a result for each ticket of a gate that got none. After an error either nothing is decided, or everything is
// and only the reply was lost. Settling the same batch again finds out which.
//
// A gated ticket was granted inside the window, so state and window are not checked again, except that a closed sale
// places nothing. Without a gate, check does it, under the row's lock: nothing is placed after its error, and a unit
// that is sold counts as a bypass.
//
// It calls sent before it sends COMMIT: until then it has decided nothing. It waits for the row's lock for wait at
// most, then the error is goods.ErrLocked.
func (s *settler) settle(
	ctx context.Context, sale int64, tickets []order.Ticket, wait time.Duration, check lockedCheck, sent func(),
) (results []order.Result, err error) {
	if s.cfg.SettlePause > 0 {
		select {
		case <-time.After(s.cfg.SettlePause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	if err := failpoint.Hit(failpoint.BeforeBegin); err != nil {
		return nil, err
	}
	began, lockedAt := time.Now(), time.Time{}
	err = s.inTransaction(ctx, wait, func(tx pgx.Tx) error {
		locked, err := goods.Lock(ctx, tx, sale)
		if err != nil {
			return err
		}
		lockedAt = time.Now()
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
		if check != nil && slices.ContainsFunc(results,
			func(r order.Result) bool { return r.Outcome == order.Ordered }) {
			if err := goods.CountBypass(ctx, tx, sale); err != nil {
				return err
			}
		}
		sent()
		return failpoint.Hit(failpoint.BeforeCommit)
	})
	if err != nil {
		return nil, err
	}
	s.metrics.settle.Observe(time.Since(began).Seconds())
	s.trace.Settle(sale, tickets, results, began, lockedAt)
	s.metrics.settling.Observe(float64(len(tickets)))
	s.metrics.countSettled(results)
	return results, nil
}

// inTransaction does work in a transaction, and measures how long it holds its connection.
func (s *settler) inTransaction(ctx context.Context, wait time.Duration, work func(pgx.Tx) error) error {
	return s.db.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		began := time.Now()
		defer func() { s.metrics.held.Observe(time.Since(began).Seconds()) }()
		return goods.InTx(ctx, conn, wait, work)
	})
}

// rejectOne stores the result invalid for a ticket, and returns it, or the result that the ticket has already.
func (s *settler) rejectOne(ctx context.Context, sale int64, t order.Ticket) (result order.Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	result = order.Result{Ticket: t.ID, UserID: t.UserID, Outcome: order.Invalid}
	err = s.locked.Try(ctx, sale, func(wait time.Duration) error {
		return s.inTransaction(ctx, wait, func(tx pgx.Tx) error {
			// While this transaction has the lock, no other owner can place the same ticket.
			if _, err := goods.Lock(ctx, tx, sale); err != nil && !errors.Is(err, goods.ErrNoSale) {
				return err
			}
			results, err := s.orders.Reject(ctx, tx, sale, []order.Ticket{t})
			if len(results) == 1 {
				result = results[0]
			}
			return err
		})
	})
	if isPoison(err) { // its refusal cannot be stored either, but it must not hold up the queue of its sale
		err = nil
	}
	return result, err
}

// settleUntilDone settles a batch of whole journal entries and passes the results on. An entry leaves the journal
// whole, so a batch that must be divided is divided between two entries, and the results of a single one are passed on
// together. The end of ctx stops it early, and goods.ErrLocked if the row's lock does not come in wait. It returns how
// many of the first tickets are settled; the others stay in the journal.
func (s *settler) settleUntilDone(
	ctx context.Context, sale int64, batch []order.Ticket, wait time.Duration, sent func(),
) (n int, err error) {
	results, err := s.decide(ctx, sale, batch, wait, sent)
	if errors.Is(err, errDivide) {
		if half := betweenEntries(batch); half > 0 {
			if n, err = s.settleUntilDone(ctx, sale, batch[:half], wait, sent); err != nil {
				return n, err
			}
			n, err = s.settleUntilDone(ctx, sale, batch[half:], wait, sent)
			return half + n, err
		}
		results, err = s.decideHalves(ctx, sale, batch, wait, sent)
	}
	if err != nil {
		return 0, err
	}
	s.finish(ctx, sale, results)
	return len(batch), nil
}

// betweenEntries returns the place between two entries of a batch that is nearest to its middle, or 0 if it is one
// entry.
func betweenEntries(batch []order.Ticket) int {
	for low, high := len(batch)/2, len(batch)/2+1; low > 0 || high < len(batch); low, high = low-1, high+1 {
		if low > 0 && !gate.SameEntry(batch[low-1], batch[low]) {
			return low
		}
		if high < len(batch) && !gate.SameEntry(batch[high-1], batch[high]) {
			return high
		}
	}
	return 0
}

// decideHalves decides the tickets of one entry in two parts, and each in smaller ones if needed.
func (s *settler) decideHalves(
	ctx context.Context, sale int64, entry []order.Ticket, wait time.Duration, sent func(),
) (results []order.Result, err error) {
	for _, half := range [][]order.Ticket{entry[:len(entry)/2], entry[len(entry)/2:]} {
		decided, err := s.decide(ctx, sale, half, wait, sent)
		if errors.Is(err, errDivide) {
			decided, err = s.decideHalves(ctx, sale, half, wait, sent)
		}
		if err != nil {
			return nil, err
		}
		results = append(results, decided...)
	}
	return results, nil
}

var errDivide = errors.New("settle in smaller batches")

// decide settles tickets until they have results. After a fault it settles the same tickets again, for as long as
// needed: no ticket is refused because of an outage. It returns errDivide if one of several tickets is poisoned, or if
// they were too slow three times; goods.ErrLocked; else only the error of ctx.
func (s *settler) decide(
	ctx context.Context, sale int64, batch []order.Ticket, wait time.Duration, sent func(),
) ([]order.Result, error) {
	slow := 0
	for pause := retryFirst; ; pause = min(2*pause, retryLast) {
		results, err := s.settle(ctx, sale, batch, wait, nil, sent)
		if isSlow(err) {
			slow++
		}
		if len(batch) > 1 && (isPoison(err) || slow == slowTries) {
			return nil, errDivide
		}
		if isPoison(err) {
			sent()
			results, err = s.rejectPoisoned(ctx, sale, batch[0], err)
		}
		if err == nil {
			return results, nil
		}
		misses := errors.Is(err, goods.ErrLocked)
		if !misses || wait != goods.LockWait { // to miss the lock once is nothing
			s.metrics.retries.Inc()
			s.metrics.logFault("settle", err)
		}
		if misses {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// settleAlone settles one ticket in a transaction of its own. After an error it may be tried again.
func (s *settler) settleAlone(ctx context.Context, sale int64, t order.Ticket) (results []order.Result, err error) {
	err = s.locked.Try(ctx, sale, func(wait time.Duration) error {
		results, err = s.settle(ctx, sale, []order.Ticket{t}, wait, nil, func() {})
		return err
	})
	if isPoison(err) {
		return s.rejectPoisoned(ctx, sale, t, err)
	}
	return results, err
}

// rejectPoisoned rejects a ticket that Postgres refuses.
func (s *settler) rejectPoisoned(ctx context.Context, sale int64, t order.Ticket, why error) ([]order.Result, error) {
	s.metrics.log.Error("a ticket can't be settled", "sale", sale, "ticket", t.ID, "user", t.UserID, "err", why)
	rejected, err := s.rejectOne(ctx, sale, t)
	if err != nil {
		return nil, err
	}
	s.deadLetter(ctx, sale, t)
	return []order.Result{rejected}, nil
}

// rejectExhausted rejects those tickets of an entry that have no result. If Postgres is down, the next look tries
// again.
func (s *settler) rejectExhausted(ctx context.Context, sale int64, entry []order.Ticket) {
	var results []order.Result
	for _, t := range entry {
		r, err := s.rejectOne(ctx, sale, t)
		if err != nil {
			s.metrics.logFault("reject an exhausted ticket", err)
			return
		}
		if results = append(results, r); r.Outcome == order.Invalid {
			s.metrics.log.Error("a ticket has outlived its owners", "sale", sale, "ticket", t.ID, "user", t.UserID,
				"owners", maxOwners)
			s.deadLetter(ctx, sale, t)
		}
	}
	s.finish(ctx, sale, results)
}

// finish passes committed results on, first to the gate and then to the subscribers. If the process dies before, the
// journal still has the entry: another process settles it again and finds these results.
func (s *settler) finish(ctx context.Context, sale int64, results []order.Result) {
	if !s.cfg.gateOff() && failpoint.Hit(failpoint.BeforeAck) == nil {
		s.acks.ackOrKeep(ctx, sale, results)
	}
	s.trace.Tell(sale, results, s.subscribers.Publish(sale, results))
}

func (s *settler) deadLetter(ctx context.Context, sale int64, t order.Ticket) {
	s.metrics.countDead(s.gate.DeadLetter(ctx, sale, t))
}
