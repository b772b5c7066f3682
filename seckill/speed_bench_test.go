package seckill_test

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/gate"
	"miaosha/seckill/sandbox/sandboxtest"
)

// endless is more stock, and more room in the queue, than any benchmark uses.
const endless = math.MaxInt32

// largeQueue sets a queue that never fills.
func largeQueue(cfg *seckill.Config, _ *seckill.Deps) { cfg.QMax = endless }

// BenchmarkSettle measures the settle transaction alone: tickets of one sale in batches, and one at a time on the same row.
func BenchmarkSettle(b *testing.B) {
	for _, n := range []int{500, 1} {
		b.Run(fmt.Sprintf("tickets=%d", n), func(b *testing.B) {
			s := newShop(b, endless)
			e := s.engine(largeQueue)
			user, batch := int64(0), make([]order.Ticket, n)
			for b.Loop() {
				for i := range batch {
					user++
					batch[i] = order.Ticket{ID: fmt.Sprintf("1:1785000000000-%d:0197c2f6-5f0e-7c3a-9d51-2f6b8f1c7a44", user), UserID: user}
				}
				results, err := e.SettleOnce(b.Context(), s.sale, batch)
				if err != nil || len(results) != n {
					b.Fatalf("%d results, %v, want %d", len(results), err, n)
				}
				if got := results[0].Outcome; got != order.Ordered {
					b.Fatalf("the first ticket is %s, want an order", got)
				}
			}
			b.ReportMetric(float64(user)/b.Elapsed().Seconds(), "orders/s")
			if sold := endless - s.stock(); int64(sold) != user {
				b.Errorf("%d units sold, want %d", sold, user)
			}
		})
	}
}

// BenchmarkReserve measures the script that grants tickets, each time for new users, over one connection.
func BenchmarkReserve(b *testing.B) {
	for _, n := range []int{1, 256} {
		b.Run(fmt.Sprintf("users=%d", n), func(b *testing.B) {
			s := newShop(b, endless)
			e := s.engine(largeQueue)
			if err := e.Rebuild(b.Context(), s.sale); err != nil {
				b.Fatal(err)
			}
			user, crowd := int64(0), make([]int64, n)
			for b.Loop() {
				for i := range crowd {
					user++
					crowd[i] = user
				}
				if granted, err := e.ReserveAll(b.Context(), s.sale, crowd); err != nil || granted != n {
					b.Fatalf("%d tickets granted, %v", granted, err)
				}
			}
			b.ReportMetric(float64(user)/b.Elapsed().Seconds(), "users/s")
			if g := s.gateState(); int64(g.InFlight) != user {
				b.Errorf("%d tickets in the journal, want %d", g.InFlight, user)
			}
		})
	}
}

// BenchmarkLane measures a click from lane to gate and back, 64 at once per processor. The users have bought before, so
// nothing is settled meanwhile.
func BenchmarkLane(b *testing.B) {
	const buyers = 64
	s := newShop(b, buyers)
	e := s.start(nil)
	s.awaitGate()
	for user := range int64(buyers) {
		s.mustBuy(e, user+1)
	}
	var users atomic.Int64
	b.SetParallelism(buyers) // for each processor
	b.RunParallel(func(pb *testing.PB) {
		user := users.Add(1)%buyers + 1
		for pb.Next() {
			if got, err := e.Buy(b.Context(), s.sale, user); err != nil || got.Status.State != seckill.Ordered {
				b.Errorf("%+v, %v", got, err)
				return
			}
		}
	})
}

// BenchmarkResult measures what a poll costs whose result no memory has, 64 at once per processor: of one sale, and of as many as
// users, in a shop with a thousand open sales. The users have no ticket.
func BenchmarkResult(b *testing.B) {
	s := newShop(b, 1)
	sales := []int64{s.sale}
	for len(sales) < 1000 {
		sales = append(sales, s.sell(1))
	}
	e := s.start(nil)
	sandboxtest.Until(b, "every sale has a gate", func() bool {
		states, err := gate.States(b.Context(), s.rdb, sales)
		return err == nil && !slices.ContainsFunc(sales, func(sale int64) bool { return states[sale].Epoch == 0 })
	})
	for _, n := range []int{1, len(sales)} {
		b.Run(fmt.Sprintf("sales=%d", n), func(b *testing.B) {
			var polls atomic.Int64
			b.SetParallelism(64) // for each processor
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					i := polls.Add(1)
					if got, err := e.Result(b.Context(), sales[int(i)%n], 1+i%5000); err != nil || got.State != seckill.None {
						b.Errorf("%+v, %v", got, err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "polls/s")
		})
	}
}

// BenchmarkLevels measures the levels of a cache: the same sale from the memory of the process, which asks Postgres once a second, from
// Redis, and from Postgres by its primary key.
func BenchmarkLevels(b *testing.B) {
	s := newShop(b, 1)
	cache, db := goods.NewCache(s.sales), s.pool("web")
	if err := s.rdb.Set(b.Context(), "level", "total, stock", 0).Err(); err != nil {
		b.Fatal(err)
	}
	for _, level := range []struct {
		name string
		read func() error
	}{
		{"local", func() error { _, _, err := cache.Sale(b.Context(), s.sale); return err }},
		{"redis", func() error { return s.rdb.Get(b.Context(), "level").Err() }},
		{"postgres", func() error {
			var total, stock int64
			return db.QueryRow(b.Context(), `select total, stock from sales where id = $1`, s.sale).Scan(&total, &stock)
		}},
	} {
		b.Run(level.name, func(b *testing.B) {
			for b.Loop() {
				if err := level.read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
