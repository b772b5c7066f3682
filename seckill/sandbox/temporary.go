package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The names of temporary folders. The lock of their kind is held while one is made or removed, and the lock in a folder
// for as long as the command lives that made it.
const (
	temporaryPrefix = "temporary-"
	temporariesLock = "temporaries.lock"
	commandLock     = "command.lock"
)

// Temporary is a data folder for one command, inside another data folder whose fetched programs it uses. If the command
// is killed, the next NewTemporary or Reset of the other folder removes it.
type Temporary struct {
	DataDir string // to open a sandbox on

	cfg  Config // of the other folder
	lock *os.File
}

// NewTemporary makes a temporary folder in the data folder of cfg, which may be in use, and removes those of commands
// that were killed. The caller must call Remove.
func NewTemporary(ctx context.Context, cfg Config) (*Temporary, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := makeDataDir(cfg.DataDir); err != nil {
		return nil, err
	}
	all, err := lockTemporaries(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	if err := removeDeadTemporaries(ctx, cfg); err != nil {
		return nil, err
	}
	t := &Temporary{DataDir: filepath.Join(cfg.DataDir, temporaryPrefix+strings.ToLower(rand.Text()[:12])), cfg: cfg}
	if err = makeDataDir(t.DataDir); err == nil {
		t.lock, err = tryLock(filepath.Join(t.DataDir, commandLock))
	}
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", errors.Join(err, os.RemoveAll(t.DataDir)))
	}
	return t, nil
}

// Remove removes the folder with all its data, even after the end of ctx. The processes that ran on it must have ended.
func (t *Temporary) Remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*openLimit)
	defer cancel()
	all, err := lockTemporaries(ctx, t.cfg)
	if err != nil {
		return err
	}
	defer all.Close()
	t.lock.Close()
	return errors.Join(removeTemporary(ctx, t.cfg, t.DataDir), removeDeadTemporaries(ctx, t.cfg))
}

// lockTemporaries waits for the lock of all temporary folders of a data folder.
func lockTemporaries(ctx context.Context, cfg Config) (*os.File, error) {
	for {
		lock, err := tryLock(filepath.Join(cfg.DataDir, temporariesLock))
		if lock != nil || err != nil {
			return lock, err
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return nil, fmt.Errorf("wait for the temporary folders of %s: %w", cfg.DataDir, err)
		}
	}
}

// removeDeadTemporaries removes the temporary folders of commands that were killed. One on which a process still runs
// stays: it may be about to end. The caller holds the lock of all.
func removeDeadTemporaries(ctx context.Context, cfg Config) error {
	for _, dir := range globIn(cfg.DataDir, temporaryPrefix+"*") {
		if ours, err := isOurs(dir); err != nil || !ours {
			os.Remove(dir) // empty, if its command was killed before it could mark the folder
			continue
		}
		inUse := false
		for _, name := range []string{commandLock, lockFile} {
			lock, err := tryLock(filepath.Join(dir, name))
			if err != nil {
				return fmt.Errorf("remove what a killed command has left: %w", err)
			}
			inUse = inUse || lock == nil
			lock.Close() // nil is allowed
		}
		if inUse {
			continue
		}
		if err := removeTemporary(ctx, cfg, dir); err != nil {
			return err
		}
	}
	return nil
}

func removeTemporary(ctx context.Context, cfg Config, dir string) error {
	cfg.DataDir = dir
	err := Reset(ctx, cfg)
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err != nil {
		return fmt.Errorf("remove a temporary folder: %w", err)
	}
	return nil
}

// isTemporary reports whether a data folder is a temporary one.
func isTemporary(dataDir string) bool {
	ours, err := isOurs(filepath.Dir(dataDir))
	return ours && err == nil && strings.HasPrefix(filepath.Base(dataDir), temporaryPrefix)
}
