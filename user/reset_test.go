package user

import (
	"errors"
	"strings"
	"testing"
)

// code returns a code that was sent to the phone for the browser of from.
func (s testShop) code(t *testing.T, phone string) string {
	t.Helper()
	code, _, err := s.SendCode(t.Context(), phone, from)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// A new password by code ends every session and the log-ins under way; the old password and the code are no longer valid.
func TestResetPassword(t *testing.T) {
	s := newShop(t)
	u := s.register(t, phone, "correct horse")
	sessions := s.sessions(t)
	phoneSession := logIn(t, sessions, u)
	code := s.code(t, phone)
	stranger := From{Addr: address, Browser: "another browser's secret"}
	for name, try := range map[string]func() (LoggedIn, error){
		"a wrong code": func() (LoggedIn, error) {
			return s.ResetPassword(t.Context(), sessions, phone, "000000", "battery staple", from)
		},
		"another browser": func() (LoggedIn, error) {
			return s.ResetPassword(t.Context(), sessions, phone, code, "battery staple", stranger)
		},
		"an unknown phone": func() (LoggedIn, error) {
			return s.ResetPassword(t.Context(), sessions, "13800000009", code, "battery staple", from)
		},
		"a code of no form": func() (LoggedIn, error) {
			return s.ResetPassword(t.Context(), sessions, phone, "12", "battery staple", from)
		},
	} {
		want := ErrWrongCode
		if strings.HasSuffix(name, "form") {
			want = InvalidError{"code", "form"}
		}
		if code == "000000" && name == "a wrong code" {
			continue
		}
		if _, err := try(); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	expect(t, "a session after refused tries", sessions, phoneSession, u)

	in, err := s.ResetPassword(t.Context(), sessions, phone, code, "battery staple", from)
	if err != nil {
		t.Fatal(err)
	}
	if in.ID != u.ID || in.Generation != u.Generation+1 || in.Device == "" {
		t.Errorf("ResetPassword returns %+v, want user %d of generation %d and a device", in, u.ID, u.Generation+1)
	}
	expect(t, "a session from before", sessions, phoneSession, User{})
	if _, _, err := sessions.Start(t.Context(), u, address, ""); !errors.Is(err, ErrChanged) {
		t.Errorf("a log-in under way: %v, want ErrChanged", err)
	}
	expect(t, "the session that begins now", sessions, logIn(t, sessions, in.User), in.User)
	if _, err := s.Login(t.Context(), phone, "correct horse", from); !errors.Is(err, ErrWrongPassword) {
		t.Errorf("the old password: %v, want ErrWrongPassword", err)
	}
	if _, err := s.ResetPassword(t.Context(), sessions, phone, code, "third password", from); !errors.Is(err, ErrWrongCode) {
		t.Errorf("the code again: %v, want ErrWrongCode", err)
	}
	if _, err := s.Login(t.Context(), phone, "battery staple", from); err != nil {
		t.Errorf("the new password: %v", err)
	}
}

// The holder of a phone hears why there is no new password, a stranger does not. The holder can register with the same code.
func TestOnlyTheHolderOfAPhoneHearsWhyThereIsNoReset(t *testing.T) {
	s := newShop(t)
	sessions := s.sessions(t)
	const disabled, viewer, unknown = "13800000002", "13800000003", "13800000004"
	s.register(t, disabled, "correct horse")
	s.register(t, viewer, "correct horse")
	s.exec(t, `update users set disabled_at = now() where phone = $1`, disabled)
	s.exec(t, `update users set role = 'viewer' where phone = $1`, viewer)
	for _, c := range []struct {
		phone string
		want  error
	}{{disabled, ErrDisabled}, {viewer, ErrStaffPassword}, {unknown, ErrNoAccount}} {
		if _, err := s.ResetPassword(t.Context(), sessions, c.phone, "000000", "battery staple", from); !errors.Is(err, ErrWrongCode) {
			t.Errorf("%s without a code: %v, want ErrWrongCode", c.phone, err)
		}
		if _, err := s.ResetPassword(t.Context(), sessions, c.phone, s.code(t, c.phone), "battery staple", from); !errors.Is(err, c.want) {
			t.Errorf("%s with its code: %v, want %v", c.phone, err, c.want)
		}
	}
	code := s.code(t, unknown)
	if _, err := s.ResetPassword(t.Context(), sessions, unknown, code, "battery staple", from); !errors.Is(err, ErrNoAccount) {
		t.Errorf("a phone without an account: %v, want ErrNoAccount", err)
	}
	if _, err := s.Register(t.Context(), unknown, code, "battery staple", "n", from); err != nil {
		t.Errorf("register with the same code: %v", err)
	}
}

func TestNoResetWithoutCodes(t *testing.T) {
	s := newShop(t)
	s.cfg.SMS = "off"
	if _, err := s.ResetPassword(t.Context(), s.sessions(t), phone, "123456", "battery staple", from); !errors.Is(err, ErrSMSOff) {
		t.Errorf("ResetPassword: %v, want ErrSMSOff", err)
	}
}
