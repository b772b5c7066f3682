package lab

import (
	"context"
	"embed"
	"strings"
)

// Strategy is one way to sell, as it runs on one node. A node has all but Buy, for ways that
// have their stock in Postgres and nothing else.
type Strategy interface {
	// Prepare lays out what the way needs, once, before anybody buys.
	Prepare(ctx context.Context) error
	// Ready waits until this node can sell.
	Ready(ctx context.Context) error
	// Run does the way's work behind the buyers' backs until ctx ends, and then finishes what it has begun.
	Run(ctx context.Context) error
	// Buy is a click: take a unit for the user and write his order. The answer is what he is told: it is yours, or it
	// is not. After an error he knows nothing, and clicks again.
	Buy(ctx context.Context, user int64) (bool, error)
	// Left is how many units the way believes to have.
	Left(ctx context.Context) (int, error)
}

// What goes wrong with a way.
const (
	Oversold   = "oversold"
	Unsold     = "unsold"
	Duplicates = "duplicates"
	Lost       = "lost"
)

// way is a rung of the ladder.
type way struct {
	name  string
	store string // what it stands on: postgres, redis or both
	wrong string // what goes wrong with it, "" if nothing does
	needs string // the fault without which that does not show, "" if the crowd is enough
	open  func(*node) Strategy

	schema bool // it stands on the shop's own tables
}

// ladder is every way, in the order in which one learns them.
var ladder = []way{
	{name: "read-then-write", store: "postgres", wrong: Oversold, open: func(n *node) Strategy { return readThenWrite{n} }},
	{name: "mutex", store: "postgres", wrong: Oversold, open: func(n *node) Strategy { return &mutex{node: n} }},
	{name: "for-update", store: "postgres", open: func(n *node) Strategy { return forUpdate{n} }},
	{name: "optimistic", store: "postgres", wrong: Unsold, open: func(n *node) Strategy { return optimistic{n} }},
	{name: "optimistic-retry", store: "postgres", open: func(n *node) Strategy { return optimisticRetry{n} }},
	{name: "guard", store: "postgres", wrong: Duplicates, open: func(n *node) Strategy { return guard{n} }},
	{name: "guard-window", store: "postgres", wrong: Duplicates, open: func(n *node) Strategy { return guardWindow{n} }},
	{name: "guard-unique", store: "postgres", open: func(n *node) Strategy { return guardUnique{n} }},
	{name: "advisory-lock", store: "postgres", open: func(n *node) Strategy { return advisoryLock{n} }},
	{name: "skip-locked", store: "postgres", open: func(n *node) Strategy { return skipLocked{n} }},
	{name: "serializable", store: "postgres", open: func(n *node) Strategy { return serializable{n} }},
	{name: "redis-get-decr", store: "both", wrong: Oversold, open: func(n *node) Strategy { return redisGetDecr{redisStock{n}} }},
	{name: "redis-decr", store: "both", wrong: Unsold, open: func(n *node) Strategy { return redisDecr{redisStock{n}} }},
	{name: "redis-lock", store: "both", wrong: Oversold, open: func(n *node) Strategy { return redisLock{n} }},
	{name: "redis-oversupply", store: "both", open: func(n *node) Strategy { return redisOversupply{redisStock{n}} }},
	{name: "lua", store: "both", open: func(n *node) Strategy { return lua{redisStock{n}} }},
	{name: "lua-channel", store: "both", wrong: Lost, needs: Kill, open: func(n *node) Strategy { return newLuaChannel(n) }},
	{name: "shop", store: "both", open: func(n *node) Strategy { return newShop(n) }, schema: true},
}

func wayOf(name string) *way {
	for i := range ladder {
		if ladder[i].name == name {
			return &ladder[i]
		}
	}
	return nil
}

// Way is a rung of the ladder as it is shown: with its source, in which some lines decide.
type Way struct {
	Name   string   `json:"name"`
	File   string   `json:"file"`
	Source string   `json:"source"`
	Marks  [][2]int `json:"marks"` // first and last of the lines that decide, from 1
	Right  bool     `json:"right"` // under a crowd without faults
	Wrong  string   `json:"wrong"` // oversold, unsold, duplicates, lost, or ""
	Needs  []string `json:"needs"` // the faults without which that does not show
	Store  string   `json:"store"` // postgres, redis or both
}

//go:embed strategy_*.go
var files embed.FS

// Ladder gives every way in the order in which one learns them.
func Ladder() []Way {
	ways := make([]Way, len(ladder))
	for i, w := range ladder {
		file := "strategy_" + strings.ReplaceAll(w.name, "-", "_") + ".go"
		text, _ := files.ReadFile(file) // a test has seen that each is there
		ways[i] = Way{Name: w.name, File: file, Right: w.wrong == "", Wrong: w.wrong, Needs: []string{}, Store: w.store}
		ways[i].Source, ways[i].Marks = marked(string(text))
		if w.needs != "" {
			ways[i].Needs = []string{w.needs}
		}
	}
	return ways
}

// marked takes the comments lab:here and lab:end out of a source, and gives the lines between them.
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
