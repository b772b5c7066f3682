package user

import (
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
	if err := here.EndAll(t.Context(), buyer.ID, mine); err != nil {
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
	if err := there.EndAll(t.Context(), buyer.ID, ""); err != nil {
		t.Fatal(err)
	}
	expect(t, "the last session", there, mine, User{})
	if n := client(t, url).Exists(t.Context(), indexKey(buyer.ID)).Val(); n != 0 {
		t.Error("the index is still there")
	}
}

func TestOnlyTheTwentyNewestSessionsStay(t *testing.T) {
	url := sandboxtest.RedisURL(t)
	s, _ := newSessions(t, url)
	// Twenty sessions that expire before any that starts now.
	old := make([]User, maxPerUser)
	for i := range old {
		old[i] = buyer
	}
	s.manager.Lifetime = time.Hour
	tokens, err := s.mint(t.Context(), old)
	if err != nil {
		t.Fatal(err)
	}
	s.manager.Lifetime = lifetime
	newest := []string{logIn(t, s, buyer), logIn(t, s, buyer)}
	for _, token := range newest {
		expect(t, "newest", s, token, buyer)
	}
	left := 0
	for _, token := range tokens {
		if _, err := s.Get(t.Context(), token); err == nil {
			left++
		}
	}
	if left != maxPerUser-2 {
		t.Errorf("%d of the old sessions are left, want %d", left, maxPerUser-2)
	}
	if n := client(t, url).ZCard(t.Context(), indexKey(buyer.ID)).Val(); n != maxPerUser {
		t.Errorf("%d sessions in the index, want %d", n, maxPerUser)
	}
}
