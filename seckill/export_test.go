package seckill

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/alive"
	"miaosha/seckill/gate"
	"miaosha/seckill/watch"
)

// SureFor is how long a look at a sale's row is valid.
const SureFor = watch.SureFor

// Owners is how many owners an entry may have before its tickets without a result are rejected.
const Owners = maxOwners

// AloneOwners is after how many owners of an entry each of its tickets is settled alone.
const AloneOwners = aloneOwners

// GateAvailable reports whether the breaker is closed.
func (e *Engine) GateAvailable() bool { return e.lanes.gate.Available() }

// ReclaimAfter sets the time after which a process that does not beat is dead. Call it before Run.
func (e *Engine) ReclaimAfter(d time.Duration) { e.beats.After = d }

// TakeOverFrom looks once for tickets of a process that has surely died, and for those of this one.
func (e *Engine) TakeOverFrom(ctx context.Context, process string) error {
	return e.reclaimer.look(ctx, process)
}

// Name returns the name of this process in the journals.
func (e *Engine) Name() string { return e.reclaimer.alive.Name }

// Rebuild sets the sale's gate up from Postgres.
func (e *Engine) Rebuild(ctx context.Context, sale int64) error {
	return e.rebuilder.Rebuild(ctx, sale)
}

// RepairGate rebuilds the sale's gate as a tick of reconcile does.
func (e *Engine) RepairGate(ctx context.Context, sale int64) {
	e.reconciler.repair(ctx, observation{sale: goods.SaleState{ID: sale}}, rebuildGate)
}

// TakeMarkOff is RepairGate for the mark of a sale that was sold without its gate.
func (e *Engine) TakeMarkOff(ctx context.Context, sale int64) {
	e.reconciler.repair(ctx, observation{sale: goods.SaleState{ID: sale}}, clearBypass)
}

// HoldRebuild makes all who rebuild the sale's gate wait until release is called.
func (e *Engine) HoldRebuild(ctx context.Context, sale int64) (release func()) {
	began, released := make(chan struct{}), make(chan struct{})
	go e.rebuilder.Once(ctx, sale, "rebuild the gate", func(context.Context, time.Duration) error {
		close(began)
		<-released
		return nil
	})
	<-began
	return func() { close(released) }
}

// Rests reports whether a part lets the sale rest because another transaction keeps its row.
func (e *Engine) Rests(sale int64) bool {
	for _, locked := range []*goods.LockedSales{&e.lanes.direct.locked, &e.reclaimer.settler.locked} {
		if _, resting := locked.Slow(); slices.Contains(resting, sale) {
			return true
		}
	}
	return e.rebuilder.Slow(sale)
}

// SettleAlone settles a ticket in a transaction of its own.
func (e *Engine) SettleAlone(ctx context.Context, sale int64, t order.Ticket) {
	e.reclaimer.settler.settleAlone(ctx, sale, t)
}

// RejectOne rejects a ticket.
func (e *Engine) RejectOne(ctx context.Context, sale int64, t order.Ticket) {
	e.reclaimer.settler.rejectOne(ctx, sale, t)
}

// FillQueue takes all places of the queue, until free is called.
func (e *Engine) FillQueue() (free func()) {
	n := e.queue.ClaimRoom(0, e.cfg.QMax)
	return func() { e.queue.ReleaseRoom(n) }
}

// Queued returns how many tickets are in the queue.
func (e *Engine) Queued() int { return e.queue.Queued() }

// Inherit looks once for processes that have died. Run must not run.
func (e *Engine) Inherit(ctx context.Context) { e.reclaimer.inherit(ctx) }

// InheritBusy has the processes for whose tickets the queue had no room, and when.
func (e *Engine) InheritBusy() map[string]time.Time { return e.reclaimer.busy }

