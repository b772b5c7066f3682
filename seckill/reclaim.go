package seckill

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"miaosha/order"
)

const (
	reclaimIdle  = 5 * time.Second  // an entry whose owner has been silent for so long is anybody's
	claimRefresh = time.Second      // how often an owner says that he is alive
	retireEvery  = 10 * time.Minute // and how long a consumer must have been silent
	claimBatch   = 500              // entries taken over in one call
	deliveries   = 64               // after so many owners have died with it, a ticket is to blame
	journalLife  = 25 * time.Hour   // gates and journals live a day after their sale's end

	_ = uint(reclaimIdle - 3*settleLimit) // does not compile if an owner had no time for three tries
)

// reclaim takes over what nobody works on: entries whose process has died, and entries nobody was ever given. Any
// process may do it at any time, since settling is safe to repeat.
func (e *Engine) reclaim(ctx context.Context) {
	truths, err := e.sales.Truths(ctx, journalLife)
	if err != nil {
		e.logFault("reclaim", err)
		return
	}
	sales := make([]int64, len(truths))
	for i, t := range truths {
		sales[i] = t.ID
	}
	if len(sales) == 0 {
		return
	}
	var gates map[int64]Reading
	if err := e.try(ctx, redisLimit, func(ctx context.Context) (err error) { gates, err = ReadGates(ctx, e.gate.rdb, sales); return err }); err != nil {
		e.logFault("reclaim", err)
		return
	}
	if time.Since(e.retired) > retireEvery {
		e.retired = time.Now()
		for _, sale := range sales {
			if err := e.gate.retire(ctx, sale, retireEvery); err != nil && ctx.Err() == nil {
				e.logFault("retire", err)
			}
		}
	}
	held := e.pool.held()
	for _, sale := range sales {
		if gates[sale].Waiting > len(held[sale]) {
			for n := claimBatch; n == claimBatch; {
				var err error
				if n, err = e.reclaimIn(ctx, sale, held[sale]); err != nil && ctx.Err() == nil {
					e.logFault("reclaim", err)
				}
			}
		}
	}
}

// reclaimIn takes over entries of one sale that their owners have been silent about, and gives how many it claimed. It
// claims none that there is no room for: a claim counts as a delivery.
func (e *Engine) reclaimIn(ctx context.Context, sale int64, held map[string]bool) (n int, err error) {
	room := e.pool.reserve(claimBatch)
	if room == 0 {
		return 0, nil
	}
	entries, err := e.idleEntries(ctx, sale, room)
	e.pool.release(room)
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	worn, err := e.worn(ctx, sale)
	if err != nil {
		return 0, err
	}
	e.takeOver(ctx, sale, entries, held, worn)
	return len(entries), nil
}

// idleEntries claims at most n entries, of which some may be held here.
func (e *Engine) idleEntries(ctx context.Context, sale int64, n int) ([]redis.XMessage, error) {
	entries, _, err := e.gate.rdb.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: journalKey(sale), Group: group, Consumer: e.gate.consumer,
		MinIdle: e.reclaimIdle, Start: "0-0", Count: int64(n),
	}).Result()
	if err != nil {
		if noGroup(err) { // the next look finds all that is in the journal
			err = e.gate.rdb.XGroupCreate(ctx, journalKey(sale), group, "0").Err()
		}
		if err == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("claim entries of sale %d: %w", sale, err)
	}
	if left := n - len(entries); left > 0 {
		streams, err := e.gate.rdb.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: group, Consumer: e.gate.consumer, Streams: []string{journalKey(sale), ">"}, Count: int64(left), Block: -1,
		}).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, fmt.Errorf("read new entries of sale %d: %w", sale, err)
		}
		for _, s := range streams {
			entries = append(entries, s.Messages...)
		}
	}
	return entries, nil
}

