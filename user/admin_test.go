package user

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestMakeStaff(t *testing.T) {
	s := newShop(t)
	buyer := s.register(t, "13800000001", "correct horse")
	sessions, _ := newSessions(t, sandboxtest.RedisURL(t))
	before := logIn(t, sessions, buyer)
	expect(t, "before", sessions, before, buyer)
	other := s.register(t, "13800000009", "correct horse")
	for _, c := range []struct {
		by, phone string
		created   bool
	}{{"", "13800000001", false}, {"13800000001", "13800000002", true}, {"", "13800000002", false}} {
		created, err := s.MakeStaff(t.Context(), sessions, Staff{Phone: c.phone, Role: RoleAdmin, Password: "administrator", By: c.by})
		if err != nil || created != c.created {
			t.Errorf("MakeStaff(%s) = %v, %v; want created %v", c.phone, created, err, c.created)
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
	if _, err := s.MakeStaff(t.Context(), sessions, Staff{Phone: "12", Role: RoleAdmin, Password: "administrator", By: "13800000001"}); !errors.As(err, &InvalidError{}) {
		t.Errorf("MakeStaff with an invalid phone: %v, want InvalidError", err)
	}
	// The first administrator needs no other; each later one does. A refusal changes nothing.
	for _, by := range []string{"", other.Phone, "13899999999", "nonsense"} {
		for _, phone := range []string{other.Phone, "13800000003"} {
			if _, err := s.MakeStaff(t.Context(), sessions, Staff{Phone: phone, Role: RoleAdmin, Password: "administrator", By: by}); !errors.Is(err, ErrNotByAdmin) {
				t.Errorf("MakeStaff(%s) by %q: %v, want ErrNotByAdmin", phone, by, err)
			}
		}
	}
	if u, err := s.Login(t.Context(), other.Phone, "correct horse", from); err != nil || u.Role != RoleBuyer {
		t.Errorf("after refusals: %+v, %v; want a buyer with the password from before", u, err)
	}
	if _, err := s.Login(t.Context(), "13800000003", "administrator", from); err == nil {
		t.Error("a refusal made an account")
	}
	rows, _ := s.db.Query(t.Context(), `
		select format('%s: %s -> %s by %s', u.phone, from_role, to_role, coalesce(a.phone, 'the operator'))
		from   role_changes c join users u on u.id = c.user_id left join users a on a.id = c.by_user
		order  by c.id`)
	log, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"13800000001: buyer -> admin by the operator", "13800000002: buyer -> admin by 13800000001"}, log); diff != "" {
		t.Errorf("the log of roles: %s", diff)
	}
	for _, sql := range []string{`update role_changes set by_user = 1`, `delete from role_changes`} {
		if _, err := s.db.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v, want a refusal", sql, err)
		}
	}
}
