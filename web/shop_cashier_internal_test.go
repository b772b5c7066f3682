package web

import (
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"miaosha/order"
	"miaosha/seckill/sandbox/sandboxtest"
)

// After a rush of payments the cashier's connections to the shop are closed.
func TestTheCashierClosesItsConnections(t *testing.T) {
	t.Parallel()
	const payments = 20
	var open, opened atomic.Int64
	var together sync.WaitGroup
	together.Add(payments)
	shop := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		together.Done()
		together.Wait() // so that each notice has a connection of its own
		json.NewEncoder(w).Encode(map[string]any{"code": "ok", "data": map[string]any{}})
	}))
	shop.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			open.Add(1)
			opened.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	shop.Start()
	t.Cleanup(shop.Close)
	c := newCashier(shop.URL, []byte("key"), time.Now, slog.New(slog.DiscardHandler))
	var all sync.WaitGroup
	for range payments {
		all.Go(func() {
			if _, err := c.confirm(t.Context(), order.Payment{ID: uuid.New(), OrderID: uuid.New(), Amount: 990, PayUntil: time.Now().Add(time.Minute)}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := opened.Load(); n != payments {
		t.Errorf("%d connections for %d payments", n, payments)
	}
	sandboxtest.Until(t, "all connections are closed", func() bool { return open.Load() == 0 })
}
