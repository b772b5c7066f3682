// Package user identifies users: accounts, one-time codes, passwords, sessions, roles.
//
// What is true: an account is a row of users, and only Postgres decides which account has a phone
// number. A code, a limit and a session are in Redis and may be lost with it; then a user has to
// ask for a new code or log in again. A password is stored as argon2id, never as anything weaker;
// accounts of the older systems have an MD5 until their first log-in replaces it. Log-in takes the
// same time and returns the same error whether the account exists or not.
//
// Who wins: of two registrations of one phone, the insert that comes first; of two uses of one
// code, the script that runs first; of two changes of one password, the update that still finds the
// old hash; of a change that ends the sessions and a log-in under way, the change: the log-in has
// read an older generation of the account. Ended sessions end at once in this process and within
// two seconds in every other.
package user

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"miaosha/seckill/purpose"
	"miaosha/seckill/rounds"
)

// Roles.
const (
	RoleBuyer  = "buyer"
	RoleViewer = "viewer" // sees what the staff sees, and changes nothing
	RoleAdmin  = "admin"
)

// Roles are all roles of an account.
var Roles = []string{RoleBuyer, RoleViewer, RoleAdmin}

// User is an account, without the columns that only this package may see.
type User struct {
	ID       int64
	Phone    string
	Nickname string
	Role     string // RoleBuyer, RoleViewer or RoleAdmin

	// Generation rises with each new password and role, and when the user logs out everywhere.
	Generation int64

	Disabled    bool // it has no session and begins none
	PasswordDue bool // its password was made for it: see RoleDue
}

const userColumns = `id, phone, nickname, role, generation, disabled_at is not null as disabled, password_due`

// Config has the settings of accounts.
type Config struct {
	SMS        string `name:"sms" env:"MIAOSHA_SMS" enum:"console,off" default:"console" help:"How one-time codes are sent: console prints them, off refuses to."`
	LegacySalt string `name:"legacy-salt" env:"MIAOSHA_LEGACY_SALT" help:"Fixed salt of accounts brought from the older systems."`

	LegacyPattern    string `name:"legacy-pattern" env:"MIAOSHA_LEGACY_PATTERN" default:"{password}{fixed}" help:"Where the fixed salt stands in the first MD5 of such accounts: text with {password}, {fixed} and characters of the salt such as {fixed[2]}."`
	LegacyRowPattern string `name:"legacy-row-pattern" env:"MIAOSHA_LEGACY_ROW_PATTERN" default:"{password}{salt}" help:"The same for the second MD5: {password} is the first one, {salt} the account's own salt, {salt[2]} its third character."`

	SessionCopies time.Duration `name:"session-copies" default:"900ms" hidden:"" help:"For measuring: how long a session is used without a read. With the sandbox's own stores only."`

	// Console is where codes are printed; nil means standard error. Not a setting.
	Console io.Writer `kong:"-"`
}

// SessionCopies is that of a shop that is not slowed down for measuring.
const SessionCopies = freshFor

// Validate returns an error if SMS is unknown, or if the life of copies makes no sense.
func (c Config) Validate() error {
	if c.SessionCopies < 1 || c.SessionCopies > freshFor {
		return fmt.Errorf("--session-copies: 1ns to %v", freshFor)
	}
	if c.SMS != "console" && c.SMS != "off" {
		return fmt.Errorf("sms: %q is neither console nor off", c.SMS)
	}
	if err := checkLegacyPattern(c.LegacyPattern, "fixed", len(c.LegacySalt)); err != nil {
		return fmt.Errorf("--legacy-pattern: %w", err)
	}
	if err := checkLegacyPattern(c.LegacyRowPattern, "salt", -1); err != nil {
		return fmt.Errorf("--legacy-row-pattern: %w", err)
	}
	return nil
}

// Store manages accounts. It is safe for concurrent use and starts no goroutine.
type Store struct {
	db       *pgxpool.Pool
	codes    *codes
	limits   *limits
	counts   *counts
	hashes   *hasher
	door     *door
	devices  *devices
	lookups  *gobreaker.CircuitBreaker[account] // of log-ins
	silence  time.Duration                      // of Postgres, for which a log-in waits
	revoking *rounds.Rounds                     // of EndRevoked
	cfg      Config
	log      *slog.Logger
}

// New returns a Store on a database that has the schema. The secret signs one-time codes and the cookies of devices; it
// has at least 32 bytes and is the same in every process. rdb keeps codes and limits: it may be any Redis that all
// processes share.
func New(db *pgxpool.Pool, rdb redis.UniversalClient, secret []byte, cfg Config, log *slog.Logger) *Store {
	if cfg.Console == nil {
		cfg.Console = os.Stderr
	}
	hashes := newHasher(max(1, runtime.GOMAXPROCS(0)/2))
	return &Store{
		db:       db,
		codes:    &codes{rdb: rdb, key: purpose.OneTimeCode.Key(secret)},
		limits:   &limits{rdb},
		counts:   newCounts(rdb),
		hashes:   hashes,
		door:     newDoor(hashes.room()),
		devices:  newDevices(secret),
		lookups:  newLookups(lookupPause),
		silence:  lookupLimit,
		revoking: rounds.New(),
		cfg:      cfg,
		log:      log,
	}
}

// ByID returns the account, or ErrNotFound.
func (s *Store) ByID(ctx context.Context, id int64) (User, error) {
	a, err := s.account(ctx, `where id = $1`, id)
	return a.User, err
}
