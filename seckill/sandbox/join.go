package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// state is what an owner writes for the processes that join it. It holds passwords, so only the
// owner's account may read it.
type state struct {
	PID         int    `json:"pid"`
	DatabaseURL string `json:"database_url,omitempty"`
	Postgres    string `json:"postgres,omitempty"` // version
	RedisURL    string `json:"redis_url,omitempty"`
	RedisKind   string `json:"redis_kind,omitempty"`
}

func (s state) write(dir string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, stateFile), append(text, '\n'), 0o600, account{})
}

// readState returns the state that the owner of dir has written, or nil if there is none yet.
func readState(dir string) (*state, error) {
	text, err := readFile(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of the running servers: %w", err)
	}
	var s state
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("read the state of the running servers: %s: %w", stateFile, err)
	}
	return &s, nil
}

// join returns the servers of another process. Both values are nil if the servers are not ready or
// about to end. It is an error if they do not fit cfg.
func join(ctx context.Context, cfg Config) (*Sandbox, error) {
	st, err := readState(cfg.DataDir)
	if st == nil || err != nil {
		return nil, err
	}
	// After a crash the state file stays until a new owner removes it. Then its process is gone, or
	// its servers are.
	if !alive(st.PID) {
		return nil, nil
	}
	s := &Sandbox{DataDir: cfg.DataDir, Shared: st.PID}
	if cfg.Postgres {
		if st.DatabaseURL == "" {
			return nil, fmt.Errorf(
				"process %d runs on %s without a Postgres: stop it, set DATABASE_URL and --sandbox redis as it does, or use another --data-dir",
				st.PID, cfg.DataDir)
		}
		s.DatabaseURL, s.Postgres = st.DatabaseURL, st.Postgres
	}
	if cfg.Redis {
		switch {
		case st.RedisURL == "":
			return nil, fmt.Errorf(
				"process %d runs on %s without a Redis: stop it, set REDIS_URL and --sandbox postgres as it does, or use another --data-dir",
				st.PID, cfg.DataDir)
		case cfg.RedisKind != Auto && cfg.RedisKind != st.RedisKind:
			return nil, fmt.Errorf(
				"process %d runs on %s with a Redis of the kind %s, not %s: stop it, or use another --data-dir", st.PID,
				cfg.DataDir, st.RedisKind, cfg.RedisKind)
		}
		s.RedisURL, s.RedisKind = st.RedisURL, st.RedisKind
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if s.DatabaseURL != "" && pingPostgres(ctx, s.DatabaseURL) != nil {
		return nil, nil
	}
	if s.RedisURL != "" && pingRedis(ctx, s.RedisURL) != nil {
		return nil, nil
	}
	secret, err := readFile(filepath.Join(cfg.DataDir, secretFile))
	if err != nil {
		return nil, fmt.Errorf("read the secret of the running servers: %w", err)
	}
	s.Secret = strings.TrimSpace(string(secret))
	return s, nil
}

// Running reports whether a process runs servers on the data folder of cfg. It makes no folder.
func Running(cfg Config) (bool, error) {
	if err := cfg.Validate(); err != nil {
		return false, err
	}
	st, err := readState(cfg.DataDir)
	return st != nil && alive(st.PID), err
}

// Exists reports whether the data folder of cfg has a sandbox, running or not. It makes no folder.
func Exists(cfg Config) (bool, error) {
	if err := cfg.Validate(); err != nil {
		return false, err
	}
	_, err := os.Stat(filepath.Join(cfg.DataDir, secretFile)) // made first, and removed by Reset
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at the data folder: %w: choose another --data-dir", err)
	}
	return true, nil
}
