// Package lab is the core of the lab: it sells the same stock to the same crowd with whatever strategy it is given,
// and counts the outcome in Postgres.
//
// A run creates a schema and Redis keys for one strategy (namespace.go), opens nodes, the processes of a shop, each
// with its own connections (node.go), sends the crowd (crowd.go), injects the faults of the plan, and then counts the
// orders. A race records two clicks step by step (recorder.go). Of a student's program the judge believes nothing
// (witness.go).
//
// No outcome is staged, but some moments are. Every strategy pauses for about a millisecond where a shop would look up
// prices. Both clicks of a double click arrive at once, at two nodes. The holder of redis-lock sometimes stalls for
// longer than the lock lives. A kill hits the node that has just said yes.
//
// The core knows no strategy, experiment or exercise: those are in folders of their own, and import it. The lab never
// touches the shop's tables, and its faults act on its own connections only. Package seckill does not import it.
package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/lab/throwaway"
)

// Stores names the servers that the lab uses. The lab opens its own connections to both.
type Stores struct {
	DatabaseURL string
	// read for its address: a Client or a ClusterClient
	Redis redis.UniversalClient
	// of a superuser, where the role of DatabaseURL is that of a program; "" for strategies of ours
	JudgeURL string
	Schema   string // the text of schema.sql, for the strategy shop
	// checks the rows of such a schema, for RunWithout
	Audit func(context.Context, *pgxpool.Pool) ([]Broken, error)
	// the Postgres that Judge runs for each program; nil for none
	Throwaway func(context.Context) (throwaway.Programs, error)
}

// Faults of a Plan.
const (
	Kill         = "kill"          // a node dies in the middle and loses its memory; another one replaces it
	RedisPause   = "redis-pause"   // Redis sends no reply in the first 300 ms
	SlowPostgres = "slow-postgres" // each statement takes up to 5 ms longer
)

// Faults returns all faults.
func Faults() []string { return []string{Kill, RedisPause, SlowPostgres} }

// Bounds of a Plan.
const (
	MaxBuyers  = 5000
	MaxStock   = 1000
	MaxSeconds = 30
	MaxNodes   = 8
)

// Plan is one comparison: the same crowd for each strategy, one strategy after the other.
type Plan struct {
	Strategies   []string `json:"strategies"` // names; none: all of them
	Buyers       int      `json:"buyers"`
	Stock        int      `json:"stock"`
	DoubleClicks int      `json:"double_clicks"` // percentage of buyers who click twice
	Faults       []string `json:"faults"`
	Seed         uint64   `json:"seed"`
	Seconds      int      `json:"seconds"` // time limit of one strategy
	Nodes        int      `json:"-"`       // processes of the shop; 0: 2
	CrowdOnly    bool     `json:"-"`       // the schedules of a program are not searched
	Closes       bool     `json:"-"`       // the sale of a program ends when half of its units are sold
	Seats        bool     `json:"-"`       // each order has a row of its own in units
	Outlasts     bool     `json:"-"`       // under redis-away, Redis stays away until half of the units are sold
	Before       []string `json:"-"`       // statements of an exercise that run before the program's prepare
}

// InvalidError names the invalid field of a Plan, spelled as in JSON.
type InvalidError struct{ Field, Reason string }

func (e InvalidError) Error() string { return e.Field + ": " + e.Reason }

// Validate returns an InvalidError for each invalid field, joined. strategies are the names that it may have.
func (p Plan) Validate(strategies []string) error {
	names := func(field string, names, known []string) error {
		for i, name := range names {
			if !slices.Contains(known, name) {
				return InvalidError{field, fmt.Sprintf("there is no %q, only %s", name, strings.Join(known, ", "))}
			}
			if slices.Contains(names[:i], name) {
				return InvalidError{field, fmt.Sprintf("%q comes twice", name)}
			}
		}
		return nil
	}
	between := func(field string, n, lo, hi int) error {
		if n < lo || n > hi {
			return InvalidError{field, fmt.Sprintf("%d to %d", lo, hi)}
		}
		return nil
	}
	return errors.Join(
		names("strategies", p.Strategies, strategies),
		names("faults", p.Faults, Faults()),
		between("buyers", p.Buyers, 1, MaxBuyers),
		between("stock", p.Stock, 1, MaxStock),
		between("double_clicks", p.DoubleClicks, 0, 100),
		between("seconds", p.Seconds, 1, MaxSeconds),
		between("nodes", p.Nodes, 0, MaxNodes))
}

