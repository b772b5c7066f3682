package user

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestEndAll(t *testing.T) {
	url := sandboxtest.RedisURL(t)
	here, _ := newSessions(t, url)
	there, clock := newSessions(t, url)
	mine, phone, desktop, others := logIn(t, here, buyer), logIn(t, here, buyer), logIn(t, there, buyer), logIn(t, here, admin)
	for _, s := range []*Sessions{here, there} {
		for _, token := range []string{mine, phone, desktop} {
			expect(t, "before", s, token, buyer)
		}
	}
	if err := here.EndAll(t.Context(), buyer.ID, 1, mine); err != nil {
		t.Fatal(err)
	}
	expect(t, "phone, here", here, phone, User{})
	expect(t, "desktop, here", here, desktop, User{})
	expect(t, "phone, there, from its copy", there, phone, buyer)
	clock.ahead += freshFor
	expect(t, "phone, there, when the copy is old", there, phone, User{})
	expect(t, "desktop, there, when the copy is old", there, desktop, User{})
	for _, s := range []*Sessions{here, there} {
		expect(t, "the excepted session", s, mine, buyer)
		expect(t, "another user's session", s, others, admin)
	}
	if err := there.EndAll(t.Context(), buyer.ID, 2, ""); err != nil {
		t.Fatal(err)
	}
	expect(t, "the last session", there, mine, User{})
	if n := client(t, url).Exists(t.Context(), indexKey(buyer.ID)).Val(); n != 0 {
		t.Error("the index is still there")
	}
}

