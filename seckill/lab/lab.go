// Package lab sells one unit of stock in every way that the courses teach, right ones and wrong ones, under the same crowd
// on the same machine, and counts what came of it.
//
// Each way is a Strategy in a file of its own, strategy_*.go, which is written to be read. What is around them is the same
// for all: a run gives a way a schema and Redis keys of its own, opens nodes (the processes of a shop, each with its own
// connections), lets the crowd click, strikes with the faults of the plan, and then counts orders in Postgres. No outcome is
// staged, but moments are: every way pauses for a millisecond where a shop would look up prices, a double click comes at once
// and at two nodes, the holder of redis-lock sometimes pauses for longer than the lock lives, and a kill strikes the node that
// has just said yes.
//
// The lab never touches the shop's tables, and the shop never imports it. Its faults act on its own connections alone.
package lab

import (
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

// Stores is where the lab works. It opens connections of its own to both.
type Stores struct {
	DatabaseURL string
	Redis       redis.UniversalClient // tells where Redis is; a Client or a ClusterClient
	Schema      string                // schema.sql's text, for the way shop
}

// Faults of a Plan.
const (
	Kill         = "kill"          // a node dies in the middle, with all it remembers; another is opened in its place
	RedisPause   = "redis-pause"   // no reply comes from Redis in the first 300 ms
	SlowPostgres = "slow-postgres" // each statement takes up to 5 ms more
)

// Faults lists them.
func Faults() []string { return []string{Kill, RedisPause, SlowPostgres} }

// Bounds of a Plan.
const (
	MaxBuyers  = 5000
	MaxStock   = 1000
	MaxSeconds = 30
	maxNodes   = 8
)

// Plan is one experiment: the same crowd for each of the strategies, one after the other.
type Plan struct {
	Strategies   []string `json:"strategies"` // names of the ladder; none: all of them
	Buyers       int      `json:"buyers"`
	Stock        int      `json:"stock"`
	DoubleClicks int      `json:"double_clicks"` // percent of the buyers who press twice
	Faults       []string `json:"faults"`
	Seed         uint64   `json:"seed"`
	Seconds      int      `json:"seconds"` // limit of one strategy's run
	Nodes        int      `json:"nodes"`   // processes of the shop; 0: 2
}

// InvalidError names the field of a Plan that can't be, as JSON has it.
type InvalidError struct{ Field, Reason string }

func (e InvalidError) Error() string { return e.Field + ": " + e.Reason }

// Validate gives an InvalidError for a plan that can't be.
func (p Plan) Validate() error {
	between := func(field string, n, lo, hi int) error {
		if n < lo || n > hi {
			return InvalidError{field, fmt.Sprintf("%d to %d", lo, hi)}
		}
		return nil
	}
	for i, name := range p.Strategies {
		if wayOf(name) == nil {
			return InvalidError{"strategies", fmt.Sprintf("there is no %q", name)}
		}
		if slices.Contains(p.Strategies[:i], name) {
			return InvalidError{"strategies", fmt.Sprintf("%q comes twice", name)}
		}
	}
	for i, name := range p.Faults {
		if !slices.Contains(Faults(), name) {
			return InvalidError{"faults", fmt.Sprintf("there is no %q", name)}
		}
		if slices.Contains(p.Faults[:i], name) {
			return InvalidError{"faults", fmt.Sprintf("%q comes twice", name)}
		}
	}
	for _, err := range []error{between("buyers", p.Buyers, 1, MaxBuyers), between("stock", p.Stock, 1, MaxStock),
		between("double_clicks", p.DoubleClicks, 0, 100), between("seconds", p.Seconds, 1, MaxSeconds), between("nodes", p.Nodes, 0, maxNodes)} {
		if err != nil {
			return err
		}
	}
	return nil
}

func (p Plan) has(fault string) bool { return slices.Contains(p.Faults, fault) }

// Result is what came of one strategy.
type Result struct {
	Strategy      string  `json:"strategy"`
	Stock         int     `json:"stock"`
	Buyers        int     `json:"buyers"`
	Sold          int     `json:"sold"`            // orders in the database
	Oversold      int     `json:"oversold"`        // orders beyond the stock
	Unsold        int     `json:"unsold"`          // units without an order though a buyer went without
	Duplicates    int     `json:"duplicates"`      // orders beyond a user's first
	Lost          int     `json:"lost"`            // buyers who were told yes and have no order in the end
	Seconds       float64 `json:"seconds"`         // from the first click to the last answer
	PerSecond     float64 `json:"per_second"`      // clicks answered
	P99           float64 `json:"p99_ms"`          // of the time a click waits for its answer; all click at once
	SQLPerOrder   float64 `json:"sql_per_order"`   // statements of the whole crowd, refusals included, by orders
	RedisPerOrder float64 `json:"redis_per_order"` // round trips, in the same way
	Right         bool    `json:"right"`           // nothing oversold, unsold, duplicate or lost
	Error         string  `json:"error"`           // why the run could not be finished; "" if it was
}

func (r Result) exact() bool {
	return r.Oversold == 0 && r.Unsold == 0 && r.Duplicates == 0 && r.Lost == 0 && r.Error == ""
}

// Progress is how far a strategy's run has come.
type Progress struct {
	Strategy string  `json:"strategy"`
	Left     int     `json:"left"` // units, as the way's own stock tells
	Sold     int     `json:"sold"`
	Oversold int     `json:"oversold"`
	Asked    int     `json:"asked"` // buyers who have all their answers
	Buyers   int     `json:"buyers"`
	Elapsed  int64   `json:"elapsed_ms"`
	Done     *Result `json:"-"` // set in the last one of a strategy
}
