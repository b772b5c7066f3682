package user

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// SetNickname changes the name of a user. InvalidError, ErrNotFound.
func (s *Store) SetNickname(ctx context.Context, userID int64, nickname string) error {
	if err := CheckNickname(nickname); err != nil {
		return err
	}
	done, err := s.db.Exec(ctx, `update users set nickname = $2 where id = $1`, userID, nickname)
	switch {
	case err != nil:
		return fault(err, "name user %d", userID)
	case done.RowsAffected() == 0:
		return ErrNotFound
	}
	return nil
}

// ChangePhone replaces the phone of a user who has the password and the code that was sent to the new phone. The
// sessions go on. It returns the new cookie of the device, since the old one is valid for the old phone.
// ErrWrongPassword, ErrWrongCode, InvalidError, TooManyError, ErrBusy, ErrSolveFirst, ErrDisabled, ErrNotFound;
// ErrPhoneTaken, which only the holder of the new phone can see. The code can be used again unless the phone has
// changed or is taken.
func (s *Store) ChangePhone(
	ctx context.Context, userID int64, phone, code, password string, from From,
) (device string, err error) {
	if err := errors.Join(CheckPhone(phone), CheckCode(code), required("password", password)); err != nil {
		return "", err
	}
	if err := s.limits.password(ctx, userID); err != nil {
		return "", err
	}
	if err := s.limits.register(ctx, from.Addr); err != nil {
		return "", err
	}
	a, err := s.account(ctx, `where id = $1`, userID)
	switch {
	case err != nil:
		return "", err
	case a.Disabled:
		return "", ErrDisabled
	case a.Phone == phone:
		return "", InvalidError{"phone", "same"}
	}
	if _, err := s.verify(ctx, inTurn, a, password); err != nil {
		return "", err
	}
	err = s.withCode(ctx, phone, code, from, func() error { return s.movePhone(ctx, a, phone) })
	if err != nil {
		return "", err
	}
	s.log.InfoContext(ctx, "a new phone", "user", userID, "addr", from.Addr)
	return s.devices.issue(phone, a.PasswordHash, time.Now()), s.limits.loggedIn(ctx, phone, from.Addr)
}

// movePhone changes the phone of an account that has still the password with which it was read.
func (s *Store) movePhone(ctx context.Context, a account, phone string) error {
	done, err := s.db.Exec(ctx, `
		update users set phone = $2
		where  id = $1 and phone = $3 and password_hash = $4 and legacy_hash is not distinct from $5 and disabled_at is null`,
		a.ID, phone, a.Phone, a.PasswordHash, a.LegacyHash)
	if pg := new(pgconn.PgError); errors.As(err, &pg) && pg.ConstraintName == "users_phone_key" {
		return ErrPhoneTaken
	}
	switch {
	case err != nil:
		return fault(err, "change the phone of user %d", a.ID)
	case done.RowsAffected() == 0:
		return ErrBusy
	}
	return nil
}
