package user

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// ChangePassword replaces the password if the old one is right, and still is when the new one is written. It ends all
// sessions of the user except the given token's, and the log-ins with the old password that are under way. A user has
// ten tries a minute; log-ins of strangers do not use them up. A password that was made for the account is replaced by
// another one. It returns the new cookie of the device, since the password ends the old one, also with a fault of Redis
// after the change: then the other sessions go on until the user logs in or out. ErrWrongPassword, ErrNotFound,
// InvalidError, TooManyError, ErrBusy.
//
// The token's session takes the new generation, so it would outlive a change of the role, or the end of the account,
// that EndRevoked has not seen yet. So it must have the role that the account has, ErrNoSession, of an account in use,
// ErrDisabled.
func (s *Store) ChangePassword(
	ctx context.Context, sessions *Sessions, userID int64, token, old, new string,
) (device string, err error) {
	if err := errors.Join(required("old", old), CheckPassword("new", new)); err != nil {
		return "", err
	}
	if err := s.limits.password(ctx, userID); err != nil {
		return "", err
	}
	var kept Session
	if token != "" {
		if kept, err = sessions.Get(ctx, token); err != nil {
			return "", err
		}
	}
	a, err := s.account(ctx, `where id = $1`, userID)
	if err != nil {
		return "", err
	}
	if a.PasswordDue && new == old {
		return "", InvalidError{"new", "same"}
	}
	// Twice: a log-in may upgrade the hash of an older account at the same time. The second try
	// finds out whether it was that or another change.
	for range 2 {
		if a.Disabled {
			return "", ErrDisabled
		}
		if token != "" && kept != a.session() {
			return "", ErrNoSession
		}
		generation, hash, err := s.change(ctx, a, old, new)
		if err != nil {
			return "", err
		}
		if generation > 0 {
			return s.devices.issue(a.Phone, hash, time.Now()), sessions.EndAll(ctx, userID, generation, token)
		}
		if a, err = s.account(ctx, `where id = $1`, userID); err != nil {
			return "", err
		}
	}
	return "", ErrBusy
}

// change changes the password and returns its hash and the new generation of the account: 0 if the
// row has changed since a was read.
func (s *Store) change(ctx context.Context, a account, old, new string) (generation int64, hash string, err error) {
	if _, err := s.verify(ctx, inTurn, a, old); err != nil {
		return 0, "", err
	}
	hash, err = s.hashes.hash(ctx, inTurn, new)
	if err != nil {
		return 0, "", fmt.Errorf("hash the new password of user %d: %w", a.ID, err)
	}
	rows, _ := s.db.Query(ctx, `
		update users
		set    password_hash = $2, legacy_hash = null, legacy_salt = null, password_due = false, generation = generation + 1
		where  id = $1 and password_hash = $3 and legacy_hash is not distinct from $4 and role = $5 and disabled_at is null
		returning generation`,
		a.ID, hash, a.PasswordHash, a.LegacyHash, a.Role)
	generation, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, "", nil
	case err != nil:
		return 0, "", fault(err, "change the password of user %d", a.ID)
	}
	return generation, hash, nil
}

// logOutWait is how long a log-out waits for Postgres before it ends the sessions without it.
const logOutWait = time.Second

// LogOut ends all sessions of a user and the log-ins under way. If Postgres does not answer, it
// still ends the sessions, and returns the fault: a log-in under way may survive. If Redis does not
// answer, it returns that fault: the sessions go on until they expire or the user logs in again.
func (s *Store) LogOut(ctx context.Context, sessions *Sessions, userID int64) error {
	waits, cancel := context.WithTimeout(ctx, logOutWait)
	defer cancel()
	rows, _ := s.db.Query(waits, `update users set generation = generation + 1 where id = $1 returning generation`, userID)
	generation, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
	if errors.Is(err, pgx.ErrNoRows) { // the account is gone
		err = nil
	}
	if err != nil {
		err = fault(err, "end the log-ins of user %d", userID)
	}
	return errors.Join(err, sessions.EndAll(ctx, userID, generation, ""))
}
