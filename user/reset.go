package user

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// ResetPassword replaces a password that its owner has forgotten, if the code is right. It ends all sessions of the
// user and the log-ins under way. ErrWrongCode, InvalidError, ErrBusy, ErrSMSOff; ErrSolveFirst and TooManyError as
// Register, which it shares the limits with. ErrNoAccount, ErrDisabled and ErrStaffPassword, which only the owner of
// the phone can see, since the code must be right: a stranger receives the same answer for every phone, before Postgres
// is asked. The code can be used again unless the password has changed.
//
// A code is less than a password: who holds the phone for a minute has it. So no member of the staff has a new password
// by code.
func (s *Store) ResetPassword(
	ctx context.Context, sessions *Sessions, phone, code, password string, from From,
) (LoggedIn, error) {
	if err := errors.Join(CheckPhone(phone), CheckCode(code), CheckPassword("password", password)); err != nil {
		return LoggedIn{}, err
	}
	if !s.SendsCodes() {
		return LoggedIn{}, ErrSMSOff
	}
	if err := s.limits.register(ctx, from.Addr); err != nil {
		return LoggedIn{}, err
	}
	var u User
	var hash string
	err := s.withCode(ctx, phone, code, from, func() (err error) {
		u, hash, err = s.reset(ctx, phone, password)
		return err
	})
	if err != nil {
		return LoggedIn{}, err
	}
	s.log.InfoContext(ctx, "a new password by code", "user", u.ID, "addr", from.Addr)
	if err := sessions.EndAll(ctx, u.ID, u.Generation, ""); err != nil {
		return LoggedIn{}, err // the next session that starts ends them
	}
	return LoggedIn{u, s.devices.issue(phone, hash, time.Now())}, s.limits.loggedIn(ctx, phone, from.Addr)
}

// reset writes the new password of the buyer who has the phone, and returns its hash.
func (s *Store) reset(ctx context.Context, phone, password string) (u User, hash string, err error) {
	hash, err = s.hashes.hash(ctx, inTurn, password)
	if err != nil {
		return User{}, "", fmt.Errorf("hash a new password: %w", err)
	}
	rows, _ := s.db.Query(ctx, `
		update users
		set    password_hash = $2, legacy_hash = null, legacy_salt = null, password_due = false, generation = generation + 1
		where  phone = $1 and role = 'buyer' and disabled_at is null
		returning `+userColumns, phone, hash)
	u, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[User])
	if errors.Is(err, pgx.ErrNoRows) {
		return User{}, "", s.whyNoReset(ctx, phone)
	}
	if err != nil {
		return User{}, "", fault(err, "set a new password of %s", masked(phone))
	}
	return u, hash, nil
}

// whyNoReset says why the update of reset found no row.
func (s *Store) whyNoReset(ctx context.Context, phone string) error {
	a, err := s.account(ctx, `where phone = $1`, phone)
	switch {
	case errors.Is(err, ErrNotFound):
		return ErrNoAccount
	case err != nil:
		return err
	case a.Disabled:
		return ErrDisabled
	case a.Role != RoleBuyer:
		return ErrStaffPassword
	}
	return ErrBusy // it has changed since the update
}
