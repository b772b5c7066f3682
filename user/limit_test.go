package user

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// tries takes until it is refused, at most most times, and returns how often it was let.
func tries(t *testing.T, most int, take func(i int) error) (let int, wait time.Duration) {
	t.Helper()
	for i := range most {
		err := take(i)
		if refused, ok := errors.AsType[TooManyError](err); ok {
			return i, refused.RetryAfter
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return most, 0
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name    string
		let     int
		longest time.Duration // until the next try is let
		take    func(s shop, i int) error
	}{
		{"log-ins of an account", 10, 6 * time.Second,
			func(s shop, i int) error { return s.limits.login(t.Context(), phone, fmt.Sprint(i)) }},
		{"log-ins from an address", 200, 300 * time.Millisecond,
			func(s shop, i int) error { return s.limits.login(t.Context(), fmt.Sprint(phone, i), address) }},
		{"codes for a phone", 3, 200 * time.Second,
			func(s shop, i int) error { return s.limits.code(t.Context(), phone, fmt.Sprint(i)) }},
		{"codes to an address", 200, 300 * time.Millisecond,
			func(s shop, i int) error { return s.limits.code(t.Context(), fmt.Sprint(phone, i), address) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShop(t)
			let, wait := tries(t, c.let*2, func(i int) error { return c.take(s, i) })
			// The bucket refills while we try: allow for a slow machine.
			if let < c.let || let > c.let+c.let/2 || wait <= 0 || wait > c.longest {
				t.Errorf("%d let, then a wait of %v; want %d and at most %v", let, wait, c.let, c.longest)
			}
		})
	}
}

func TestAnAddressThatIsRefusedCostsTheAccountNothing(t *testing.T) {
	s := newShop(t)
	let := 0 // while the address refilled, on a slow machine
	for range 20 {
		for s.limits.take(t.Context(), limitLoginAddress+address, perAddress) == nil {
		}
		if s.limits.login(t.Context(), phone, address) == nil {
			let++
		}
	}
	more, _ := tries(t, 11, func(int) error { return s.limits.login(t.Context(), phone, "198.51.100.1") })
	if let+more < 10 {
		t.Errorf("%d log-ins let from another address after %d, want 10 in all", more, let)
	}
}

func TestLoginAndSendCodeAreLimited(t *testing.T) {
	s := newShop(t)
	s.register(t, phone, "correct horse")
	let, _ := tries(t, 9, func(int) error {
		_, _, err := s.SendCode(t.Context(), phone, address)
		return err
	})
	if let != 2 { // one went into the registration
		t.Errorf("%d more codes, want 2", let)
	}
	for range 10 {
		if err := s.limits.login(t.Context(), phone, address); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Login(t.Context(), phone, "correct horse", address); !errors.As(err, &TooManyError{}) {
		t.Errorf("11th log-in: %v, want TooManyError", err)
	}
	u, err := s.byPhone(t.Context(), phone)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ChangePassword(t.Context(), u.ID, "correct horse", "battery staple"); !errors.As(err, &TooManyError{}) {
		t.Errorf("change of the password: %v, want TooManyError", err)
	}
}
