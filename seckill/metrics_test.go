package seckill_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"miaosha/goods"
	"miaosha/seckill"
	"miaosha/seckill/sandbox/sandboxtest"
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
		miaosha_shed_total{why="journal"} 0
		miaosha_shed_total{why="lane"} 0
		miaosha_shed_total{why="late"} 0
		miaosha_shed_total{why="queue"} 2
		miaosha_shed_total{why="results"} 0
	`), "miaosha_shed_total"); err != nil {
		t.Error(err)
	}
}

// What the gate replies to each click is counted by its kind, and the times of a purchase once for each batch.
func TestThePartsOfAPurchaseAreMeasured(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1)
	e := s.start(nil)
	s.awaitGate()
	s.mustBuy(e, 1)
	for user, want := range map[int64]error{1: nil, 2: goods.ErrSoldOut} {
		if _, err := e.Buy(t.Context(), s.sale, user); !errors.Is(err, want) {
			t.Errorf("user %d: %v, want %v", user, err, want)
		}
	}
	// A settle transaction is measured after its COMMIT, when a poll finds the order already.
	sandboxtest.Until(t, "the settle transaction is measured", func() bool {
		return s.metric(e, "miaosha_settle_seconds").Histogram.GetSampleCount() > 0
	})
	registry := prometheus.NewRegistry()
	registry.MustRegister(e.Collectors()...)
	if err := testutil.GatherAndCompare(registry, strings.NewReader(`
		# HELP miaosha_gate_replies_total What gates replied to clicks, by kind.
		# TYPE miaosha_gate_replies_total counter
		miaosha_gate_replies_total{kind="busy"} 0
		miaosha_gate_replies_total{kind="ended"} 0
		miaosha_gate_replies_total{kind="fault"} 0
		miaosha_gate_replies_total{kind="granted"} 1
		miaosha_gate_replies_total{kind="held"} 1
		miaosha_gate_replies_total{kind="not_started"} 0
		miaosha_gate_replies_total{kind="paused"} 0
		miaosha_gate_replies_total{kind="sold_out"} 1
	`), "miaosha_gate_replies_total"); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]uint64{"miaosha_lane_wait_seconds": 3, "miaosha_gate_reserve_seconds": 3, "miaosha_settle_seconds": 1} {
		if got := s.metric(e, name).Histogram.GetSampleCount(); got != want {
			t.Errorf("%s has %d observations, want %d", name, got, want)
		}
	}
}
