package user

import (
	"context"
	"fmt"
)

// Seed creates an account. If its phone already has one, nothing changes. The sandbox makes its
// demo accounts with it; their password is public. InvalidError, ErrBusy.
func (s *Store) Seed(ctx context.Context, u User, password string) error {
	if err := checkPhone(u.Phone); err != nil {
		return err
	}
	var exists bool
	err := s.db.QueryRow(ctx, `select exists (select from users where phone = $1)`, u.Phone).Scan(&exists)
	if err != nil {
		return fault(err, "find the account %s", masked(u.Phone))
	}
	if exists {
		return nil // saves the hash; the insert decides
	}
	hash, err := s.hashes.hash(ctx, inTurn, password)
	if err != nil {
		return fmt.Errorf("hash a demo account's password: %w", err)
	}
	_, err = s.db.Exec(ctx, `
		insert into users (phone, nickname, role, password_hash)
		values ($1, $2, $3, $4)
		on conflict (phone) do nothing`, u.Phone, u.Nickname, u.Role, hash)
	if err != nil {
		return fault(err, "make the account %s", masked(u.Phone))
	}
	return nil
}