// adopt takes what is pending under this process's own name and not in its queue: a reserve call that was given up may be
// carried out all the same, and long after, when a Redis that had stopped goes on. It is no use to wait as for a stranger.
func (e *Engine) adopt(ctx context.Context, sale int64) error {
	ticks, late := e.view.late.Load(sale)
	if !late {
		return nil
	}
	held := e.pool.held()[sale]
	pending, err := e.gate.rdb.XPendingExt(ctx, &redis.XPendingExtArgs{
		Stream: journalKey(sale), Group: group, Consumer: e.gate.consumer, Idle: gateLimit, Start: "-", End: "+", Count: int64(e.cfg.QMax),
	}).Result()
	if err != nil && !noGroup(err) {
		return fmt.Errorf("look for late tickets of sale %d: %w", sale, err)
	}
	ids := make([]string, 0, len(pending))
	for _, p := range pending {
		if !held[p.ID] {
			ids = append(ids, p.ID)
		}
	}
	pipe := e.gate.rdb.Pipeline()
	found := make([]*redis.XMessageSliceCmd, min(len(ids), claimBatch))
	for i := range found {
		found[i] = pipe.XRange(ctx, journalKey(sale), ids[i], ids[i])
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("read late tickets of sale %d: %w", sale, err)
	}
	var entries []redis.XMessage
	for _, f := range found {
		entries = append(entries, f.Val()...)
	}
	e.takeOver(ctx, sale, entries, held, nil)
	if n := ticks.(int); n > 1 {
		e.view.late.CompareAndSwap(sale, n, n-1)
	} else {
		e.view.late.CompareAndDelete(sale, n)
	}
	return nil
}

// settleAgain queues what is in a journal, whoever has it: of a gate that was set back most was settled long ago, and until
// that is known it offers too much. Nothing is claimed: that settling repeats is safe, and it is nobody's fault.
func (e *Engine) settleAgain(ctx context.Context, sale int64) error {
	entries, err := e.gate.rdb.XRangeN(ctx, journalKey(sale), "-", "+", int64(e.cfg.QMax)).Result()
	if err != nil {
		return fmt.Errorf("read the journal of sale %d: %w", sale, err)
	}
	e.takeOver(ctx, sale, entries, e.pool.held()[sale], nil)
	return nil
}

// takeOver queues the tickets of entries, as far as there is room; the others are found again.
func (e *Engine) takeOver(ctx context.Context, sale int64, entries []redis.XMessage, held, worn map[string]bool) {
	tickets := make([]order.Ticket, 0, len(entries))
	for _, entry := range entries {
		if held[entry.ID] {
			continue
		}
		t, err := ticketIn(entry)
		if err != nil {
			e.log.Error("a journal entry makes no ticket", "sale", sale, "entry", entry.ID, "err", err)
			e.buryEntry(ctx, sale, entry, true)
			continue
		}
		if worn[entry.ID] {
			e.giveUp(ctx, sale, t)
			continue
		}
		tickets = append(tickets, t)
	}
	if tickets = tickets[:e.pool.reserve(len(tickets))]; len(tickets) > 0 {
		e.log.Info("claimed tickets that nobody worked on", "sale", sale, "tickets", len(tickets))
		e.metrics.claims.Add(float64(len(tickets)))
		e.pool.submit(sale, tickets)
	}
}

// worn tells which of this process's entries were handed out too often. Who holds a ticket through an outage keeps it and
// says so each second, which counts as nothing: only a new owner counts.
func (e *Engine) worn(ctx context.Context, sale int64) (map[string]bool, error) {
	pending, err := e.gate.rdb.XPendingExt(ctx, &redis.XPendingExtArgs{
		Stream: journalKey(sale), Group: group, Consumer: e.gate.consumer, Start: "-", End: "+", Count: int64(e.cfg.QMax),
	}).Result()
	if err != nil {
		return nil, fmt.Errorf("count the deliveries in sale %d: %w", sale, err)
	}
	worn := map[string]bool{}
	for _, p := range pending {
		worn[p.ID] = p.RetryCount > deliveries
	}
	return worn, nil
}

