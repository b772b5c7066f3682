package user

import (
	"errors"
	"testing"
)

func TestSetNickname(t *testing.T) {
	s := newShop(t)
	u := s.register(t, phone, "correct horse")
	for _, c := range []struct {
		id   int64
		name string
		want error
	}{
		{u.ID, "小红", nil}, {u.ID + 1, "小红", ErrNotFound}, {u.ID, "", InvalidError{"nickname", "required"}}, {u.ID, "客服", InvalidError{"nickname", "reserved"}},
	} {
		if err := s.SetNickname(t.Context(), c.id, c.name); !errors.Is(err, c.want) {
			t.Errorf("SetNickname(%d, %q): %v, want %v", c.id, c.name, err, c.want)
		}
	}
	if now, err := s.ByID(t.Context(), u.ID); err != nil || now.Nickname != "小红" {
		t.Errorf("the nickname is %q, %v", now.Nickname, err)
	}
}

// A new phone needs the password and the code that was sent to it. Sessions go on.
func TestChangePhone(t *testing.T) {
	s := newShop(t)
	const moved, taken = "13800000002", "13800000003"
	u := s.register(t, phone, "correct horse")
	s.register(t, taken, "battery staple")
	sessions := s.sessions(t)
	token := logIn(t, sessions, u)
	own, code, codeOfTaken := s.code(t, phone), s.code(t, moved), s.code(t, taken)
	for _, c := range []struct {
		phone, code, password string
		want                  error
	}{
		{phone, own, "correct horse", InvalidError{"phone", "same"}},
		{moved, code, "", InvalidError{"password", "required"}},
		{moved, code, "wrong horse", ErrWrongPassword},
		{moved, own, "correct horse", ErrWrongCode},
		{taken, codeOfTaken, "correct horse", ErrPhoneTaken},
		{moved, code, "correct horse", nil},
		{"13800000004", code, "correct horse", ErrWrongCode},
	} {
		device, err := s.ChangePhone(t.Context(), u.ID, c.phone, c.code, c.password, from)
		if !errors.Is(err, c.want) || (device != "") != (err == nil) {
			t.Errorf("ChangePhone to %s: device %q, %v; want %v", c.phone, device, err, c.want)
		}
	}
	u.Phone = moved
	expect(t, "the session", sessions, token, u)
	if _, err := s.Login(t.Context(), phone, "correct horse", from); !errors.Is(err, ErrWrongPassword) {
		t.Errorf("log-in with the old phone: %v, want ErrWrongPassword", err)
	}
	if in, err := s.Login(t.Context(), moved, "correct horse", from); err != nil || in.ID != u.ID {
		t.Errorf("log-in with the new phone: %d, %v; want user %d", in.ID, err, u.ID)
	}
	if again := s.register(t, phone, "a new owner"); again.ID == u.ID {
		t.Error("the old phone is still that of the account")
	}
}
