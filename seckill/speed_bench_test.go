package seckill_test

import (
	"fmt"
	"math"
	"sync/atomic"
	"testing"

	"miaosha/order"
	"miaosha/seckill"
)

// forever is stock, and room in the queue, for any benchmark.
const forever = math.MaxInt32

func roomy(cfg *seckill.Config, _ *seckill.Deps) { cfg.QMax = forever }

// BenchmarkSettle is the transaction that decides, alone: tickets of one sale in batches, and one at a time on the same row.
func BenchmarkSettle(b *testing.B) {
	for _, n := range []int{500, 1} {
		b.Run(fmt.Sprintf("tickets=%d", n), func(b *testing.B) {
			s := newShop(b, forever)
			e := s.engine(roomy)
			user, batch := int64(0), make([]order.Ticket, n)
			for b.Loop() {
				for i := range batch {
					user++
					batch[i] = order.Ticket{ID: fmt.Sprintf("1:1785000000000-%d:0197c2f6-5f0e-7c3a-9d51-2f6b8f1c7a44", user), UserID: user}
				}
				results, err := e.Decide(b.Context(), s.sale, batch)
				if err != nil || len(results) != n || results[0].Outcome != order.Ordered {
					b.Fatalf("%d results, %v", len(results), err)
				}
			}
			b.ReportMetric(float64(user)/b.Elapsed().Seconds(), "orders/s")
			if sold := forever - s.stock(); int64(sold) != user {
				b.Errorf("%d sold of %d", sold, user)
			}
		})
	}
}

// BenchmarkReserve is the script that grants places, each time for new users, over one connection.
func BenchmarkReserve(b *testing.B) {
	for _, n := range []int{1, 256} {
		b.Run(fmt.Sprintf("users=%d", n), func(b *testing.B) {
			s := newShop(b, forever)
			e := s.engine(roomy)
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
					b.Fatalf("%d granted, %v", granted, err)
				}
			}
			b.ReportMetric(float64(user)/b.Elapsed().Seconds(), "users/s")
			if g := s.gate(); int64(g.Waiting) != user {
				b.Errorf("%d in the journal of %d", g.Waiting, user)
			}
		})
	}
}

// BenchmarkLane is a click's way through lane and gate and back, 64 at once. They have bought before: so nothing is
// settled meanwhile.
func BenchmarkLane(b *testing.B) {
	const buyers = 64
	s := newShop(b, buyers)
	e := s.start(nil)
	s.ready()
	for user := range int64(buyers) {
		s.buy(e, user+1)
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
