package lab

import (
	"context"
	"embed"
	"strings"
)

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

// spec describes a strategy.
type spec struct {
	name  string
	store string // where its data is: postgres, redis or both
	wrong string // how it goes wrong; "" for a right strategy
	needs string // the fault that is needed to show it; "" if the crowd is enough
	open  func(*node) Strategy

	breaks string // the fault under which a right strategy goes wrong; "" for most
	alone  bool   // a wrong strategy that is right in a single process that lives
	schema bool   // it uses the shop's own tables

	outside *outside // the program that it is; nil for the lab's own strategies
}

// lucky reports whether an exact outcome under this plan is luck: another crowd, fault or number of nodes shows that
// the strategy is wrong.
func (s *spec) lucky(p Plan) bool {
	return s.wrong != "" && !(s.alone && p.Nodes == 1 && !p.has(Kill)) || s.breaks != "" && p.has(s.breaks)
}

// specs lists the strategies in the order of the lessons.
var specs = []spec{
	{name: "read-then-write", store: "postgres", wrong: Oversold, open: func(n *node) Strategy { return readThenWrite{n} }},
	{name: "mutex", store: "postgres", wrong: Oversold, alone: true, open: func(n *node) Strategy { return &mutex{node: n} }},
	{name: "for-update", store: "postgres", open: func(n *node) Strategy { return forUpdate{n} }},
	{name: "optimistic", store: "postgres", wrong: Unsold, open: func(n *node) Strategy { return optimistic{n} }},
	{name: "optimistic-retry", store: "postgres", open: func(n *node) Strategy { return optimisticRetry{n} }},
	{name: "guard", store: "postgres", wrong: Duplicates, open: func(n *node) Strategy { return guard{n} }},
	{name: "guard-window", store: "postgres", wrong: Duplicates, open: func(n *node) Strategy { return guardWindow{n} }},
	{name: "guard-unique", store: "postgres", open: func(n *node) Strategy { return guardUnique{n} }},
	{name: "advisory-lock", store: "postgres", open: func(n *node) Strategy { return advisoryLock{n} }},
	{name: "skip-locked", store: "postgres", open: func(n *node) Strategy { return skipLocked{n} }},
	{name: "buckets", store: "postgres", wrong: Unsold, open: func(n *node) Strategy { return buckets{n} }},
	{name: "serializable", store: "postgres", open: func(n *node) Strategy { return serializable{n} }},
	{name: "insert-only", store: "postgres", open: func(n *node) Strategy { return insertOnly{n} }},
	{name: "redis-get-decr", store: "both", wrong: Oversold, open: func(n *node) Strategy { return redisGetDecr{redisStock{n}} }},
	{name: "redis-decr", store: "both", wrong: Unsold, open: func(n *node) Strategy { return redisDecr{redisStock{n}} }},
	{name: "list-pop", store: "both", breaks: Kill, open: func(n *node) Strategy { return listPop{n} }},
	{name: "redis-lock", store: "both", wrong: Oversold, open: func(n *node) Strategy { return redisLock{n} }},
	{name: "lock-fencing", store: "both", open: func(n *node) Strategy { return lockFencing{n} }},
	{name: "redis-oversupply", store: "both", open: func(n *node) Strategy { return redisOversupply{redisStock{n}} }},
	{name: "refill-incr", store: "both", wrong: Unsold, open: func(n *node) Strategy { return refillIncr{refill{redisStock{n}}} }},
	{name: "refill-set-one", store: "both", wrong: Unsold, open: func(n *node) Strategy { return refillSetOne{refill{redisStock{n}}} }},
	{name: "refill-compare", store: "both", open: func(n *node) Strategy { return refillCompare{refill{redisStock{n}}} }},
	{name: "lua", store: "both", breaks: Kill, open: func(n *node) Strategy { return lua{redisStock{n}} }},
	{name: "lua-channel", store: "both", wrong: Lost, needs: Kill, open: func(n *node) Strategy { return newLuaChannel(n) }},
	{name: "outbox", store: "both", open: func(n *node) Strategy { return outbox{redisStock{n}} }},
	{name: "shop", store: "both", open: func(n *node) Strategy { return newShop(n) }, schema: true},
}

func strategyNames() []string {
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = s.name
	}
	return names
}

func specOf(name string) *spec {
	for i := range specs {
		if specs[i].name == name {
			return &specs[i]
		}
	}
	return nil
}

// StrategyInfo is a strategy as the pages show it, with its source.
type StrategyInfo struct {
	Name   string   `json:"name"`
	File   string   `json:"file"`
	Source string   `json:"source"`
	Marks  [][2]int `json:"marks"` // first and last line, from 1, of each part that decides
	Right  bool     `json:"right"` // under a crowd without faults
	Wrong  string   `json:"wrong"` // oversold, unsold, duplicates, lost, or ""
	Needs  []string `json:"needs"` // the faults that are needed to show it
	Store  string   `json:"store"` // postgres, redis or both
}

//go:embed strategy_*.go
var files embed.FS

// Strategies returns every strategy in the order of the lessons.
func Strategies() []StrategyInfo {
	infos := make([]StrategyInfo, len(specs))
	for i, s := range specs {
		file := "strategy_" + strings.ReplaceAll(s.name, "-", "_") + ".go"
		text, _ := files.ReadFile(file) // a test checks that each file exists
		infos[i] = StrategyInfo{Name: s.name, File: file, Right: s.wrong == "", Wrong: s.wrong, Needs: []string{}, Store: s.store}
		infos[i].Source, infos[i].Marks = marked(string(text))
		if s.needs != "" {
			infos[i].Needs = []string{s.needs}
		}
	}
	return infos
}

// marked removes the comments lab:here and lab:end from a source and returns the lines between them.
func marked(text string) (source string, marks [][2]int) {
	var lines []string
	from := 0
	for line := range strings.Lines(text) {
		switch strings.TrimSpace(line) {
		case "//lab:here":
			from = len(lines) + 1
		case "//lab:end":
			marks = append(marks, [2]int{from, len(lines)})
		default:
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, ""), marks
}
