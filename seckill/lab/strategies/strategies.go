// Package strategies has the ways to sell a unit that courses teach, right and wrong ones. Each is in a file
// strategy_*.go, written to be read: the pages show it. Its row in specs says how it goes wrong, and programs has the
// same in Lua or SQL, to start from.
//
// A strategy embeds a lab.Node, which has its connections and arranges its moments. It imports the shop only to be the
// shop.
package strategies

import (
	"context"
	"embed"
	"fmt"
	"strings"

	"miaosha/seckill/lab"
)

// specs lists the strategies in the order of the lessons.
var specs = []lab.Spec{
	{Name: "read-then-write", Store: "postgres", Wrong: lab.Oversold,
		Open: func(n *lab.Node) lab.Strategy { return readThenWrite{n} }},
	{Name: "mutex", Store: "postgres", Wrong: lab.Oversold, Alone: true,
		Open: func(n *lab.Node) lab.Strategy { return &mutex{Node: n} }},
	{Name: "for-update", Store: "postgres", Open: func(n *lab.Node) lab.Strategy { return forUpdate{n} }},
	{Name: "optimistic", Store: "postgres", Wrong: lab.Unsold,
		Open: func(n *lab.Node) lab.Strategy { return optimistic{n} }},
	{Name: "optimistic-retry", Store: "postgres", Open: func(n *lab.Node) lab.Strategy { return optimisticRetry{n} }},
	{Name: "guard", Store: "postgres", Wrong: lab.Duplicates, Open: func(n *lab.Node) lab.Strategy { return guard{n} }},
	{Name: "guard-window", Store: "postgres", Wrong: lab.Duplicates,
		Open: func(n *lab.Node) lab.Strategy { return guardWindow{n} }},
	{Name: "guard-unique", Store: "postgres", Open: func(n *lab.Node) lab.Strategy { return guardUnique{n} }},
	{Name: "advisory-lock", Store: "postgres", Open: func(n *lab.Node) lab.Strategy { return advisoryLock{n} }},
	{Name: "skip-locked", Store: "postgres", Open: func(n *lab.Node) lab.Strategy { return skipLocked{n} }},
	{Name: "buckets", Store: "postgres", Wrong: lab.Unsold, Open: func(n *lab.Node) lab.Strategy { return buckets{n} }},
	{Name: "serializable", Store: "postgres", Open: func(n *lab.Node) lab.Strategy { return serializable{n} }},
	{Name: "insert-only", Store: "postgres", Open: func(n *lab.Node) lab.Strategy { return insertOnly{n} }},
	{Name: "redis-get-decr", Store: "both", Wrong: lab.Oversold,
		Open: func(n *lab.Node) lab.Strategy { return redisGetDecr{redisStock{n}} }},
	{Name: "redis-decr", Store: "both", Wrong: lab.Unsold,
		Open: func(n *lab.Node) lab.Strategy { return redisDecr{redisStock{n}} }},
	{Name: "list-pop", Store: "both", Breaks: lab.Kill, Open: func(n *lab.Node) lab.Strategy { return listPop{n} }},
	{Name: "redis-lock", Store: "both", Wrong: lab.Oversold,
		Open: func(n *lab.Node) lab.Strategy { return redisLock{n} }},
	{Name: "lock-fencing", Store: "both", Open: func(n *lab.Node) lab.Strategy { return lockFencing{n} }},
	{Name: "redis-oversupply", Store: "both", Open: func(n *lab.Node) lab.Strategy {
		return redisOversupply{redisStock{n}}
	}},
	{Name: "refill-incr", Store: "both", Wrong: lab.Unsold,
		Open: func(n *lab.Node) lab.Strategy { return refillIncr{refill{redisStock{n}}} }},
	{Name: "refill-set-one", Store: "both", Wrong: lab.Unsold,
		Open: func(n *lab.Node) lab.Strategy { return refillSetOne{refill{redisStock{n}}} }},
	{Name: "refill-compare", Store: "both", Open: func(n *lab.Node) lab.Strategy {
		return refillCompare{refill{redisStock{n}}}
	}},
	{Name: "lua", Store: "both", Breaks: lab.Kill, Open: func(n *lab.Node) lab.Strategy { return lua{redisStock{n}} }},
	{Name: "lua-channel", Store: "both", Wrong: lab.Lost, Needs: lab.Kill,
		Open: func(n *lab.Node) lab.Strategy { return newLuaChannel(n) }},
	{Name: "outbox", Store: "both", Open: func(n *lab.Node) lab.Strategy { return outbox{redisStock{n}} }},
	{Name: "shop", Store: "both", Open: func(n *lab.Node) lab.Strategy { return newShop(n) }, Schema: true},
}

// Names returns the names of the strategies in the order of the lessons.
func Names() []string {
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = s.Name
	}
	return names
}

func specOf(name string) *lab.Spec {
	for i := range specs {
		if specs[i].Name == name {
			return &specs[i]
		}
	}
	return nil
}

// Run sends the crowd of a plan to each of its strategies. It calls report ten times a second, and
// once more with the result of a strategy; report may be nil. A run that does not finish has a
// Result.Error. An error comes from the stores or from ctx; the results before it are returned too.
func Run(ctx context.Context, s lab.Stores, p lab.Plan, report func(lab.Progress)) (results []lab.Result, err error) {
	if err := p.Validate(Names()); err != nil {
		return nil, err
	}
	names := p.Strategies
	if len(names) == 0 {
		names = Names()
	}
	for _, name := range names {
		result, err := lab.Run(ctx, s, p, specOf(name), report)
		if err != nil {
			return results, fmt.Errorf("%s: %w", name, err)
		}
		results = append(results, result)
	}
	return results, nil
}

// Race records two clicks at one strategy. Its seed is the first that it tries.
func Race(ctx context.Context, s lab.Stores, strategy string, seed uint64) (rec lab.Recording, err error) {
	spec := specOf(strategy)
	if spec == nil {
		return rec, lab.InvalidError{Field: "strategy", Reason: fmt.Sprintf("there is no %q", strategy)}
	}
	return lab.Race(ctx, s, spec, seed)
}

// Info is a strategy as the pages show it, with its source.
type Info struct {
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

// All returns every strategy in the order of the lessons.
func All() []Info {
	infos := make([]Info, len(specs))
	for i, s := range specs {
		file := "strategy_" + strings.ReplaceAll(s.Name, "-", "_") + ".go"
		text, _ := files.ReadFile(file) // a test checks that each file exists
		infos[i] = Info{Name: s.Name, File: file, Right: s.Wrong == "", Wrong: s.Wrong,
			Needs: []string{}, Store: s.Store}
		infos[i].Source, infos[i].Marks = lab.Marked(string(text))
		if s.Needs != "" {
			infos[i].Needs = []string{s.Needs}
		}
	}
	return infos
}
