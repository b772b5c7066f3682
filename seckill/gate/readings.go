package gate

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const readingsLife = time.Minute

// Published returns what each process has published of the gates that it reads, and the time by the clock of Redis.
func (g *Gate) Published(ctx context.Context) (now time.Time, all map[string]string, err error) {
	reply, err := guarded(ctx, g, callLimit, func(ctx context.Context) ([]string, error) {
		return publishedScript.Run(ctx, g.rdb, []string{readingsKey}).StringSlice()
	})
	if err == nil && len(reply)%2 == 1 || len(reply) == 0 && err == nil {
		err = fmt.Errorf("the script returned %d values", len(reply))
	}
	if err != nil {
		return time.Time{}, nil, fmt.Errorf("read what is published of the gates: %w", err)
	}
	seconds, _ := strconv.ParseInt(reply[0], 10, 64)
	micros, _ := strconv.ParseInt(reply[1], 10, 64)
	all = make(map[string]string, len(reply)/2)
	for i := 2; i < len(reply); i += 2 {
		all[reply[i]] = reply[i+1]
	}
	return time.UnixMicro(seconds*1_000_000 + micros), all, nil
}

// Publish publishes what a process has read of the gates.
func (g *Gate) Publish(ctx context.Context, process, text string) error {
	err := g.call(ctx, callLimit, func(ctx context.Context) error {
		_, err := g.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.HSet(ctx, readingsKey, process, text)
			p.PExpire(ctx, readingsKey, readingsLife)
			return nil
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("publish what was read of the gates: %w", err)
	}
	return nil
}

// Unpublish removes the publications of processes.
func (g *Gate) Unpublish(ctx context.Context, processes ...string) error {
	err := g.call(ctx, callLimit, func(ctx context.Context) error {
		return g.rdb.HDel(ctx, readingsKey, processes...).Err()
	})
	if err != nil {
		return fmt.Errorf("remove what was published of the gates: %w", err)
	}
	return nil
}
