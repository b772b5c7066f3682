package lab

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"miaosha/seckill/lab/throwaway"
	"miaosha/seckill/sandbox/sandboxtest"
)

func stores(t *testing.T) Stores {
	t.Helper()
	schema, err := os.ReadFile("../../schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	spare := throwaway.Programs(sandboxtest.Spare(t))
	return Stores{DatabaseURL: sandboxtest.DatabaseURL(t), Redis: sandboxtest.Redis(t), Schema: string(schema),
		Throwaway: func(context.Context) (throwaway.Programs, error) { return spare, nil }}
}

// parallelRuns limits the runs and races at one time. Each has up to 27 connections to the test's
// Postgres.
var parallelRuns = make(chan struct{}, 10)

func TestValidateNamesTheInvalidField(t *testing.T) {
	t.Parallel()
	good := Plan{Buyers: 10, Stock: 1, Seconds: 1}
	if err := good.Validate(StrategyNames()); err != nil {
		t.Fatal(err)
	}
	for field, spoil := range map[string]func(*Plan){
		"buyers":        func(p *Plan) { p.Buyers = MaxBuyers + 1 },
		"stock":         func(p *Plan) { p.Stock = 0 },
		"double_clicks": func(p *Plan) { p.DoubleClicks = 101 },
		"seconds":       func(p *Plan) { p.Seconds = 31 },
		"nodes":         func(p *Plan) { p.Nodes = -1 },
		"faults":        func(p *Plan) { p.Faults = []string{"flood"} },
		"strategies":    func(p *Plan) { p.Strategies = []string{"shop", "hope"} },
		// a name that is in the list twice
		"strategies, twice": func(p *Plan) { p.Strategies = []string{"shop", "lua", "shop"} },
		"faults, twice":     func(p *Plan) { p.Faults = []string{Kill, Kill} },
	} {
		p := good
		spoil(&p)
		want, _, _ := strings.Cut(field, ",")
		if invalid := (InvalidError{}); !errors.As(p.Validate(StrategyNames()), &invalid) || invalid.Field != want {
			t.Errorf("%s: %v", field, p.Validate(StrategyNames()))
		}
	}
}
