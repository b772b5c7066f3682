package user

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox/sandboxtest"
)

const lifetime = 12 * time.Hour

var (
	buyer = User{ID: 7, Phone: phone, Role: RoleBuyer}
	admin = User{ID: 8, Phone: "13800000002", Role: RoleAdmin}
)

// clock is a time that goes on only when a test says so.
type clock struct{ ahead time.Duration }

func (c *clock) now() time.Time { return start.Add(c.ahead) }

var start = time.Now()

// newSessions is one process's Sessions on a Redis, and its clock.
func newSessions(t testing.TB, url string) (*Sessions, *clock) {
	t.Helper()
	s, err := NewSessions(url, lifetime)
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
	return s, c
}

func logIn(t testing.TB, s *Sessions, u User) string {
	t.Helper()
	token, _, err := s.Start(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// expect fails the test unless the token is u's; User{} is for nobody's.
func expect(t testing.TB, what string, s *Sessions, token string, u User) {
	t.Helper()
	who, err := s.Get(t.Context(), token)
	if u == (User{}) {
		if !errors.Is(err, ErrNoSession) || who != (Session{}) {
			t.Errorf("%s: %+v, %v; want ErrNoSession", what, who, err)
		}
		return
	}
	if err != nil || who != (Session{u.ID, u.Role}) {
		t.Errorf("%s: %+v, %v; want user %d", what, who, err, u.ID)
	}
}

func TestSessions(t *testing.T) {
	s, _ := newSessions(t, sandboxtest.RedisURL(t))
	token, expires, err := s.Start(t.Context(), buyer)
	if err != nil {
		t.Fatal(err)
	}
	if !wellFormed(token) {
		t.Errorf("token %q, want 43 characters of base64url", token)
	}
	if left := time.Until(expires); left < lifetime-time.Minute || left > lifetime {
		t.Errorf("expires in %v, want %v", left, lifetime)
	}
	other := logIn(t, s, admin)
	expect(t, "buyer", s, token, buyer)
	expect(t, "administrator", s, other, admin)
	if again := logIn(t, s, buyer); again == token {
		t.Error("two log-ins have one token")
	}
	if err := s.End(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	expect(t, "after log-out", s, token, User{})
	expect(t, "another's log-out", s, other, admin)
	if err := s.End(t.Context(), token); err != nil {
		t.Errorf("a second log-out: %v", err)
	}
}

func TestTokensThatAreNone(t *testing.T) {
	s, _ := newSessions(t, "redis://127.0.0.1:1") // nobody answers there: what asks gets a fault
	for _, token := range []string{"", "x", strings.Repeat("a", 42), strings.Repeat("a", 44), strings.Repeat("a", 42) + "=", strings.Repeat("a", 42) + "\x00"} {
		expect(t, token, s, token, User{})
		if err := s.End(t.Context(), token); err != nil {
			t.Errorf("End(%q): %v", token, err)
		}
	}
	if _, err := s.Get(t.Context(), strings.Repeat("a", 43)); !errors.Is(err, ErrAway) {
		t.Errorf("well-formed token: %v, want ErrAway", err)
	}
}

func TestASessionExpires(t *testing.T) {
	url := sandboxtest.RedisURL(t)
	s, clock := newSessions(t, url)
	token := logIn(t, s, buyer)
	clock.ahead += lifetime - time.Minute
	expect(t, "a minute before", s, token, buyer)
	clock.ahead += 2 * time.Minute
	expect(t, "in time", s, token, User{}) // from Redis, whose clock still has it
	// The record and its index go by themselves.
	rdb := client(t, url)
	for _, key := range []string{sessionPrefix + hashed(token), indexKey(buyer.ID)} {
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
	if len(keys) != 2 || len(members) != 1 || strings.Contains(strings.Join(append(keys, members...), " "), token) {
		t.Errorf("Redis has %v and %v for token %s", keys, members, token)
	}
	expect(t, "the hash as a token", s, members[0], User{})
}

func TestARecordOfAnotherVersionIsNoSession(t *testing.T) {
	url := sandboxtest.RedisURL(t)
	s, _ := newSessions(t, url)
	token := newToken()
	client(t, url).Set(t.Context(), sessionPrefix+hashed(token), "gob of old", time.Hour)
	expect(t, "foreign record", s, token, User{})
}

func TestNewSessionsRefuses(t *testing.T) {
	for _, url := range []string{"", "http://127.0.0.1", "redis://a:1,redis://b:1", "redis://:pass%zz@a", "unix:///x?db=y"} {
		if _, err := NewSessions(url, lifetime); err == nil {
			t.Errorf("NewSessions(%q) went well", url)
		} else if strings.Contains(err.Error(), "pass") {
			t.Errorf("NewSessions(%q) tells the password: %v", url, err)
		}
	}
	if _, err := NewSessions("redis://127.0.0.1", 0); err == nil {
		t.Error("a lifetime of nothing went well")
	}
}

// client looks at what Sessions left in its Redis.
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
