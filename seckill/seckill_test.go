package seckill_test

import (
	"testing"

	"go.uber.org/goleak"

	"miaosha/goods"
	"miaosha/seckill"
	"miaosha/seckill/gate"
	"miaosha/seckill/sandbox/sandboxtest"
)

// 300 users click twice each for 50 units.
func TestRush(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		processes int
		gate      string
	}{"one process": {1, "redis"}, "two processes": {2, "redis"}, "no gate": {2, "off"}} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t, 50)
			var at []*process
			for range c.processes {
				at = append(at, s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.Gate = c.gate }))
			}
			s.wantSold(50, s.runRush(300, at...))
			if c.gate == "redis" {
				s.wantConsistent()
			} else if n := s.rdb.Exists(t.Context(), gate.GateKey(s.sale)).Val(); n != 0 {
				t.Error("a gate was created")
			}
			s.wantCleanAudit()
		})
	}
}

// No goroutine of Run goes on after its return, not even a rebuild that waits for the sale's row.
func TestNothingRunsAfterRun(t *testing.T) {
	s := newShop(t, 5)
	db, rdb, cache := s.pool("settle"), s.client(s.redis), goods.NewCache(s.sales)
	s.stock()
	if _, _, err := cache.Sale(t.Context(), s.sale); err != nil {
		t.Fatal(err)
	}
	before := goleak.IgnoreCurrent()
	e := s.start(func(_ *seckill.Config, d *seckill.Deps) { d.DB, d.Redis, d.Cache = db, rdb, cache })
	s.mustBuy(e, 1)
	release := s.lockSale()
	if err := s.rdb.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	sandboxtest.Until(t, "a rebuild waits for the row", func() bool { return s.lockWaiters("settle") > 0 })
	e.stop()
	if n := s.lockWaiters("settle"); n > 0 {
		t.Errorf("%d connections still wait for the row", n)
	}
	release()
	rdb.Close() // an embedded server has a goroutine for each connection
	s.rdb.Close()
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}
