package user

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/sony/gobreaker/v2"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestLogin(t *testing.T) {
	s := newShop(t)
	want := s.register(t, phone, "correct horse")
	if got, err := s.Login(t.Context(), phone, "correct horse", from); err != nil || got.User != want {
		t.Errorf("Login = %+v, %v; want %+v", got, err, want)
	}
	for _, c := range [][2]string{
		{phone, "battery staple"}, {phone, "correct horse "}, {"13800000009", "correct horse"},
		{"13800000001\x00", "correct horse"}, {strings.Repeat("1", 4000), "x"}, {"' or 1=1 --", "x"},
		{phone, strings.Repeat("x", 4000)},
	} {
		if _, err := s.Login(t.Context(), c[0], c[1], from); !errors.Is(err, ErrWrongPassword) {
			t.Errorf("Login(%.20q, %.20q): %v, want ErrWrongPassword", c[0], c[1], err)
		}
	}
}

// The log has every log-in and refusal with user and address, but without phone and password.
func TestLogInsAreLogged(t *testing.T) {
	s := newShop(t)
	u := s.register(t, phone, "correct horse")
	if _, err := s.Login(t.Context(), phone, "correct horse", from); err != nil {
		t.Fatal(err)
	}
	for _, typed := range []string{phone, "my-password-here", "19900101"} {
		if _, err := s.Login(t.Context(), typed, "battery staple", from); !errors.Is(err, ErrWrongPassword) {
			t.Fatal(err)
		}
	}
	log := s.logged.String()
	for _, want := range []string{fmt.Sprintf(`msg="logged in" user=%d addr=%s`, u.ID, address),
		fmt.Sprintf(`msg="log-in refused" phone=%s addr=%s`, masked(phone), address), `msg="log-in refused" phone=***`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not have: %s", want)
		}
	}
	for _, secret := range []string{phone, "correct horse", "battery staple", "my-pass", "here", "1990", "0101"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has %q:\n%s", secret, log)
		}
	}
}

func TestAnAccountWithoutPasswordLogsInWithNone(t *testing.T) {
	s := newShop(t)
	if _, err := s.db.Exec(t.Context(), `insert into users (phone) values ($1)`, phone); err != nil {
		t.Fatal(err)
	}
	for _, password := range []string{" ", "\x00", dummyHash} {
		if _, err := s.Login(t.Context(), phone, password, from); !errors.Is(err, ErrWrongPassword) {
			t.Errorf("Login with %q: %v, want ErrWrongPassword", password, err)
		}
	}
}

// Every log-in computes one hash, so its time reveals nothing. The hasher is full here: a log-in
// that hashes is ErrBusy.
func TestEveryLoginHashesOnce(t *testing.T) {
	s := newShop(t)
	s.register(t, phone, "correct horse")
	s.old(t, "13800000002", "correct horse")
	s.hashes = newHasher(1)
	s.hashes.queue = 0
	s.hashes.slots <- struct{}{}
	for _, phone := range []string{phone, "13800000002", "13800000003", "no phone"} {
		if _, err := s.Login(t.Context(), phone, "correct horse", from); !errors.Is(err, ErrBusy) {
			t.Errorf("Login of %s: %v, want ErrBusy", phone, err)
		}
	}
}

// A crowd costs Redis and Postgres no query: without room, a log-in is refused before its try is
// counted.
func TestALoginCrowdIsRefusedEarly(t *testing.T) {
	s := newShop(t)
	s.door = newDoor(3)
	leave := fill(t, s.door)
	for range 20 {
		if _, err := s.Login(t.Context(), phone, "correct horse", from); !errors.Is(err, ErrSolveFirst) || !errors.Is(err, ErrBusy) {
			t.Fatalf("Login: %v, want ErrSolveFirst, which is ErrBusy", err)
		}
	}
	if keys := s.rdb.Keys(t.Context(), "*").Val(); len(keys) != 0 {
		t.Errorf("Redis has keys: %v; want no query", keys)
	}
	leave[0]()
	for range 2 { // each log-in frees its place
		if _, err := s.Login(t.Context(), phone, "correct horse", from); !errors.Is(err, ErrWrongPassword) {
			t.Errorf("Login with one free place: %v, want ErrWrongPassword", err)
		}
	}
}

