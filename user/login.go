package user

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/sony/gobreaker/v2"
)

// account is a row of users, with the columns that only this package may see.
type account struct {
	User
	PasswordHash string
	LegacyHash   *string
	LegacySalt   string
}

// LoggedIn is a user who has just logged in or registered, and the cookie by which the browser is
// known as a device of theirs from now on (From.Device).
type LoggedIn struct {
	User
	Device string
}

// Login returns the account that has the phone and the password, or ErrWrongPassword. InvalidError for an empty field;
// ErrDisabled, with the right password alone. It checks no other form of its input: an impossible phone does the same
// work as a wrong password. A phone has ten tries a minute, an address has 200, else TooManyError. An address that has
// logged in to the account before has ten tries of its own, and so has a known device, whatever its address.
// ErrSolveFirst or ErrBusy if too many passwords wait to be checked. While Postgres is down, it returns a fault at
// once, or after a second if Postgres is silent.
func (s *Store) Login(ctx context.Context, phone, password string, from From) (LoggedIn, error) {
	if err := errors.Join(required("phone", phone), required("password", password)); err != nil {
		return LoggedIn{}, err
	}
	known, isKnown := s.devices.read(phone, from.Device, time.Now())
	turn, leave, err := s.door.admit(phone, network(from.Addr), isKnown, from.Solved)
	if err != nil {
		return LoggedIn{}, err
	}
	defer leave()
	if isKnown {
		err = s.devices.try(known)
	} else {
		err = s.limits.login(ctx, phone, from.Addr)
	}
	if err != nil {
		return LoggedIn{}, err
	}
	a, err := s.byPhone(ctx, phone)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return LoggedIn{}, err
	}
	if isKnown && !s.devices.matches(known, a) { // the password has changed since: a stranger
		if !from.Solved {
			turn = inTurn
		}
		if err := s.limits.login(ctx, phone, from.Addr); err != nil {
			return LoggedIn{}, err
		}
	}
	fresh, err := s.verify(ctx, turn, a, password)
	if errors.Is(err, ErrWrongPassword) {
		s.log.InfoContext(ctx, "log-in refused", "phone", masked(phone), "addr", from.Addr)
	}
	if err == nil && a.Disabled {
		s.log.InfoContext(ctx, "log-in refused: the account is disabled", "user", a.ID, "addr", from.Addr)
		err = ErrDisabled
	}
	if err != nil {
		return LoggedIn{}, err
	}
	if a.LegacyHash != nil {
		if err := s.upgrade(ctx, a, fresh); err != nil {
			return LoggedIn{}, err
		}
		a.PasswordHash = fresh
	}
	if err := s.limits.loggedIn(ctx, phone, from.Addr); err != nil {
		return LoggedIn{}, err
	}
	s.log.InfoContext(ctx, "logged in", "user", a.ID, "addr", from.Addr)
	return LoggedIn{a.User, s.devices.issue(a.Phone, a.PasswordHash, time.Now())}, nil
}

// verify returns ErrWrongPassword if the password is wrong, or if there is no account or no
// password. It computes one hash in every case, so its time reveals nothing. For an account of the
// older systems, that is the new hash, fresh.
func (s *Store) verify(ctx context.Context, turn turn, a account, password string) (fresh string, err error) {
	var right bool
	switch {
	case a.LegacyHash != nil:
		right = s.cfg.legacyMatches(password, a.LegacySalt, *a.LegacyHash)
		fresh, err = s.hashes.hash(ctx, turn, password)
	case a.PasswordHash != "":
		right, err = s.hashes.check(ctx, turn, a.PasswordHash, password)
	default:
		_, err = s.hashes.check(ctx, turn, dummyHash, password)
	}
	if err != nil {
		return "", fmt.Errorf("check the password of user %d: %w", a.ID, err)
	}
	if !right {
		return "", ErrWrongPassword
	}
	return fresh, nil
}

// A log-in waits lookupLimit for a Postgres that is silent. The log-ins of the next lookupPause do not
// wait, and then one of them tries again.
const (
	lookupLimit = time.Second
	lookupPause = 500 * time.Millisecond
)

// newLookups returns the breaker of byPhone, which stays open for pause. Only silence opens it: a Postgres
// that refuses connections does so at once.
func newLookups(pause time.Duration) *gobreaker.CircuitBreaker[account] {
	return gobreaker.NewCircuitBreaker[account](gobreaker.Settings{
		Name:         "accounts",
		Timeout:      pause,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures > 0 },
		IsSuccessful: func(err error) bool { return !errors.Is(err, errSilent) },
	})
}

var errSilent = fmt.Errorf("%w: no answer in time", ErrUnavailable)

// byPhone returns the account that has the phone, or ErrNotFound.
func (s *Store) byPhone(ctx context.Context, phone string) (account, error) {
	if !maybePhone(phone) {
		return account{}, ErrNotFound
	}
	a, err := s.lookups.Execute(func() (account, error) {
		limited, cancel := context.WithTimeoutCause(ctx, s.silence, errSilent)
		defer cancel()
		a, err := s.account(limited, `where phone = $1 and `+durable, phone)
		if err != nil && context.Cause(limited) == errSilent {
			err = fmt.Errorf("%w: %w", errSilent, err)
		}
		return a, err
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		err = fmt.Errorf("read an account: %w: %w", ErrUnavailable, err)
	}
	return a, err
}

// durable is a condition that waits until a synchronous standby has what the query sees: see package
// order. Without it a session could outlive a user whom the standby never had, and a later user
// receive the id.
const durable = `(select current_setting('synchronous_standby_names') = '' or pg_logical_emit_message(true, 'miaosha', '') is not null)`

// account reads one row. where is a constant of the caller's, never input.
func (s *Store) account(ctx context.Context, where string, arg any) (account, error) {
	rows, _ := s.db.Query(ctx, `
		select `+userColumns+`, password_hash, legacy_hash, coalesce(legacy_salt, '') as legacy_salt
		from   users `+where, arg)
	a, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[account])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return account{}, ErrNotFound
	case err != nil:
		return account{}, fault(err, "read an account")
	}
	return a, nil
}
