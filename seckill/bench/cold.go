package bench

// coldRate is how many buyers a second come to all the other sales together, and coldConns over how many connections.
const (
	coldRate  = 100
	coldConns = 16
)

// ColdBuyers is how many buyers the other sales need for a turn.
func ColdBuyers(seconds int) int { return coldRate * seconds }

// Cold is what the buyers of the other sales were told.
type Cold struct {
	Sales int `json:"sales"`
	counts
	RefusedBy map[string]int64 `json:"refused_by"`
	FailedBy  map[string]int64 `json:"failed_by"`
	Accept    Latency          `json:"accept"`
}

// coldTurn is what goes on beside a turn's own plan: a few buyers to each of many sales.
func (d *driver) coldTurn(p plan) *turn {
	quiet := *d
	quiet.Poll, quiet.Pay = 0, 0
	return quiet.newTurn(plan{name: "cold", buyers: d.Cold, arrivals: len(d.Cold), when: atRate(coldRate), coming: p.coming, conns: coldConns})
}

// sales counts those that somebody was to come to.
func (t *turn) sales() int {
	ids := map[int64]bool{}
	for _, b := range t.plan.buyers {
		ids[b.Sale] = true
	}
	return len(ids)
}
