package bench

import (
	"context"
	"fmt"
	"math"
	"time"
)

// polls lets every buyer buy first. Then all request their result again and again. Buyers of many sales buy nothing:
// the memory of the shop knows no result of theirs, so it asks its stores.
func polls(ctx context.Context, d *driver, buyers []Buyer) ([]Turn, error) {
	quiet := *d
	quiet.Poll, quiet.Pay = 100, 0
	again := plan{name: "polls", buyers: buyers, arrivals: math.MaxInt, duration: d.duration(), conns: d.Conns,
		firstStep: stepPoll}
	if d.Spread {
		again.strangers = true
		return single(quiet.turn(ctx, again))
	}
	quiet.Pay = d.Pay
	first, err := quiet.turn(ctx, plan{name: "buy first", buyers: buyers, arrivals: len(buyers),
		duration: 100 * time.Second, retry: true, fixed: true,
		conns: min(64, d.Conns)})
	if err == nil && first.Accepted < int64(len(buyers)) {
		err = fmt.Errorf(
			"--shape polls: %d of %d buyers were accepted, and all need an order; use a sale with enough stock",
			first.Accepted, len(buyers))
	}
	if err != nil {
		return []Turn{first}, err
	}
	quiet.Pay = 0
	t, err := quiet.turn(ctx, again)
	return []Turn{first, t}, err
}
