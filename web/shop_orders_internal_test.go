package web

import (
	"testing"
	"time"

	"miaosha/seckill"
)

// Times of a Postgres whose clock is wrong are told by the shop's clock. A small difference, which may be one of the measuring,
// changes nothing.
func TestTimesOfOrdersAreToldByTheShopsClock(t *testing.T) {
	t.Parallel()
	rush, err := seckill.New(seckill.Config{Gate: "off", GateFactor: 5, AddressTTL: time.Minute, MaxInFlight: 1, QMax: 1, QueueWorkers: 6, Optimisations: seckill.AllOptimisations()},
		seckill.Deps{Secret: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 11, 10, 0, 0, 0, time.UTC)
	for ahead, want := range map[time.Duration]time.Duration{0: 0, time.Second: 0, -time.Second: 0, -10 * time.Minute: 10 * time.Minute, 3 * time.Hour: -3 * time.Hour,
		-10*time.Minute + 300*time.Millisecond: 10 * time.Minute} {
		s := &buyerOrders{rush: rush, postgresAhead: func() time.Duration { return ahead }}
		if got := s.shopTime(at).Sub(at); got != want {
			t.Errorf("Postgres is %v ahead: a time is told %v later, want %v", ahead, got, want)
		}
	}
	if got := (&buyerOrders{rush: rush}).shopTime(at); !got.Equal(at) {
		t.Errorf("without a measurement a time changes to %v", got)
	}
}
