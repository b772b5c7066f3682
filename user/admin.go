package user

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// MakeAdmin creates an administrator, or promotes the account that has the phone, on behalf of the
// administrator who has the phone by. by may be empty while there is no administrator, and for an
// account that is one already. Postgres checks that, and logs the change in role_changes. MakeAdmin
// sets the password either way and ends the account's sessions: they have the role of their log-in,
// and their owner may not know the new password. InvalidError, ErrNotByAdmin, ErrBusy.
func (s *Store) MakeAdmin(ctx context.Context, sessions *Sessions, by, phone, password string) (created bool, err error) {
	if err := errors.Join(checkPhone(phone), checkPassword(password)); err != nil {
		return false, err
	}
	hash, err := s.hashes.hash(ctx, inTurn, password)
	if err != nil {
		return false, fmt.Errorf("hash an administrator's password: %w", err)
	}
	// An inserted row has xmax 0, an updated row has another xmax.
	var id, generation int64
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `
			insert into users (phone, nickname, password_hash)
			values ($1, 'admin', $2)
			on conflict (phone) do update
			set    password_hash = excluded.password_hash, legacy_hash = null, legacy_salt = null,
			       generation = users.generation + 1
			returning id, xmax = 0`, phone, hash).Scan(&id, &created)
		if err != nil {
			return err
		}
		// The phone of no account is an acting user that does not exist, not one who is not named.
		_, err = tx.Exec(ctx, `
			select change_role(case when $1 <> '' then coalesce((select id from users where phone = $1), 0) end, $2, $3)`, by, id, RoleAdmin)
		if err != nil {
			return err
		}
		return tx.QueryRow(ctx, `select generation from users where id = $1`, id).Scan(&generation)
	})
	if pg := new(pgconn.PgError); errors.As(err, &pg) && pg.ConstraintName == "roles_are_changed_by_an_administrator" {
		return false, ErrNotByAdmin
	}
	if err != nil {
		return false, fault(err, "make %s an administrator", masked(phone))
	}
	if err := sessions.EndAll(ctx, id, generation, ""); err != nil {
		return false, fmt.Errorf("end the sessions of %s: %w", masked(phone), err)
	}
	return created, nil
}
