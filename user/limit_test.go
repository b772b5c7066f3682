package user

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// tries calls take until it is refused, at most limit times. It returns the number of allowed
// calls, and the wait until the next one.
func tries(t *testing.T, limit int, take func(i int) error) (allowed int, wait time.Duration) {
	t.Helper()
	for i := range limit {
		err := take(i)
		if refused, ok := errors.AsType[TooManyError](err); ok {
			return i, refused.RetryAfter
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return limit, 0
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name    string
		allowed int
		longest time.Duration // until the next try is allowed
		take    func(s testShop, i int) error
	}{
		{"log-ins of an account", 10, 6 * time.Second,
			func(s testShop, i int) error { return s.limits.login(t.Context(), phone, fmt.Sprint(i)) }},
		{"log-ins from an address", 200, time.Second,
			func(s testShop, i int) error { return s.limits.login(t.Context(), fmt.Sprint(phone, i), address) }},
		{"codes for a phone", 3, 200 * time.Second,
			func(s testShop, i int) error { return s.limits.code(t.Context(), phone, From{Addr: fmt.Sprint(i)}) }},
		{"codes to a /24", 600, 100 * time.Millisecond,
			func(s testShop, i int) error {
				return s.limits.code(t.Context(), fmt.Sprint(phone, i), From{Addr: fmt.Sprint("192.0.2.", i%256), Solved: true})
			}},
		{"codes to a /48", 600, 100 * time.Millisecond,
			func(s testShop, i int) error {
				return s.limits.code(t.Context(), fmt.Sprint(phone, i), From{Addr: fmt.Sprintf("2001:db8:1:%x::1", i), Solved: true})
			}},
		{"registrations from a /24", 600, 100 * time.Millisecond,
			func(s testShop, i int) error { return s.limits.register(t.Context(), fmt.Sprint("192.0.2.", i%256)) }},
		{"codes to an address", 200, time.Second,
			func(s testShop, i int) error { return s.limits.code(t.Context(), fmt.Sprint(phone, i), from) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, began := newShop(t), time.Now()
			allowed, wait := tries(t, c.allowed*2, func(i int) error { return c.take(s, i) })
			if most := c.allowed + refilled(c.longest, began); allowed < c.allowed || allowed > most {
				t.Errorf("%d tries allowed, want %d to %d", allowed, c.allowed, most)
			}
			if allowed < 2*c.allowed && (wait <= 0 || wait > c.longest) {
				t.Errorf("the next try is in %v, want at most %v", wait, c.longest)
			}
		})
	}
}

// refilled returns how many tokens a bucket has received at most since a time: a slow machine is allowed more tries.
func refilled(refill time.Duration, since time.Time) int {
	return int((time.Since(since) + bucketStep()) / refill)
}

// bucketStep returns how far the time of a bucket may be from that of the test: the clock of the embedded
// Redis moves once a second.
func bucketStep() time.Duration { return max(clockStep(), 2*time.Millisecond) }

// useUp empties the bucket in key for an hour, as many strangers in many networks do.
func (s testShop) useUp(t *testing.T, key string, budget Limit) {
	t.Helper()
	full := time.Now().Add(time.Hour + time.Duration(budget.Burst)*budget.Refill()) // no token within an hour, however slow the test is
	if err := s.rdb.Set(t.Context(), key, full.UnixMilli(), 0).Err(); err != nil {
		t.Fatal(err)
	}
}

// keepEmpty lets no token into the bucket in key, which tries have emptied since a time.
func (s testShop) keepEmpty(t *testing.T, key string, budget Limit, since time.Time) {
	t.Helper()
	full, err := s.rdb.Get(t.Context(), key).Int64()
	least := time.Duration(budget.Burst)*budget.Refill() - time.Since(since) - bucketStep()
	if debt := time.Until(time.UnixMilli(full)); err != nil || debt < least {
		t.Fatalf("the bucket %s is full in %v, %v; want %v or more", key, debt, err, least)
	}
	s.useUp(t, key, budget)
}

// When the shop has sent many codes, a solved sum still sends one, and only a solved sum does.
func TestManyCodesOfTheShopAskForASum(t *testing.T) {
	s, began := newShop(t), time.Now()
	for i := range CodesOfAll.Burst {
		if err := s.limits.code(t.Context(), fmt.Sprint(phone, i), From{Addr: fmt.Sprintf("203.0.%d.1", i)}); err != nil {
			t.Fatalf("code %d: %v", i, err)
		}
	}
	if life := s.rdb.PTTL(t.Context(), limitCodesOfAll).Val(); life < time.Duration(CodesOfAll.Burst)*CodesOfAll.Refill()-time.Since(began)-bucketStep() {
		t.Errorf("after %d codes the budget is full again in %v", CodesOfAll.Burst, life)
	}
	s.useUp(t, limitCodesOfAll, CodesOfAll)
	solved := from
	solved.Solved = true
	for i := range CodesPerPhone.Burst {
		if _, _, err := s.SendCode(t.Context(), phone, from); !errors.Is(err, ErrSolveFirst) || !errors.Is(err, ErrBusy) {
			t.Errorf("without a sum: %v, want ErrSolveFirst, which is ErrBusy", err)
		}
		if _, _, err := s.SendCode(t.Context(), phone, solved); err != nil {
			t.Errorf("solved sum %d: %v", i, err)
		}
	}
	if _, _, err := s.SendCode(t.Context(), phone, solved); !errors.As(err, &TooManyError{}) {
		t.Errorf("one more code for the phone: %v, want TooManyError", err)
	}
}

// A phone that has had its codes takes nothing from the shop's budget, however often it asks.
func TestARefusedCodeTakesNothingFromTheShop(t *testing.T) {
	s := newShop(t)
	for range 50 {
		if err := s.limits.code(t.Context(), phone, from); err != nil && !errors.As(err, &TooManyError{}) {
			t.Fatal(err)
		}
	}
	if life := s.rdb.PTTL(t.Context(), limitCodesOfAll).Val(); life > 4*CodesOfAll.Refill() {
		t.Errorf("three codes were sent, and the budget is full only in %v", life)
	}
}

// Wrong codes in many browsers use up the shop's budget. Then a solved sum still tries a code, and a try
// without one uses up no try of a code. A right code takes nothing from the budget, and a code that was never sent neither.
func TestManyWrongCodesOfTheShopAskForASum(t *testing.T) {
	s := newShop(t)
	code, _, err := s.SendCode(t.Context(), phone, from)
	if err != nil {
		t.Fatal(err)
	}
	try := func(code string, from From) error {
		giveBack, err := s.useCode(t.Context(), phone, code, from)
		if err == nil {
			err = giveBack(t.Context())
		}
		return err
	}
	for range 2 * WrongOfAll.Burst {
		if err := try(code, from); err != nil {
			t.Fatalf("a right code: %v", err)
		}
		if err := try(code, From{Addr: address, Browser: "another one"}); !errors.Is(err, ErrWrongCode) {
			t.Fatalf("a code that this browser has not: %v", err)
		}
	}
	if life := s.rdb.PTTL(t.Context(), limitWrongOfAll).Val(); life > 0 {
		t.Errorf("no code was wrong, and the budget is full only in %v", life)
	}
	for i := range WrongOfAll.Burst {
		if i%codeTries == 0 {
			if _, err = s.codes.make(t.Context(), phone, from.Browser); err != nil {
				t.Fatal(err)
			}
		}
		if err := try("x", from); !errors.Is(err, ErrWrongCode) {
			t.Fatalf("wrong code %d: %v", i, err)
		}
	}
	if life := s.rdb.PTTL(t.Context(), limitWrongOfAll).Val(); life < time.Duration(WrongOfAll.Burst)*WrongOfAll.Refill()/2 {
		t.Errorf("after %d wrong codes the budget is full again in %v", WrongOfAll.Burst, life)
	}
	s.useUp(t, limitWrongOfAll, WrongOfAll)
	if code, err = s.codes.make(t.Context(), phone, from.Browser); err != nil {
		t.Fatal(err)
	}
	solved := from
	solved.Solved = true
	for range 2 * codeTries {
		if err := try(wrong(code), from); !errors.Is(err, ErrSolveFirst) {
			t.Fatalf("without a sum: %v, want ErrSolveFirst", err)
		}
	}
	if err := try(wrong(code), solved); !errors.Is(err, ErrWrongCode) {
		t.Errorf("a wrong code with a solved sum: %v", err)
	}
	if _, err := s.Register(t.Context(), phone, code, "correct horse", "x", solved); err != nil {
		t.Errorf("the right code with a solved sum: %v", err)
	}
}

func TestAnAddressThatIsRefusedCostsTheAccountNothing(t *testing.T) {
	s := newShop(t)
	s.useUp(t, limitLoginAddress+address, TriesPerAddress)
	for range 20 {
		if err := s.limits.login(t.Context(), phone, address); !errors.As(err, &TooManyError{}) {
			t.Fatalf("a log-in from the address: %v, want TooManyError", err)
		}
	}
	if allowed, _ := tries(t, 10, func(int) error { return s.limits.login(t.Context(), phone, "198.51.100.1") }); allowed != 10 {
		t.Errorf("%d log-ins allowed from another address, want 10", allowed)
	}
}

func TestLoginAndSendCodeAreLimited(t *testing.T) {
	s, began := newShop(t), time.Now()
	s.register(t, phone, "correct horse")
	codes, _ := tries(t, 9, func(int) error {
		_, _, err := s.SendCode(t.Context(), phone, from)
		return err
	})
	if most := 2 + refilled(CodesPerPhone.Refill(), began); codes < 2 || codes > most { // the registration used one
		t.Errorf("%d more codes, want 2", codes)
	}
	for range 10 {
		if err := s.limits.login(t.Context(), phone, address); err != nil {
			t.Fatal(err)
		}
	}
	s.keepEmpty(t, limitLoginKnown+short(phone)+":"+address, LoginsPerAccount, began)
	if _, err := s.Login(t.Context(), phone, "correct horse", from); !errors.As(err, &TooManyError{}) {
		t.Errorf("the 11th log-in: %v, want TooManyError", err)
	}
}

// One address cannot try codes of more and more phones.
func TestRegisteringIsLimitedByAddress(t *testing.T) {
	s, began := newShop(t), time.Now()
	register := func(addr string) func(int) error {
		return func(i int) error {
			_, err := s.Register(t.Context(), fmt.Sprint(13800000000+i), "000000", "correct horse", "x", From{Addr: addr})
			if errors.Is(err, ErrWrongCode) {
				return nil
			}
			return err
		}
	}
	if allowed, _ := tries(t, 400, register(address)); allowed < 200 || allowed > 200+refilled(TriesPerAddress.Refill(), began) {
		t.Errorf("%d tries allowed, want 200 and those that the bucket refilled", allowed)
	}
	s.keepEmpty(t, limitRegister+address, TriesPerAddress, began)
	if _, wait := tries(t, 1, register(address)); wait <= 0 {
		t.Errorf("the next try is in %v, want a wait", wait)
	}
	if allowed, _ := tries(t, 1, register("198.51.100.1")); allowed != 1 {
		t.Error("another address is refused")
	}
}

// Strangers who guess the password of an account cannot lock its owner out.
func TestStrangersDoNotLockTheOwnerOut(t *testing.T) {
	const home = "198.51.100.1"
	s, began := newShop(t), time.Now()
	u := s.register(t, phone, "correct horse")
	if allowed, _ := tries(t, 30, func(int) error { return s.limits.login(t.Context(), phone, "203.0.113.201") }); allowed == 30 {
		t.Fatal("a stranger is not limited")
	}
	if _, err := s.Login(t.Context(), phone, "correct horse", from); err != nil {
		t.Errorf("the owner, from the address of the registration: %v", err)
	}
	if err := s.limits.loggedIn(t.Context(), phone, home); err != nil {
		t.Fatal(err)
	}
	guess := func(i int) error { return s.limits.login(t.Context(), phone, fmt.Sprint("203.0.113.", i)) }
	if allowed, _ := tries(t, 30, guess); allowed == 30 {
		t.Fatal("strangers are not limited")
	}
	s.keepEmpty(t, limitLogin+short(phone), LoginsPerAccount, began)
	if _, err := s.Login(t.Context(), phone, "correct horse", From{Addr: "203.0.113.200"}); !errors.As(err, &TooManyError{}) {
		t.Errorf("one more stranger: %v, want TooManyError", err)
	}
	if _, err := s.Login(t.Context(), phone, "correct horse", From{Addr: home}); err != nil {
		t.Errorf("the owner, from a known address: %v", err)
	}
	if _, err := s.ChangePassword(t.Context(), s.sessions(t), u.ID, "", "correct horse", "battery staple"); err != nil {
		t.Errorf("the owner's change of the password: %v", err)
	}
	// A known address has a bucket too, and it is known for one account only.
	for what, phone := range map[string]string{"from a known address": phone, "at another account from that address": "13800000002"} {
		began := time.Now()
		allowed, _ := tries(t, 30, func(int) error { return s.limits.login(t.Context(), phone, home) })
		if allowed > 10+refilled(LoginsPerAccount.Refill(), began) {
			t.Errorf("%d tries in a row %s, want 10", allowed, what)
		}
	}
	s.keepEmpty(t, limitLogin+short("13800000002"), LoginsPerAccount, began)
	if _, err := s.Login(t.Context(), "13800000002", "x", From{Addr: "203.0.113.201"}); !errors.As(err, &TooManyError{}) {
		t.Errorf("another account: %v, want TooManyError: the address used up the strangers' bucket", err)
	}
	if life := s.rdb.PTTL(t.Context(), knownKey(phone, home)).Val(); life <= knownFor-time.Minute || life > knownFor {
		t.Errorf("the address is known for %v, want %v", life, knownFor)
	}
}

// A wrong password does not make its address known.
func TestAWrongPasswordMakesNoAddressKnown(t *testing.T) {
	s := newShop(t)
	s.register(t, phone, "correct horse")
	if _, err := s.Login(t.Context(), phone, "battery staple", From{Addr: "198.51.100.1"}); !errors.Is(err, ErrWrongPassword) {
		t.Fatal(err)
	}
	if n := s.rdb.Exists(t.Context(), knownKey(phone, "198.51.100.1")).Val(); n != 0 {
		t.Error("the address of a wrong password is known")
	}
}

func TestPasswordChangesAreLimited(t *testing.T) {
	s, began := newShop(t), time.Now()
	u := s.register(t, phone, "correct horse")
	for range 10 {
		if err := s.limits.password(t.Context(), u.ID); err != nil {
			t.Fatal(err)
		}
	}
	s.keepEmpty(t, fmt.Sprint(limitPassword, u.ID), PasswordsPerUser, began)
	if _, err := s.ChangePassword(t.Context(), s.sessions(t), u.ID, "", "correct horse", "battery staple"); !errors.As(err, &TooManyError{}) {
		t.Errorf("the 11th change: %v, want TooManyError", err)
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

// All IPv6 addresses of a household count as one.
func TestAnIPv6NetworkIsOneAddress(t *testing.T) {
	for name, take := range map[string]func(s testShop, i int) error{
		"log-ins": func(s testShop, i int) error {
			return s.limits.login(t.Context(), fmt.Sprint(i), fmt.Sprintf("2001:db8::%x", i))
		},
		"codes": func(s testShop, i int) error {
			return s.limits.code(t.Context(), fmt.Sprint(i), From{Addr: fmt.Sprintf("2001:db8::%x", i)})
		},
	} {
		s, began := newShop(t), time.Now()
		if allowed, _ := tries(t, 400, func(i int) error { return take(s, i+1) }); allowed < 200 || allowed > 200+refilled(TriesPerAddress.Refill(), began) {
			t.Errorf("%s: %d allowed, want 200", name, allowed)
		}
	}
}
