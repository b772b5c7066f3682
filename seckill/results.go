package seckill

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/gate"
	"miaosha/seckill/queue"
)

const (
	resultReaders = 2   // round trips at the same time, to each of Redis and Postgres
	resultBatch   = 256 // queries in one of them
	// waiting queries: those of all event streams of a process at once, and of polls; the rest are refused as busy
	resultsQueued = 16384
	resultLimit   = time.Second
)

// resultReader reads results in batches of any sales: one Redis pipeline, then one Postgres query. Redis is believed
// only when it reports an order. Any other value may be stale: Redis may have lost the ticket, may have been restored
// from older data, or may have been bypassed while it was down. So every other value is looked up in Postgres.
type resultReader struct {
	gateOff bool
	gate    *gate.Gate
	queue   *queue.Queue
	store   *order.Store
	orders  orderCache
	metrics *metrics

	atGate, atPostgres chan *resultQuery
	ended              chan struct{} // closed when no further query is served
}

// resultQuery is one request for a user's result.
type resultQuery struct {
	buyer    order.Buyer
	at       time.Time
	gate     gate.Status      // what the gate remembers
	gateDown bool             // the gate did not reply
	waits    bool             // the ticket is in this process's queue, and no COMMIT of it was sent
	status   Status           // what is known without Postgres
	reply    chan resultReply // has room for the one reply
}

type resultReply struct {
	Status
	err error
}

func newResultReader(
	cfg Config, g *gate.Gate, q *queue.Queue, store *order.Store, orders orderCache, m *metrics,
) *resultReader {
	return &resultReader{gateOff: cfg.gateOff(), gate: g, queue: q, store: store, orders: orders, metrics: m,
		atGate: make(chan *resultQuery, resultsQueued), atPostgres: make(chan *resultQuery, resultsQueued),
		ended: make(chan struct{})}
}

// Run serves queries until ctx ends.
func (r *resultReader) Run(ctx context.Context) {
	defer close(r.ended)
	var readers sync.WaitGroup
	for range resultReaders {
		readers.Go(func() { gather(ctx, r.atGate, r.readGate) })
		readers.Go(func() { gather(ctx, r.atPostgres, r.readPostgres) })
	}
	readers.Wait()
}

// gather passes all queries that wait in a channel to read, of whatever sales, until ctx ends. A single query does not
// wait for others.
func gather(ctx context.Context, in <-chan *resultQuery, read func(ctx context.Context, queries []*resultQuery)) {
	for {
		var queries []*resultQuery
		take := func(q *resultQuery) {
			if time.Since(q.at) > waitLimit {
				q.reply <- resultReply{err: ErrBusy}
				return
			}
			queries = append(queries, q)
		}
		select {
		case <-ctx.Done():
			return
		case q := <-in:
			take(q)
		}
		for n := 1; n < resultBatch; n++ {
			select {
			case q := <-in:
				take(q)
				continue
			default:
			}
			break
		}
		if len(queries) == 0 {
			continue
		}
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), resultLimit)
		read(limited, queries)
		cancel()
	}
}

// known returns the user's order if this process remembers it.
func (r *resultReader) known(sale, user int64) (Status, bool) {
	id, known := r.orders.byBuyer.GetIfPresent(order.Buyer{SaleID: sale, UserID: user})
	return Status{State: Ordered, OrderID: id}, known
}

// read queues a query and waits for its reply.
func (r *resultReader) read(ctx context.Context, sale, user int64) (Status, error) {
	q := &resultQuery{buyer: order.Buyer{SaleID: sale, UserID: user}, at: time.Now(), reply: make(chan resultReply, 1)}
	select {
	case r.atGate <- q:
	default:
		return Status{}, r.metrics.shedFor("results")
	}
	select {
	case got := <-q.reply:
		return got.Status, got.err
	case <-r.ended:
	case <-ctx.Done():
	}
	return Status{}, ErrBusy
}

// confirm returns what became of a click, if this process cannot be sure that its gate knows of it, or if the ticket is
// an older one, which has a place of its own in the queue. The gate said queued, or refused with goods.ErrSoldOut.
// Refusals: goods.ErrSoldOut, ErrBusy.
func (r *resultReader) confirm(ctx context.Context, sale, user int64, refusal error) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, resultLimit)
	defer cancel()
	status, err := r.read(ctx, sale, user)
	switch {
	case err != nil:
		return Status{}, err
	case status.State == SoldOut, status.State == None && refusal != nil:
		return Status{}, goods.ErrSoldOut
	case status.State == None: // the gate has lost the ticket
		return Status{}, ErrBusy
	}
	return status, nil
}

