package lab

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

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

// StrategyNames returns the names of the strategies in the order of the lessons.
func StrategyNames() []string {
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

// Run sends the crowd of a plan to each of its strategies. It calls report ten times a second, and
// once more with the result of a strategy; report may be nil. A run that does not finish has a
// Result.Error. An error comes from the stores or from ctx; the results before it are returned too.
func Run(ctx context.Context, s Stores, p Plan, report func(Progress)) (results []Result, err error) {
	if err := p.Validate(StrategyNames()); err != nil {
		return nil, err
	}
	names := p.Strategies
	if len(names) == 0 {
		names = StrategyNames()
	}
	for _, name := range names {
		result, err := runOne(ctx, s, p, specOf(name), report)
		if err != nil {
			return results, fmt.Errorf("%s: %w", name, err)
		}
		results = append(results, result)
	}
	return results, nil
}

// Race records two clicks at one strategy. Its seed is the first that it tries.
func Race(ctx context.Context, s Stores, strategy string, seed uint64) (rec Recording, err error) {
	spec := specOf(strategy)
	if spec == nil {
		return rec, InvalidError{"strategy", fmt.Sprintf("there is no %q", strategy)}
	}
	return raceSpec(ctx, s, spec, seed)
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

// hasOrder reports whether the user has an order.
func hasOrder(ctx context.Context, q interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, user int64) (has bool, err error) {
	err = q.QueryRow(ctx, `select exists (select from orders where user_id = $1)`, user).Scan(&has)
	return has, err
}

// isUnique reports whether a unique index has refused a row.
func isUnique(err error) bool {
	pg := new(pgconn.PgError)
	return errors.As(err, &pg) && pg.Code == "23505"
}

// redisStock is a node whose units are counted in Redis.
type redisStock struct{ *node }

// Prepare writes the stock to Redis.
func (n redisStock) Prepare(ctx context.Context) error {
	return n.rdb.Set(ctx, n.key("stock"), n.plan.Stock, keyLife).Err()
}

// Left returns the stock in Redis.
func (n redisStock) Left(ctx context.Context) (int, error) {
	return n.rdb.Get(ctx, n.key("stock")).Int()
}
