package live

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const exchangeLimit = 500 * time.Millisecond // for the commands of one second

// exchanged is what a process reads from Redis.
type exchanged struct {
	now    time.Time            // by the clock of Redis
	wrote  map[string]time.Time // when each process wrote last, by the same clock
	others []figures
	totals totals // zero if none were written lately
	counts bool   // this process is to read the next totals
}

// exchange writes this process's figures and reads those of the others. Every process judges by the clock of Redis, so
// a wrong clock makes no process look dead.
func (m *Monitor) exchange(ctx context.Context, own figures) (x exchanged, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.exchangeLimit)
	defer cancel()
	if x.now, err = m.Redis.Time(ctx).Result(); err != nil {
		return x, fmt.Errorf("read the clock of Redis: %w", err)
	}
	document, err := json.Marshal(own)
	if err != nil {
		return x, fmt.Errorf("encode figures: %w", err)
	}
	var seen *redis.ZSliceCmd
	var counts *redis.BoolCmd
	if _, err = m.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, figuresKey(m.name), document, figuresLife)
		p.ZAdd(ctx, processesKey, redis.Z{Score: float64(x.now.UnixMilli()), Member: m.name})
		p.PExpire(ctx, processesKey, forgetAfter)
		seen = p.ZRangeWithScores(ctx, processesKey, 0, -1)
		counts = p.SetNX(ctx, countingKey, m.name, countingLife)
		return nil
	}); err != nil {
		return x, fmt.Errorf("write figures: %w", err)
	}
	x.counts, x.wrote = counts.Val(), map[string]time.Time{}
	keys, gone := []string{totalsKey}, []any{}
	for _, z := range seen.Val() {
		name, wrote := z.Member.(string), time.UnixMilli(int64(z.Score))
		if x.now.Sub(wrote) > forgetAfter {
			gone = append(gone, name)
			continue
		}
		if x.wrote[name] = wrote; name != m.name {
			keys = append(keys, figuresKey(name))
		}
	}
	if len(gone) > 0 {
		m.Redis.ZRem(ctx, processesKey, gone...) // if it fails, the next second does it
	}
	values, err := m.Redis.MGet(ctx, keys...).Result()
	if err != nil {
		return x, fmt.Errorf("read the figures of the others: %w", err)
	}
	if text, ok := values[0].(string); ok && json.Unmarshal([]byte(text), &x.totals) != nil {
		x.totals = totals{} // of a release with another form
	}
	for _, v := range values[1:] {
		var f figures
		if text, ok := v.(string); ok && json.Unmarshal([]byte(text), &f) == nil {
			x.others = append(x.others, f)
		}
	}
	return x, nil
}

// tell writes the totals for the other processes.
func (m *Monitor) tell(ctx context.Context, t totals) error {
	ctx, cancel := context.WithTimeout(ctx, m.exchangeLimit)
	defer cancel()
	document, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("encode totals: %w", err)
	}
	if err := m.Redis.Set(ctx, totalsKey, document, figuresLife).Err(); err != nil {
		return fmt.Errorf("write totals: %w", err)
	}
	return nil
}

// leave takes this process out, so that no one misses it.
func (m *Monitor) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.exchangeLimit)
	defer cancel()
	m.Redis.ZRem(ctx, processesKey, m.name) // an error: it is missed for a while
	m.Redis.Del(ctx, figuresKey(m.name))
}

// Probe makes the calls to Redis of this package once, as a process that leaves at once. It returns the first error.
func Probe(ctx context.Context, rdb redis.UniversalClient) error {
	m := New(Deps{Redis: rdb})
	defer m.leave(ctx)
	_, err := m.exchange(ctx, figures{})
	return err
}

// newName returns the name of a process, another one for each start.
func newName(host string, pid int, began time.Time) string {
	return host + "-" + strconv.Itoa(pid) + "-" + strconv.FormatInt(began.UnixMilli()%100_000_000, 36)
}
