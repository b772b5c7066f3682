package user

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Seed creates an account, and returns its id. If its phone already has one, nothing changes. The sandbox makes its
// demo accounts with it; their password is public. InvalidError, ErrBusy.
func (s *Store) Seed(ctx context.Context, u User, password string) (id int64, err error) {
	if err := checkPhone(u.Phone); err != nil {
		return 0, err
	}
	err = s.db.QueryRow(ctx, `select id from users where phone = $1`, u.Phone).Scan(&id)
	switch {
	case err == nil:
		return id, nil // saves the hash; the insert decides
	case !errors.Is(err, pgx.ErrNoRows):
		return 0, fault(err, "find the account %s", masked(u.Phone))
	}
	hash, err := s.hashes.hash(ctx, inTurn, password)
	if err != nil {
		return 0, fmt.Errorf("hash a demo account's password: %w", err)
	}
	err = s.db.QueryRow(ctx, `
		insert into users (phone, nickname, role, password_hash)
		values ($1, $2, $3, $4)
		on conflict (phone) do update set phone = excluded.phone -- so that it returns the row
		returning id`, u.Phone, u.Nickname, u.Role, hash).Scan(&id)
	if err != nil {
		return 0, fault(err, "make the account %s", masked(u.Phone))
	}
	return id, nil
}
