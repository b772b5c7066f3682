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

// Reset empties the data folder of cfg: databases, Redis, secret and logs go; programs that were fetched stay. It refuses
// while a process runs on the folder, and a folder that isn't ours. A folder that isn't there is empty already.
func Reset(ctx context.Context, cfg Config) error {
	cfg.Postgres = true // which servers are wanted doesn't matter here
	if err := cfg.Validate(); err != nil {
		return err
	}
	ours, err := isOurs(cfg.DataDir)
	if err != nil {
		return err
	}
	if !ours {
		if _, err := os.Stat(cfg.DataDir); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("%s is not a data folder of the sandbox: nothing was removed", cfg.DataDir)
	}
	lock, err := tryLock(filepath.Join(cfg.DataDir, lockFile))
	if err != nil {
		return fmt.Errorf("lock the data folder %s: %w", cfg.DataDir, err)
	}
	if lock == nil {
		if st, _ := readState(cfg.DataDir); st != nil {
			return fmt.Errorf("process %d is running on %s: stop it first", st.PID, cfg.DataDir)
		}
		return fmt.Errorf("a process is running on %s: stop it first", cfg.DataDir)
	}
	defer lock.Close()

	// Without a secret there is no telling whose a home elsewhere is; the next start begins it anew.
	home := cfg.DataDir
	if _, err := os.Stat(filepath.Join(cfg.DataDir, secretFile)); err == nil {
		o := &owner{cfg: cfg, lock: lock}
		if o.secret, err = loadSecret(cfg.DataDir); err != nil {
			o.secret = "" // spoilt, and about to go
		}
		if o.place, err = findPlace(cfg.DataDir, derive(o.secret, "place"), cfg.Log); err != nil {
			return err
		}
		bond, err := o.leftOvers(ctx)
		if err != nil {
			return err
		}
		defer bond.Close()
		home = o.place.home
	}
	if err := empty(cfg.DataDir, home); err != nil {
		return fmt.Errorf("empty %s: %w", cfg.DataDir, err)
	}
	return nil
}

// empty removes what is ours from a data folder and a home of Postgres; both are locked by the caller. Lock files stay, for
// a lock on a file that was removed keeps nobody out; so do the marker and fetched programs. Strangers' files stay too.
func empty(dataDir, home string) error {
	if home == "" {
		home = dataDir
	}
	entries, err := os.ReadDir(dataDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case name == stateFile, name == secretFile, name == redisDir,
			strings.HasSuffix(name, logSuffix),
			strings.HasPrefix(name, "."+stateFile), strings.HasPrefix(name, "."+secretFile),
			isPostgresDir(name):
			err = errors.Join(err, os.RemoveAll(filepath.Join(dataDir, name)))
		}
	}
	if home != dataDir {
		err = errors.Join(err, os.RemoveAll(home))
	}
	return err
}
