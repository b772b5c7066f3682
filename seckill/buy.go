package seckill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// soldOutMark is how long a sold-out answer is repeated without asking.
const soldOutMark = 250 * time.Millisecond

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
	e.shed("in flight")
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
