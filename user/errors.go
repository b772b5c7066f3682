package user

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Refusals: the answer is no, and every store works.
var (
	ErrWrongPassword = errors.New("user: wrong phone or password")
	ErrWrongCode     = errors.New("user: wrong, used or expired code")
	ErrPhoneTaken    = errors.New("user: the phone has an account")
	ErrBusy          = errors.New("user: too many at once")
	ErrSolveFirst    = fmt.Errorf("%w: a solved sum goes ahead", ErrBusy) // not for a caller that has solved one
	ErrSMSOff        = errors.New("user: one-time codes are switched off")
	ErrChanged       = errors.New("user: the account has changed during the log-in")
	ErrNotFound      = errors.New("user: no such account")
	ErrNoSession     = errors.New("user: not logged in")
	ErrNotByAdmin    = errors.New("user: only an administrator makes another one")
)

// ErrUnavailable marks a fault: Postgres or Redis did not answer. The result is unknown.
var ErrUnavailable = errors.New("user: Postgres or Redis is unavailable")

// TooManyError refuses a user who tries too often. The next try is possible after RetryAfter.
type TooManyError struct{ RetryAfter time.Duration }

func (e TooManyError) Error() string {
	return fmt.Sprintf("user: too many tries, try again in %v", e.RetryAfter)
}

// InvalidError names an invalid field of a form and the reason: phone "form", password "length",
// nickname "length", "form" or "reserved".
type InvalidError struct{ Field, Reason string }

func (e InvalidError) Error() string { return "user: invalid " + e.Field + ": " + e.Reason }

// fault wraps an error of a store with what we were doing. It adds ErrUnavailable unless the store
// answered or the caller cancelled.
func fault(err error, format string, args ...any) error {
	doing := fmt.Sprintf(format, args...)
	if answered(err) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w: %w", doing, ErrUnavailable, err)
}

// answered reports whether err is Postgres's answer to the statement. A Postgres that shuts down
// (57P), is full (53) or has lost a connection (08) answers too, but counts as unavailable.
func answered(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && !strings.HasPrefix(pg.Code, "57P") && !strings.HasPrefix(pg.Code, "53") && !strings.HasPrefix(pg.Code, "08")
}
