package user

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// While Redis is unavailable, a call fails at once.
func TestTheBreakerOpens(t *testing.T) {
	s, _ := newSessions(t, "redis://127.0.0.1:1")
	for range 3 {
		if _, err := s.Get(t.Context(), newToken()); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("%v, want ErrUnavailable", err)
		}
	}
	called := false
	err := s.remote.try("call", func() error { called = true; return nil })
	if called || !errors.Is(err, ErrUnavailable) {
		t.Errorf("called: %v, %v; want no call and ErrUnavailable", called, err)
	}
}

func TestAnErrorOfRedisIsAFault(t *testing.T) {
	rdb := miniredis.RunT(t)
	s, _ := newSessions(t, "redis://"+rdb.Addr())
	token := logIn(t, s, buyer)
	rdb.SetError("LOADING the data set")
	if _, err := s.Get(t.Context(), token); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Get: %v, want ErrUnavailable", err)
	}
	if _, _, err := s.Start(t.Context(), admin, address, ""); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Start: %v, want ErrUnavailable", err)
	}
	if _, err := s.mint(t.Context(), []User{buyer}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("mint: %v, want ErrUnavailable", err)
	}
}

// A Redis that accepts a command and never replies costs callers no more than two time limits: they share two reads.
func TestARedisThatHangsIsAFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inBubble(t, func() { <-t.Context().Done() })
		began := time.Now()
		errs := together(50, func(int) error {
			_, err := s.Get(t.Context(), newToken())
			return err
		})
		if _, unavailable, other := count(errs, ErrUnavailable); unavailable != len(errs) {
			t.Errorf("%d of %d are ErrUnavailable, other: %v", unavailable, len(errs), other)
		}
		if took := time.Since(began); took > 2*redisTimeout {
			t.Errorf("took %v, want at most twice %v", took, redisTimeout)
		}
	})
}
