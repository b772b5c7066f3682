// Package user knows who somebody is: accounts, one-time codes, passwords, sessions, roles.
//
// What is true: an account is a row of users, and only Postgres decides who owns a phone number. A code, a limit and a
// session live in Redis and may be lost with it; the worst that follows is that somebody asks again or logs in again.
// A password is kept as argon2id and nothing weaker is ever written; accounts of the older systems bring an MD5 that
// their first log-in replaces. Log-in takes the same time whether the account exists or not, and says the same.
//
// Who wins: of two that register one phone, the insert that comes first; of two that use one code, the script that
// runs first; of two changes of one password, the update that still finds the old hash. Ending sessions takes effect
// at once in this process and within two seconds in every other.
package user

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

// Roles.
const (
	RoleBuyer = "buyer"
	RoleAdmin = "admin"
)

// User is an account as the rest of the house sees it.
type User struct {
	ID       int64
	Phone    string
	Nickname string
	Role     string // RoleBuyer or RoleAdmin
}

// Config is what an operator may set.
type Config struct {
	SMS        string `name:"sms" env:"MIAOSHA_SMS" enum:"console,off" default:"console" help:"How one-time codes are sent: console prints them, off refuses to."`
	LegacySalt string `name:"legacy-salt" env:"MIAOSHA_LEGACY_SALT" help:"Fixed salt of accounts brought from the older systems."`

	// Console is where codes are printed; nil means standard error. Not a setting.
	Console io.Writer `kong:"-"`
}

// Validate reports the first setting that can't be used.
func (c Config) Validate() error {
	if c.SMS != "console" && c.SMS != "off" {
		return fmt.Errorf("sms: %q is neither console nor off", c.SMS)
	}
	return nil
}

// Store is the accounts. It is safe for concurrent use and owns no goroutine.
type Store struct {
	db     *pgxpool.Pool
	codes  *codes
	limits *limits
	hashes *hasher
	cfg    Config
	log    *slog.Logger
}

// New makes a Store on a database that has the schema. The secret signs one-time codes; it is at least 32 bytes and
// the same in every process. rdb holds codes and limits: any Redis that all processes share.
func New(db *pgxpool.Pool, rdb redis.UniversalClient, secret []byte, cfg Config, log *slog.Logger) *Store {
	if cfg.Console == nil {
		cfg.Console = os.Stderr
	}
	return &Store{
		db:     db,
		codes:  &codes{rdb: rdb, secret: secret},
		limits: newLimits(rdb),
		hashes: newHasher(max(1, runtime.GOMAXPROCS(0)/2)),
		cfg:    cfg,
		log:    log,
	}
}

// ByID returns the account, or ErrNotFound.
func (s *Store) ByID(ctx context.Context, id int64) (User, error) {
	rows, err := s.db.Query(ctx, `
		select id, phone, nickname, role
		from   users
		where  id = $1`, id)
	if err != nil {
		return User{}, fault(err, "read user %d", id)
	}
	u, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[User])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return User{}, ErrNotFound
	case err != nil:
		return User{}, fault(err, "read user %d", id)
	}
	return u, nil
}
