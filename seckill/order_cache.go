package seckill

import (
	"github.com/google/uuid"
	"github.com/maypok86/otter/v2"

	"miaosha/order"
)

const ordersKnown = 100_000 // owners this process remembers; about 15 MB

// orderCache remembers the orders that this process has settled or read. An order never changes, so the reply to its owner
// needs no store. byBuyer is an otter.Cache: see goods.Cache for why the type is not named.
type orderCache struct {
	byBuyer interface {
		GetIfPresent(saleUser) (uuid.UUID, bool)
		Set(saleUser, uuid.UUID) (uuid.UUID, bool)
	}
}

func newOrderCache() orderCache {
	return orderCache{otter.Must(&otter.Options[saleUser, uuid.UUID]{MaximumSize: ordersKnown})}
}

func (c orderCache) remember(sale int64, results ...order.Result) {
	for _, r := range results {
		if r.OrderID != uuid.Nil {
			c.byBuyer.Set(saleUser{sale, r.UserID}, r.OrderID)
		}
	}
}
