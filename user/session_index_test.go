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
	mine, phone, desk, others := logIn(t, here, buyer), logIn(t, here, buyer), logIn(t, there, buyer), logIn(t, here, admin)
	for _, s := range []*Sessions{here, there} {
		for _, token := range []string{mine, phone, desk} {
			expect(t, "before", s, token, buyer)
		}
	}
	if err := here.EndAll(t.Context(), buyer.ID, mine); err != nil {
		t.Fatal(err)
	}
	expect(t, "phone, here", here, phone, User{})
	expect(t, "desk, here", here, desk, User{})
	expect(t, "phone, there, from its copy", there, phone, buyer)
	clock.ahead += freshFor
	expect(t, "phone, there, once the copy is old", there, phone, User{})
	expect(t, "desk, there, once the copy is old", there, desk, User{})
	for _, s := range []*Sessions{here, there} {
		expect(t, "the one that changed the password", s, mine, buyer)
		expect(t, "another user's", s, others, admin)
	}
	if err := there.EndAll(t.Context(), buyer.ID, ""); err != nil {
		t.Fatal(err)
	}
	expect(t, "the last one", there, mine, User{})
	if n := client(t, url).Exists(t.Context(), indexKey(buyer.ID)).Val(); n != 0 {
		t.Error("the index is still there")
	}
}

func TestTheTwentyNewestGoOn(t *testing.T) {
	url := sandboxtest.RedisURL(t)
	s, _ := newSessions(t, url)
	// Twenty that expire earlier than whatever starts now.
	old := make([]User, mostPerUser)
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
	if left != mostPerUser-2 {
		t.Errorf("%d of the old ones go on, want %d", left, mostPerUser-2)
	}
	if n := client(t, url).ZCard(t.Context(), indexKey(buyer.ID)).Val(); n != mostPerUser {
		t.Errorf("%d sessions in the index, want %d", n, mostPerUser)
	}
}
