package seckill

import (
	"context"
	"maps"
	"slices"
	"time"

	"miaosha/seckill/gate"
	"miaosha/seckill/rounds"
)

const heartbeatEvery = time.Second

// heartbeat refreshes this process's claims on the journal entries in its queue, so that no other process takes them over
// while Postgres is away.
type heartbeat struct {
	gate    *gate.Gate
	queue   *orderQueue
	metrics *metrics
	rounds  *rounds.Rounds
}

// Run sends a heartbeat once a second until ctx ends.
func (h *heartbeat) Run(ctx context.Context) {
	h.rounds.Run(ctx, roundLimit, rounds.Every(heartbeatEvery), h.beat)
}

func (h *heartbeat) beat(ctx context.Context) {
	for sale, entries := range h.queue.pendingEntries() {
		if err := h.gate.Heartbeat(ctx, sale, slices.Collect(maps.Keys(entries))); err != nil && ctx.Err() == nil {
			h.metrics.logFault("heartbeat", err)
		}
	}
}
