package seckill

import (
	"context"
	"maps"
	"sync"
	"time"

	"miaosha/order"
	"miaosha/seckill/gate"
)

// acks acknowledges settled tickets at their gates. It keeps the results of a failed ack, up to limit, and reconcile
// acknowledges them when Redis replies again. That is only a shortcut: the entries stay in the journal until then, and
// if this process dies, the one that takes an entry over finds its result stored.
type acks struct {
	gate    *gate.Gate
	orders  orderCache
	limit   int // the most results to keep
	metrics *metrics
	trace   Trace

	mu      sync.Mutex
	unacked map[int64][][]order.Result // by sale: batches, each with whole journal entries
	n       int
}

// ackOrKeep acknowledges results, or keeps them for retry.
func (a *acks) ackOrKeep(ctx context.Context, sale int64, results []order.Result) {
	if err := a.ack(ctx, sale, results); err != nil {
		a.metrics.logFault("acknowledge", err)
		a.keep(sale, results)
	}
}

// ack acknowledges results at the gate, even after ctx has ended.
func (a *acks) ack(ctx context.Context, sale int64, results []order.Result) error {
	began := time.Now()
	err := a.gate.Ack(context.WithoutCancel(ctx), sale, results)
	if err == nil { // only once the gate has them: the buyer may ask another process next
		a.trace.Ack(sale, results, began)
		a.orders.remember(sale, results...)
	}
	return err
}

func (a *acks) keep(sale int64, results []order.Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n+len(results) > a.limit {
		return
	}
	if a.unacked == nil {
		a.unacked = map[int64][][]order.Result{}
	}
	a.unacked[sale] = append(a.unacked[sale], results)
	a.n += len(results)
}

// waits returns a function that reports whether results of a sale are kept.
func (a *acks) waits() func(sale int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	sales := make(map[int64]bool, len(a.unacked))
	for sale := range a.unacked {
		sales[sale] = true
	}
	return func(sale int64) bool { return sales[sale] }
}

// drop forgets the oldest batch of a sale.
func (a *acks) drop(sale int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n -= len(a.unacked[sale][0])
	if a.unacked[sale] = a.unacked[sale][1:]; len(a.unacked[sale]) == 0 {
		delete(a.unacked, sale)
	}
}

// kept returns the journal entries of a sale whose results are kept: they are settled.
func (a *acks) kept(sale int64) map[string]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	entries := map[string]bool{}
	for _, results := range a.unacked[sale] {
		for _, r := range results {
			if entry, ok := gate.EntryID(r.Ticket); ok {
				entries[entry] = true
			}
		}
	}
	return entries
}

// retry acknowledges the kept results. They are kept until the gate has them. Two rounds at once are not safe.
func (a *acks) retry(ctx context.Context) {
	a.mu.Lock()
	kept := maps.Clone(a.unacked)
	a.mu.Unlock()
	for sale, batches := range kept {
		for _, results := range batches {
			if a.ack(ctx, sale, results) != nil {
				break
			}
			a.drop(sale)
		}
	}
}
