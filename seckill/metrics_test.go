package seckill_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"miaosha/seckill"
)

// Every request that is refused because something is full is counted.
func TestShedRequestsAreCounted(t *testing.T) {
	t.Parallel()
	s := newShop(t, 50)
	e := s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.QMax, cfg.MaxInFlight = 1, 1 })
	s.awaitGate()
	if err := e.Admit(s.sale, 1); err != nil {
		t.Error(err)
	}
	if err := e.Admit(s.sale, 1); !errors.Is(err, seckill.ErrBusy) {
		t.Errorf("a second request in flight: %v, want busy", err)
	}
	e.Release()
	release := s.lockSale()
	s.retryBuy(e, 1)
	if _, err := e.Buy(t.Context(), s.sale, 2); !errors.Is(err, seckill.ErrBusy) {
		t.Errorf("a second ticket: %v, want busy", err)
	}
	if err := e.Admit(s.sale, 1); !errors.Is(err, seckill.ErrBusy) {
		t.Errorf("with a full queue: %v, want busy", err)
	}
	release()
	registry := prometheus.NewRegistry()
	registry.MustRegister(e.Collectors()...)
	if err := testutil.GatherAndCompare(registry, strings.NewReader(`
		# HELP miaosha_shed_total Buy requests answered with busy because something was full.
		# TYPE miaosha_shed_total counter
		miaosha_shed_total{why="in flight"} 1
		miaosha_shed_total{why="queue"} 2
	`), "miaosha_shed_total"); err != nil {
		t.Error(err)
	}
}
