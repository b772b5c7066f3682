package user

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestChangePassword(t *testing.T) {
	s := newShop(t)
	u := s.register(t, phone, "correct horse")
	sessions := s.sessions(t)
	for _, c := range []struct {
		id       int64
		old, new string
		want     error
	}{
		{u.ID, "wrong horse", "battery staple", ErrWrongPassword},
		{u.ID + 1, "correct horse", "battery staple", ErrNotFound},
		{u.ID, "correct horse", "short", InvalidError{"new", "length"}},
		{u.ID, "correct horse", "battery staple", nil},
		{u.ID, "correct horse", "battery staple", ErrWrongPassword},
	} {
		if _, err := s.ChangePassword(t.Context(), sessions, c.id, "", c.old, c.new); !errors.Is(err, c.want) {
			t.Errorf("ChangePassword(%d, %s, %s): %v, want %v", c.id, c.old, c.new, err, c.want)
		}
	}
	if _, err := s.Login(t.Context(), phone, "battery staple", from); err != nil {
		t.Errorf("log-in with the new password: %v", err)
	}
}

func TestOneOfConcurrentChangesWins(t *testing.T) {
	for _, kind := range []string{"new account", "account of the older systems"} {
		t.Run(kind, func(t *testing.T) {
			s := newShop(t)
			sessions := s.sessions(t)
			var id int64
			if kind == "new account" {
				id = s.register(t, phone, "correct horse").ID
			} else {
				id = s.old(t, phone, "correct horse")
			}
			errs := together(4, func(i int) error {
				_, err := s.ChangePassword(t.Context(), sessions, id, "", "correct horse", fmt.Sprint("battery staple ", i))
				return err
			})
			if ok, refused, other := count(errs, ErrWrongPassword); ok != 1 || refused != 3 {
				t.Errorf("%d changes succeeded, %d had a wrong password, other: %v; want 1, 3, none", ok, refused, other)
			}
		})
	}
}

// A log-in reads the account before a change and would begin its session after it.
func TestAChangeEndsALogInUnderWay(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(s testShop, sessions *Sessions, u User, token string) error
		spared bool // the session that made the change
	}{
		{"a new password", func(s testShop, sessions *Sessions, u User, token string) error {
			_, err := s.ChangePassword(t.Context(), sessions, u.ID, token, "correct horse", "administrator")
			return err
		}, true},
		{"a new role", func(s testShop, sessions *Sessions, u User, _ string) error {
			_, err := s.MakeStaff(t.Context(), sessions, Staff{Phone: u.Phone, Role: RoleAdmin, Password: "administrator"})
			return err
		}, false},
		{"a log-out", func(s testShop, sessions *Sessions, u User, _ string) error {
			return s.LogOut(t.Context(), sessions, u.ID)
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShop(t)
			s.register(t, phone, "correct horse")
			sessions := s.sessions(t)
			in, err := s.Login(t.Context(), phone, "correct horse", from)
			if err != nil {
				t.Fatal(err)
			}
			u := in.User
			mine, other := logIn(t, sessions, u), logIn(t, sessions, u)
			if err := c.change(s, sessions, u, mine); err != nil {
				t.Fatal(err)
			}
			if token, _, err := sessions.Start(t.Context(), u, address, ""); !errors.Is(err, ErrChanged) || token != "" {
				t.Errorf("the log-in under way: token %q, %v; want ErrChanged", token, err)
			}
			expect(t, "another session from before", sessions, other, User{})
			now, err := s.ByID(t.Context(), u.ID)
			if err != nil {
				t.Fatal(err)
			}
			expect(t, "a log-in after the change", sessions, logIn(t, sessions, now), now)
			if !c.spared {
				u = User{}
			}
			expect(t, "the session that made the change", sessions, mine, u)
		})
	}
}

// Without Postgres a log-out ends the sessions that there are, and says that it is not complete.
func TestALogOutWithoutPostgres(t *testing.T) {
	s := newShop(t)
	sessions := s.sessions(t)
	token := logIn(t, sessions, buyer)
	s.db.Close()
	if err := s.LogOut(t.Context(), sessions, buyer.ID); !errors.Is(err, ErrUnavailable) {
		t.Errorf("LogOut: %v, want ErrUnavailable", err)
	}
	expect(t, "the session", sessions, token, User{})
}

// A Postgres that does not reply does not use up the time in which the sessions end.
func TestALogOutBesideAPostgresThatHangs(t *testing.T) {
	s := newShop(t)
	u := s.register(t, phone, "correct horse")
	sessions := s.sessions(t)
	token := logIn(t, sessions, u)
	tx, err := s.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), `select from users where id = $1 for update`, u.ID); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), sandboxtest.Hang)
	defer cancel()
	if err := s.LogOut(ctx, sessions, u.ID); !errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
		t.Errorf("LogOut: %v, %v; want ErrUnavailable before the caller gives up", err, ctx.Err())
	}
	expect(t, "the session", sessions, token, User{})
}

// Without Redis a log-out ends the session in this process. Another process learns of it when Redis is
// back and the user logs in again.
func TestALogOutWithoutRedis(t *testing.T) {
	s := newShop(t)
	u := s.register(t, phone, "correct horse")
	proxy, url := sandboxtest.ProxyTo(t, sandboxtest.RedisURL(t))
	here, _ := newSessions(t, url)
	there, _ := newSessions(t, url)
	token, other := logIn(t, here, u), logIn(t, here, u)
	for _, s := range []*Sessions{here, there} {
		expect(t, "before", s, token, u)
		expect(t, "before", s, other, u)
	}
	proxy.Cut()
	if err := s.LogOut(t.Context(), here, u.ID); !errors.Is(err, ErrUnavailable) {
		t.Errorf("LogOut: %v, want ErrUnavailable", err)
	}
	if err := here.End(t.Context(), token); !errors.Is(err, ErrUnavailable) {
		t.Errorf("End: %v, want ErrUnavailable", err)
	}
	expect(t, "the session, here", here, token, User{})
	expect(t, "the session, in another process", there, token, u)

	join(t, proxy, here)
	expect(t, "the session, here, with Redis", here, token, User{})
	if _, _, err := here.Start(t.Context(), u, address, ""); err != nil {
		t.Fatal(err) // Redis does not know of the log-out yet
	}
	now, err := s.ByID(t.Context(), u.ID)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "the next log-in", here, logIn(t, here, now), now)
	expect(t, "the other session, here", here, other, User{})
	if keys := client(t, url).Keys(t.Context(), "*").Val(); len(keys) != 3 { // the index, the origins, and one session
		t.Errorf("Redis has %d keys: %v, want one session", len(keys), keys)
	}
}