func (p Plan) Has(fault string) bool { return slices.Contains(p.Faults, fault) }

// endsReplies reports whether a fault of the plan ends replies, or a cancellation outdates them: a buyer's last answer
// is then not what the shop knows.
func (p Plan) endsReplies() bool {
	return slices.ContainsFunc([]string{Kill, LostReply, RedisAway, Cancel}, p.Has)
}

// Result is the outcome of one strategy.
type Result struct {
	Strategy   string `json:"strategy"`
	Stock      int    `json:"stock"`
	Buyers     int    `json:"buyers"`
	Sold       int    `json:"sold"`       // orders in the database
	Oversold   int    `json:"oversold"`   // orders beyond the stock
	Unsold     int    `json:"unsold"`     // units without an order although a buyer got none
	Duplicates int    `json:"duplicates"` // orders beyond a buyer's first
	Lost       int    `json:"lost"`       // buyers who were told yes and have no order at the end
	// buyers who were told no and have an order; 0 under the faults of endsReplies
	Denied  int     `json:"denied"`
	Seconds float64 `json:"seconds"` // from the first click to the last reply
	// of these, at the end: only clicks that a killed process had cut off waited
	Recovery      float64 `json:"recovery"`
	PerSecond     float64 `json:"per_second"`      // clicks that received a reply, in the time without Recovery
	P99           float64 `json:"p99_ms"`          // of the time from a click to its reply
	SQLPerOrder   float64 `json:"sql_per_order"`   // statements of the whole crowd, refusals included, per order
	RedisPerOrder float64 `json:"redis_per_order"` // Redis round trips, counted the same way
	Right         bool    `json:"right"`           // nothing oversold, unsold, duplicate, lost or denied
	Lucky         bool    `json:"lucky"`           // right, although the strategy is wrong by design
	Error         string  `json:"error"`           // why the run did not finish; "" if it did
	// it did not finish in its time, what it had sold was right, and that was no luck
	Slow bool `json:"slow"`
	// the machine had too little time when the run began: its speeds say nothing, nor that it is Slow
	Busy bool `json:"busy"`

	// Holds has, of the first maxHolds clicks that were told yes, the buyer, and the times of the click and of the
	// reply in milliseconds since the first click, in the order of the replies.
	Holds    [][3]float64 `json:"holds,omitempty"`
	*Verdict              // of a Program only

	OrderedBy []int64 `json:"-"` // the buyers of the orders
	TakenLate int     `json:"-"` // units that were taken after the end of the sale, see Plan.Closes
	Unseated  int     `json:"-"` // orders and owners of units that do not belong together, see Plan.Seats
	Tampered  bool    `json:"-"` // a program has changed what belongs to its judge
}

const maxHolds = 150

func (r Result) Exact() bool {
	return r.Oversold == 0 && r.Unsold == 0 && r.Duplicates == 0 && r.Lost == 0 && r.Denied == 0 && r.TakenLate == 0 &&
		r.Error == "" && !r.Tampered
}

// Progress reports how far the run of a strategy is.
type Progress struct {
	Strategy string  `json:"strategy"`
	Left     int     `json:"left"` // units, according to the strategy's own stock
	Sold     int     `json:"sold"`
	Oversold int     `json:"oversold"`
	Answered int     `json:"asked"` // buyers who have replies to all their clicks
	Buyers   int     `json:"buyers"`
	Elapsed  int64   `json:"elapsed_ms"`
	Done     *Result `json:"-"` // set in the last report of a strategy
}

// Broken is an invariant of the shop (seckill/README.md) that does not hold, as the audit reports it.
type Broken struct {
	Invariant string   `json:"invariant"` // I1 to I12
	Meaning   string   `json:"meaning"`
	Rows      []string `json:"rows"` // "column=value column=value"
}
