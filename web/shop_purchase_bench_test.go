package web_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/address"
	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/user"
	"miaosha/web"
)

// benchShop is a shop in this process. It measures the handler alone, without a network and a server.
type benchShop struct {
	*web.Server
	sales  *goods.Store
	terms  goods.Terms // of each sale
	sale   int64
	tokens []string
	paths  []string
}

// clicks is the number of buys at once.
const clicks = 64

func openBenchShop(b *testing.B, stock, buyers int) *benchShop {
	b.Helper()
	db, rdb, at := sandboxtest.DB(b), sandboxtest.Redis(b), sandboxtest.RedisURL(b)
	secret, log := []byte("a secret of thirty-two bytes ...."), slog.New(slog.DiscardHandler)
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	sessions, err := user.NewSessions(sandboxtest.RedisOptions(b, at), time.Hour)
	must(err)
	b.Cleanup(func() { sessions.Close() })
	sales, orders, users := goods.New(db), order.New(db, order.Config{PayWithin: time.Hour}), user.New(db, rdb, secret, user.Config{}, log)
	cache := goods.NewCache(sales)
	rush, err := seckill.New(seckill.Config{Gate: "redis", GateFactor: 5, AddressTTL: time.Minute, MaxInFlight: 4096, QMax: math.MaxInt32, QueueWorkers: 6, Optimisations: seckill.AllOptimisations()},
		seckill.Deps{DB: db, Redis: rdb, Sales: sales, Cache: cache, Orders: orders, Secret: secret, Log: log})
	must(err)
	now := time.Now()
	ends := now.Add(time.Hour)
	c := &benchShop{sales: sales, terms: goods.Terms{Price: 1, Total: stock, StartsAt: now.Add(-time.Minute), EndsAt: ends}}
	c.Server, err = web.New(web.Config{Rate: "off", IPRate: "off", TimeZone: "UTC", Cashier: "off"},
		web.Deps{Users: users, Sessions: sessions, Cache: cache, Orders: orders, Rush: rush, Log: log, Secret: secret}, "http://127.0.0.1:1")
	must(err)
	c.sale, err = sales.Sell(b.Context(), goods.Item{Title: "tea"}, c.terms)
	must(err)
	must(users.Mint(b.Context(), sessions, buyers, func(id int64, _, token string) error {
		c.tokens = append(c.tokens, token)
		c.paths = append(c.paths, fmt.Sprintf("/api/sales/%d/buy/%s", c.sale, address.New(secret).Sign(id, c.sale, token, ends)))
		return nil
	}))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { rush.Run(ctx) })
	b.Cleanup(func() { cancel(); running.Wait() })
	// The first click builds the gate.
	sandboxtest.Until(b, "the sale opens", func() bool { return c.buy(0) == http.StatusAccepted })
	return c
}

func (c *benchShop) buy(k int) (status int) {
	r := httptest.NewRequest(http.MethodPost, c.paths[k], http.NoBody)
	r.Header.Set("Authorization", "Bearer "+c.tokens[k])
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w.Code
}

// click measures many clicks at once. next returns the buyer of each click.
func (c *benchShop) click(b *testing.B, want int, next func() int) {
	b.ReportAllocs()
	b.SetParallelism(clicks)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if got := c.buy(next()); got != want {
				b.Errorf("answered %d, want %d", got, want)
				return
			}
		}
	})
}

// BenchmarkAccept measures a purchase until its 202. The machine settles purchases at the same time.
func BenchmarkAccept(b *testing.B) {
	var next atomic.Int64
	c := openBenchShop(b, math.MaxInt32, b.N+1)
	c.click(b, http.StatusAccepted, func() int { return int(next.Add(1)) })
}

// BenchmarkSoldOut measures the refusal of a sale that is sold out.
func BenchmarkSoldOut(b *testing.B) {
	const buyers = 1000
	var next atomic.Int64
	c := openBenchShop(b, 1, buyers+1)
	c.click(b, http.StatusGone, func() int { return int(next.Add(1)%buyers) + 1 })
}
