package user

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// keeper makes an administrator and returns the id.
func (s testShop) keeper(t *testing.T) (id int64) {
	t.Helper()
	if _, err := s.Seed(t.Context(), User{Phone: "13900000001", Role: RoleAdmin}, "administrator"); err != nil {
		t.Fatal(err)
	}
	if err := s.db.QueryRow(t.Context(), `select id from users where phone = '13900000001'`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}

func (s testShop) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := s.db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// revokes looks once, as one process.
func (s testShop) revokes(t *testing.T, sessions *Sessions) {
	t.Helper()
	if err := s.endRevoked(t.Context(), sessions, map[int64]time.Time{}); err != nil {
		t.Error(err)
	}
}

func TestADisabledAccountHasNoSession(t *testing.T) {
	s := newShop(t)
	u := s.register(t, phone, "correct horse")
	keeper, url := s.keeper(t), sandboxtest.RedisURL(t)
	here, clock := newSessions(t, url)
	there, _ := newSessions(t, url)
	there.copies.now = clock.now
	underWay, err := s.Login(t.Context(), phone, "correct horse", from)
	if err != nil {
		t.Fatal(err)
	}
	token := logIn(t, here, u)
	expect(t, "before, there", there, token, u)
	s.exec(t, `select disable_user($1, $2, true)`, keeper, u.ID)
	s.revokes(t, here)
	expect(t, "here", here, token, User{})
	clock.ahead += freshFor
	expect(t, "there, after the life of a copy", there, token, User{})
	if freshFor+revokeEvery > 1500*time.Millisecond {
		t.Errorf("a look each %v and copies of %v leave no time below two seconds", revokeEvery, freshFor)
	}
	if _, _, err := here.Start(t.Context(), underWay.User, address, ""); !errors.Is(err, ErrChanged) {
		t.Errorf("a log-in under way: %v, want ErrChanged", err)
	}
	// Only the owner of the password hears that the account is disabled.
	for password, want := range map[string]error{"correct horse": ErrDisabled, "wrong horse": ErrWrongPassword} {
		if _, err := s.Login(t.Context(), phone, password, from); !errors.Is(err, want) {
			t.Errorf("log-in with %q: %v, want %v", password, err, want)
		}
	}
	now, err := s.ByID(t.Context(), u.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := here.Start(t.Context(), now, address, ""); !errors.Is(err, ErrDisabled) {
		t.Errorf("Start: %v, want ErrDisabled", err)
	}
	s.exec(t, `select disable_user($1, $2, false)`, keeper, u.ID)
	s.revokes(t, here)
	in, err := s.Login(t.Context(), phone, "correct horse", from)
	if err != nil {
		t.Fatal(err)
	}
	token = logIn(t, here, in.User)
	s.revokes(t, there) // a process that looks again ends no session of after the change
	expect(t, "enabled", here, token, u)
	expect(t, "enabled, there", there, token, u)
}

// A process looks for revoked accounts regularly, and can be told to look now.
func TestRevokedAccountsAreLookedForNow(t *testing.T) {
	s := newShop(t)
	u, sessions, keeper := s.register(t, phone, "correct horse"), s.sessions(t), s.keeper(t)
	token := logIn(t, sessions, u)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.EndRevoked(ctx, sessions, func(err error) { t.Error(err) }) })
	defer running.Wait()
	defer stop()
	s.exec(t, `select disable_user($1, $2, true)`, keeper, u.ID)
	if err := s.revoking.Now(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, "after a look", sessions, token, User{})
}

// Each process forgets its copies while Redis is down, and the sessions are gone when Redis is back.
func TestRevokedSessionsEndWithoutRedis(t *testing.T) {
	s := newShop(t)
	u, other := s.register(t, phone, "correct horse"), s.register(t, "13800000002", "correct horse")
	keeper := s.keeper(t)
	proxy, url := sandboxtest.ProxyTo(t, sandboxtest.RedisURL(t))
	sessions, _ := newSessions(t, url)
	mine, forgotten, others := logIn(t, sessions, u), logIn(t, sessions, u), logIn(t, sessions, other)
	expect(t, "before", sessions, mine, u)
	expect(t, "before", sessions, others, other)
	proxy.Cut()
	s.exec(t, `select change_role($1, $2, 'viewer')`, keeper, u.ID)
	ended := map[int64]time.Time{}
	if err := s.endRevoked(t.Context(), sessions, ended); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without Redis: %v, want ErrUnavailable", err)
	}
	expect(t, "without Redis", sessions, mine, User{})
	expect(t, "without Redis, another user", sessions, others, other)
	join(t, proxy, sessions)
	if err := s.endRevoked(t.Context(), sessions, ended); err != nil {
		t.Error(err)
	}
	expect(t, "with Redis", sessions, mine, User{})
	expect(t, "with Redis, a session that this process did not know", sessions, forgotten, User{})
	expect(t, "with Redis, another user", sessions, others, other)
}

