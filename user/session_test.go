package user

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox/sandboxtest"
)

const lifetime = 12 * time.Hour

var (
	buyer = User{ID: 7, Phone: phone, Role: RoleBuyer}
	admin = User{ID: 8, Phone: "13800000002", Role: RoleAdmin}
)

// clock is a clock that only the test moves.
type clock struct{ ahead time.Duration }

func (c *clock) now() time.Time { return start.Add(c.ahead) }

var start = time.Now()

// newSessions returns the Sessions of one process on a Redis, and their clock.
func newSessions(t testing.TB, url string) (*Sessions, *clock) {
	t.Helper()
	return newSessionsFor(t, url, lifetime)
}

func newSessionsFor(t testing.TB, url string, life time.Duration) (*Sessions, *clock) {
	t.Helper()
	s, err := NewSessions(sandboxtest.RedisOptions(t, url), life)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &clock{ahead: time.Since(start)}
	s.copies.now = c.now
	// A Redis that is slow is no reason to fail.
	s.dial(t, url, redigo.DialConnectTimeout(sandboxtest.Hang), redigo.DialReadTimeout(sandboxtest.Hang), redigo.DialWriteTimeout(sandboxtest.Hang))
	s.remote.timeout, s.copies.wait = sandboxtest.Hang, sandboxtest.Hang
	return s, c
}

// dial lets Sessions that have not been used yet connect in another way.
func (s *Sessions) dial(t testing.TB, url string, options ...redigo.DialOption) {
	t.Helper()
	r, err := newRemote(sandboxtest.RedisOptions(t, url), options...)
	if err != nil {
		t.Fatal(err)
	}
	s.remote, s.copies.remote = r, r
}

// inBubble returns Sessions in the bubble of the test, with the time limits of the shop, on a Redis that is
// slow: for each command it does what slow does and then replies OK.
func inBubble(t *testing.T, slow func()) *Sessions {
	t.Helper()
	s, err := NewSessions(sandboxtest.RedisOptions(t, "redis://bubble"), lifetime)
	if err != nil {
		t.Fatal(err)
	}
	rdb := server.NewServerConn()
	rdb.SetPreHook(func(c *server.Peer, _ string, _ ...string) bool {
		slow()
		c.WriteOK()
		return true
	})
	s.dial(t, "redis://bubble", redigo.DialNetDial(func(string, string) (net.Conn, error) {
		here, there := net.Pipe()
		rdb.ServeConn(there)
		return here, nil
	}))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		rdb.Close()
	})
	return s
}

