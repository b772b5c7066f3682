package user

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// StaffHas reports whether an account of the staff has a password. A shop asks it about one that is public.
func (s *Store) StaffHas(ctx context.Context, phone, password string) (bool, error) {
	a, err := s.account(ctx, `where phone = $1`, phone)
	if errors.Is(err, ErrNotFound) || err == nil && (a.Role == RoleBuyer || a.Disabled) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = s.verify(ctx, inTurn, a, password)
	if errors.Is(err, ErrWrongPassword) {
		return false, nil
	}
	return err == nil, err
}

// Seed creates an account, and returns its id. If its phone already has one, nothing changes. The sandbox makes its
// demo accounts with it; their password is public. InvalidError, ErrBusy.
func (s *Store) Seed(ctx context.Context, u User, password string) (id int64, err error) {
	if err := CheckPhone(u.Phone); err != nil {
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
