package backend

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"miaosha/seckill/sandbox/sandboxtest"
)

// Clocks that differ are said once, and once that they agree again. The gauge has the difference, and is absent before.
func TestClocksThatDifferAreSaidOnce(t *testing.T) {
	t.Parallel()
	var log sandboxtest.SyncBuffer
	at, away := time.Now(), errors.New("away")
	postgres, redis, err := time.Duration(0), time.Duration(0), error(nil)
	c := newClocks(slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return at },
		func(context.Context) (time.Time, error) { return at.Add(postgres), err },
		func(context.Context) (time.Time, error) { return at.Add(redis), err })
	const differ, agree = "the clocks of this process and its stores differ", "agree again"
	look := func(what string, wantDiffer, wantAgree int) {
		t.Helper()
		c.look(t.Context())
		if d, a := strings.Count(log.String(), differ), strings.Count(log.String(), agree); d != wantDiffer || a != wantAgree {
			t.Errorf("%s: %d lines that they differ and %d that they agree, want %d and %d\n%s", what, d, a, wantDiffer, wantAgree, &log)
		}
	}
	err = away
	look("stores that are away", 0, 0)
	if n := testutil.CollectAndCount(c); n != 0 {
		t.Errorf("%d gauges before anything is known", n)
	}
	err = nil
	postgres, redis = clocksApart, -clocksApart/2
	look("a second and two", 1, 0) // three seconds from each other
	postgres, redis = clocksApart, clocksApart
	look("as far as allowed", 1, 1)
	postgres, redis = -10*time.Minute, 0
	look("Postgres is behind", 2, 1)
	look("still", 2, 1)
	if !strings.Contains(log.String(), "postgres_ahead=-10m0s redis_ahead=0s") || c.PostgresAhead() != -10*time.Minute {
		t.Errorf("%v\n%s", c.PostgresAhead(), &log)
	}
	err = away
	look("away, and as before", 2, 1)
	err = testutil.CollectAndCompare(c, strings.NewReader(`
# HELP miaosha_clock_ahead_seconds How far the clock of a store is ahead of this process's; below zero it is behind. Absent until it is known.
# TYPE miaosha_clock_ahead_seconds gauge
miaosha_clock_ahead_seconds{store="postgres"} -600
miaosha_clock_ahead_seconds{store="redis"} 0
`))
	if err != nil {
		t.Error(err)
	}
}

// A reply that took long says little of a clock.
func TestASlowReplyMeasuresNoClock(t *testing.T) {
	t.Parallel()
	at := time.Now()
	c := newClocks(slog.New(slog.DiscardHandler), func() time.Time { return at }, func(context.Context) (time.Time, error) {
		was := at
		at = at.Add(clocksLimit + time.Millisecond)
		return was.Add(time.Hour), nil
	}, func(context.Context) (time.Time, error) { return at, nil })
	if c.look(t.Context()); c.PostgresAhead() != 0 {
		t.Errorf("Postgres is %v ahead", c.PostgresAhead())
	}
}
