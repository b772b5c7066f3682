package seckill_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	sandboxtest.Until(t, "a purchase in which Redis answers in time", func() bool { return purchaseIsMeasured(t) })
}

// purchaseIsMeasured checks the figures of one purchase. It reports false if Redis has not answered in time: then a click was
// repeated, which is counted too.
func purchaseIsMeasured(t *testing.T) bool {
	s := newShop(t, 1)
	e := s.start(nil)
	s.awaitGate()
	s.mustBuy(e, 1)
	for user, want := range map[int64]error{1: nil, 2: goods.ErrSoldOut} {
		if _, err := s.retryBuy(e, user); !errors.Is(err, want) {
			t.Errorf("user %d: %v, want %v", user, err, want)
		}
	}
	// A settle transaction is measured after its COMMIT, when a poll finds the order already.
	sandboxtest.Until(t, "the settle transaction is measured", func() bool {
		return s.metric(e, "miaosha_settle_seconds").Histogram.GetSampleCount() > 0
	})
	got := s.gateReplies(e)
	if got["fault"] > 0 {
		return false
	}
	want := map[string]float64{"busy": 0, "ended": 0, "fault": 0, "granted": 1, "held": 1, "not_started": 0, "paused": 0, "sold_out": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the replies of the gate by kind (-want +got):\n%s", diff)
	}
	for name, want := range map[string]uint64{"miaosha_lane_wait_seconds": 3, "miaosha_gate_reserve_seconds": 3, "miaosha_settle_seconds": 1} {
		if got := s.metric(e, name).Histogram.GetSampleCount(); got != want {
			t.Errorf("%s has %d observations, want %d", name, got, want)
		}
	}
	return true
}

// gateReplies returns how often the gate has given each kind of reply.
func (s *shop) gateReplies(e *process) map[string]float64 {
	s.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(e.Collectors()...)
	all, err := registry.Gather()
	if err != nil {
		s.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range all {
		if family.GetName() == "miaosha_gate_replies_total" {
			for _, m := range family.Metric {
				got[m.Label[0].GetValue()] = m.Counter.GetValue()
			}
		}
	}
	return got
}
