package user

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// startAgain brings Redis back and waits until Sessions has noticed.
func startAgain(t *testing.T, rdb *miniredis.Miniredis, s *Sessions) {
	t.Helper()
	if err := rdb.Restart(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		_, err := s.copies.remote.records(t.Context(), []string{"any"})
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("Redis is back, and still: %v", err)
		}
	}
}

func TestSessionsWhileRedisIsAway(t *testing.T) {
	rdb := miniredis.RunT(t)
	s, clock := newSessions(t, "redis://"+rdb.Addr())
	seen, unseen, ended := logIn(t, s, buyer), logIn(t, s, buyer), logIn(t, s, buyer)
	expect(t, "before", s, seen, buyer)
	if err := s.End(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	rdb.Close()

	for range 5 {
		clock.ahead += freshFor
		expect(t, "with a copy", s, seen, buyer)
	}
	expect(t, "one that was ended", s, ended, User{})
	for range 5 {
		if _, err := s.Get(t.Context(), unseen); !errors.Is(err, ErrAway) || errors.Is(err, ErrNoSession) {
			t.Errorf("without a copy: %v, want ErrAway", err)
		}
	}
	if _, _, err := s.Start(t.Context(), admin); !errors.Is(err, ErrAway) {
		t.Errorf("Start: %v, want ErrAway", err)
	}
	if err := s.EndAll(t.Context(), buyer.ID, ""); !errors.Is(err, ErrAway) {
		t.Errorf("EndAll: %v, want ErrAway", err)
	}
	if err := s.End(t.Context(), seen); !errors.Is(err, ErrAway) {
		t.Errorf("End: %v, want ErrAway", err)
	}
	clock.ahead += staleFor
	if _, err := s.Get(t.Context(), seen); !errors.Is(err, ErrAway) {
		t.Errorf("with a copy of ten minutes: %v, want ErrAway", err)
	}

	startAgain(t, rdb, s)
	expect(t, "back again", s, seen, buyer)
	expect(t, "back again, without a copy", s, unseen, buyer)
}

func TestASessionExpiresThoughRedisIsAway(t *testing.T) {
	rdb := miniredis.RunT(t)
	s, clock := newSessions(t, "redis://"+rdb.Addr())
	token := logIn(t, s, buyer)
	clock.ahead += lifetime - time.Minute
	expect(t, "a minute before", s, token, buyer)
	rdb.Close()
	clock.ahead += 2 * time.Minute
	expect(t, "in time", s, token, User{})
}

func TestRedisThatForgotLogsOut(t *testing.T) {
	rdb := miniredis.RunT(t)
	s, clock := newSessions(t, "redis://"+rdb.Addr())
	token := logIn(t, s, buyer)
	expect(t, "before", s, token, buyer)
	rdb.FlushAll()
	clock.ahead += freshFor
	expect(t, "forgotten", s, token, User{})
	rdb.Close()
	clock.ahead += freshFor
	if _, err := s.Get(t.Context(), token); !errors.Is(err, ErrAway) {
		t.Errorf("forgotten, then away: %v, want ErrAway: the copy is void", err)
	}
}

// While Redis is away, nobody waits for it to say so.
func TestTheBreakerOpens(t *testing.T) {
	s, _ := newSessions(t, "redis://127.0.0.1:1")
	for range 3 {
		if _, err := s.Get(t.Context(), newToken()); !errors.Is(err, ErrAway) {
			t.Fatalf("%v, want ErrAway", err)
		}
	}
	worked := false
	err := s.remote.try("ask", func() error { worked = true; return nil })
	if worked || !errors.Is(err, ErrAway) {
		t.Errorf("asked: %v, %v; want no question and ErrAway", worked, err)
	}
}

func TestAServerThatObjectsIsAFault(t *testing.T) {
	rdb := miniredis.RunT(t)
	s, _ := newSessions(t, "redis://"+rdb.Addr())
	token := logIn(t, s, buyer)
	rdb.SetError("LOADING the data set")
	if _, err := s.Get(t.Context(), token); !errors.Is(err, ErrAway) {
		t.Errorf("Get: %v, want ErrAway", err)
	}
	if _, _, err := s.Start(t.Context(), admin); !errors.Is(err, ErrAway) {
		t.Errorf("Start: %v, want ErrAway", err)
	}
	if _, err := s.mint(t.Context(), []User{buyer}); !errors.Is(err, ErrAway) {
		t.Errorf("mint: %v, want ErrAway", err)
	}
}

// A Redis that takes the question and never answers costs a caller its time limits, and no more.
func TestARedisThatHangsIsAFault(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	s, _ := newSessions(t, "redis://"+silent.Addr().String())
	began := time.Now()
	errs := together(50, func(int) error {
		_, err := s.Get(t.Context(), newToken())
		return err
	})
	if _, away, other := count(errs, ErrAway); away != len(errs) {
		t.Errorf("%d of %d are ErrAway, other: %v", away, len(errs), other)
	}
	if took := time.Since(began); took > 10*redisTimeout {
		t.Errorf("took %v, want at most a few times %v", took, redisTimeout)
	}
}

// A Redis that takes longer than a buyer would wait is no reason to give up making a thousand buyers.
func TestMintWaitsForASlowRedis(t *testing.T) {
	rdb := miniredis.RunT(t)
	s, _ := newSessions(t, "redis://"+rdb.Addr())
	var once sync.Once
	rdb.Server().SetPreHook(func(*server.Peer, string, ...string) bool {
		once.Do(func() { time.Sleep(2 * redisTimeout) })
		return false
	})
	tokens, err := s.mint(t.Context(), []User{buyer})
	if err != nil || len(tokens) != 1 {
		t.Errorf("%d tokens, %v; want 1", len(tokens), err)
	}
}

// Who has a copy that is not fresh any more does not wait for a Redis that is slow to answer.
func TestACopyDoesNotWaitForASlowRedis(t *testing.T) {
	rdb := miniredis.RunT(t)
	s, clock := newSessions(t, "redis://"+rdb.Addr())
	token := logIn(t, s, buyer)
	expect(t, "before", s, token, buyer)
	var slow atomic.Bool
	rdb.Server().SetPreHook(func(*server.Peer, string, ...string) bool {
		if slow.Load() {
			time.Sleep(redisTimeout)
		}
		return false
	})
	slow.Store(true)
	clock.ahead += freshFor
	began := time.Now()
	expect(t, "with a copy", s, token, buyer)
	if took := time.Since(began); took > redisTimeout/2 {
		t.Errorf("took %v, want about %v", took, copyWait)
	}
	slow.Store(false)
	s.copies.reads.work.Wait()
}
