package bench

// All other sales together get coldRate buyers a second, over coldConns connections.
const (
	coldRate  = 100
	coldConns = 16
)

// ColdBuyers returns how many buyers the other sales need for a turn.
func ColdBuyers(seconds int) int { return coldRate * seconds }

// Cold is the result of the other sales: open sales that get a few buyers each.
type Cold struct {
	Sales int `json:"sales"`
	Counts
	RefusedBy map[string]int64 `json:"refused_by"`
	FailedBy  map[string]int64 `json:"failed_by"`
	Accept    Latency          `json:"accept"`
}

// coldTurn returns the turn of the other sales, which runs beside the one of plan p.
func (d *driver) coldTurn(p plan) *turn {
	quiet := *d
	quiet.Poll, quiet.Pay = 0, 0
	return quiet.newTurn(plan{name: "cold", buyers: d.Cold, arrivals: len(d.Cold), when: atRate(coldRate),
		duration: p.duration, conns: coldConns})
}

// saleCount returns how many sales the buyers of the turn belong to.
func (t *turn) saleCount() int {
	ids := map[int64]bool{}
	for _, b := range t.plan.buyers {
		ids[b.Sale] = true
	}
	return len(ids)
}
