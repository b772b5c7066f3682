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

var from = From{Addr: address, Browser: "the browser's secret"}

// testShop is a Store, with its output on the console and its log.
type testShop struct {
	*Store
	rdb     redis.UniversalClient
	console *output
	logged  *output
}

func newShop(t *testing.T) testShop {
	t.Helper()
	s := testShop{rdb: sandboxtest.Redis(t), console: &output{}, logged: &output{}}
	cfg := Config{SMS: "console", LegacySalt: "1a2b3c4d", LegacyPattern: "{password}{fixed}", LegacyRowPattern: "{password}{salt}", Console: s.console}
	s.Store = New(sandboxtest.DB(t), s.rdb, secret, cfg, slog.New(slog.NewTextHandler(s.logged, nil)))
	// A store or a hash that is slow is no reason to fail, and a cheap hash does what an expensive one does.
	s.hashes.maxWait, s.silence, s.counts.wait = sandboxtest.Hang, sandboxtest.Hang, sandboxtest.Hang
	s.hashes.memory = 8
	return s
}

// sessions returns Sessions on a Redis of their own.
func (s testShop) sessions(t *testing.T) *Sessions {
	t.Helper()
	sessions, _ := newSessions(t, sandboxtest.RedisURL(t))
	return sessions
}

// register makes an account.
func (s testShop) register(t *testing.T, phone, password string) User {
	t.Helper()
	code, _, err := s.SendCode(t.Context(), phone, from)
	if err != nil {
		t.Fatal(err)
	}
	u, err := s.Register(t.Context(), phone, code, password, "小明", from)
	if err != nil {
		t.Fatal(err)
	}
	return u.User
}

// together makes n calls of f at the same moment and returns their errors.
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

// count returns the number of nil errors, the number of errors that are want, and one error that is
// neither.
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

// output is a buffer for concurrent writers.
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
	if want := (User{ID: u.ID, Phone: "13800000001", Nickname: "小明", Role: RoleBuyer}); u != want {
		t.Errorf("registered %+v, want %+v", u, want)
	}
	if _, err := s.ByID(t.Context(), u.ID+1); !errors.Is(err, ErrNotFound) {
		t.Errorf("ByID of an unknown id: %v, want ErrNotFound", err)
	}
}

func TestConfig(t *testing.T) {
	for sms, want := range map[string]bool{"console": true, "off": true, "": false, "carrier pigeon": false} {
		if err := (Config{SMS: sms, SessionCopies: freshFor, LegacyPattern: "{password}", LegacyRowPattern: "{password}"}).Validate(); (err == nil) != want {
			t.Errorf("sms %q: %v, want valid: %v", sms, err, want)
		}
	}
	for life, want := range map[time.Duration]bool{1: true, freshFor: true, freshFor + 1: false, 0: false, -1: false} {
		if err := (Config{SMS: "off", SessionCopies: life, LegacyPattern: "{password}", LegacyRowPattern: "{password}"}).Validate(); (err == nil) != want {
			t.Errorf("a life of %v: %v, want valid: %v", life, err, want)
		}
	}
}