func buyersOf(queries []*resultQuery) []order.Buyer {
	buyers := make([]order.Buyer, len(queries))
	for i, q := range queries {
		buyers[i] = q.buyer
	}
	return buyers
}

func (r *resultReader) readGate(ctx context.Context, queries []*resultQuery) {
	buyers := buyersOf(queries)
	// Read before the gate, because a ticket leaves the queue after its Ack.
	places := r.queue.Places(buyers)
	tickets := slices.Repeat([]gate.Remembered{{Status: gate.Status{State: None}}}, len(queries))
	if !r.gateOff {
		tickets = r.gate.Tickets(ctx, buyers)
	}
	inFlight := r.inFlight(ctx, queries, tickets, places)
	for i, q := range queries {
		place, here := places[q.buyer]
		q.gate, q.gateDown, q.status = tickets[i].Status, tickets[i].Err != nil, statusAtGate(tickets[i].Status)
		if q.gateDown {
			r.metrics.logFault("result", tickets[i].Err)
		}
		q.waits = here && !place.Sent
		switch {
		case q.status.State == Ordered:
			r.orders.remember(q.buyer.SaleID, order.Result{UserID: q.buyer.UserID, OrderID: q.status.OrderID})
			q.reply <- resultReply{Status: q.status}
			continue
		case here: // whatever Redis has: it may have lost the ticket, or may not reply
			q.status = queuedBehind(place.Ahead)
		case q.status.State == Queued: // in another process, behind at most all tickets of the journal
			q.status = queuedBehind(max(0, inFlight[q.buyer.SaleID].InFlight-1))
		}
		select {
		case r.atPostgres <- q:
		default:
			q.reply <- resultReply{err: r.metrics.shedFor("results")}
		}
	}
}

// inFlight reads the gates of those sales in whose journals the ticket of another process is. A gate that is not read
// has none.
func (r *resultReader) inFlight(
	ctx context.Context, queries []*resultQuery, tickets []gate.Remembered, places map[order.Buyer]queue.Place,
) map[int64]gate.State {
	var sales []int64
	for i, q := range queries {
		if _, here := places[q.buyer]; !here && tickets[i].State == Queued {
			sales = append(sales, q.buyer.SaleID)
		}
	}
	if len(sales) == 0 {
		return nil
	}
	slices.Sort(sales)
	states, err := r.gate.States(ctx, slices.Compact(sales))
	if err != nil {
		r.metrics.logFault("result", err)
	}
	return states
}

func (r *resultReader) readPostgres(ctx context.Context, queries []*resultQuery) {
	outcomes, err := r.store.Outcomes(ctx, buyersOf(queries))
	if err != nil {
		r.metrics.logFault("result", err)
	}
	r.repairTickets(ctx, queries, outcomes)
	for _, q := range queries {
		switch result, known := outcomes[q.buyer]; {
		// no other process has told of an order: it would have repaired the gate, or has no Redis
		case err != nil && q.waits && q.gate.State == Queued,
			// or it is the result of an older ticket
			err == nil && q.status.State == Queued && result.OrderID == uuid.Nil && result.Ticket != q.gate.Ticket:
			q.reply <- resultReply{Status: q.status}
		case err != nil, q.gateDown && result.OrderID == uuid.Nil: // Redis may have a newer ticket than Postgres knows
			q.reply <- resultReply{err: ErrBusy}
		case known:
			r.orders.remember(q.buyer.SaleID, result)
			q.reply <- resultReply{Status: statusOf(result)}
		default: // no ticket; or a refusal that could not be stored
			q.reply <- resultReply{Status: q.status}
		}
	}
}

// repairTickets writes orders to the gate whose tickets are still queued there, before the replies to their owners. A
// buyer who was told of an order must not be told "queued" by another process when Postgres is down. The replies follow
// even if the gate does not reply.
func (r *resultReader) repairTickets(
	ctx context.Context, queries []*resultQuery, outcomes map[order.Buyer]order.Result,
) {
	owners := map[int64][]order.Owner{}
	for _, q := range queries {
		if result := outcomes[q.buyer]; result.OrderID != uuid.Nil && q.status.State == Queued && q.gate.State != None {
			owners[q.buyer.SaleID] = append(owners[q.buyer.SaleID],
				order.Owner{UserID: q.buyer.UserID, OrderID: result.OrderID})
		}
	}
	if len(owners) == 0 {
		return
	}
	if err := r.gate.RepairTickets(ctx, owners); err != nil {
		r.metrics.logFault("result", err)
	}
}
