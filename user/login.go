package user

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
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

// Login returns the account that has the phone and the password, or ErrWrongPassword. It does not
// check the form of its input: an impossible phone does the same work as a wrong password. A phone
// has ten tries a minute, an address has 200, else TooManyError. An address that has logged in to
// the account before has ten tries of its own, and so has a known device, whatever its address.
// ErrSolveFirst or ErrBusy if too many passwords wait to be checked.
func (s *Store) Login(ctx context.Context, phone, password string, from From) (LoggedIn, error) {
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
		right = legacyMatches(password, s.cfg.LegacySalt, a.LegacySalt, *a.LegacyHash)
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

func (s *Store) byPhone(ctx context.Context, phone string) (account, error) {
	if !maybePhone(phone) {
		return account{}, ErrNotFound
	}
	return s.account(ctx, `where phone = $1`, phone)
}

// account reads one row. where is a constant of the caller's, never input.
func (s *Store) account(ctx context.Context, where string, arg any) (account, error) {
	rows, _ := s.db.Query(ctx, `
		select id, phone, nickname, role, generation, password_hash, legacy_hash, coalesce(legacy_salt, '') as legacy_salt
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
