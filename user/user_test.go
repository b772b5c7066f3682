package user

import (
	"bytes"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

var secret = []byte("a secret of thirty-two bytes, 012")

const address = "192.0.2.7"

var from = From{Addr: address}

// shop is a Store with what it prints and what it logs.
type shop struct {
	*Store
	rdb     redis.UniversalClient
	console *output
	logged  *output
}

func newShop(t *testing.T) shop {
	t.Helper()
	s := shop{rdb: sandboxtest.Redis(t), console: &output{}, logged: &output{}}
	cfg := Config{SMS: "console", LegacySalt: "1a2b3c4d", Console: s.console}
	s.Store = New(sandboxtest.DB(t), s.rdb, secret, cfg, slog.New(slog.NewTextHandler(s.logged, nil)))
	s.hashes.patience = time.Minute // the race detector makes hashes slow
	return s
}

// register makes an account that is not what the test is about.
func (s shop) register(t *testing.T, phone, password string) User {
	t.Helper()
	code, _, err := s.SendCode(t.Context(), phone, from)
	if err != nil {
		t.Fatal(err)
	}
	u, err := s.Register(t.Context(), phone, code, password, "小明", from)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// together calls f n times at one moment and returns what each returned.
func together(n int, f func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	all.Wait()
	return errs
}

// count says how many errors are nil, how many are want, and which one is neither.
func count(errs []error, want error) (ok, refused int, other error) {
	for _, err := range errs {
		switch {
		case err == nil:
			ok++
		case errors.Is(err, want):
			refused++
		default:
			other = err
		}
	}
	return ok, refused, other
}

type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func TestByID(t *testing.T) {
	s := newShop(t)
	u := s.register(t, "13800000001", "correct horse")
	got, err := s.ByID(t.Context(), u.ID)
	if err != nil || got != u {
		t.Errorf("ByID = %+v, %v; want %+v", got, err, u)
	}
	if want := (User{u.ID, "13800000001", "小明", RoleBuyer}); u != want {
		t.Errorf("registered %+v, want %+v", u, want)
	}
	if _, err := s.ByID(t.Context(), u.ID+1); !errors.Is(err, ErrNotFound) {
		t.Errorf("ByID of nobody: %v, want ErrNotFound", err)
	}
}

func TestMakeAdmin(t *testing.T) {
	s := newShop(t)
	buyer := s.register(t, "13800000001", "correct horse")
	sessions, _ := newSessions(t, sandboxtest.RedisURL(t))
	before := logIn(t, sessions, buyer)
	expect(t, "before", sessions, before, buyer)
	for _, c := range []struct {
		phone   string
		created bool
	}{{"13800000001", false}, {"13800000002", true}, {"13800000002", false}} {
		created, err := s.MakeAdmin(t.Context(), sessions, c.phone, "administrator")
		if err != nil || created != c.created {
			t.Errorf("MakeAdmin(%s) = %v, %v; want created %v", c.phone, created, err, c.created)
		}
		u, err := s.Login(t.Context(), c.phone, "administrator", address)
		if err != nil || u.Role != RoleAdmin {
			t.Errorf("log-in of %s: %+v, %v; want an administrator", c.phone, u, err)
		}
	}
	expect(t, "a session of before", sessions, before, User{})
	if u, err := s.ByID(t.Context(), buyer.ID); err != nil || u.Nickname != buyer.Nickname {
		t.Errorf("promoted account is %+v, %v; want the same nickname", u, err)
	}
	if _, err := s.MakeAdmin(t.Context(), sessions, "12", "administrator"); !errors.As(err, &InvalidError{}) {
		t.Errorf("MakeAdmin of no phone: %v, want InvalidError", err)
	}
}

func TestConfig(t *testing.T) {
	for sms, want := range map[string]bool{"console": true, "off": true, "": false, "carrier pigeon": false} {
		if err := (Config{SMS: sms}).Validate(); (err == nil) != want {
			t.Errorf("sms %q: %v, want valid: %v", sms, err, want)
		}
	}
}
