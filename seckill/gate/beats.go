package gate

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

const beatsLife = time.Hour

// Beat raises the beat of this process and returns it, with those of all processes of the shop. It asks no breaker: a
// process whose other calls are late lives, and has to say so.
func (g *Gate) Beat(ctx context.Context) (own int64, all map[string]int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	fields, err := beatScript.Run(ctx, g.rdb, []string{beatsKey}, g.process, beatsLife.Milliseconds()).StringSlice()
	if err != nil {
		return 0, nil, fmt.Errorf("show that this process lives: %w", err)
	}
	all = make(map[string]int64, len(fields)/2)
	for i := 0; i+1 < len(fields); i += 2 {
		all[fields[i]], _ = strconv.ParseInt(fields[i+1], 10, 64)
	}
	return all[g.process], all, nil
}

// EndBeats removes the beats of processes.
func (g *Gate) EndBeats(ctx context.Context, processes ...string) error {
	return g.call(ctx, callLimit, func(ctx context.Context) error {
		return g.rdb.HDel(ctx, beatsKey, processes...).Err()
	})
}
