package operator

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"time"

	"miaosha/seckill/backend"
	"miaosha/seckill/bench"
)

// A rush of bots. An address may send 200 requests a second (--ip-rate), and a person at this machine has the address
// of the bots: three quarters are theirs.
const (
	botsInARush   = 500
	botsPerSecond = 125
	botsSeconds   = botsInARush / botsPerSecond
	botsConns     = 32
	botsLimit     = 30 * time.Second // of a whole run
)

// Bots sends crowds of buyers to sales of a sandbox, over its own HTTP, one crowd at a time. The bots have hidden
// addresses, as miaosha users makes them: they solve no sum. Nothing starts before Run is called.
type Bots struct {
	env    Env
	stores *backend.Stores
	url    string
	next   chan int64 // has room for the one sale

	mu  sync.Mutex
	now BotsRun
}

// BotsRun is the state of a run of Bots, or of the last one.
type BotsRun struct {
	State    string `json:"state"` // idle, running, done or failed
	Sale     int64  `json:"sale,omitempty"`
	Bots     int    `json:"bots"`
	Clicked  int64  `json:"clicked"`  // bots that have sent their click
	Accepted int64  `json:"accepted"` // with a ticket
	SoldOut  int64  `json:"sold_out"` // refused, because no unit was left
	Others   int64  `json:"others"`   // refused for another reason, or without an answer
	Bought   int    `json:"bought"`   // orders in Postgres

	Seconds float64 `json:"seconds"` // for how long they came
	Median  float64 `json:"median_ms,omitempty"`
	P99     float64 `json:"p99_ms,omitempty"`
}

// NewBots returns bots for the shop at url, which is on these stores.
func NewBots(env Env, stores *backend.Stores, url string) *Bots {
	return &Bots{env: env, stores: stores, url: url, next: make(chan int64, 1),
		now: BotsRun{State: "idle", Bots: botsInARush}}
}

// Start sends bots to an open sale. It reports false while others are under way.
func (b *Bots) Start(sale int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.now.State == "running" {
		return false
	}
	b.now = BotsRun{State: "running", Sale: sale, Bots: botsInARush}
	b.next <- sale
	return true
}

// Busy reports whether Start would refuse.
func (b *Bots) Busy() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now.State == "running"
}

// State returns the state of the run, a BotsRun.
func (b *Bots) State() any {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

// Run sends the bots until ctx ends, which ends a run, too.
func (b *Bots) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case sale := <-b.next:
			b.rush(ctx, sale)
		}
	}
}

func (b *Bots) rush(ctx context.Context, sale int64) {
	ctx, cancel := context.WithTimeout(ctx, botsLimit)
	defer cancel()
	crowd := crowd{url: b.url, sale: sale, n: botsInARush, seconds: botsSeconds}
	t, err := crowd.run(ctx, b.env, b.stores, func(s bench.Sample) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.now.Clicked, b.now.Accepted, b.now.Bought, b.now.Seconds = s.Offered, s.Accepted, s.Sold, round1(s.At)
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.now.State = "done"; err != nil {
		b.env.Log.Error("bots of the sandbox failed", "sale", sale, "err", err)
		b.now.State = "failed"
		return
	}
	b.now.Clicked, b.now.Accepted, b.now.SoldOut, b.now.Bought = t.Offered, t.Accepted, t.RefusedBy["sold_out"], t.Sold
	b.now.Others, b.now.Seconds = t.Refused-b.now.SoldOut+t.Failed, round1(t.Seconds)
	b.now.Median, b.now.P99 = t.Accept.P50, t.Accept.P99
	if t.Accept.Count == 0 {
		b.now.Median, b.now.P99 = t.Refusal.P50, t.Refusal.P99
	}
}

func round1(x float64) float64 { return math.Round(10*x) / 10 }

// crowd is a number of new buyers, each with a hidden address for one sale, who click once, evenly over some seconds.
type crowd struct {
	url     string
	sale    int64
	n       int
	seconds int
}

// run lets the crowd buy, and waits until what was accepted is sold. Each tenth of a second it calls watch, whose Sold
// are the orders of this crowd alone.
func (c crowd) run(ctx context.Context, env Env, s *backend.Stores, watch func(bench.Sample)) (bench.Turn, error) {
	users, err := mintUsers(ctx, env, s, c.n)
	if err != nil {
		return bench.Turn{}, err
	}
	ids := make([]int64, len(users))
	for i, u := range users {
		ids[i] = u.id
	}
	cfg := bench.Config{URL: c.url, Sale: c.sale, Shape: "open", Seconds: c.seconds, Conns: botsConns,
		Rate: float64(c.n) / float64(c.seconds),
		Sold: ordersOf(s, c.sale, ids), Watch: watch}
	turns, err := bench.Run(ctx, cfg, sendTo([]int64{c.sale}, users, s.Secret, time.Now().Add(time.Minute)), io.Discard)
	if err == nil && len(turns) == 0 {
		err = errors.New("the bots have no result")
	}
	if err != nil {
		return bench.Turn{}, err
	}
	return turns[0], nil
}

// ordersAt returns a function that counts the orders of a sale.
func ordersAt(s *backend.Stores, sale int64) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) { return countOrders(ctx, s, sale) }
}

// ordersOf returns a function that counts the orders of these users at a sale.
func ordersOf(s *backend.Stores, sale int64, users []int64) func(context.Context) (int, error) {
	return func(ctx context.Context) (n int, err error) {
		err = s.Web.QueryRow(ctx, `select count(*) from orders where user_id = any($1) and sale_id = $2`, users, sale).Scan(&n)
		return n, err
	}
}
