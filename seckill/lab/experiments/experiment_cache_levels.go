package experiments

import (
	"context"
	"errors"
	"fmt"
	"time"

	"miaosha/seckill/lab"
)

// cacheLevels returns the levels at which a price can be read, from near to far, as variants: the memory of the process
// (as in Guava, Caffeine or goods.Cache), Redis, and Postgres by the primary key. One reader reads the same price 200
// times, one read after the other, so a read of a store is a round trip that waits for no other reader.
//
// The figures are reads, and read_us: the median time of a read in microseconds. A level in the middle saves the
// difference to the one behind it, for each read that the one in front of it lets through.
func cacheLevels(w workspace, c counter) []variant {
	const id, price, kept = 1, 100, time.Minute
	local := &priceCache{entries: map[int64]cacheEntry{id: {price: price, until: time.Now().Add(lab.KeyLife)}}}
	entry := w.Key("price")
	try := func(prepare func(context.Context) error,
		read func(context.Context) (int64, error)) func(context.Context) (Finding, error) {
		return func(ctx context.Context) (row Finding, err error) {
			if err := prepare(ctx); err != nil {
				return row, err
			}
			took := make([]time.Duration, cacheLevelReads)
			for i := range took {
				began := time.Now()
				got, err := read(ctx)
				if took[i] = time.Since(began); err != nil || got != price {
					return row, errors.Join(fmt.Errorf("the price is %d, want %d", got, price), err)
				}
			}
			median := float64(lab.Percentile(took, 50)) / float64(time.Microsecond)
			return Finding{Verdict: Right, Figures: map[string]float64{"reads": cacheLevelReads,
				"read_us": lab.Round(median, 2)}}, nil
		}
	}
	nothing := func(context.Context) error { return nil }
	return []variant{
		//lab:here
		{"a read from the memory of the process", try(nothing, func(context.Context) (int64, error) {
			price, _ := local.get(id)
			return price, nil
		})},
		{"a read from Redis", try(func(ctx context.Context) error { return c.Set(ctx, entry, price, kept).Err() },
			func(ctx context.Context) (int64, error) { return c.Get(ctx, entry).Int64() })},
		{"a read from Postgres by its key", try(nothing, func(ctx context.Context) (got int64, err error) {
			err = w.db.QueryRow(ctx, `select price from items where id = $1`, id).Scan(&got)
			return got, err
		})},
		//lab:end
	}
}

const cacheLevelReads = 200
