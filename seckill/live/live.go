// Package live is the live view of the shop: what every process does, added up once a second, and its last day.
//
// Each process writes its figures to Redis once a second, and reads those of the others. So every process can show the
// whole shop, and there is no leader. What is sold, paid and left is read from Postgres, by one process for all:
// Postgres alone knows it. Rates, refusals and latencies are counted in the processes, and end with them.
//
// What is not known is never shown as zero. A process that is missing is named, and its last counts stay. While Redis
// is down a process shows itself alone and says so; while Postgres is down the last units and orders stay, with their
// time.
//
// A purchase costs a few atomic additions more. Tickets and orders are counted once per batch.
package live

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"miaosha/seckill"
	"miaosha/seckill/rounds"
	"miaosha/seckill/trace"
)

const (
	tickEvery = time.Second
	tickLimit = 10 * time.Second // each store has less
)

// Deps has what a Monitor needs.
type Deps struct {
	DB      *pgxpool.Pool
	Redis   redis.UniversalClient
	Engine  *seckill.Engine
	Trace   *trace.Trace // what the engine is traced by
	Counts  *Counts
	Version string
	Log     *slog.Logger
}

// Monitor gathers the figures of one process and adds up those of all. Only Run changes it.
type Monitor struct {
	Deps
	name   string
	began  time.Time
	once   rate.Sometimes // at most one fault a minute is logged
	rounds *rounds.Rounds

	exchangeLimit, countLimit time.Duration

	sums    sums
	wrote   map[string]time.Time // when each process wrote last, by the clock of Redis, as of the last exchange
	ahead   time.Duration        // the clock of Redis is so far ahead of this one
	totals  totals
	paid    map[int64]float64 // payments a second, by scope
	countAt time.Time         // when orders are to be counted next

	mu     sync.Mutex
	scopes map[int64]*scope
	last   *View
	next   chan struct{} // closed when there is a newer View
}

// scope is the shop or one sale.
type scope struct {
	series
	peaks   map[string]Peak
	encoded []byte // its history; nil until a page asks for it in this second
}

// New returns a Monitor, which shows nothing until Run.
func New(d Deps) *Monitor {
	host, _ := os.Hostname() // without one the name is shorter
	began := time.Now()
	return &Monitor{Deps: d, name: newName(host, os.Getpid(), began), began: began,
		once: rate.Sometimes{Interval: time.Minute}, rounds: rounds.New(), exchangeLimit: exchangeLimit,
		countLimit: countLimit,
		sums:       sums{processes: map[string]*process{}}, paid: map[int64]float64{}, scopes: map[int64]*scope{},
		next: make(chan struct{})}
}

// Run gathers once a second until ctx ends.
func (m *Monitor) Run(ctx context.Context) error {
	defer m.leave(ctx)
	m.rounds.Run(ctx, tickLimit, rounds.Every(tickEvery), m.tick)
	return nil
}

// Latest returns the newest View, nil before the first one, and a channel that is closed when there is a newer one.
func (m *Monitor) Latest() (*View, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last, m.next
}

func (m *Monitor) tick(ctx context.Context) {
	own := m.read(m.totals.Sales)
	x, redisErr := m.exchange(ctx, own)
	now := time.Now()
	if redisErr == nil {
		m.wrote, m.ahead = x.wrote, x.now.Sub(now)
	}
	at := now.Add(m.ahead)
	read, postgresErr := x.totals, error(nil)
	if x.counts || redisErr != nil {
		if read, postgresErr = m.count(ctx, at, m.totals); postgresErr == nil && redisErr == nil {
			redisErr = m.tell(ctx, read)
		}
	}
	for _, err := range []error{redisErr, postgresErr} {
		m.warn(ctx, err)
	}
	if postgresErr == nil && read.At.After(m.totals.At) {
		m.takeTotals(read)
	}
	m.sums.addAll(now, append(x.others, own))
	m.publish(now, at, redisErr == nil)
}

// warn logs, not too often, why a figure is not known.
func (m *Monitor) warn(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		m.once.Do(func() { m.Log.Warn("the live view is not whole", "err", err) })
	}
}

// takeTotals keeps the newest totals, and how many payments a second came since the last count. A payment that was
// returned later has come too.
func (m *Monitor) takeTotals(next totals) {
	if since := next.Counted.Sub(m.totals.Counted).Seconds(); since > 0 && !m.totals.Counted.IsZero() {
		m.paid = map[int64]float64{}
		for _, s := range next.Sales {
			if was, ok := m.totals.of(s.ID); ok && was.Orders != nil && s.Orders != nil {
				r := max(0, float64(s.Paid+s.Refunded-was.Paid-was.Refunded)/since)
				m.paid[s.ID] = r
				m.paid[shop] += r
			}
		}
	}
	m.totals = next
}

// publish makes the View of this second, and wakes those who wait for it.
func (m *Monitor) publish(now, at time.Time, redisHere bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = m.view(now, at, redisHere)
	close(m.next)
	m.next = make(chan struct{})
}
