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
// are the same, and the times too. The time of a kind is that of its quickest try, because other
// work on the machine only adds to it. Beside other tests only the errors are compared: there the
// 25 ms of a hash are hardly ever uninterrupted.
func TestLatencyDoesNotRevealAccounts(t *testing.T) {
	const rounds = 15
	for _, c := range []struct {
		name  string
		slack time.Duration // for a very short try, which another process may interrupt
		try   func(s testShop, phone, addr string) error
		want  error
	}{
		{"a wrong password", 0, func(s testShop, phone, addr string) error {
			_, err := s.Login(t.Context(), phone, "battery staple", From{Addr: addr})
			return err
		}, ErrWrongPassword},
		{"a code is sent", 2 * time.Millisecond, func(s testShop, phone, addr string) error {
			_, _, err := s.SendCode(t.Context(), phone, From{Addr: addr})
			return err
		}, nil},
		{"a wrong code", 2 * time.Millisecond, func(s testShop, phone, _ string) error {
			_, err := s.Register(t.Context(), phone, "000000", "correct horse", "x", from)
			return err
		}, ErrWrongCode},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShop(t)
			kinds := map[string][]string{}
			hash, err := s.hashes.hash(t.Context(), inTurn, "correct horse")
			if err != nil {
				t.Fatal(err)
			}
			for i := range rounds { // a phone for each try, or the rate limits would refuse
				ours, older, none := fmt.Sprintf("138000001%02d", i), fmt.Sprintf("138000002%02d", i), fmt.Sprintf("138000003%02d", i)
				if _, err := s.db.Exec(t.Context(), `insert into users (phone, password_hash) values ($1, $2)`, ours, hash); err != nil {
					t.Fatal(err)
				}
				s.old(t, older, "correct horse")
				kinds["no account"] = append(kinds["no account"], none)
				kinds["account"] = append(kinds["account"], ours)
				kinds["account of the older systems"] = append(kinds["account of the older systems"], older)
			}
			took := map[string]time.Duration{}
			within := func(d time.Duration) bool {
				return (d - took["no account"]).Abs() <= max(took["no account"]/4, c.slack)
			}
			// More tries come closer to the quickest one; a difference in the work would stay.
			for batch := range 3 {
				for i := range rounds { // one of each in turn, so that a disturbance hits all kinds
					for kind, phones := range kinds {
						began := time.Now()
						if err := c.try(s, phones[i], fmt.Sprint("192.0.2.", i)); !errors.Is(err, c.want) {
							t.Errorf("%s: %v, want %v", kind, err, c.want)
						}
						if d := time.Since(began); took[kind] == 0 || d < took[kind] {
							took[kind] = d
						}
					}
				}
				t.Logf("after %d tries of each: %v", (batch+1)*rounds, took)
				if within(took["account"]) && within(took["account of the older systems"]) || !sandboxtest.Alone() {
					return
				}
			}
			t.Errorf("%v; want all within a quarter of \"no account\"", took)
		})
	}
}

// A log-in hears of a Postgres that refuses connections at once, and of a silent one after a second; the
// next ones hear of that at once. When Postgres is back, log-ins go on.
func TestALogInWithoutPostgresIsToldSoon(t *testing.T) {
	proxy, through := sandboxtest.ProxyTo(t, sandboxtest.DatabaseURL(t))
	db, err := pgxpool.New(t.Context(), through)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	s := newShop(t)
	s.db = db
	s.lookups = newLookups(time.Hour)
	s.register(t, phone, "correct horse")
	logIn := func() (time.Duration, error) {
		began := time.Now()
		_, err := s.Login(t.Context(), phone, "correct horse", from)
		return time.Since(began), err
	}
	proxy.Cut()
	for range 3 {
		if took, err := logIn(); !errors.Is(err, ErrUnavailable) || errors.Is(err, gobreaker.ErrOpenState) || took > sandboxtest.Within(100*time.Millisecond) {
			t.Errorf("connections are refused: %v after %v, want ErrUnavailable at once", err, took)
		}
	}
	if err := proxy.Join(); err != nil {
		t.Fatal(err)
	}
	if _, err := logIn(); err != nil {
		t.Errorf("connections are not refused any more: %v", err)
	}
	proxy.Delay(time.Hour)
	if took, err := logIn(); !errors.Is(err, ErrUnavailable) || took < lookupLimit || took > sandboxtest.Within(lookupLimit+100*time.Millisecond) {
		t.Errorf("Postgres is silent: %v after %v, want ErrUnavailable after %v", err, took, lookupLimit)
	}
	if _, err := logIn(); !errors.Is(err, ErrUnavailable) || !errors.Is(err, gobreaker.ErrOpenState) {
		t.Errorf("the next log-in: %v, want ErrUnavailable without a query", err)
	}
	proxy.Heal()
	s.lookups = newLookups(time.Hour)
	if _, err := logIn(); err != nil {
		t.Errorf("Postgres is back: %v", err)
	}
}
