package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Reset empties the data folder of cfg. It removes databases, Redis, archives, secret and logs, and keeps
// programs that were fetched. It refuses while a process runs on the folder, and it refuses a
// folder that is not ours. A folder that does not exist is no error. Temporary folders go too, except those in use.
func Reset(ctx context.Context, cfg Config) error {
	lock, err := lockForReset(&cfg)
	if lock == nil || err != nil {
		return err
	}
	defer lock.Close()

	// Without a secret the home elsewhere cannot be matched with this folder. The next start
	// empties that home.
	home := cfg.DataDir
	if _, err := os.Stat(filepath.Join(cfg.DataDir, secretFile)); err == nil {
		o := &owner{cfg: cfg, lock: lock}
		if o.secret, err = loadSecret(cfg.DataDir); err != nil {
			o.secret = "" // invalid, and about to be removed
		}
		if o.place, err = findPlace(cfg.DataDir, derive(o.secret, "place"), cfg.Log); err != nil {
			return err
		}
		serversLock, err := o.lockServers(ctx)
		if err != nil {
			return err
		}
		defer serversLock.Close()
		home = o.place.home
	}
	if err := empty(cfg.DataDir, home); err != nil {
		return fmt.Errorf("empty %s: %w", cfg.DataDir, err)
	}
	all, err := lockTemporaries(ctx, cfg)
	if err != nil {
		return err
	}
	defer all.Close()
	return removeDeadTemporaries(ctx, cfg)
}

// CheckReset returns the error with which Reset would refuse.
func CheckReset(cfg Config) error {
	lock, err := lockForReset(&cfg)
	if lock != nil {
		lock.Close()
	}
	return err
}

// lockForReset completes cfg and locks its data folder. It returns nil if the folder does not exist.
func lockForReset(cfg *Config) (*os.File, error) {
	cfg.Postgres = true // Validate wants one of them; it does not matter which
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	ours, err := isOurs(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	if !ours {
		if _, err := os.Stat(cfg.DataDir); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, fmt.Errorf("%s is not a data folder of the sandbox: nothing was removed", cfg.DataDir)
	}
	lock, err := tryLock(filepath.Join(cfg.DataDir, lockFile))
	if err != nil {
		return nil, fmt.Errorf("lock the data folder %s: %w", cfg.DataDir, err)
	}
	if lock == nil {
		if st, _ := readState(cfg.DataDir); st != nil {
			return nil, fmt.Errorf("process %d is running on %s: stop it first", st.PID, cfg.DataDir)
		}
		return nil, fmt.Errorf("a process is running on %s: stop it first", cfg.DataDir)
	}
	return lock, nil
}

// empty removes our data from a data folder and from a home of Postgres. The caller has locked
// both. Lock files stay, because a lock on a removed file keeps no other process out. The marker,
// fetched programs and files that are not ours stay too.
func empty(dataDir, home string) error {
	entries, err := os.ReadDir(dataDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		isPostgres, _ := filepath.Match("postgres-[0-9]*", name) // complete or not
		if isPostgres || name == stateFile || name == secretFile || name == redisDir || name == ArchivesDir ||
			strings.HasSuffix(name, logSuffix) ||
			strings.HasPrefix(name, "."+stateFile) || strings.HasPrefix(name, "."+secretFile) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dataDir, name)))
		}
	}
	if home != dataDir {
		err = errors.Join(err, os.RemoveAll(home))
	}
	return err
}
