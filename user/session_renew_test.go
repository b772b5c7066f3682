package user

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox"
	"miaosha/seckill/sandbox/sandboxtest"
)

const longLife = 3 * 24 * time.Hour

// newRenewed returns Sessions of a long life whose renewals only the test does.
func newRenewed(t *testing.T, url string) (*Sessions, *clock) {
	t.Helper()
	s, clock := newSessionsFor(t, url, longLife)
	s.renewals.close()
	return s, clock
}

// renewDue does the renewals that are due and returns how many sessions were written.
func renewDue(t *testing.T, s *Sessions) int {
	t.Helper()
	var batch []renewal
	for len(s.renewals.due) > 0 {
		batch = append(batch, <-s.renewals.due)
	}
	renewed, err := s.renewals.renew(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	return renewed
}

// ends returns how long after the start of the test the session of a token ends in Redis. The index has to
// end with it or later, and to list it with that time.
func ends(t *testing.T, rdb *redis.Client, token string) time.Duration {
	t.Helper()
	at := func(key string) time.Time {
		return time.UnixMilli(int64(rdb.PExpireTime(t.Context(), key).Val() / time.Millisecond))
	}
	record := at(sessionPrefix + hashed(token))
	for _, key := range []string{indexKey(buyer.ID), originsKey(buyer.ID)} {
		if at(key).Before(record.Add(-clockStep())) {
			t.Errorf("%s ends at %v, before the session at %v", key, at(key), record)
		}
	}
	score := time.UnixMilli(int64(rdb.ZScore(t.Context(), indexKey(buyer.ID), hashed(token)).Val()))
	if score.Sub(record).Abs() > clockStep() {
		t.Errorf("the index lists the session until %v, want %v", score, record)
	}
	return record.Sub(start)
}

// clockStep returns how far an expiry that Redis tells may be from the one that was set: the clock of the
// embedded one moves once a second, that of a real one always.
func clockStep() time.Duration {
	if sandboxtest.Kind() == sandbox.Embedded {
		return 1200 * time.Millisecond
	}
	return 0
}

// near reports whether two times of this test are the same, but for the seconds that it takes.
func near(a, b time.Duration) bool { return (a - b).Abs() < renewStep/2 }

// A session that is not used ends after idleFor. One that is used is written once in ten minutes, whatever
// process it is used in, and lives on up to its limit.
func TestAUsedSessionLivesOnUpToItsLimit(t *testing.T) {
	url := sandboxtest.RedisURL(t)
	rdb := client(t, url)
	s, clock := newRenewed(t, url)
	other, otherClock := newRenewed(t, url)
	token, limit, err := s.Start(t.Context(), buyer, address, "")
	if err != nil {
		t.Fatal(err)
	}
	use := func(s *Sessions) (written int) {
		t.Helper()
		expect(t, "the session in use", s, token, buyer)
		return renewDue(t, s)
	}
	if n := use(s); n != 0 || !near(ends(t, rdb, token), idleFor) {
		t.Errorf("after the log-in: written %d times, ends after %v, want not once, and %v", n, ends(t, rdb, token), idleFor)
	}
	begun := clock.ahead
	for _, c := range []struct {
		after time.Duration
		in    *Sessions
		want  int
	}{
		{renewStep / 2, s, 0}, {3 * renewStep, s, 1}, {3 * renewStep, s, 0}, {3*renewStep + time.Minute, other, 0},
		{4*renewStep + 2*time.Minute, other, 1}, {4*renewStep + 3*time.Minute, s, 0}, {20 * time.Hour, s, 1}, {longLife - idleFor + time.Minute, other, 1},
		{longLife - time.Hour, s, 0}, {longLife - time.Minute, other, 0},
	} {
		clock.ahead, otherClock.ahead = begun+c.after, begun+c.after
		if n := use(c.in); n != c.want {
			t.Errorf("used %v after the log-in: written %d times, want %d", c.after, n, c.want)
		}
		if got := ends(t, rdb, token); c.want == 1 && !near(got, min(c.after+idleFor, longLife)) {
			t.Errorf("used %v after the log-in: ends after %v", c.after, got)
		}
	}
	if got := ends(t, rdb, token); got > limit.Sub(start)+clockStep() {
		t.Errorf("ends after %v, beyond its limit of %v", got, limit.Sub(start))
	}
	clock.ahead = limit.Sub(start)
	expect(t, "at the end of its life", s, token, User{})
}

// No use waits for a renewal: it happens in the background.
func TestRenewalsAreInTheBackground(t *testing.T) {
	url := sandboxtest.RedisURL(t)
	rdb := client(t, url)
	s, clock := newSessionsFor(t, url, longLife)
	token := logIn(t, s, buyer)
	was := ends(t, rdb, token)
	clock.ahead += time.Hour
	expect(t, "an hour later", s, token, buyer)
	sandboxtest.Until(t, "the session is renewed", func() bool {
		return rdb.PTTL(t.Context(), sessionPrefix+hashed(token)).Val() > idleFor
	})
	if got := ends(t, rdb, token); !near(got, was+time.Hour) {
		t.Errorf("ends after %v, before %v", got, was)
	}

	full, clock := newRenewed(t, url)
	clock.ahead += 2 * time.Hour
	for range renewAtOnce {
		full.renewals.due <- renewal{}
	}
	expect(t, "while no renewal is taken", full, token, buyer)
}

// A renewal does not revive a session that was ended: here or in another process, before it or while it is
// under way, by its user or by a new password.
func TestARenewalRevivesNoSession(t *testing.T) {
	url := sandboxtest.RedisURL(t)
	rdb := client(t, url)
	s, clock := newRenewed(t, url)
	other, _ := newRenewed(t, url)
	var tokens []string
	for range maxPerUser {
		tokens = append(tokens, logIn(t, s, buyer))
	}
	clock.ahead += time.Hour
	for _, token := range tokens {
		expect(t, "in use", s, token, buyer)
	}
	var batch []renewal
	for len(s.renewals.due) > 0 {
		batch = append(batch, <-s.renewals.due)
	}
	if len(batch) != len(tokens) {
		t.Fatalf("%d renewals are due, want %d", len(batch), len(tokens))
	}
	errs := together(4, func(i int) (err error) {
		switch i {
		case 0: // log-out in another process
			for _, token := range tokens[:maxPerUser/2] {
				err = other.End(t.Context(), token)
			}
		case 1: // a new password in a third
			err = other.EndAll(t.Context(), buyer.ID, 1, "")
		default:
			for range 50 {
				_, err = s.renewals.renew(t.Context(), batch)
			}
		}
		return err
	})
	if ok, _, other := count(errs, nil); ok != len(errs) {
		t.Fatal(other)
	}
	if n, err := s.renewals.renew(t.Context(), batch); n != 0 || err != nil {
		t.Errorf("%d ended sessions were renewed, %v", n, err)
	}
	for _, token := range tokens {
		if rdb.Exists(t.Context(), sessionPrefix+hashed(token)).Val() != 0 {
			t.Error("an ended session is back")
		}
	}
	if left := rdb.ZRange(t.Context(), indexKey(buyer.ID), 0, -1).Val(); len(left) != 0 {
		t.Errorf("the index lists %v", left)
	}
	clock.ahead += freshFor
	for _, token := range tokens {
		expect(t, "after the end", s, token, User{})
	}
}

// A session that its user ended while Redis was down is not made longer.
func TestASessionThatEndedHereIsNotRenewed(t *testing.T) {
	url := sandboxtest.RedisURL(t)
	rdb := client(t, url)
	s, clock := newRenewed(t, url)
	token := logIn(t, s, buyer)
	was := ends(t, rdb, token)
	clock.ahead += time.Hour
	expect(t, "in use", s, token, buyer)
	s.copies.ended(hashed(token)) // as End does without Redis
	if n := renewDue(t, s); n != 0 || (ends(t, rdb, token)-was).Abs() > clockStep() {
		t.Errorf("written %d times, ends after %v, before %v", n, ends(t, rdb, token), was)
	}
}
