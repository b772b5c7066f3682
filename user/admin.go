package user

import (
	"context"
	"errors"
	"fmt"
)

// MakeAdmin creates an administrator, or promotes the account that has the phone. It sets the
// password either way and ends the account's sessions: they have the role of their log-in, and
// their owner may not know the new password. InvalidError, ErrBusy.
func (s *Store) MakeAdmin(ctx context.Context, sessions *Sessions, phone, password string) (created bool, err error) {
	if err := errors.Join(checkPhone(phone), checkPassword(password)); err != nil {
		return false, err
	}
	hash, err := s.hashes.hash(ctx, inTurn, password)
	if err != nil {
		return false, fmt.Errorf("hash an administrator's password: %w", err)
	}
	// An inserted row has xmax 0, an updated row has another xmax.
	var id, generation int64
	err = s.db.QueryRow(ctx, `
		insert into users (phone, nickname, role, password_hash)
		values ($1, 'admin', 'admin', $2)
		on conflict (phone) do update
		set    role = 'admin', password_hash = excluded.password_hash, legacy_hash = null, legacy_salt = null,
		       generation = users.generation + 1
		returning id, generation, xmax = 0`, phone, hash).Scan(&id, &generation, &created)
	if err != nil {
		return false, fault(err, "make %s an administrator", masked(phone))
	}
	if err := sessions.EndAll(ctx, id, generation, ""); err != nil {
		return false, fmt.Errorf("end the sessions of %s: %w", masked(phone), err)
	}
	return created, nil
}