// ReadResults reads the results of buyers in one batch, as they wait when the reader comes to them.
func (e *Engine) ReadResults(ctx context.Context, buyers ...order.Buyer) (statuses map[order.Buyer]Status, errs map[order.Buyer]error) {
	var queries, second []*resultQuery
	for _, b := range buyers {
		queries = append(queries, &resultQuery{buyer: b, reply: make(chan resultReply, 1)})
	}
	e.results.readGate(ctx, queries)
	for len(e.results.atPostgres) > 0 {
		second = append(second, <-e.results.atPostgres)
	}
	e.results.readPostgres(ctx, second)
	statuses, errs = map[order.Buyer]Status{}, map[order.Buyer]error{}
	for i, b := range buyers {
		got := <-queries[i].reply
		statuses[b], errs[b] = got.Status, got.err
	}
	return statuses, errs
}

// ResultsWaiting returns how many queries wait for the reader of results.
func (e *Engine) ResultsWaiting() int { return len(e.results.atGate) }

// ReconcileNow returns when a tick of reconcile that began after the call has ended. Run must run.
func (e *Engine) ReconcileNow(ctx context.Context) error { return e.reconciler.rounds.Now(ctx) }

// ReconcileEach sets the time between two ticks of reconcile. Call it before Run.
func (e *Engine) ReconcileEach(d time.Duration) { e.reconciler.every = d }

// ReclaimNow is ReconcileNow for reclaim.
func (e *Engine) ReclaimNow(ctx context.Context) error { return e.reclaimer.rounds.Now(ctx) }

// InheritNow is ReconcileNow for the look for processes that have died.
func (e *Engine) InheritNow(ctx context.Context) error { return e.reclaimer.looks.Now(ctx) }

// BeatNow is ReconcileNow for the beat.
func (e *Engine) BeatNow(ctx context.Context) error { return e.beats.Rounds.Now(ctx) }

// Reconcile runs one tick of reconcile.
func (e *Engine) Reconcile(ctx context.Context) { e.reconciler.tick(ctx) }

// Seed sets how many owners are read at once, and whether processes wait for the one that seeds. Call it before Run.
func (e *Engine) Seed(page int, lease bool) { e.rebuilder.Page, e.rebuilder.NoLease = page, !lease }

// ReadGates makes the next tick of reconcile read all gates itself.
func (e *Engine) ReadGates() { e.reconciler.readings.Forget() }

// Settle settles tickets as a worker of the queue does, until all are decided or ctx ends.
func (e *Engine) Settle(ctx context.Context, sale int64, tickets ...order.Ticket) {
	for err := goods.ErrLocked; errors.Is(err, goods.ErrLocked); {
		var n int
		n, err = e.SettleBatch(ctx, sale, tickets, func() {})
		tickets = tickets[n:]
	}
}

// SettleBatch is one try of Settle. It calls sent before each COMMIT, and returns how many tickets are settled.
func (e *Engine) SettleBatch(ctx context.Context, sale int64, tickets []order.Ticket, sent func()) (int, error) {
	return e.reclaimer.settler.settleUntilDone(ctx, sale, tickets, goods.LockWait, sent)
}

// SettleOnce runs the settle transaction alone: one try, no Ack, nothing published.
func (e *Engine) SettleOnce(ctx context.Context, sale int64, tickets []order.Ticket) ([]order.Result, error) {
	return e.lanes.direct.settler.settle(ctx, sale, tickets, goods.LongLockWait, nil, func() {})
}

// ReserveAll reserves tickets for many users in one call and returns how many were granted. No process queues them.
func (e *Engine) ReserveAll(ctx context.Context, sale int64, users []int64) (granted int, err error) {
	requests := make([]gate.Request, len(users))
	for i, u := range users {
		requests[i] = gate.Request{UserID: u, Nonce: uuid.NewString()}
	}
	replies, err := e.lanes.gate.Reserve(ctx, sale, requests)
	for _, r := range replies {
		if r.Ticket != "" {
			granted++
		}
	}
	return granted, err
}

// Reserve reserves a ticket for a user in the name of another process, which never queues it.
func Reserve(ctx context.Context, rdb redis.UniversalClient, process string, sale, user int64) (ticket string, err error) {
	replies, err := gate.New(rdb, process, time.Second).Reserve(ctx, sale, []gate.Request{{UserID: user, Nonce: uuid.NewString()}})
	if err != nil {
		return "", err
	}
	return replies[0].Ticket, replies[0].Err
}

