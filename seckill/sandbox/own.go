package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// owner is the one process that runs the servers of a data folder.
type owner struct {
	cfg         Config
	secret      string
	lock        *os.File // of the data folder; children do not inherit it
	place       place
	serversLock *os.File // the lock that the servers hold too, see place.go
	stop        func()   // ends the embedded Redis; nil if there is none

	postgres, redis *child // nil if this process does not run it

	once     sync.Once
	closeErr error
}

// own starts the servers on a folder whose lock this process holds. After an error nothing is left
// running.
func own(ctx context.Context, cfg Config, lock *os.File) (_ *Sandbox, err error) {
	o := &owner{cfg: cfg, lock: lock}
	defer func() {
		if err != nil {
			if closeErr := o.close(); closeErr != nil {
				err = fmt.Errorf("%w; then %w", err, closeErr)
			}
		}
	}()
	if err := removeState(cfg.DataDir); err != nil {
		return nil, err
	}
	if cfg.Throwaway && !cfg.Copy {
		// Close would delete it.
		if _, err := os.Stat(filepath.Join(cfg.DataDir, secretFile)); err == nil {
			o.cfg.Throwaway = false
			return nil, fmt.Errorf("%s holds data already: it can't be thrown away", cfg.DataDir)
		}
	}
	if o.secret, err = loadSecret(cfg.DataDir); err != nil {
		return nil, err
	}
	if o.place, err = findPlace(cfg.DataDir, derive(o.secret, "place"), cfg.Log); err != nil {
		return nil, err
	}
	if o.serversLock, err = o.lockServers(ctx); err != nil {
		return nil, err
	}
	if err := o.place.claim(cfg.Log); err != nil {
		return nil, err
	}
	for _, data := range globIn(o.place.home, "postgres-[0-9]*") {
		if err := checkFiles(data, o.place.account, ".", "*"); err != nil {
			return nil, err
		}
	}
	cfg.Say("the sandbox starts its servers in " + cfg.DataDir)

	st := state{PID: os.Getpid()}
	group, starting := errgroup.WithContext(ctx)
	if cfg.Postgres {
		group.Go(func() (err error) {
			st.DatabaseURL, st.Postgres, err = o.startPostgres(starting)
			return err
		})
	}
	if cfg.Redis {
		group.Go(func() (err error) {
			st.RedisURL, st.RedisKind, err = o.startRedis(starting)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if err := st.write(cfg.DataDir); err != nil {
		return nil, fmt.Errorf("tell others where the servers are: %w", err)
	}
	return &Sandbox{
		DatabaseURL: st.DatabaseURL,
		RedisURL:    st.RedisURL,
		RedisKind:   st.RedisKind,
		Postgres:    st.Postgres,
		Secret:      o.secret,
		DataDir:     cfg.DataDir,
		owner:       o,
	}, nil
}

// selfEndLimit is how long the servers of an owner that died may take to end.
const selfEndLimit = 2 * time.Second

// lockServers takes the servers' lock. It waits for the servers of an owner that died. On Linux
// they end with their owner, in a moment. On other systems, and if they hang, lockServers ends
// them: first it asks them, then it kills them. The process ids on disk can be trusted, because a
// held lock proves that a server is alive.
func (o *owner) lockServers(ctx context.Context) (*os.File, error) {
	started := time.Now()
	sent := 0
	for {
		serversLock, err := tryLock(filepath.Join(o.place.home, serversLockFile))
		if serversLock != nil || err != nil {
			return serversLock, err
		}
		switch waited := time.Since(started); {
		case waited > openLimit:
			return nil, fmt.Errorf(
				"servers of an earlier run still hold %s: end the processes postgres and redis-server that run there",
				o.place.home)
		case waited > time.Duration(sent*sent)*5*time.Second+selfEndLimit:
			sent++
			o.cfg.Log.Warn("ending servers of an earlier run", "folder", o.place.home)
			endOldServers(o.place.home, filepath.Join(o.cfg.DataDir, redisDir), sent > 1)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return nil, fmt.Errorf("wait for the servers of an earlier run: %w", err)
		}
	}
}

// close stops what was started, in order, and releases the folder. It is safe on an owner that is
// only half started.
func (o *owner) close() error {
	o.once.Do(func() {
		// No process may join from here on.
		errs := []error{removeState(o.cfg.DataDir)}
		if o.stop != nil {
			o.stop()
		}
		if o.redis != nil {
			o.redis.close()
		}
		if o.postgres != nil {
			o.postgres.close()
		}
		if o.cfg.Throwaway && o.serversLock != nil {
			errs = append(errs, empty(o.cfg.DataDir, o.place.home))
		}
		if o.serversLock != nil {
			errs = append(errs, o.serversLock.Close())
		}
		errs = append(errs, o.lock.Close())
		if err := errors.Join(errs...); err != nil {
			o.closeErr = fmt.Errorf("close the sandbox: %w", err)
		}
	})
	return o.closeErr
}

func removeState(dir string) error {
	if err := os.Remove(filepath.Join(dir, stateFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the state of an earlier run: %w", err)
	}
	return nil
}
