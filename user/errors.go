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
	ErrWrongPassword = errors.New("wrong phone or password")
	ErrWrongCode     = errors.New("wrong, used or expired code")
	ErrPhoneTaken    = errors.New("the phone already has an account")
	ErrBusy          = errors.New("too many at once")
	ErrSolveFirst    = fmt.Errorf("%w: a solved captcha goes ahead", ErrBusy) // not for a caller that has solved one
	ErrSMSOff        = errors.New("one-time codes are switched off")
	ErrChanged       = errors.New("the account changed during the log-in")
	ErrNotFound      = errors.New("account not found")
	ErrNotListed     = errors.New("session of the user not found")
	ErrNoSession     = errors.New("not logged in")
	ErrNotByAdmin    = errors.New("only an administrator can create another one")
	ErrDisabled      = errors.New("the account is disabled")                  // only after the right password or code
	ErrNoAccount     = errors.New("the phone has no account")                 // only after the right code
	ErrStaffPassword = errors.New("a staff password cannot be reset by code") // only after the right code
)

// ErrUnavailable marks a fault: Postgres or Redis did not answer. The result is unknown.
var ErrUnavailable = errors.New("a store (Postgres or Redis) is unavailable")

// TooManyError refuses a user who tries too often. The next try is possible after RetryAfter.
type TooManyError struct{ RetryAfter time.Duration }

func (e TooManyError) Error() string {
	return fmt.Sprintf("too many tries, try again in %v", e.RetryAfter)
}

// BannedError refuses a user who was refused too often. The ban ends after RetryAfter.
type BannedError struct{ RetryAfter time.Duration }

func (e BannedError) Error() string { return fmt.Sprintf("banned for another %v", e.RetryAfter) }

// InvalidError names an invalid field of a form and the reason: "required" for an empty one; phone "form" or "same",
// code "form", password "length", new "length" or "same", nickname "length", "form" or "reserved". An error may join
// several, one for each invalid field.
type InvalidError struct{ Field, Reason string }

func (e InvalidError) Error() string { return "invalid " + e.Field + ": " + e.Reason }

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
// (57P), is full (53), has lost a connection (08) or is no longer a primary (25006) answers too, but
// counts as unavailable.
func answered(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && !strings.HasPrefix(pg.Code, "57P") && !strings.HasPrefix(pg.Code, "53") &&
		!strings.HasPrefix(pg.Code, "08") && pg.Code != "25006"
}