// A stranger without a password or a code cannot find out which phones have accounts: the errors
// are the same. TestLatencyDoesNotRevealAccounts compares the times.
func TestErrorsDoNotRevealAccounts(t *testing.T) {
	for _, c := range guesses {
		t.Run(c.name, func(t *testing.T) {
			s := newShop(t)
			for kind, phones := range s.kinds(t, 2) {
				for i, phone := range phones {
					if err := c.try(t, s, phone, fmt.Sprint("192.0.2.", i)); !errors.Is(err, c.want) {
						t.Errorf("%s: %v, want %v", kind, err, c.want)
					}
				}
			}
		})
	}
}

// guesses are what a stranger may try with a phone.
var guesses = []struct {
	name string
	try  func(t *testing.T, s testShop, phone, addr string) error
	want error
}{
	{"a wrong password", func(t *testing.T, s testShop, phone, addr string) error {
		_, err := s.Login(t.Context(), phone, "battery staple", From{Addr: addr})
		return err
	}, ErrWrongPassword},
	{"a code is sent", func(t *testing.T, s testShop, phone, addr string) error {
		_, _, err := s.SendCode(t.Context(), phone, From{Addr: addr})
		return err
	}, nil},
	{"a wrong code", func(t *testing.T, s testShop, phone, _ string) error {
		_, err := s.Register(t.Context(), phone, "000000", "correct horse", "x", from)
		return err
	}, ErrWrongCode},
}

// kinds returns n phones of each kind: of accounts, of accounts of the older systems, and of no account.
func (s testShop) kinds(t *testing.T, n int) map[string][]string {
	t.Helper()
	kinds := map[string][]string{}
	hash, err := s.hashes.hash(t.Context(), inTurn, "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		ours, older, none := fmt.Sprintf("138000001%02d", i), fmt.Sprintf("138000002%02d", i), fmt.Sprintf("138000003%02d", i)
		s.exec(t, `insert into users (phone, password_hash) values ($1, $2)`, ours, hash)
		s.old(t, older, "correct horse")
		kinds["no account"] = append(kinds["no account"], none)
		kinds["account"] = append(kinds["account"], ours)
		kinds["account of the older systems"] = append(kinds["account of the older systems"], older)
	}
	return kinds
}

// A log-in hears of a Postgres that refuses connections at once, and not only when it has been silent for
// too long; the next ones hear of a silent one without a query. When Postgres is back, log-ins go on.
func TestALogInWithoutPostgresIsToldSoon(t *testing.T) {
	s, proxy := newShopBehind(t)
	s.lookups = newLookups(time.Hour)
	s.register(t, phone, "correct horse")
	logIn := func() error {
		_, err := s.Login(t.Context(), phone, "correct horse", from)
		return err
	}
	proxy.Cut()
	for range 3 {
		if err := logIn(); !errors.Is(err, ErrUnavailable) || errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, errSilent) {
			t.Errorf("connections are refused: %v, want ErrUnavailable at once", err)
		}
	}
	if err := proxy.Join(); err != nil {
		t.Fatal(err)
	}
	if err := logIn(); err != nil {
		t.Errorf("connections are not refused any more: %v", err)
	}
	proxy.Delay(time.Hour)
	s.silence = lookupLimit
	if err := logIn(); !errors.Is(err, ErrUnavailable) || !errors.Is(err, errSilent) {
		t.Errorf("Postgres is silent: %v, want ErrUnavailable after %v of silence", err, lookupLimit)
	}
	if err := logIn(); !errors.Is(err, ErrUnavailable) || !errors.Is(err, gobreaker.ErrOpenState) {
		t.Errorf("the next log-in: %v, want ErrUnavailable without a query", err)
	}
	proxy.Heal()
	s.lookups, s.silence = newLookups(time.Hour), sandboxtest.Hang
	if err := logIn(); err != nil {
		t.Errorf("Postgres is back: %v", err)
	}
}

// newShopBehind returns a shop whose Postgres is behind a proxy.
func newShopBehind(t *testing.T) (testShop, *sandboxtest.Proxy) {
	t.Helper()
	proxy, through := sandboxtest.ProxyTo(t, sandboxtest.DatabaseURL(t))
	s := newShop(t)
	db, err := pgxpool.New(t.Context(), through)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	s.db = db
	return s, proxy
}
