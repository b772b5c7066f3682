package user

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"miaosha/seckill/sandbox/sandboxtest"
)

// A session that is ended during a read of it does not come back with that read.
func TestAReadDoesNotBringAnEndedSessionBack(t *testing.T) {
	url := sandboxtest.RedisURL(t)
	s, clock := newSessions(t, url)
	token := logIn(t, s, buyer)
	fetch := s.copies.reads.fetch
	s.copies.reads.fetch = func(ctx context.Context, keys []string) ([][]byte, error) {
		s.copies.reads.fetch = fetch
		// Redis has replied, and the session is ended before the reply is kept.
		began := s.copies.now()
		records, err := s.remote.records(ctx, keys)
		if err != nil {
			return nil, err
		}
		if err := s.EndAll(ctx, buyer.ID, 1, ""); err != nil {
			return nil, err
		}
		s.copies.keep(keys, records, began)
		return records, nil
	}
	expect(t, "a read that began before the session ended", s, token, User{})
	expect(t, "a read after that", s, token, User{})
	clock.ahead += freshFor
	expect(t, "when the copy is old", s, token, User{})
}

func TestSessionsInARush(t *testing.T) {
	url := sandboxtest.RedisURL(t)
	s, _ := newSessions(t, url)
	users := make([]User, 200)
	for i := range users {
		users[i] = User{ID: int64(i + 1), Role: RoleBuyer}
	}
	tokens, err := s.mint(t.Context(), users)
	if err != nil {
		t.Fatal(err)
	}
	errs := together(8*len(users), func(i int) error {
		i %= len(users)
		session, err := s.Get(t.Context(), tokens[i])
		if err == nil && session.UserID != users[i].ID {
			return fmt.Errorf("the token of user %d is of user %d", users[i].ID, session.UserID)
		}
		if i%4 == 0 {
			err = errors.Join(err, s.End(t.Context(), tokens[i]))
		}
		return err
	})
	if _, _, other := count(errs, ErrNoSession); other != nil {
		t.Error(other)
	}
	for i, token := range tokens {
		want := users[i]
		if i%4 == 0 {
			want = User{}
		}
		expect(t, fmt.Sprint("user ", users[i].ID), s, token, want)
	}
}

func TestASessionThatRedisLostEnds(t *testing.T) {
	rdb := miniredis.RunT(t)
	s, clock := newSessions(t, "redis://"+rdb.Addr())
	token := logIn(t, s, buyer)
	expect(t, "before", s, token, buyer)
	rdb.FlushAll()
	clock.ahead += freshFor
	expect(t, "after the loss", s, token, User{})
	rdb.Close()
	clock.ahead += freshFor
	if _, err := s.Get(t.Context(), token); !errors.Is(err, ErrUnavailable) {
		t.Errorf("after the loss, with Redis unavailable: %v, want ErrUnavailable and not the old copy", err)
	}
}

// A caller with a stale copy does not wait for a slow Redis.
func TestACopyDoesNotWaitForASlowRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, token := inBubble(t, func() { time.Sleep(redisTimeout) }), newToken()
		record, err := encodeRecord(time.Now().Add(lifetime), Session{buyer.ID, buyer.Role})
		if err != nil {
			t.Fatal(err)
		}
		s.copies.keep([]string{hashed(token)}, [][]byte{record}, time.Now())
		time.Sleep(freshFor)
		began := time.Now()
		expect(t, "with a copy", s, token, buyer)
		if took := time.Since(began); took != staleWait {
			t.Errorf("took %v, want %v", took, staleWait)
		}
		for _, c := range []struct {
			looked *atomic.Int64
			want   int64
		}{{&s.copies.hits, 0}, {&s.copies.misses, 0}, {&s.copies.stale, 1}} {
			if got := c.looked.Load(); got != c.want {
				t.Errorf("%d look-ups are counted, want %d", got, c.want)
			}
		}
	})
}

// laterClock is a clock of the cache that the test moves.
type laterClock struct{ nanos atomic.Int64 }

func (c *laterClock) NowNano() int64                      { return c.nanos.Load() }
func (c *laterClock) Tick(time.Duration) <-chan time.Time { return nil }

// A session that its user ended here while Redis was down does not come back with Redis, however long
// that takes.
func TestAnEndedSessionStaysEndedWhenRedisIsBack(t *testing.T) {
	rdb := miniredis.RunT(t)
	s, clock := newSessions(t, "redis://"+rdb.Addr())
	later := new(laterClock)
	s.copies.entries.StopAllGoroutines()
	s.copies.entries = newEntries(lifetime, later)
	token := logIn(t, s, buyer)
	expect(t, "before", s, token, buyer)
	rdb.SetError("away")
	if err := s.End(t.Context(), token); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("a log-out while Redis is away: %v, want ErrUnavailable", err)
	}
	rdb.SetError("")
	for _, after := range []time.Duration{0, staleFor, time.Hour, lifetime - 2*time.Hour, time.Hour} {
		clock.ahead += after
		later.nanos.Add(int64(after))
		expect(t, fmt.Sprint("when Redis is back, and after ", clock.ahead), s, token, User{})
	}
}
