package seckill_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"miaosha/seckill"
	"miaosha/seckill/audit"
	"miaosha/seckill/gate"
	"miaosha/seckill/sandbox/sandboxtest"
)

const bigGateLeast = 64 // addresses that the big gate always admits

// issued asks for an address for each of the users first to last, and returns how many have one then.
func (s *shop) issued(e *process, first, last int64) (n int) {
	s.Helper()
	for user := first; user <= last; user++ {
		sandboxtest.Until(s, "the big gate replies", func() bool {
			_, _, err := e.Address(s.Context(), s.sale, user, "token", nil)
			if err == nil {
				n++
			} else if !errors.As(err, &seckill.TooManyError{}) && !errors.Is(err, seckill.ErrBusy) {
				s.Errorf("an address for user %d: %v", user, err)
			}
			return !errors.Is(err, seckill.ErrBusy)
		})
	}
	return n
}

// endAddresses makes every address that is not used one that has ended.
func (s *shop) endAddresses() {
	s.Helper()
	for _, user := range s.rdb.ZRange(s.Context(), gate.AddressesKey(s.sale), 0, -1).Val() {
		if err := s.rdb.ZAdd(s.Context(), gate.AddressesKey(s.sale), redis.Z{Score: 1, Member: user}).Err(); err != nil {
			s.Fatal(err)
		}
	}
}

// As many accounts as a small sale has addresses ask first, ask again and again, and never buy. Four people come after
// them. Every unit is sold to them when the hoarders' first addresses have ended.
func TestHoardersDoNotKeepASaleUnsold(t *testing.T) {
	t.Parallel()
	const people, first, last = 4, 1001, 1004
	s := newShop(t, people)
	e := s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.AddressTTL = time.Hour })
	s.awaitGate()
	if n := s.issued(e, 1, bigGateLeast); n != bigGateLeast {
		t.Fatalf("%d hoarders have an address, want all %d", n, bigGateLeast)
	}
	if n := s.issued(e, first, last); n != 0 {
		t.Fatalf("%d people got an address while the hoarders had all", n)
	}
	s.endAddresses()
	if n := s.issued(e, 1, bigGateLeast); n != bigGateLeast-people {
		t.Errorf("%d hoarders have a second address, want all but as many as people wait", n)
	}
	if n := s.issued(e, first, last); n != people {
		t.Errorf("%d of %d people have an address", n, people)
	}
	if n := s.counted(e, "miaosha_addresses_wasted_total"); n != bigGateLeast {
		t.Errorf("%v wasted addresses were counted, want one for each hoarder", n)
	}
	for user := int64(first); user <= last; user++ {
		address, _, err := e.Address(t.Context(), s.sale, user, "token", nil)
		if got, bad := e.CheckAddress(s.sale, "token", address); err != nil || bad != nil || got != user {
			t.Errorf("the address of user %d: %d, %v, %v", user, got, err, bad)
		}
		s.mustBuy(e, user)
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
	const life = time.Hour
	s := newShop(t, 5)
	e := s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.AddressTTL = life })
	s.awaitGate()
	if n := s.issued(e, 1, bigGateLeast); n != bigGateLeast {
		t.Fatalf("%d hoarders have an address, want all %d", n, bigGateLeast)
	}
	found := func() []audit.Finding {
		t.Helper()
		found, err := audit.Gates(t.Context(), s.db, s.rdb)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	refused := func(ago time.Duration) {
		t.Helper()
		if n := s.issued(e, 1001, 1001); n != 0 {
			t.Error("a user got an address of a full gate")
		}
		if err := s.rdb.HSet(t.Context(), gate.RefusingKey(s.sale), "since", time.Now().Add(-ago).UnixMilli()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if refused(life); len(found()) != 0 {
		t.Errorf("refused for one address life: %+v", found())
	}
	refused(2*life + time.Minute)
	if f := found(); len(f) != 1 || f[0].Invariant != "I5" || len(f[0].Rows) != 1 || !strings.HasPrefix(f[0].Rows[0], fmt.Sprintf("sale=%d left=5 refuses=", s.sale)) {
		t.Errorf("found %+v", f)
	}
	s.mustBuy(e, 1)
	s.wantConsistent()
	if f := found(); len(f) > 0 {
		t.Errorf("after a unit was sold: %v", f)
	}
	if n := s.issued(e, 1001, 1001); n != 1 {
		t.Error("the user who waits did not get the address that became free")
	}
}
