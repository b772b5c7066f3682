package seckill_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"miaosha/goods"
	"miaosha/seckill"
	"miaosha/seckill/audit"
	"miaosha/seckill/sandbox/sandboxtest"
)

const bigGateLeast = 64 // addresses that the big gate always admits

// hoarders are users who ask for an address again and again, and never buy.
type hoarders struct {
	mu     sync.Mutex
	issued map[int64]map[time.Time]bool // by user: the addresses of different expiries
	stop   func()
}

// hoard lets users first to last ask until stop is called, or the test ends.
func (s *shop) hoard(e *process, first, last int64) *hoarders {
	h := &hoarders{issued: map[int64]map[time.Time]bool{}}
	end := make(chan struct{})
	var all sync.WaitGroup
	for user := first; user <= last; user++ {
		all.Go(func() {
			for {
				switch _, expiry, err := e.Path(s.Context(), s.sale, user, "token", ""); {
				case err == nil:
					h.note(user, expiry)
				case s.Context().Err() != nil, errors.Is(err, seckill.ErrBusy), errors.Is(err, goods.ErrSoldOut), errors.As(err, &seckill.TooManyError{}):
				default:
					s.Errorf("hoarder %d: %v", user, err)
				}
				select {
				case <-end:
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
	}
	h.stop = sync.OnceFunc(func() { close(end); all.Wait() })
	s.Cleanup(h.stop)
	return h
}

func (h *hoarders) note(user int64, expiry time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.issued[user] == nil {
		h.issued[user] = map[time.Time]bool{}
	}
	h.issued[user][expiry] = true
}

// holders returns how many users have had an address, and lives how many one user has had at most.
func (h *hoarders) holders() (holders, lives int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, issued := range h.issued {
		lives = max(lives, len(issued))
	}
	return len(h.issued), lives
}

// buyPatiently asks for an address until the big gate has one, calls issued, and buys. It reports whether the user got an order.
func (s *shop) buyPatiently(e *process, user int64, limit time.Duration, issued func()) bool {
	var path string
	if !sandboxtest.Poll(func() bool {
		var err error
		path, _, err = e.Path(s.Context(), s.sale, user, "token", "")
		if err != nil && !errors.As(err, &seckill.TooManyError{}) && !errors.Is(err, seckill.ErrBusy) {
			s.Errorf("an address for user %d: %v", user, err)
		}
		return err == nil
	}) {
		return false
	}
	issued()
	if got, err := e.CheckPath(s.sale, "token", path); err != nil || got != user {
		s.Errorf("the address of user %d: %d, %v", user, got, err)
	}
	if _, err := s.retryBuy(e, user); err != nil {
		s.Errorf("user %d buys: %v", user, err)
		return false
	}
	return s.awaitFinal(e, user).State == seckill.Ordered
}

// As many accounts as a small sale has addresses ask first, ask again and again, and never buy. Four people come after them.
// Every unit is sold to them before a hoarder's second address ends.
func TestHoardersDoNotKeepASaleUnsold(t *testing.T) {
	t.Parallel()
	const people = 4
	s := newShop(t, people)
	e := s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.PathTTL = 10 * time.Second })
	s.awaitGate()
	h := s.hoard(e, 1, bigGateLeast)
	sandboxtest.Until(t, "the hoarders have every address", func() bool { n, _ := h.holders(); return n == bigGateLeast })
	var all sync.WaitGroup
	for user := int64(1001); user <= 1000+people; user++ {
		all.Go(func() {
			if !s.buyPatiently(e, user, 40*time.Second, func() {
				if _, lives := h.holders(); lives > 2 {
					t.Errorf("a hoarder had %d addresses before user %d got one, want at most 2", lives, user)
				}
			}) {
				t.Errorf("user %d got no order", user)
			}
		})
	}
	all.Wait()
	h.stop()
	if n := s.counted(e, "miaosha_addresses_wasted_total"); n < 1 || n > bigGateLeast {
		t.Errorf("%v wasted addresses were counted, want one at least, and one for each hoarder at most", n)
	}
	if n := s.stock(); n != 0 {
		t.Errorf("%d of %d units are left", n, people)
	}
	for user := range s.owners() {
		if user <= bigGateLeast {
			t.Errorf("hoarder %d has an order", user)
		}
	}
	s.wantConsistent()
}

// Buyers who are told to wait for two address lives, while units are left and none is sold, are a finding of the audit.
func TestUnitsLeftBesideRefusalsAreAFinding(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	long := s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.PathTTL = time.Hour })
	e := s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.PathTTL = 2 * time.Second })
	s.awaitGate()
	h := s.hoard(long, 1, bigGateLeast)
	sandboxtest.Until(t, "the hoarders have every address", func() bool { n, _ := h.holders(); return n == bigGateLeast })
	h.stop()
	waiting := s.hoard(e, 1001, 1001)
	var found []audit.Finding
	sandboxtest.Until(t, "the audit finds that units are left beside refusals", func() bool {
		var err error
		if found, err = audit.Gates(t.Context(), s.db, s.rdb); err != nil {
			t.Fatal(err)
		}
		return len(found) > 0
	})
	if len(found) != 1 || found[0].Invariant != "I5" || len(found[0].Rows) != 1 || !strings.HasPrefix(found[0].Rows[0], fmt.Sprintf("sale=%d left=5 refuses=", s.sale)) {
		t.Errorf("found %+v", found)
	}
	s.mustBuy(e, 1)
	if found, err := audit.Gates(t.Context(), s.db, s.rdb); err != nil || len(found) > 0 {
		t.Errorf("after a unit was sold: %v, %v", found, err)
	}
	sandboxtest.Until(t, "the user who waits has the address that became free", func() bool { n, _ := waiting.holders(); return n == 1 })
}
