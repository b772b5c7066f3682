package user

import (
	"context"
	"fmt"
)

// ChangePassword replaces the password if the old one is right, and still is when the new one is
// written. A user has ten tries a minute; log-ins of strangers do not use them up.
// ErrWrongPassword, ErrNotFound, InvalidError, TooManyError, ErrBusy.
//
// The caller then ends the other sessions (Sessions.EndAll). A log-in with the old password that is
// under way at that moment may survive.
func (s *Store) ChangePassword(ctx context.Context, userID int64, old, new string) error {
	if err := checkPassword(new); err != nil {
		return err
	}
	if err := s.limits.password(ctx, userID); err != nil {
		return err
	}
	a, err := s.account(ctx, `where id = $1`, userID)
	if err != nil {
		return err
	}
	// Twice: a log-in may upgrade the hash of an older account at the same time. The second try
	// finds out whether it was that or another change.
	for range 2 {
		changed, err := s.change(ctx, a, old, new)
		if changed || err != nil {
			return err
		}
		if a, err = s.account(ctx, `where id = $1`, userID); err != nil {
			return err
		}
	}
	return ErrBusy
}

// change reports whether it changed the password: false if the row has changed since a was read.
func (s *Store) change(ctx context.Context, a account, old, new string) (bool, error) {
	if _, err := s.verify(ctx, a, old); err != nil {
		return false, err
	}
	hash, err := s.hashes.hash(ctx, new)
	if err != nil {
		return false, fmt.Errorf("hash the new password of user %d: %w", a.ID, err)
	}
	tag, err := s.db.Exec(ctx, `
		update users
		set    password_hash = $2, legacy_hash = null, legacy_salt = null
		where  id = $1 and password_hash = $3 and legacy_hash is not distinct from $4`,
		a.ID, hash, a.PasswordHash, a.LegacyHash)
	if err != nil {
		return false, fault(err, "change the password of user %d", a.ID)
	}
	return tag.RowsAffected() == 1, nil
}
