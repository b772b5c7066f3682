package bench

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// Servers is the processor time that the stores have used so far, in seconds. 0 is unknown.
type Servers struct{ Postgres, Redis float64 }

// Cost is what one unit of work of a turn cost: a committed purchase, or a response where nothing was sold. The times are
// microseconds of processor time, which depend less on other use of the machine than a throughput does. 0 is unknown.
type Cost struct {
	Per            string  `json:"per"`
	Shop           float64 `json:"shop_us,omitempty"`
	Postgres       float64 `json:"postgres_us,omitempty"` // all its processes
	Redis          float64 `json:"redis_us,omitempty"`
	Client         float64 `json:"client_us,omitempty"` // the bench itself
	Allocations    float64 `json:"allocations,omitempty"`
	AllocatedBytes float64 `json:"allocated_bytes,omitempty"`

	Clicks  float64 `json:"clicks_in_a_reserve_call,omitempty"`        // mean
	Tickets float64 `json:"tickets_in_a_settle_transaction,omitempty"` // mean
	Held    float64 `json:"connection_held_ms,omitempty"`              // mean, of a settle transaction
}

// spent is what all parts have used so far.
type spent struct {
	shop    *Usage
	servers Servers
	client  float64
}

func (d *driver) spent(ctx context.Context) (s spent) {
	s.shop = d.usage(ctx)
	if d.Servers != nil {
		s.servers = d.Servers(ctx)
	}
	if own, err := ProcessUsage(os.Getpid()); err == nil {
		s.client = own.CPU
	}
	return s
}

// cost returns the cost of n units of work between two moments, or nil if the shop's is unknown.
func cost(before, after spent, per string, n int) *Cost {
	if before.shop == nil || after.shop == nil || n == 0 {
		return nil
	}
	each := func(before, after float64) float64 { return (after - before) / float64(n) }
	mean := func(before, after, n, m float64) float64 { return (after - before) / max(1, m-n) }
	was, is := before.shop.Counters, after.shop.Counters
	return &Cost{Per: per,
		Shop:           1e6 * each(before.shop.CPU, after.shop.CPU),
		Postgres:       1e6 * each(before.servers.Postgres, after.servers.Postgres),
		Redis:          1e6 * each(before.servers.Redis, after.servers.Redis),
		Client:         1e6 * each(before.client, after.client),
		Allocations:    each(was.Allocations, is.Allocations),
		AllocatedBytes: each(was.AllocatedBytes, is.AllocatedBytes),
		Clicks:         mean(was.Clicks, is.Clicks, was.ReserveCalls, is.ReserveCalls),
		Tickets:        mean(was.Tickets, is.Tickets, was.SettleCalls, is.SettleCalls),
		Held:           1e3 * mean(was.HeldSeconds, is.HeldSeconds, was.SettleCalls, is.SettleCalls),
	}
}

// String returns the cost as lines of text, without those of unknown parts.
func (c Cost) String() string {
	parts := []string{fmt.Sprintf("shop %.1f", c.Shop)}
	for _, part := range []struct {
		name string
		us   float64
	}{{"Postgres", c.Postgres}, {"Redis", c.Redis}} {
		if part.us > 0 {
			parts = append(parts, fmt.Sprintf("%s %.1f", part.name, part.us))
		}
	}
	s := fmt.Sprintf("%.1f µs of processor time a %s: %s; besides, the bench %.1f", c.Shop+c.Postgres+c.Redis, c.Per, strings.Join(parts, ", "), c.Client)
	if c.Allocations > 0 {
		s += fmt.Sprintf("\n%.0f allocations (%.1f kB) a %s", c.Allocations, c.AllocatedBytes/1000, c.Per)
	}
	if c.Clicks > 0 {
		s += fmt.Sprintf("; %.1f clicks in a reserve call", c.Clicks)
	}
	if c.Tickets > 0 {
		s += fmt.Sprintf("; %.1f tickets in a settle transaction, which holds its connection for %.1f ms", c.Tickets, c.Held)
	}
	return s
}
