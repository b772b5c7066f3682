package seckill

import (
	"context"
	"errors"
	"fmt"
)

var errLaneEnded = fmt.Errorf("%w: the lane has ended", ErrBusy)

// buy waits for the reply to the user's click in the sale's lane.
func (ls *lanes) buy(ctx context.Context, sale, user int64) (Bought, error) {
	b, err := ls.wait(ctx, sale, user)
	if errors.Is(err, errLaneEnded) { // the lane ended at the moment of the click
		b, err = ls.wait(ctx, sale, user)
	}
	return b, err
}

// wait waits for the reply to the user's click in the lane, and puts a click there if there is none.
func (ls *lanes) wait(ctx context.Context, sale, user int64) (Bought, error) {
	l, err := ls.of(ctx, sale)
	if err != nil {
		return Bought{}, err
	}
	c, err := l.click(user)
	if err != nil {
		return Bought{}, ls.metrics.shedFor("lane")
	}
	select {
	case <-c.done:
		return c.reply, c.reply.err
	case <-l.ended:
		// The lane ended between of and click. A reply that it sent before is valid.
		select {
		case <-c.done:
			return c.reply, c.reply.err
		default:
			return Bought{}, errLaneEnded
		}
	case <-ctx.Done():
		return Bought{}, ErrBusy
	}
}
