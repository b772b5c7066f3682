package sandbox

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

// The embedded Redis requires its password, lets keys expire, and leaves no goroutine behind.
func TestEmbeddedRedis(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s, err := Open(t.Context(), Config{DataDir: filepath.Join(t.TempDir(), "data"), Redis: true, RedisKind: Embedded})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.RedisKind != Embedded || s.DatabaseURL != "" {
		t.Errorf("got %+v", *s)
	}
	opt, err := redis.ParseURL(s.RedisURL)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(opt)
	defer c.Close()
	if err := c.Set(t.Context(), "k", "v", 1500*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	stranger := redis.NewClient(&redis.Options{Addr: opt.Addr})
	defer stranger.Close()
	if err := stranger.Get(t.Context(), "k").Err(); err == nil || err == redis.Nil {
		t.Errorf("without a password: %v", err)
	}
	until(t, "the key expires", func() bool { return c.Get(t.Context(), "k").Err() == redis.Nil })
}

// The clock advances by the time that has passed, even after a late tick.
func TestEmbeddedClockFollowsTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var moved time.Duration
		ticks := 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			advanceClock(t.Context(), func(d time.Duration) {
				moved += d
				if ticks++; ticks == 2 {
					time.Sleep(3300 * time.Millisecond) // the next tick comes late
				}
			})
		}()
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		if behind := time.Since(began) - moved; behind > time.Second || behind < 0 {
			t.Errorf("after %v the clock has moved by %v", time.Since(began), moved)
		}
	})
}