func logIn(t testing.TB, s *Sessions, u User) string {
	t.Helper()
	token, _, err := s.Start(t.Context(), u, address, "")
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// expect fails the test unless the token is of user u; User{} means no session.
func expect(t testing.TB, what string, s *Sessions, token string, u User) {
	t.Helper()
	session, err := s.Get(t.Context(), token)
	if u == (User{}) {
		if !errors.Is(err, ErrNoSession) || session != (Session{}) {
			t.Errorf("%s: %+v, %v; want ErrNoSession", what, session, err)
		}
		return
	}
	if err != nil || session != (Session{u.ID, u.Role}) {
		t.Errorf("%s: %+v, %v; want user %d", what, session, err, u.ID)
	}
}

func TestSessions(t *testing.T) {
	s, _ := newSessions(t, sandboxtest.RedisURL(t))
	began := time.Now()
	token, expires, err := s.Start(t.Context(), buyer, address, "")
	if err != nil {
		t.Fatal(err)
	}
	if !wellFormed(token) {
		t.Errorf("token %q, want 43 characters of base64url", token)
	}
	if expires.Before(began.Add(lifetime)) || time.Until(expires) > lifetime {
		t.Errorf("expires at %v, want %v after a time between %v and now", expires, lifetime, began)
	}
	other := logIn(t, s, admin)
	expect(t, "buyer", s, token, buyer)
	expect(t, "administrator", s, other, admin)
	if again := logIn(t, s, buyer); again == token {
		t.Error("two log-ins have the same token")
	}
	if err := s.End(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	expect(t, "after log-out", s, token, User{})
	expect(t, "another user, after the log-out", s, other, admin)
	if err := s.End(t.Context(), token); err != nil {
		t.Errorf("a second log-out: %v", err)
	}
}

func TestMalformedTokensAreRefused(t *testing.T) {
	s, _ := newSessions(t, "redis://127.0.0.1:1") // no Redis is there: a read is a fault
	for _, token := range []string{"", "x", strings.Repeat("a", 42), strings.Repeat("a", 44), strings.Repeat("a", 42) + "=", strings.Repeat("a", 42) + "\x00"} {
		expect(t, token, s, token, User{})
		if err := s.End(t.Context(), token); err != nil {
			t.Errorf("End(%q): %v", token, err)
		}
	}
	if _, err := s.Get(t.Context(), strings.Repeat("a", 43)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a well-formed token: %v, want ErrUnavailable", err)
	}
}

func TestASessionExpires(t *testing.T) {
	url := sandboxtest.RedisURL(t)
	s, clock := newSessions(t, url)
	token := logIn(t, s, buyer)
	clock.ahead += lifetime - time.Minute
	expect(t, "a minute before", s, token, buyer)
	clock.ahead += 2 * time.Minute
	expect(t, "a minute after", s, token, User{}) // Redis still has it, by its own clock
	// The record and its index expire in Redis.
	rdb := client(t, url)
	for _, key := range []string{sessionPrefix + hashed(token), indexKey(buyer.ID), originsKey(buyer.ID)} {
		if ttl := rdb.PTTL(t.Context(), key).Val(); ttl <= lifetime-time.Minute || ttl > lifetime {
			t.Errorf("%s lives %v, want %v", key, ttl, lifetime)
		}
	}
}

func TestRedisHasNoTokens(t *testing.T) {
	url := sandboxtest.RedisURL(t)
	s, _ := newSessions(t, url)
	token := logIn(t, s, buyer)
	rdb := client(t, url)
	keys := rdb.Keys(t.Context(), "*").Val()
	members := rdb.ZRange(t.Context(), indexKey(buyer.ID), 0, -1).Val()
	origins := rdb.HKeys(t.Context(), originsKey(buyer.ID)).Val()
	if len(keys) != 3 || len(members) != 1 {
		t.Fatalf("Redis has the keys %v and the index %v, want 3 and 1", keys, members)
	}
	if strings.Contains(strings.Join(slices.Concat(keys, members, origins), " "), token) {
		t.Errorf("Redis has the token %s: %v, %v and %v", token, keys, members, origins)
	}
	expect(t, "the hash used as a token", s, members[0], User{})
}

func TestARecordOfAnotherVersionIsNoSession(t *testing.T) {
	url := sandboxtest.RedisURL(t)
	s, _ := newSessions(t, url)
	token := newToken()
	client(t, url).Set(t.Context(), sessionPrefix+hashed(token), "gob of old", time.Hour)
	expect(t, "a record of another version", s, token, User{})
}

func TestNewSessionsRefuses(t *testing.T) {
	for name, at := range map[string]*redis.UniversalOptions{"no address": {}, "a Cluster": {Addrs: []string{"a:1", "b:1"}},
		"sentinels": {Addrs: []string{"a:1"}, MasterName: "shop"}} {
		if _, err := NewSessions(at, lifetime); err == nil || !strings.Contains(err.Error(), "SESSION_REDIS_URL") {
			t.Errorf("%s: %v, want an error that names the setting", name, err)
		}
	}
	if _, err := NewSessions(sandboxtest.RedisOptions(t, "redis://127.0.0.1"), 0); err == nil {
		t.Error("NewSessions with a lifetime of 0 returned no error")
	}
}

func TestSessionsWhileRedisIsUnavailable(t *testing.T) {
	proxy, url := sandboxtest.ProxyTo(t, sandboxtest.RedisURL(t))
	s, clock := newSessions(t, url)
	seen, unseen, ended, leaving := logIn(t, s, buyer), logIn(t, s, buyer), logIn(t, s, buyer), logIn(t, s, buyer)
	expect(t, "before", s, seen, buyer)
	expect(t, "before", s, leaving, buyer)
	if err := s.End(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	proxy.Cut()

	for range 5 {
		clock.ahead += freshFor
		expect(t, "with a copy", s, seen, buyer)
	}
	expect(t, "an ended session", s, ended, User{})
	for range 5 {
		if _, err := s.Get(t.Context(), unseen); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrNoSession) {
			t.Errorf("without a copy: %v, want ErrUnavailable", err)
		}
	}
	if _, _, err := s.Start(t.Context(), admin, address, ""); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Start: %v, want ErrUnavailable", err)
	}
	if err := s.EndAll(t.Context(), buyer.ID, 1, ""); !errors.Is(err, ErrUnavailable) {
		t.Errorf("EndAll: %v, want ErrUnavailable", err)
	}
	if err := s.End(t.Context(), leaving); !errors.Is(err, ErrUnavailable) {
		t.Errorf("End: %v, want ErrUnavailable", err)
	}
	expect(t, "a session that ended without Redis", s, leaving, User{})
	clock.ahead += staleFor
	if _, err := s.Get(t.Context(), seen); !errors.Is(err, ErrUnavailable) {
		t.Errorf("with a copy that is ten minutes old: %v, want ErrUnavailable", err)
	}

	join(t, proxy, s)
	expect(t, "after the restart", s, seen, buyer)
	expect(t, "after the restart, without a copy", s, unseen, buyer)
}

// join lets Redis be reached again, and waits until Sessions can read from it.
func join(t *testing.T, proxy *sandboxtest.Proxy, s *Sessions) {
	t.Helper()
	if err := proxy.Join(); err != nil {
		t.Fatal(err)
	}
	sandboxtest.Until(t, "the breaker lets a read pass", func() bool {
		_, err := s.remote.records(t.Context(), []string{"any"})
		return err == nil
	})
}

func TestASessionExpiresWhileRedisIsUnavailable(t *testing.T) {
	proxy, url := sandboxtest.ProxyTo(t, sandboxtest.RedisURL(t))
	s, clock := newSessions(t, url)
	token := logIn(t, s, buyer)
	clock.ahead += lifetime - time.Minute
	expect(t, "a minute before", s, token, buyer)
	proxy.Cut()
	clock.ahead += 2 * time.Minute
	expect(t, "a minute after", s, token, User{})
}

// client returns a client of a Redis, to read what Sessions wrote.
func client(t *testing.T, url string) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(options)
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// BenchmarkSession measures Get with a copy in this process, and without one, which takes a round
// trip.
func BenchmarkSession(b *testing.B) {
	for name, forget := range map[string]bool{"kept": false, "read": true} {
		b.Run(name, func(b *testing.B) {
			s, _ := newSessions(b, sandboxtest.RedisURL(b))
			token := logIn(b, s, buyer)
			b.ReportAllocs()
			for b.Loop() {
				if forget {
					s.copies.entries.Invalidate(hashed(token))
				}
				if session, err := s.Get(b.Context(), token); err != nil || session.UserID != buyer.ID {
					b.Fatal(session, err)
				}
			}
		})
	}
}
