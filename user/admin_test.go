package user

import (
	"errors"
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
)

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
		u, err := s.Login(t.Context(), c.phone, "administrator", from)
		if err != nil || u.Role != RoleAdmin {
			t.Errorf("log-in of %s: %+v, %v; want an administrator", c.phone, u, err)
		}
	}
	expect(t, "a session from before", sessions, before, User{})
	if u, err := s.ByID(t.Context(), buyer.ID); err != nil || u.Nickname != buyer.Nickname {
		t.Errorf("the promoted account is %+v, %v; want the same nickname", u, err)
	}
	if _, err := s.MakeAdmin(t.Context(), sessions, "12", "administrator"); !errors.As(err, &InvalidError{}) {
		t.Errorf("MakeAdmin with an invalid phone: %v, want InvalidError", err)
	}
}
