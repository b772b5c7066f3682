package seckill

import (
	"time"

	"miaosha/goods"
	"miaosha/seckill/gate"
	"miaosha/seckill/watch"
)

const quietFor = 3 * time.Second // so long after the last bypass the mark is taken off a sale

// observation is one sale as a tick of reconcile sees it. The gate was read before the sale's row.
type observation struct {
	sale     goods.SaleState
	gate     gate.State
	gateRead bool // Redis replied, to this process or to another one
	own      bool // this process has read it in this tick
	facts    watch.SaleFacts
	at       time.Time
}

// repair names one repair of a gate.
type repair string

const (
	rebuildGate      repair = "rebuild the gate"
	fixStock         repair = "fix the stock"
	recoverRollback  repair = "recover a gate that was rolled back"
	seedDirectOwners repair = "seed the owners that bought without the gate"
	clearBypass      repair = "take the mark off the sale"
)

// diagnose returns the repairs that an observation calls for, in the order in which they are made:
//
//	Redis did not reply                        nothing
//	the gate is outdated                       rebuild it from Postgres
//	the sale is not near                       nothing more
//	the gate is missing                        rebuild it from Postgres
//	its stock has drifted                      fix it by compare-and-set
//	Redis came back with older data            settle the whole journal again, then seed all owners
//	the gate knows fewer bypasses than the row seed the owners that bought without it
//	the sale is marked, but quiet for 3 s      take the mark off
//
// A stock is compared by the process that has read the gate just now: beside a row that is newer, an older one looks
// wrong. Some tickets in flight may already be settled. So a stock has drifted only if it is above sales.stock, or
// below sales.stock less the tickets in flight.
func diagnose(o observation) (repairs []repair) {
	if !o.gateRead {
		return nil
	}
	if o.gate.Epoch < o.sale.Epoch && (o.sale.Near || o.gate.Epoch != 0) {
		return []repair{rebuildGate}
	}
	if !o.sale.Near {
		return nil
	}
	if o.own && o.drift() > 0 {
		repairs = append(repairs, fixStock)
	}
	switch {
	case o.facts.RolledBack:
		repairs = append(repairs, recoverRollback)
	case o.gate.Known < o.sale.Bypasses:
		repairs = append(repairs, seedDirectOwners)
	case o.sale.Bypassed() && o.at.Sub(o.facts.QuietSince) >= quietFor:
		repairs = append(repairs, clearBypass)
	}
	return repairs
}

// drift returns by how many units the gate's stock has drifted.
func (o observation) drift() int {
	return max(0, o.gate.Stock-o.sale.Stock, o.sale.Stock-o.gate.InFlight-o.gate.Stock)
}
