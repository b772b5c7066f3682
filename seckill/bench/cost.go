package bench

import (
	"context"
	"fmt"
	"os"
	"strings"

	"miaosha/seckill/report"
)

// Spent is what the stores have used so far, and what the shop has counted. What is unknown is 0.
type Spent struct {
	Postgres, Redis float64 // seconds of processor time
	Counters
}

// Cost is what one unit of work of a turn cost: a committed purchase with all that went with it, such as polls and
// refusals; or a response where nothing was sold. The times are microseconds of processor time, which depend less on
// other use of the machine than a throughput does. 0 is unknown.
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

// spent is what all parts have used so far. shop is nil if that is unknown.
type spent struct {
	shop *Usage
	Spent
	client float64
}

func (d *driver) spent(ctx context.Context) (s spent) {
	s.shop = d.usage(ctx)
	if d.Spent != nil {
		s.Spent = d.Spent(ctx)
	}
	if own, err := ProcessUsage(os.Getpid()); err == nil {
		s.client = own.CPU
	}
	return s
}

// costLeast is the least work of which a cost is told: of less, the background work of the shop would be most. A slow
// shop does less and is told of all the same.
const costLeast = 1000

// cost returns the cost of n units of work between two moments, or nil if the shop's is unknown or n is small and the
// shop is not slow.
func cost(before, after spent, per string, n int, slow bool) *Cost {
	if before.shop == nil || after.shop == nil || n < costLeast && !slow {
		return nil
	}
	mean := func(sum, n float64) float64 {
		if n <= 0 { // unknown
			return 0
		}
		return sum / n
	}
	part := func(before, after float64) float64 {
		if before == 0 || after == 0 { // unknown
			return 0
		}
		return mean(after-before, float64(n))
	}
	was, is := before.Counters, after.Counters
	return &Cost{Per: per,
		Shop:           1e6 * part(before.shop.CPU, after.shop.CPU),
		Postgres:       1e6 * part(before.Postgres, after.Postgres),
		Redis:          1e6 * part(before.Redis, after.Redis),
		Client:         1e6 * part(before.client, after.client),
		Allocations:    part(was.Allocations, is.Allocations),
		AllocatedBytes: part(was.AllocatedBytes, is.AllocatedBytes),
		Clicks:         mean(is.Clicks-was.Clicks, is.ReserveCalls-was.ReserveCalls),
		Tickets:        mean(is.Tickets-was.Tickets, is.SettleCalls-was.SettleCalls),
		Held:           1e3 * mean(is.HeldSeconds-was.HeldSeconds, is.Held-was.Held),
	}
}

// lines returns the cost in sentences, without unknown parts.
func (c Cost) lines() []report.Words {
	parts, zhParts := []string{fmt.Sprintf("shop %.1f", c.Shop)}, []string{fmt.Sprintf("店铺 %.1f", c.Shop)}
	for _, part := range []struct {
		name string
		us   float64
	}{{"Postgres", c.Postgres}, {"Redis", c.Redis}} {
		if part.us > 0 {
			parts, zhParts = append(parts, fmt.Sprintf("%s %.1f", part.name, part.us)), append(zhParts,
				fmt.Sprintf("%s %.1f", part.name, part.us))
		}
	}
	sum, zhPer := c.Shop+c.Postgres+c.Redis, map[string]string{"purchase": "每单", "response": "每次响应"}[c.Per]
	all := []report.Words{{
		En: fmt.Sprintf("%.1f µs of processor time a %s: %s; besides, the bench %.1f", sum, c.Per,
			strings.Join(parts, ", "), c.Client),
		Zh: fmt.Sprintf("%s用处理器时间 %.1f 微秒：%s；此外压测端 %.1f", zhPer, sum, strings.Join(zhParts, "，"), c.Client),
	}}
	var more report.Words
	add := func(en, zh string, args ...any) {
		if more.En != "" {
			more.En, more.Zh = more.En+"; ", more.Zh+"；"
		}
		more.En, more.Zh = more.En+fmt.Sprintf(en, args...), more.Zh+fmt.Sprintf(zh, args...)
	}
	if c.Allocations > 0 {
		add("%.0f allocations (%.1f kB) a "+c.Per, zhPer+"分配内存 %.0f 次（%.1f kB）", c.Allocations, c.AllocatedBytes/1000)
	}
	if c.Clicks > 0 {
		add("%.1f clicks in a reserve call", "一次预留平均合并 %.1f 次点击", c.Clicks)
	}
	if c.Tickets > 0 {
		add("%.1f tickets in a settle transaction, which holds its connection for %.1f ms",
			"一个落库事务平均处理 %.1f 个排队号，占用连接 %.1f 毫秒", c.Tickets, c.Held)
	}
	if more.En != "" {
		all = append(all, more)
	}
	return all
}
