package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"miaosha/seckill/gate"
	"miaosha/seckill/rounds"
)

const (
	gaugesEvery = 2 * time.Second
	gaugesLimit = time.Second // for one reading of both stores
)

// Gauges exports what only Postgres and Redis know: a scrape reads what the last reading found, and asks no store.
// While a store does not answer, its gauges are absent: zero would be a lie. Each process exports the same values.
type Gauges struct {
	db  *pgxpool.Pool
	rdb redis.UniversalClient
	log *slog.Logger

	refunds, refundAge  *prometheus.GaugeVec // of Postgres, like the next
	overdue, overdueAge *prometheus.GaugeVec
	tickets, ticketAge  *prometheus.GaugeVec // of Redis
	readAt              *prometheus.GaugeVec // by store
	once                rate.Sometimes
	rounds              *rounds.Rounds
	limit               time.Duration

	// InFlight, if set, returns the tickets in each sale's journal, as the shop's processes have read them for one
	// another a moment ago, or false if they could not. Without it each reading reads every gate.
	InFlight func() (bySale map[int64]int, ok bool)
}

// NewGauges returns Gauges. rdb may be nil for a shop without gates.
func NewGauges(db *pgxpool.Pool, rdb redis.UniversalClient, log *slog.Logger) *Gauges {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		// one without labels, because it can be absent
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "miaosha_" + name, Help: help}, labels)
	}
	return &Gauges{db: db, rdb: rdb, log: log, once: rate.Sometimes{Interval: time.Minute}, rounds: rounds.New(),
		limit:     gaugesLimit,
		refunds:   gauge("refunds_due", "Payments that must be given back and are not yet."),
		refundAge: gauge("refunds_due_oldest_seconds", "For how long the oldest of them is due; 0 if there is none."),
		overdue: gauge("orders_overdue",
			"Pending orders past their payment deadline that the sweeper has not cancelled yet."),
		overdueAge: gauge("orders_overdue_oldest_seconds",
			"For how long the oldest of them is overdue; 0 if there is none."),
		tickets: gauge("journal_tickets",
			"Tickets in the journals of all sales: granted, and without a result that Redis knows."),
		ticketAge: gauge("journal_oldest_ticket_seconds",
			"For how long the oldest of them waits, by the clock of Redis; 0 if there is none."),
		readAt: gauge("store_read_timestamp_seconds",
			"Unix time at which the gauges of a store were last read. Absent gauges could not be read since.", "store"),
	}
}

// Collectors returns the metrics. Register them once.
func (g *Gauges) Collectors() []prometheus.Collector {
	return []prometheus.Collector{g.refunds, g.refundAge, g.overdue, g.overdueAge, g.tickets, g.ticketAge, g.readAt}
}

// Run reads both stores every two seconds until ctx ends.
func (g *Gauges) Run(ctx context.Context) error {
	g.rounds.Run(ctx, g.limit, rounds.Every(gaugesEvery), func(limited context.Context) {
		err := errors.Join(g.readPostgres(limited), g.readRedis(limited))
		if err != nil && ctx.Err() == nil {
			g.once.Do(func() { g.log.Warn("metrics of a store cannot be read", "err", err) })
		}
	})
	return nil
}

func (g *Gauges) readPostgres(ctx context.Context) error {
	var due, overdue int
	var dueFor, overdueFor float64 // seconds
	err := g.db.QueryRow(ctx, `
		with recursive`+firstPending+`
		select p.n, coalesce(extract(epoch from statement_timestamp() - p.oldest), 0)::float8,
		       o.n, coalesce(extract(epoch from statement_timestamp() - o.oldest), 0)::float8
		from   (select count(*) as n, min(updated_at) as oldest from payments where status = 'refund_due') p,
		       (select coalesce(sum(overdue.n), 0) as n, min(first.expires_at) as oldest
		        from   first cross join lateral
		              (select count(*) as n from orders where status = 'pending' and sale_id = first.sale_id and expires_at <= statement_timestamp()) overdue
		        where  first.expires_at <= statement_timestamp()) o`).
		Scan(&due, &dueFor, &overdue, &overdueFor)
	if err != nil {
		for _, unknown := range []*prometheus.GaugeVec{g.refunds, g.refundAge, g.overdue, g.overdueAge} {
			unknown.Reset()
		}
		return fmt.Errorf("count refunds and overdue orders: %w", err)
	}
	g.refunds.WithLabelValues().Set(float64(due))
	g.refundAge.WithLabelValues().Set(max(0, dueFor))
	g.overdue.WithLabelValues().Set(float64(overdue))
	g.overdueAge.WithLabelValues().Set(max(0, overdueFor))
	g.readAt.WithLabelValues("postgres").SetToCurrentTime()
	return nil
}

func (g *Gauges) readRedis(ctx context.Context) error {
	if g.rdb == nil {
		return nil
	}
	tickets, oldest, err := g.waitingTickets(ctx)
	if err != nil {
		g.tickets.Reset()
		g.ticketAge.Reset()
		return err
	}
	g.tickets.WithLabelValues().Set(float64(tickets))
	g.ticketAge.WithLabelValues().Set(oldest.Seconds())
	g.readAt.WithLabelValues("redis").SetToCurrentTime()
	return nil
}

func (g *Gauges) waitingTickets(ctx context.Context) (tickets int, oldest time.Duration, err error) {
	if g.InFlight == nil {
		return waitingTickets(ctx, g.db, g.rdb)
	}
	bySale, ok := g.InFlight()
	if !ok {
		return 0, 0, errors.New("the gates could not be read")
	}
	var waiting []int64
	for id, n := range bySale {
		if tickets += n; n > 0 {
			waiting = append(waiting, id)
		}
	}
	ages, err := oldestTickets(ctx, g.rdb, waiting)
	for _, t := range ages {
		oldest = max(oldest, t.age)
	}
	return tickets, oldest, err
}

// waitingTickets returns how many tickets all journals have, and for how long the oldest waits.
func waitingTickets(
	ctx context.Context, db *pgxpool.Pool, rdb redis.UniversalClient,
) (tickets int, oldest time.Duration, err error) {
	all, err := sales(ctx, db)
	if err != nil {
		return 0, 0, fmt.Errorf("list the sales with a journal: %w", err)
	}
	ids := make([]int64, len(all))
	for i, s := range all {
		ids[i] = s.ID
	}
	states, err := gate.States(ctx, rdb, ids)
	if err != nil {
		return 0, 0, err
	}
	var waiting []int64
	for id, s := range states {
		if tickets += s.InFlight; s.InFlight > 0 {
			waiting = append(waiting, id)
		}
	}
	ages, err := oldestTickets(ctx, rdb, waiting)
	for _, t := range ages {
		oldest = max(oldest, t.age)
	}
	return tickets, oldest, err
}
