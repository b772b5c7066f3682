package seckill

import (
	"github.com/google/uuid"
	"github.com/maypok86/otter/v2"

	"miaosha/order"
)

const ordersKnown = 100_000 // owners this process remembers; about 15 MB

// orderCache remembers the orders that this process has settled or read. An order never changes, so the reply to its
// owner needs no store. byBuyer is an otter.Cache: see goods.Cache for why the type is not named.
type orderCache struct {
	byBuyer interface {
		GetIfPresent(order.Buyer) (uuid.UUID, bool)
		Set(order.Buyer, uuid.UUID) (uuid.UUID, bool)
	}
}

func newOrderCache() orderCache {
	return orderCache{otter.Must(&otter.Options[order.Buyer, uuid.UUID]{MaximumSize: ordersKnown})}
}

func (c orderCache) remember(sale int64, results ...order.Result) {
	for _, r := range results {
		if r.OrderID != uuid.Nil {
			c.byBuyer.Set(order.Buyer{SaleID: sale, UserID: r.UserID}, r.OrderID)
		}
	}
}
