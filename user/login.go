package user

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// account is a row of users with what only this package may see.
type account struct {
	User
	PasswordHash string
	LegacyHash   *string
	LegacySalt   string
}

// Login returns the account of a phone and a password. It judges no form: what can't be an account is ErrWrongPassword
// like any other, after the same work. Ten tries a minute for a phone and 200 for an address, else TooManyError;
// an address that has logged in there before has ten of its own. ErrBusy when too many passwords wait to be checked.
func (s *Store) Login(ctx context.Context, phone, password, addr string) (User, error) {
	if err := s.hashes.admit(network(addr)); err != nil {
		return User{}, err
	}
	defer s.hashes.dismiss(network(addr))
	if err := s.limits.login(ctx, phone, addr); err != nil {
		return User{}, err
	}
	a, err := s.byPhone(ctx, phone)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return User{}, err
	}
	fresh, err := s.verify(ctx, a, password)
	if errors.Is(err, ErrWrongPassword) {
		s.log.InfoContext(ctx, "log-in refused", "phone", masked(phone), "addr", addr)
	}
	if err != nil {
		return User{}, err
	}
	if a.LegacyHash != nil {
		if err := s.upgrade(ctx, a, fresh); err != nil {
			return User{}, err
		}
	}
	if err := s.limits.loggedIn(ctx, phone, addr); err != nil {
		return User{}, err
	}
	s.log.InfoContext(ctx, "logged in", "user", a.ID, "addr", addr)
	return a.User, nil
}

// verify returns nil if the password is the account's, and ErrWrongPassword if not or if there is no account or no
// password. It costs one hash in every case; for an account of the older systems that is the fresh one it returns.
func (s *Store) verify(ctx context.Context, a account, password string) (fresh string, err error) {
	var right bool
	switch {
	case a.LegacyHash != nil:
		right = legacyMatches(password, s.cfg.LegacySalt, a.LegacySalt, *a.LegacyHash)
		fresh, err = s.hashes.hash(ctx, password)
	case a.PasswordHash != "":
		right, err = s.hashes.check(ctx, a.PasswordHash, password)
	default:
		_, err = s.hashes.check(ctx, nobody, password)
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

// account reads one row; where is one of the two constants above.
func (s *Store) account(ctx context.Context, where string, arg any) (account, error) {
	rows, err := s.db.Query(ctx, `
		select id, phone, nickname, role, password_hash, legacy_hash, coalesce(legacy_salt, '') legacy_salt
		from   users `+where, arg)
	if err != nil {
		return account{}, fault(err, "read an account")
	}
	a, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[account])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return account{}, ErrNotFound
	case err != nil:
		return account{}, fault(err, "read an account")
	}
	return a, nil
}
