package bench

import (
	"context"
	"fmt"
	"math"
	"time"
)

// polls lets every buyer buy first. Then all request their result again and again.
func polls(ctx context.Context, d *driver, buyers []Buyer) ([]Turn, error) {
	quiet := *d
	quiet.Poll = 100
	first, err := quiet.turn(ctx, plan{name: "buy first", buyers: buyers, arrivals: len(buyers), duration: 100 * time.Second, retry: true, fixed: true,
		conns: min(64, d.Conns)})
	if err == nil && first.Accepted < int64(len(buyers)) {
		err = fmt.Errorf("--shape polls: %d of %d buyers were accepted, and all need an order; use a sale with enough stock", first.Accepted, len(buyers))
	}
	if err != nil {
		return []Turn{first}, err
	}
	quiet.Pay = 0
	t, err := quiet.turn(ctx, plan{name: "polls", buyers: buyers, arrivals: math.MaxInt, duration: d.duration(), conns: d.Conns, firstStep: stepPoll})
	return []Turn{first, t}, err
}
