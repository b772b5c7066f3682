package user

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
)

// All processes take from the same bucket of a user. Other users and other limits have buckets of their own.
func TestProcessesCountTogether(t *testing.T) {
	s := newShop(t)
	other := testShop{Store: New(s.db, s.rdb, secret, Config{}, s.log)}
	three := MustLimit("3/hour", 0)
	allowed, wait := tries(t, 6, func(i int) error {
		return []testShop{s, other}[i%2].Count(t.Context(), "pays", 7, three)
	})
	if allowed != 3 || wait <= 0 || wait > three.Refill() {
		t.Errorf("two processes allow %d together, and the next in %v; want 3, in %v at most", allowed, wait, three.Refill())
	}
	for name, err := range map[string]error{"another user": s.Count(t.Context(), "pays", 8, three), "another limit": s.Count(t.Context(), "reads", 7, three)} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range 10 { // a refusal is no failure of Redis
		if err := s.Count(t.Context(), "pays", 7, three); !errors.As(err, &TooManyError{}) {
			t.Fatalf("a user without tokens: %v, want TooManyError", err)
		}
	}
}

// While Redis is silent, a count is a fault: after a moment, and after a few calls at once, until it is
// time for another try.
func TestCountingWithoutRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var silent atomic.Bool
		silentRedis := server.NewServerConn()
		silentRedis.SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
			if silent.Load() {
				<-t.Context().Done()
			}
			if command != "EVALSHA" {
				return false // unknown: the client does without
			}
			c.WriteInt(0)
			return true
		})
		rdb := redis.NewClient(&redis.Options{ContextTimeoutEnabled: true, MaxRetries: -1, Dialer: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			silentRedis.ServeConn(there)
			return here, nil
		}})
		t.Cleanup(func() {
			rdb.Close()
			silentRedis.Close()
		})
		s := &Store{counts: newCounts(rdb)}
		takes := func(n int, want time.Duration) {
			t.Helper()
			began := time.Now()
			for range n {
				if err := s.Count(t.Context(), "pays", 7, LoginsPerAccount); !errors.Is(err, ErrUnavailable) {
					t.Fatalf("%v, want ErrUnavailable", err)
				}
			}
			if took := time.Since(began); took != want {
				t.Errorf("%d counts without Redis took %v, want %v", n, took, want)
			}
		}
		if err := s.Count(t.Context(), "pays", 7, LoginsPerAccount); err != nil {
			t.Fatal(err)
		}
		silent.Store(true)
		takes(3, 3*countWait)
		takes(1000, 0)
		time.Sleep(countPause + 1)
		takes(1000, countWait)
	})
}
