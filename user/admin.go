package user

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Staff is an account of the staff that a command makes.
type Staff struct {
	Phone, Password string
	Role            string // RoleAdmin or RoleViewer
	PasswordDue     bool   // the password was made for the account: see RoleDue
	By              string // the phone of the administrator on whose behalf it is made
}

// MakeStaff creates an account of the staff, or changes the role of the account that has the phone, on behalf of the
// administrator who has the phone By. By may be empty while there is no administrator, and for an account that has the
// role already. Postgres checks that, and logs the change in role_changes; a line of admin_log says that a command set
// role and password. MakeStaff sets the password either way and ends the account's sessions: they have the role of
// their log-in, and their owner may not know the new password. InvalidError, ErrNotByAdmin, ErrBusy.
func (s *Store) MakeStaff(ctx context.Context, sessions *Sessions, m Staff) (created bool, err error) {
	if err := errors.Join(CheckPhone(m.Phone), CheckPassword("password", m.Password)); err != nil {
		return false, err
	}
	hash, err := s.hashes.hash(ctx, inTurn, m.Password)
	if err != nil {
		return false, fmt.Errorf("hash a password of the staff: %w", err)
	}
	// An inserted row has xmax 0, an updated row has another xmax.
	var id, generation int64
	var role string
	err = pgx.BeginTxFunc(ctx, s.db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `
			insert into users (phone, nickname, password_hash)
			values ($1, 'admin', $2)
			on conflict (phone) do update
			set    password_hash = excluded.password_hash, legacy_hash = null, legacy_salt = null,
			       generation = users.generation + 1
			returning id, xmax = 0, role`, m.Phone, hash).Scan(&id, &created, &role)
		if err != nil {
			return err
		}
		// The phone of no account is an acting user that does not exist, not one who is not named.
		_, err = tx.Exec(ctx, `
			select change_role(case when $1 <> '' then coalesce((select id from users where phone = $1), 0) end, $2, $3)`, m.By, id, m.Role)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			insert into admin_log (by_user, origin, action, subject, before, after)
			values ((select id from users where phone = $1), 'miaosha admin', 'user.role', 'user ' || $2::bigint,
			        jsonb_build_object('role', $3::text), jsonb_build_object('role', $4::text, 'password', 'new'))`, m.By, id, role, m.Role)
		if err != nil {
			return err
		}
		return tx.QueryRow(ctx, `update users set password_due = $2 where id = $1 returning generation`, id, m.PasswordDue).Scan(&generation)
	})
	if pg := new(pgconn.PgError); errors.As(err, &pg) && pg.ConstraintName == "roles_are_changed_by_an_administrator" {
		return false, ErrNotByAdmin
	}
	if err != nil {
		return false, fault(err, "make %s a member of the staff", masked(m.Phone))
	}
	if err := sessions.EndAll(ctx, id, generation, ""); err != nil {
		return false, fmt.Errorf("end the sessions of %s: %w", masked(m.Phone), err)
	}
	return created, nil
}
