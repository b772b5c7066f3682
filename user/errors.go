package user

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Refusals: the answer is no, and everything works.
var (
	ErrWrongPassword = errors.New("user: wrong phone or password")
	ErrWrongCode     = errors.New("user: wrong, used or expired code")
	ErrPhoneTaken    = errors.New("user: the phone has an account")
	ErrBusy          = errors.New("user: too many passwords to check at once")
	ErrSMSOff        = errors.New("user: no codes are sent here")
	ErrNotFound      = errors.New("user: no such account")
	ErrNoSession     = errors.New("user: not logged in")
)

// ErrAway marks a fault: Postgres or Redis didn't answer, so nothing can be said. Trying again later may work.
var ErrAway = errors.New("user: a store is away")

// TooManyError refuses somebody who tries too often, and says when the next try may be.
type TooManyError struct{ RetryAfter time.Duration }

func (e TooManyError) Error() string {
	return fmt.Sprintf("user: too many tries, again in %v", e.RetryAfter)
}

// InvalidError names the field of a form that can't be, and why: phone "form", password "length", nickname "length"
// or "form".
type InvalidError struct{ Field, Reason string }

func (e InvalidError) Error() string { return "user: invalid " + e.Field + ": " + e.Reason }

// fault wraps what went wrong below us with what we were doing, and adds ErrAway unless the store was there to object.
func fault(err error, format string, args ...any) error {
	doing := fmt.Sprintf(format, args...)
	if answered(err) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w: %w", doing, ErrAway, err)
}

// answered reports whether err is the store's own objection to what we asked. Postgres that shuts down (57P), is full
// (53) or lost its connection (08) says so in an answer too, but that is being away.
func answered(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return !strings.HasPrefix(pg.Code, "57P") && !strings.HasPrefix(pg.Code, "53") && !strings.HasPrefix(pg.Code, "08")
	}
	return false
}
