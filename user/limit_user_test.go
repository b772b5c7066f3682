package user

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox/sandboxtest"
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

// While Redis is away, a count is a fault: in a moment, and after a few calls at once.
func TestCountingWithoutRedis(t *testing.T) {
	proxy, through := sandboxtest.ProxyTo(t, sandboxtest.RedisURL(t))
	opts, err := redis.ParseURL(through)
	if err != nil {
		t.Fatal(err)
	}
	opts.ContextTimeoutEnabled = true
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { rdb.Close() })
	counts := newCounts(rdb)
	s := &Store{counts: counts}
	if err := s.Count(t.Context(), "pays", 7, LoginsPerAccount); err != nil {
		t.Fatal(err)
	}
	proxy.Delay(time.Minute)
	for range 3 {
		if err := s.Count(t.Context(), "pays", 7, LoginsPerAccount); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("%v, want ErrUnavailable", err)
		}
	}
	began := time.Now()
	for range 1000 { // more than a second if each waited
		if err := s.Count(t.Context(), "pays", 7, LoginsPerAccount); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("%v, want ErrUnavailable", err)
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("1000 counts without Redis took %v", took)
	}
}