// A change of the password, which spares the session that makes it, spares none of before a change by an administrator.
func TestANewPasswordRevivesNoRevokedSession(t *testing.T) {
	for change, want := range map[string]error{`select change_role($1, $2, 'buyer')`: ErrNoSession, `select disable_user($1, $2, true)`: ErrDisabled} {
		s := newShop(t)
		sessions, keeper := s.sessions(t), s.keeper(t)
		u := s.register(t, phone, "correct horse")
		s.exec(t, `select change_role($1, $2, 'admin')`, keeper, u.ID)
		s.revokes(t, sessions)
		in, err := s.Login(t.Context(), phone, "correct horse", from)
		if err != nil {
			t.Fatal(err)
		}
		token := logIn(t, sessions, in.User)
		s.exec(t, change, keeper, u.ID)
		if _, err := s.ChangePassword(t.Context(), sessions, u.ID, token, "correct horse", "battery staple"); !errors.Is(err, want) {
			t.Errorf("%s: ChangePassword: %v, want %v", change, err, want)
		}
		s.revokes(t, sessions)
		expect(t, change, sessions, token, User{})
	}
}

// Between the change of a password in Postgres and the end of the other sessions in Redis, a process may look for revoked accounts.
func TestALookSparesTheSessionOfANewPassword(t *testing.T) {
	s := newShop(t)
	sessions, keeper, ended := s.sessions(t), s.keeper(t), map[int64]time.Time{}
	u := s.register(t, phone, "correct horse")
	s.exec(t, `select change_role($1, $2, 'viewer')`, keeper, u.ID)
	looks := func() {
		if err := s.endRevoked(t.Context(), sessions, ended); err != nil {
			t.Error(err)
		}
	}
	looks()
	in, err := s.Login(t.Context(), phone, "correct horse", from)
	if err != nil {
		t.Fatal(err)
	}
	token := logIn(t, sessions, in.User)
	s.exec(t, `update users set generation = generation + 1 where id = $1`, u.ID) // as a new password does
	looks()
	expect(t, "the session that changes its password", sessions, token, User{ID: u.ID, Role: RoleViewer})
	s.exec(t, `select change_role($1, $2, 'buyer')`, keeper, u.ID)
	looks()
	expect(t, "after another role", sessions, token, User{})
}

// A member of the staff whose password was made is a buyer until another one is chosen.
func TestAMadePasswordIsReplaced(t *testing.T) {
	s := newShop(t)
	sessions := s.sessions(t)
	_, err := s.MakeStaff(t.Context(), sessions, Staff{Phone: phone, Role: RoleViewer, Password: "made by a command", PasswordDue: true})
	if err != nil {
		t.Fatal(err)
	}
	in, err := s.Login(t.Context(), phone, "made by a command", from)
	if err != nil || in.Role != RoleViewer {
		t.Fatalf("log-in: %+v, %v", in, err)
	}
	token := logIn(t, sessions, in.User)
	expect(t, "with the made password", sessions, token, User{ID: in.ID, Role: RoleDue})
	if _, err := s.ChangePassword(t.Context(), sessions, in.ID, token, "made by a command", "made by a command"); !errors.Is(err, InvalidError{"new", "same"}) {
		t.Errorf("the same password: %v", err)
	}
	if _, err := s.ChangePassword(t.Context(), sessions, in.ID, token, "made by a command", "chosen by its owner"); err != nil {
		t.Fatal(err)
	}
	now, err := s.ByID(t.Context(), in.ID)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "with a chosen one", sessions, logIn(t, sessions, now), User{ID: in.ID, Role: RoleViewer})
	expect(t, "the first session", sessions, token, User{ID: in.ID, Role: RoleDue})
}

// A log-out, a new password and a new role end the copies of a session in every process within two seconds: a process looks for
// revoked accounts this often, and uses a copy for that long.
func TestACopyAndALookForTheRevokedAddUpToLessThanTwoSeconds(t *testing.T) {
	if sum := freshFor + revokeEvery; sum >= 2*time.Second {
		t.Errorf("%v, want less than two seconds", sum)
	}
}
