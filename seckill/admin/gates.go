package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"miaosha/goods"
	"miaosha/seckill/gate"
)

// Gate says whether the gate of a sale has followed the sale's last change.
type Gate struct {
	State string     `json:"state"`          // see below
	Units int        `json:"units"`          // in the gate, if it is ready
	From  *time.Time `json:"from,omitempty"` // later: when it is set up
}

// States of a Gate.
const (
	GateReady     = "ready"     // it is as the sale's row
	GateFollowing = "following" // it is not yet; or no shop with a gate runs
	GateLater     = "later"     // it is set up ten minutes before the sale opens
	// goods.MostNear other sales are open or about to open: it is kept up when some have ended
	GateBeyond  = "beyond"
	GateNone    = "none"    // the sale needs none: a draft, or over
	GateOff     = "off"     // the shop sells without gates
	GateUnknown = "unknown" // a store does not answer
)

// Gate returns the gate of a sale. Without Redis it is unknown.
func (s *Store) Gate(ctx context.Context, id int64) Gate {
	if s.gates == nil {
		return Gate{State: GateOff}
	}
	g, _, err := ReadGate(ctx, s.gates, goods.New(s.db), id)
	if err != nil {
		return Gate{State: GateUnknown}
	}
	return g
}

// ReadGate returns the gate of a sale and the sale's row, which is read after it. It returns goods.ErrNoSale.
func ReadGate(
	ctx context.Context, rdb redis.UniversalClient, sales *goods.Store, id int64,
) (Gate, goods.SaleState, error) {
	gates, err := gate.States(ctx, rdb, []int64{id})
	if err != nil {
		return Gate{}, goods.SaleState{}, fmt.Errorf("read the gate of sale %d: %w", id, err)
	}
	sale, beyond, err := sales.StateOf(ctx, id)
	if err != nil {
		return Gate{}, goods.SaleState{}, err
	}
	g := gates[id]
	switch {
	case beyond:
		return Gate{State: GateBeyond}, sale, nil
	case g.Epoch >= sale.Epoch:
		return Gate{State: GateReady, Units: g.Stock}, sale, nil
	case g.Epoch == 0 && !sale.Near && sale.State != goods.Draft && sale.State != goods.Closed &&
		sale.StartsAt.After(time.Now()):
		from := goods.GateOpens(sale.StartsAt)
		return Gate{State: GateLater, From: &from}, sale, nil
	case g.Epoch == 0 && !sale.Near:
		return Gate{State: GateNone}, sale, nil
	}
	return Gate{State: GateFollowing}, sale, nil
}