// logInAt begins sessions from an address, each later than those before.
func logInAt(t *testing.T, s *Sessions, addr string, n int) (tokens []string) {
	t.Helper()
	for range n {
		at := s.copies.now().Add(time.Second) // the older session is the one that expires first
		s.copies.now = func() time.Time { return at }
		s.manager.Lifetime += time.Second
		token, _, err := s.Start(t.Context(), buyer, addr, "")
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	return tokens
}

// live returns how many of the sessions go on.
func live(t *testing.T, s *Sessions, tokens []string) (n int) {
	t.Helper()
	for _, token := range tokens {
		if _, err := s.Get(t.Context(), token); err == nil {
			n++
		}
	}
	return n
}

func TestOnlyTheTwentyNewestSessionsStay(t *testing.T) {
	url := sandboxtest.RedisURL(t)
	s, _ := newSessions(t, url)
	tokens := logInAt(t, s, address, maxPerUser+2)
	if n := live(t, s, tokens[:2]); n != 0 {
		t.Errorf("%d of the two oldest sessions go on", n)
	}
	if n := live(t, s, tokens[2:]); n != maxPerUser {
		t.Errorf("%d of the newest sessions go on, want %d", n, maxPerUser)
	}
	rdb := client(t, url)
	if n := rdb.ZCard(t.Context(), indexKey(buyer.ID)).Val(); n != maxPerUser {
		t.Errorf("%d sessions in the index, want %d", n, maxPerUser)
	}
	if n := rdb.HLen(t.Context(), originsKey(buyer.ID)).Val(); n != maxPerUser+1 { // and the generation
		t.Errorf("%d fields of origins, want %d", n, maxPerUser+1)
	}
}

// A thief of the password cannot use up the twenty sessions of its owner.
func TestTheCapSparesOtherAddresses(t *testing.T) {
	s, _ := newSessions(t, sandboxtest.RedisURL(t))
	owners := logInAt(t, s, "192.0.2.1", 2)
	thiefs := logInAt(t, s, "203.0.113.1", 2*maxPerUser)
	if n := live(t, s, owners); n != 2 {
		t.Errorf("%d of the owner's 2 sessions go on", n)
	}
	if n := live(t, s, thiefs); n != maxPerUser-2 {
		t.Errorf("%d of the thief's sessions go on, want %d", n, maxPerUser-2)
	}
	// A third address has no session that could end: one of the address with the most ends.
	third := logInAt(t, s, "198.51.100.1", 1)
	if n := live(t, s, append(owners, third...)); n != 3 {
		t.Errorf("%d of 3 sessions of two other addresses go on", n)
	}
	// An address replaces its own oldest session.
	more := logInAt(t, s, "192.0.2.1", 1)
	if live(t, s, owners[:1]) != 0 || live(t, s, append(more, owners[1])) != 2 || live(t, s, thiefs) != maxPerUser-3 {
		t.Error("a log-in did not replace the oldest session of its address")
	}
	// The addresses of an IPv6 network are one.
	s, _ = newSessions(t, sandboxtest.RedisURL(t))
	owners = logInAt(t, s, "2001:db8:1::1", 1)
	for i := range 2 * maxPerUser {
		logInAt(t, s, fmt.Sprintf("2001:db8:2::%x", i+1), 1)
	}
	if n := live(t, s, owners); n != 1 {
		t.Error("a network ended the owner's session")
	}
}

// Sessions of an older program have no address and no generation.
func TestSessionsOfAnOlderProgram(t *testing.T) {
	s, _ := newSessions(t, sandboxtest.RedisURL(t))
	old := make([]User, maxPerUser)
	for i := range old {
		old[i] = buyer
	}
	tokens, err := s.mint(t.Context(), old)
	if err != nil {
		t.Fatal(err)
	}
	newest := logInAt(t, s, address, 1)
	if n := live(t, s, append(tokens, newest...)); n != maxPerUser {
		t.Errorf("%d sessions go on, want %d", n, maxPerUser)
	}
	if live(t, s, tokens[:1]) == 0 { // the new one ended any of the others, which are equally old
		tokens = tokens[1:]
	}
	if err := s.EndAll(t.Context(), buyer.ID, 1, tokens[0]); err != nil {
		t.Fatal(err)
	}
	if n := live(t, s, append(tokens, newest...)); n != 1 {
		t.Errorf("%d sessions go on after EndAll, want the excepted one", n)
	}
}

// The process that changed the account stopped before it had ended the sessions. The next log-in
// ends them.
func TestALogInEndsSessionsOfALowerGeneration(t *testing.T) {
	s, _ := newSessions(t, sandboxtest.RedisURL(t))
	before := logIn(t, s, buyer)
	changed := buyer
	changed.Generation = 3
	expect(t, "a log-in after the change", s, logIn(t, s, changed), changed)
	expect(t, "a session from before", s, before, User{})
	if _, _, err := s.Start(t.Context(), buyer, address, ""); !errors.Is(err, ErrChanged) {
		t.Errorf("a log-in that began before: %v, want ErrChanged", err)
	}
}

// An end that arrives late leaves the sessions that began after a newer change.
func TestALateEndAllSparesNewerSessions(t *testing.T) {
	s, _ := newSessions(t, sandboxtest.RedisURL(t))
	before := logIn(t, s, buyer)
	changed := buyer
	changed.Generation = 2
	after := logIn(t, s, changed)
	for _, generation := range []int64{2, 1} {
		if err := s.EndAll(t.Context(), buyer.ID, generation, ""); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, "a session from before", s, before, User{})
	expect(t, "a session of the newest generation", s, after, changed)
	if _, _, err := s.Start(t.Context(), User{ID: buyer.ID, Role: RoleBuyer, Generation: 1}, address, ""); !errors.Is(err, ErrChanged) {
		t.Errorf("a log-in of generation 1: %v, want ErrChanged", err)
	}
}

func TestASessionWithoutAnOwnerIsRefused(t *testing.T) {
	s, _ := newSessions(t, sandboxtest.RedisURL(t))
	if err := s.copies.Commit(hashed(newToken()), []byte("x"), time.Now().Add(time.Hour)); !errors.Is(err, errNoOwner) {
		t.Errorf("%v, want errNoOwner", err)
	}
}
