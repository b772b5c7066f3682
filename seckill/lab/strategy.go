package lab

import "context"

// Strategy sells units on one node. Strategies embed *node, which implements everything but Buy for
// a strategy whose stock is in Postgres.
type Strategy interface {
	// Prepare creates what the strategy needs, once, before the first click.
	Prepare(ctx context.Context) error
	// Ready waits until this node can sell.
	Ready(ctx context.Context) error
	// Run does the background work until ctx ends, and then finishes the work it has accepted.
	Run(ctx context.Context) error
	// Buy handles one click: it takes a unit for the user and writes the order. It returns the reply to
	// the buyer, yes or no. After an error the buyer knows nothing and clicks again.
	Buy(ctx context.Context, user int64) (bool, error)
	// Left returns how many units the strategy believes are left.
	Left(ctx context.Context) (int, error)
}

// The ways in which a strategy goes wrong.
const (
	Oversold   = "oversold"
	Unsold     = "unsold"
	Duplicates = "duplicates"
	Lost       = "lost"
)

// Spec describes a strategy.
type Spec struct {
	Name  string
	Store string // where its data is: postgres, redis or both
	Wrong string // how it goes wrong; "" for a right strategy
	Needs string // the fault that is needed to show it; "" if the crowd is enough
	Open  func(*Node) Strategy

	Breaks string // the fault under which a right strategy goes wrong; "" for most
	Alone  bool   // a wrong strategy that is right in a single process that lives
	Schema bool   // it uses the shop's own tables
}

// Lucky reports whether an exact outcome under this plan is luck: another crowd, fault or number of nodes shows that
// the strategy is wrong.
func (s *Spec) Lucky(p Plan) bool {
	return s.Wrong != "" && !(s.Alone && p.Nodes == 1 && !p.Has(Kill)) || s.Breaks != "" && p.Has(s.Breaks)
}
