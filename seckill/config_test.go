package seckill_test

import (
	"testing"

	"github.com/alecthomas/kong"

	"miaosha/seckill"
)

// A shop has every optimisation unless its flags switch one off.
func TestAShopHasAllOptimisations(t *testing.T) {
	t.Parallel()
	var cfg seckill.Config
	parser, err := kong.New(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(nil); err != nil || cfg.Optimisations != seckill.AllOptimisations() {
		t.Errorf("without flags: %+v, %v; want %+v", cfg.Optimisations, err, seckill.AllOptimisations())
	}
	if _, err := parser.Parse([]string{"--lane-batch", "1", "--settle-batch", "1", "--sold-out-mark", "1ns"}); err != nil ||
		cfg.Optimisations != (seckill.Optimisations{LaneBatch: 1, SettleBatch: 1, SoldOutMark: 1}) {
		t.Errorf("switched off: %+v, %v", cfg.Optimisations, err)
	}
}
