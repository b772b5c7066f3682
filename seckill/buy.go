package seckill

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"miaosha/goods"
)

const (
	soldOutMark = 250 * time.Millisecond // how long a sold-out answer is repeated without asking
	waitLimit   = 3 * time.Second        // a click or a question that has waited so long is not worked on any more
)

// click is one buy request that waits for its answer.
type click struct {
	asked
	at     time.Time
	answer chan Bought // takes one
}

// Bought is the answer to a buy: a queued ticket, or where there is no gate what became of it, or an error.
type Bought struct {
	Ticket string
	Status Status
	err    error
}

// Enter takes one of the places for buy requests in flight, and must be followed by Leave if it gives no error. It asks
// nobody: goods.ErrSoldOut if the sale was sold out a moment ago, ErrBusy if all places are taken or the sale's queue is
// as long as it may be.
func (e *Engine) Enter(sale int64) error {
	if l, ok := e.lanes.bySale.Load(sale); ok {
		l := l.(*lane)
		if time.Now().UnixNano() < l.soldOut.Load() {
			return goods.ErrSoldOut
		}
		if l.full() {
			return e.shed("lane")
		}
	}
	if e.pool.full() {
		return e.shed("queue")
	}
	if e.inFlight.Add(1) > int64(e.cfg.MaxInFlight) {
		e.inFlight.Add(-1)
		return e.shed("in flight")
	}
	return nil
}

// Leave gives the place of an Enter back.
func (e *Engine) Leave() { e.inFlight.Add(-1) }

// Buy asks for a unit of a sale for a user. Accepted is not bought: a Status of Queued means that the ticket is in the
// journal and will get one final result. Refusals: goods.ErrNoSale, goods.NotStartedError, goods.ErrEnded,
// goods.ErrPaused, goods.ErrSoldOut, ErrBusy.
//
// Of a user one buy is in flight: who clicks again meanwhile gets the answer of that one, and no place of his own.
func (e *Engine) Buy(ctx context.Context, sale, user int64) (Bought, error) {
	who := strconv.FormatInt(sale, 10) + " " + strconv.FormatInt(user, 10)
	b, err, _ := e.buying.Do(who, func() (any, error) { return e.buy(ctx, sale, user) })
	return b.(Bought), err
}

func (e *Engine) buy(ctx context.Context, sale, user int64) (Bought, error) {
	if _, open := e.lanes.bySale.Load(sale); !open { // a lane is for a sale that exists
		if _, _, err := e.cache.Sale(ctx, sale); err != nil {
			return Bought{}, err
		}
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
	if l.full() {
		return Bought{}, e.shed("lane")
	}
	c := &click{asked: asked{user: user, nonce: uuid.NewString()}, at: time.Now(), answer: make(chan Bought, 1)}
	select {
	case l.in <- c:
	default:
		return Bought{}, e.shed("lane")
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
