package user

import (
	"context"
	"fmt"
)

// Seed makes an account unless its phone has one already, which is then left as it is. It is for the sandbox's demo
// accounts, whose password anybody may read. InvalidError, ErrBusy.
func (s *Store) Seed(ctx context.Context, u User, password string) error {
	if err := checkPhone(u.Phone); err != nil {
		return err
	}
	var has bool
	err := s.db.QueryRow(ctx, `select exists (select from users where phone = $1)`, u.Phone).Scan(&has)
	if err != nil {
		return fault(err, "look for %s", masked(u.Phone))
	}
	if has {
		return nil // only to save the work below; the insert decides
	}
	hash, err := s.hashes.hash(ctx, password)
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
