package user

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestAnUnavailableStoreIsAFault(t *testing.T) {
	refusals := []error{ErrWrongPassword, ErrWrongCode, ErrPhoneTaken, ErrBusy, ErrSMSOff, ErrNotFound, ErrNoSession}
	unavailable := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v, want a fault with ErrUnavailable", what, err)
		}
		if errors.As(err, &TooManyError{}) || errors.As(err, &InvalidError{}) {
			t.Errorf("%s: %v is a refusal", what, err)
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
		unavailable("SendCode", err)
		_, err = s.Login(t.Context(), "13800000001", "correct horse", from)
		unavailable("Login", err)
		_, err = s.Register(t.Context(), "13800000001", "000000", "correct horse", "x", from)
		unavailable("Register", err)
	})
	t.Run("postgres", func(t *testing.T) {
		s := newShop(t)
		code, _, err := s.SendCode(t.Context(), "13800000001", from)
		if err != nil {
			t.Fatal(err)
		}
		s.db.Close()
		_, err = s.Login(t.Context(), "13800000001", "correct horse", from)
		unavailable("Login", err)
		_, err = s.ByID(t.Context(), 1)
		unavailable("ByID", err)
		_, err = s.ChangePassword(t.Context(), s.sessions(t), 1, "", "correct horse", "battery staple")
		unavailable("ChangePassword", err)
		for range 2 { // after a fault the code can be used again
			_, err = s.Register(t.Context(), "13800000001", code, "correct horse", "x", from)
			unavailable("Register", err)
		}
	})
}

// Postgres answers a statement even when it cannot serve it now.
func TestAnAnswerThatIsAFault(t *testing.T) {
	for code, want := range map[string]bool{"57P01": true, "53100": true, "08006": true, "25006": true, "23505": false, "42P01": false} {
		if got := errors.Is(fault(&pgconn.PgError{Code: code}, "read"), ErrUnavailable); got != want {
			t.Errorf("%s: unavailable is %v, want %v", code, got, want)
		}
	}
}
