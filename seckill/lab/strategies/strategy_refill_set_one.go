package strategies

import (
	"context"

	"miaosha/seckill/lab"
)

// refillSetOne sets the pre-stock to 1 when an order fails: one unit came back, so let one buyer in.
// It repairs what refillIncr does not, since it does not matter how far below zero the counter is.
//
// Wrong: it leaves units unsold, in two ways. If two orders fail before the next buyer comes, two units
// are back, and the second SET writes the same 1 again. And if an order fails early, while the
// counter is at 12, SET takes the other eleven units out of the sale.
//
// It also writes a number without a look at the number that it replaces. That is readThenWrite without
// the read. What a counter should be cannot be known from one failed order: see refillCompare.
//
// In the field: the second of the three refills, chosen by those who have seen the first one fail.
// The rest of the purchase is in strategy_refill_incr.go.
type refillSetOne struct{ refill }

func (s refillSetOne) Buy(ctx context.Context, user int64) (bool, error) {
	return s.buy(ctx, user, func() error {
		//lab:here
		return s.Redis.Set(ctx, s.Key("stock"), 1, lab.KeyLife).Err()
		//lab:end
	})
}
