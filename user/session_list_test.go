package user

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"miaosha/seckill/sandbox/sandboxtest"
)

// begin begins a session of the buyer with a client.
func begin(t *testing.T, s *Sessions, u User, client string) string {
	t.Helper()
	token, _, err := s.Start(t.Context(), u, address, client)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// A user sees their own sessions with the client of each log-in, when it began and when it was used last, and ends one of them.
func TestAUserSeesAndEndsTheirSessions(t *testing.T) {
	url := sandboxtest.RedisURL(t)
	here, clock := newSessionsFor(t, url, 3*24*time.Hour)
	there, _ := newSessionsFor(t, url, 3*24*time.Hour)
	there.copies.now = clock.now
	began := clock.now() // of all, since scs has a clock of its own
	old := begin(t, here, buyer, "chrome windows")
	clock.ahead += time.Hour
	mine := begin(t, here, buyer, "safari iphone")
	begin(t, here, admin, "firefox linux")
	list := func(s *Sessions) (list []Listed) {
		t.Helper()
		list, err := s.List(t.Context(), buyer.ID, mine)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	want := []Listed{
		{SessionID(mine), "safari iphone", true, began, began.Add(time.Hour), began.Add(time.Hour + idleFor)},
		{SessionID(old), "chrome windows", false, began, began, began.Add(idleFor)},
	}
	near := cmpopts.EquateApproxTime(2 * time.Second)
	if diff := cmp.Diff(want, list(there), near); diff != "" {
		t.Errorf("the sessions (-want +got):\n%s", diff)
	}

	expect(t, "the old one, there", there, old, buyer)
	if err := here.EndListed(t.Context(), admin.ID, SessionID(old)); !errors.Is(err, ErrNotListed) {
		t.Errorf("another user ends it: %v, want ErrNotListed", err)
	}
	for _, id := range []string{"", SessionID(old)[:8], hashed(old), old} {
		if err := here.EndListed(t.Context(), buyer.ID, id); !errors.Is(err, ErrNotListed) {
			t.Errorf("EndListed(%q): %v, want ErrNotListed", id, err)
		}
	}
	if err := here.EndListed(t.Context(), buyer.ID, SessionID(old)); err != nil {
		t.Fatal(err)
	}
	expect(t, "the ended one, here", here, old, User{})
	clock.ahead += freshFor
	expect(t, "the ended one, there", there, old, User{})
	expect(t, "this one", here, mine, buyer)
	if got := list(here); len(got) != 1 || got[0].ID != SessionID(mine) {
		t.Errorf("the sessions are %+v, want one", got)
	}
}

// A password that was changed keeps the client of the session that goes on, and the bound of sessions counts by address only.
func TestAKeptSessionKeepsItsClient(t *testing.T) {
	s, _ := newSessions(t, sandboxtest.RedisURL(t))
	mine := begin(t, s, buyer, "edge windows")
	if err := s.EndAll(t.Context(), buyer.ID, 1, mine); err != nil {
		t.Fatal(err)
	}
	u := buyer
	u.Generation = 1
	begin(t, s, u, "wechat android")
	list, err := s.List(t.Context(), buyer.ID, mine)
	if err != nil || len(list) != 2 || list[0].Client != "edge windows" || list[1].Client != "wechat android" {
		t.Errorf("List = %+v, %v; want the kept session first, each with its client", list, err)
	}
}
