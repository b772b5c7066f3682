package user

import (
	"errors"
	"testing"
)

func TestAStoreThatIsAwayIsAFault(t *testing.T) {
	refusals := []error{ErrWrongPassword, ErrWrongCode, ErrPhoneTaken, ErrBusy, ErrSMSOff, ErrNotFound, ErrNoSession}
	away := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ErrAway) || errors.As(err, &TooManyError{}) || errors.As(err, &InvalidError{}) {
			t.Errorf("%s: %v, want a fault with ErrAway", what, err)
		}
		for _, refusal := range refusals {
			if errors.Is(err, refusal) {
				t.Errorf("%s: %v is the refusal %v", what, err, refusal)
			}
		}
	}
	t.Run("redis", func(t *testing.T) {
		s := newShop(t)
		s.rdb.Close()
		_, _, err := s.SendCode(t.Context(), "13800000001", from)
		away("SendCode", err)
		_, err = s.Login(t.Context(), "13800000001", "correct horse", address)
		away("Login", err)
		_, err = s.Register(t.Context(), "13800000001", "000000", "correct horse", "x", from)
		away("Register", err)
	})
	t.Run("postgres", func(t *testing.T) {
		s := newShop(t)
		code, _, err := s.SendCode(t.Context(), "13800000001", from)
		if err != nil {
			t.Fatal(err)
		}
		s.db.Close()
		_, err = s.Login(t.Context(), "13800000001", "correct horse", address)
		away("Login", err)
		_, err = s.ByID(t.Context(), 1)
		away("ByID", err)
		away("ChangePassword", s.ChangePassword(t.Context(), 1, "correct horse", "battery staple"))
		for range 2 { // the code survives our failure
			_, err = s.Register(t.Context(), "13800000001", code, "correct horse", "x", from)
			away("Register", err)
		}
	})
}
