package seckill

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"miaosha/seckill/rounds"
)

// returns brings units that came back in this process to their gates at once: it looks at those sales alone, and does
// not wait for the reader of the sale, or for a tick. Many that come back at once are one look. What it cannot bring,
// the reader does.
type returns struct {
	reconciler *reconciler
	rounds     *rounds.Rounds

	mu    sync.Mutex
	sales map[int64]bool // whose units came back since the last look
}

// Run looks whenever units came back, until ctx ends.
func (r *returns) Run(ctx context.Context) {
	r.rounds.Run(ctx, roundLimit, rounds.Every(time.Hour), func(ctx context.Context) {
		r.bringBack(ctx)
		time.Sleep(reconcileGap) // many that come back do not keep the stores busy
	})
}

func (r *returns) add(sale int64) {
	if r.reconciler.cfg.gateOff() {
		return
	}
	r.mu.Lock()
	r.sales[sale] = true
	r.mu.Unlock()
	r.rounds.Soon()
}

func (r *returns) bringBack(ctx context.Context) {
	r.mu.Lock()
	sales := slices.Sorted(maps.Keys(r.sales))
	clear(r.sales)
	r.mu.Unlock()
	r.reconciler.lookAgain(ctx, sales, func(int64, fixing) {})
}