// DeadProcess returns the name of a process of the shop with this secret, which has surely died.
func DeadProcess(secret []byte) (name string, err error) {
	p := alive.NewPresence(secret, "")
	err = p.Enter()
	p.Leave()
	return p.Name, err
}

// SeenOps returns the ops of a gate at the last tick of reconcile.
func (e *Engine) SeenOps(sale int64) int64 { return e.lanes.facts.Of(sale).Ops }

// Knows reports whether this process remembers a user's order.
func (e *Engine) Knows(sale, user int64) bool {
	_, known := e.results.known(sale, user)
	return known
}

// KeptAcks returns how many results wait for an ack that can be repeated.
func (e *Engine) KeptAcks() int {
	e.reconciler.acks.mu.Lock()
	defer e.reconciler.acks.mu.Unlock()
	return e.reconciler.acks.n
}

// DirectWait returns how long a process that would sell without the gate now must wait until all others have seen the
// sale's mark.
func (e *Engine) DirectWait(sale int64, mark goods.Bypass) time.Duration {
	return e.lanes.direct.untilSeen(goods.Locked{ID: sale, Bypass: mark})
}

// KeepAck keeps a result whose ack has failed. DropAck forgets the oldest one.
func (e *Engine) KeepAck(sale int64, r order.Result) { e.reclaimer.acks.keep(sale, []order.Result{r}) }
func (e *Engine) DropAck(sale int64)                 { e.reclaimer.acks.drop(sale) }

// BringBack looks once at the sales whose units came back.
func (e *Engine) BringBack(ctx context.Context) { e.returns.bringBack(ctx) }

// Beat beats once.
func (e *Engine) Beat(ctx context.Context) { e.beats.Round(ctx) }

// Reclaim looks once for tickets that no process works on.
func (e *Engine) Reclaim(ctx context.Context) { e.reclaimer.tick(ctx) }

// SoldOut reports whether Admit refuses a user's clicks because the sale was sold out a moment ago.
func (e *Engine) SoldOut(sale, user int64) bool {
	err := e.Admit(sale, user)
	if err == nil {
		e.Release()
	}
	return errors.Is(err, goods.ErrSoldOut)
}

// LaneRoom returns how many clicks may wait for a lane after it has served batches that took so long, in this order.
func LaneRoom(took ...time.Duration) int {
	l := newLane(1)
	for _, d := range took {
		l.measure(d)
	}
	return int(l.room.Load())
}

// ServeAfterWaiting serves one batch of clicks of users 1, 2 and so on, each of which has waited for the given time. It
// returns the error of each reply.
func (e *Engine) ServeAfterWaiting(ctx context.Context, sale int64, waited ...time.Duration) []error {
	l := newLane(sale)
	return serveAfterWaiting(waited, func(batch []*click) { e.lanes.serve(ctx, l, e.lanes.inTime(l, batch, time.Now())) })
}

// ServeDirectlyAfterWaiting is ServeAfterWaiting without a gate.
func (e *Engine) ServeDirectlyAfterWaiting(ctx context.Context, sale int64, waited ...time.Duration) []error {
	return serveAfterWaiting(waited, func(batch []*click) { e.lanes.direct.serve(ctx, newLane(sale), batch) })
}

// OccupyDirectSlots claims all slots for settles without a gate, until free is called.
func (e *Engine) OccupyDirectSlots() (free func()) {
	for range directAtOnce {
		e.lanes.direct.slots <- struct{}{}
	}
	return func() {
		for range directAtOnce {
			<-e.lanes.direct.slots
		}
	}
}

func serveAfterWaiting(waited []time.Duration, serve func([]*click)) (errs []error) {
	now, batch := time.Now(), []*click{}
	for i, d := range waited {
		batch = append(batch, newClick(int64(i+1), now.Add(-d)))
	}
	serve(batch)
	for _, c := range batch {
		<-c.done
		errs = append(errs, c.reply.err)
	}
	return errs
}
