package bench

import (
	"context"
	"fmt"
	"math"
	"time"
)

// polls: everybody buys first; then all ask for their result, again and again.
func polls(ctx context.Context, d *driver, buyers []Buyer) ([]Turn, error) {
	quiet := *d
	quiet.Poll = 100
	first, err := quiet.turn(ctx, plan{name: "buy first", buyers: buyers, arrivals: len(buyers), coming: 100 * time.Second, again: true, all: true,
		conns: min(64, d.Conns)})
	if err == nil && first.Accepted < int64(len(buyers)) {
		err = fmt.Errorf("polls: %d of %d buyers got a place, and all need an order: a sale with stock for them", first.Accepted, len(buyers))
	}
	if err != nil {
		return []Turn{first}, err
	}
	quiet.Pay = 0
	t, err := quiet.turn(ctx, plan{name: "polls", buyers: buyers, arrivals: math.MaxInt, coming: d.coming(), conns: d.Conns, first: stepPoll})
	return []Turn{first, t}, err
}