// giveUp gives a ticket that has outlived its owners the result invalid, and buries it. Postgres away: the next claim.
func (e *Engine) giveUp(ctx context.Context, sale int64, t order.Ticket) {
	results, err := e.reject(ctx, sale, []order.Ticket{t})
	if err != nil {
		e.logFault("give up a ticket", err)
		return
	}
	e.log.Error("a ticket has outlived its owners", "sale", sale, "ticket", t.ID, "user", t.UserID, "deliveries", deliveries)
	e.bury(ctx, sale, t)
	e.tell(ctx, sale, results)
}

// noGroup tells that a journal, or its consumer group, is not there.
func noGroup(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "NOGROUP") }

// ticketIn reads a journal entry as reserve writes it.
func ticketIn(m redis.XMessage) (order.Ticket, error) {
	field := func(name string) string { s, _ := m.Values[name].(string); return s }
	user, err := strconv.ParseInt(field("user"), 10, 64)
	if err != nil {
		return order.Ticket{}, fmt.Errorf("user: %w", err)
	}
	if _, err := strconv.ParseInt(field("epoch"), 10, 64); err != nil {
		return order.Ticket{}, fmt.Errorf("epoch: %w", err)
	}
	if id, err := uuid.Parse(field("nonce")); err != nil || id.String() != field("nonce") {
		return order.Ticket{}, errors.New("nonce: missing or malformed")
	}
	return order.Ticket{ID: field("epoch") + ":" + m.ID + ":" + field("nonce"), UserID: user}, nil
}

// bury keeps a copy of a ticket that can't be settled in the sale's dead stream. Its entry leaves the journal as any
// other's does, when the gate is told.
func (e *Engine) bury(ctx context.Context, sale int64, t order.Ticket) {
	entry, _ := entryOf(t.ID)
	e.buryEntry(ctx, sale, redis.XMessage{ID: entry, Values: map[string]any{"user": t.UserID, "ticket": t.ID}}, false)
}

// buryEntry copies a journal entry to the sale's dead stream, and removes it from the journal too if it makes no ticket:
// then nobody else will.
func (e *Engine) buryEntry(ctx context.Context, sale int64, entry redis.XMessage, remove bool) {
	values := map[string]any{"entry": entry.ID}
	for k, v := range entry.Values {
		values["was_"+k] = v
	}
	_, err := e.gate.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.XAdd(ctx, &redis.XAddArgs{Stream: deadKey(sale), Values: values})
		p.Expire(ctx, deadKey(sale), 7*24*time.Hour)
		if remove {
			p.XAck(ctx, journalKey(sale), group, entry.ID)
			p.XDel(ctx, journalKey(sale), entry.ID)
		}
		return nil
	})
	if err != nil {
		e.logFault("bury", err)
		return
	}
	e.metrics.dead.Inc()
}

// guard tells the journals once a second that the tickets in this queue have a living owner, so that nobody else
// claims them while Postgres is away.
func (p *pool) guard(ctx context.Context) error {
	if p.e.cfg.Gate == "off" {
		return nil
	}
	return every(ctx, claimRefresh, func(ctx context.Context) {
		for sale, entries := range p.held() {
			ids := make([]string, 0, len(entries))
			for id := range entries {
				ids = append(ids, id)
			}
			for len(ids) > 0 {
				n := min(len(ids), claimBatch)
				err := p.e.try(ctx, redisLimit, func(ctx context.Context) error {
					err := p.e.gate.rdb.XClaimJustID(ctx, &redis.XClaimArgs{
						Stream: journalKey(sale), Group: group, Consumer: p.e.gate.consumer, Messages: ids[:n],
					}).Err()
					if noGroup(err) {
						return nil // the journal is lost; what is held here is settled all the same
					}
					return err
				})
				if err != nil && ctx.Err() == nil {
					p.e.logFault("refresh claims", err)
				}
				ids = ids[n:]
			}
		}
	})
}
