package user

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestMint(t *testing.T) {
	const n = mintBatch + mintPipeline + 1
	s := newShop(t)
	sessions, _ := newSessions(t, sandboxtest.RedisURL(t))
	phones, tokens := map[string]int64{}, map[string]int64{}
	var last string
	err := s.Mint(t.Context(), sessions, n, func(id int64, phone, token string) error {
		phones[phone], tokens[token], last = id, id, token
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(phones) != n || len(tokens) != n {
		t.Fatalf("%d phones and %d tokens, want %d", len(phones), len(tokens), n)
	}
	checked := 0
	for token, id := range tokens {
		expect(t, "minted", sessions, token, User{ID: id, Role: RoleBuyer})
		if checked++; checked == 100 {
			break
		}
	}
	for phone, id := range phones {
		want := User{ID: id, Phone: phone, Nickname: "buyer " + phone[3:], Role: RoleBuyer}
		if u, err := s.ByID(t.Context(), id); err != nil || u != want {
			t.Errorf("got %+v, %v; want %+v", u, err, want)
		}
		if err := CheckPhone(phone); err != nil {
			t.Errorf("phone %s: %v", phone, err)
		}
		if _, err := s.Login(t.Context(), phone, " ", from); !errors.Is(err, ErrWrongPassword) {
			t.Errorf("log-in of an account without a password: %v, want ErrWrongPassword", err)
		}
		break
	}
	if err := sessions.EndAll(t.Context(), tokens[last], 1, ""); err != nil {
		t.Fatal(err)
	}
	expect(t, "a minted session after EndAll", sessions, last, User{})
}

func TestConcurrentMintsUseDifferentPhones(t *testing.T) {
	s := newShop(t)
	sessions, _ := newSessions(t, sandboxtest.RedisURL(t))
	// Registered users have phones at the start of the range, and the last one.
	for _, taken := range []int64{mintFirst + 3, mintFirst + 4, mintFirst + 10, mintLast} {
		if _, _, err := s.insert(t.Context(), fmt.Sprint(taken), "correct horse", "x"); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	phones := map[string]bool{}
	errs := together(4, func(int) error {
		return s.Mint(t.Context(), sessions, 25, func(_ int64, phone, _ string) error {
			mu.Lock()
			defer mu.Unlock()
			phones[phone] = true
			return nil
		})
	})
	if ok, _, other := count(errs, ErrBusy); ok != 4 || len(phones) != 100 {
		t.Errorf("%d of 4 mints succeeded with %d different phones, other: %v; want 4 and 100", ok, len(phones), other)
	}
	if phones[fmt.Sprint(mintFirst+10)] {
		t.Error("a registered phone was minted")
	}
}

func TestMintOfOneTakesTheNextFreePhone(t *testing.T) {
	s := newShop(t)
	sessions, _ := newSessions(t, sandboxtest.RedisURL(t))
	if _, _, err := s.insert(t.Context(), fmt.Sprint(mintFirst), "correct horse", "x"); err != nil {
		t.Fatal(err)
	}
	err := s.Mint(t.Context(), sessions, 1, func(_ int64, phone, _ string) error {
		if phone != fmt.Sprint(mintFirst+1) {
			t.Errorf("phone %s, want the second of the range", phone)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("disk full")
	if err := s.Mint(t.Context(), sessions, 9, func(int64, string, string) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error from each: %v, want that error", err)
	}
}

// Mint waits for a Redis that is too slow for a buyer.
func TestMintWaitsForASlowRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inBubble(t, func() { time.Sleep(2 * redisTimeout) })
		if _, err := s.Get(t.Context(), newToken()); !errors.Is(err, ErrUnavailable) {
			t.Errorf("a buyer: %v, want ErrUnavailable", err)
		}
		tokens, err := s.mint(t.Context(), []User{buyer})
		if err != nil || len(tokens) != 1 {
			t.Errorf("%d tokens, %v; want 1", len(tokens), err)
		}
	})
}
