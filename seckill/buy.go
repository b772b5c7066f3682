package seckill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"miaosha/goods"
)

const (
	soldOutMark = 250 * time.Millisecond // how long a sold-out answer is repeated without asking
	waitLimit   = 3 * time.Second        // a click or a question that has waited so long is not worked on any more
)

// click is one place in a lane: a user's, however many of his requests wait for its answer.
type click struct {
	asked
	at     time.Time
	done   chan struct{} // closed when there is an answer
	answer Bought
}

func newClick(user int64, at time.Time) *click {
	return &click{asked: asked{user: user, nonce: uuid.NewString()}, at: at, done: make(chan struct{})}
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
// Of a user one click on a sale is in flight in this process: who clicks again meanwhile hears the answer of that one.
func (e *Engine) Buy(ctx context.Context, sale, user int64) (Bought, error) {
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

// click waits for the answer to the user's click in the sale's lane, after putting one there if there is none.
func (e *Engine) click(ctx context.Context, sale, user int64) (Bought, error) {
	l, err := e.lanes.of(ctx, sale)
	if err != nil {
		return Bought{}, err
	}
	c, err := l.click(user)
	if err != nil {
		return Bought{}, e.shed("lane")
	}
	select {
	case <-c.done:
		return c.answer, c.answer.err
	case <-l.ended:
		// The lane ended between our look and our click. What it answered before that stands.
		select {
		case <-c.done:
			return c.answer, c.answer.err
		default:
			return Bought{}, errLaneEnded
		}
	case <-ctx.Done():
		return Bought{}, ErrBusy
	}
}
