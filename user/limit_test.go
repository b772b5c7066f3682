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
		_, _, err := s.SendCode(t.Context(), phone, from)
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
}

// One address can't try the codes of ever other phones.
func TestRegisteringIsLimitedByAddress(t *testing.T) {
	s := newShop(t)
	register := func(addr string) func(int) error {
		return func(i int) error {
			_, err := s.Register(t.Context(), fmt.Sprint(13800000000+i), "000000", "correct horse", "x", From{Addr: addr})
			if errors.Is(err, ErrWrongCode) {
				return nil
			}
			return err
		}
	}
	if let, wait := tries(t, 1000, register(address)); let < 200 || let == 1000 || wait <= 0 {
		t.Errorf("%d tries let, then %v to wait; want 200 and what the time brought", let, wait)
	}
	if let, _ := tries(t, 1, register("198.51.100.1")); let != 1 {
		t.Error("another address is refused")
	}
}

// Whoever guesses at an account from anywhere can't keep its owner out of it.
func TestStrangersDoNotLockTheOwnerOut(t *testing.T) {
	const home = "198.51.100.1"
	s := newShop(t)
	u := s.register(t, phone, "correct horse")
	if tries, _ := tries(t, 30, func(int) error { return s.limits.login(t.Context(), phone, "203.0.113.201") }); tries == 30 {
		t.Fatal("a stranger is not limited")
	}
	if _, err := s.Login(t.Context(), phone, "correct horse", address); err != nil {
		t.Errorf("the owner from where he registered: %v", err)
	}
	if err := s.limits.loggedIn(t.Context(), phone, home); err != nil {
		t.Fatal(err)
	}
	guess := func(i int) error { return s.limits.login(t.Context(), phone, fmt.Sprint("203.0.113.", i)) }
	if let, _ := tries(t, 30, guess); let == 30 {
		t.Fatal("strangers are not limited")
	}
	if _, err := s.Login(t.Context(), phone, "correct horse", "203.0.113.200"); !errors.As(err, &TooManyError{}) {
		t.Errorf("one more stranger: %v, want TooManyError", err)
	}
	if _, err := s.Login(t.Context(), phone, "correct horse", home); err != nil {
		t.Errorf("the owner from where he was before: %v", err)
	}
	if err := s.ChangePassword(t.Context(), u.ID, "correct horse", "battery staple"); err != nil {
		t.Errorf("the owner changes the password: %v", err)
	}
	// What is known is the account and the address together, and it has a bucket, too.
	let, _ := tries(t, 30, func(int) error { return s.limits.login(t.Context(), phone, home) })
	if let > 15 {
		t.Errorf("%d tries in a row from a known address", let)
	}
	if let, _ := tries(t, 30, func(int) error { return s.limits.login(t.Context(), "13800000002", home) }); let > 15 {
		t.Errorf("%d tries in a row at another account from there", let)
	}
	if _, err := s.Login(t.Context(), "13800000002", "x", "203.0.113.201"); !errors.As(err, &TooManyError{}) {
		t.Errorf("another account: %v, want the strangers' bucket to be empty: the address is known to the first alone", err)
	}
	if life := s.rdb.PTTL(t.Context(), knownKey(phone, home)).Val(); life <= knownFor-time.Minute || life > knownFor {
		t.Errorf("the address is known for %v, want %v", life, knownFor)
	}
}

// A wrong password makes no address known.
func TestAWrongPasswordOpensNoBucket(t *testing.T) {
	s := newShop(t)
	s.register(t, phone, "correct horse")
	if _, err := s.Login(t.Context(), phone, "battery staple", "198.51.100.1"); !errors.Is(err, ErrWrongPassword) {
		t.Fatal(err)
	}
	if n := s.rdb.Exists(t.Context(), knownKey(phone, "198.51.100.1")).Val(); n != 0 {
		t.Error("the address of a wrong password is known")
	}
}

func TestChangesOfThePasswordAreLimited(t *testing.T) {
	s := newShop(t)
	u := s.register(t, phone, "correct horse")
	for range 10 {
		if err := s.limits.password(t.Context(), u.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.ChangePassword(t.Context(), u.ID, "correct horse", "battery staple"); !errors.As(err, &TooManyError{}) {
		t.Errorf("the 11th: %v, want TooManyError", err)
	}
}

func TestNetwork(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "2001:db8:1:2::9": "2001:db8:1:2::/64",
		"2001:db8:1:3::9": "2001:db8:1:3::/64", "fe80::1%eth0": "fe80::/64", "?": "?", "": "",
	} {
		if got := network(addr); got != want {
			t.Errorf("network(%q) = %q, want %q", addr, got, want)
		}
	}
}

// A household with more addresses than there are guesses is one address.
func TestAnIPv6NetworkIsOneAddress(t *testing.T) {
	for name, take := range map[string]func(s shop, i int) error{
		"log-ins": func(s shop, i int) error {
			return s.limits.login(t.Context(), fmt.Sprint(i), fmt.Sprintf("2001:db8::%x", i))
		},
		"codes": func(s shop, i int) error {
			return s.limits.code(t.Context(), fmt.Sprint(i), fmt.Sprintf("2001:db8::%x", i))
		},
	} {
		s := newShop(t)
		if let, _ := tries(t, 400, func(i int) error { return take(s, i+1) }); let < 200 || let > 300 {
			t.Errorf("%s: %d let, want 200", name, let)
		}
	}
}
