//go:build faults && linux

package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

// Standby is a physical standby. Its primary waits for it with each commit, unless it is asynchronous.
type Standby struct {
	*Postgres
	state       string             // the sync_state that the primary shows of it
	FromPrimary *sandboxtest.Proxy // what it receives
}

const standbyName = "standby"

// newStandby starts a standby of a primary that has just begun. Both are copies of the template, so the standby has all that
// the primary had before it began.
func newStandby(primary *Postgres, data string, asynchronous bool) (s *Standby, err error) {
	s = &Standby{state: "sync"}
	if asynchronous {
		s.state = "async"
	}
	if s.FromPrimary, err = sandboxtest.NewProxy(primary.Addr()); err != nil {
		return nil, err
	}
	if s.Postgres, err = copyTemplate(data); err != nil {
		return s, err
	}
	if err := os.WriteFile(filepath.Join(data, "standby.signal"), nil, 0o644); err != nil {
		return s, err
	}
	s.set = []string{"primary_conninfo=" + s.on(s.FromPrimary.Addr(), "") + "&application_name=" + standbyName, "wal_retrieve_retry_interval=100ms"}
	if err := s.Start(); err != nil {
		return s, err
	}
	return s, s.waitInSync(primary)
}

// waitInSync waits until the primary's commits wait for the standby and no longer for its return, or until it streams to an
// asynchronous one.
func (s *Standby) waitInSync(primary *Postgres) error {
	ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
	defer cancel()
	conn, err := pgx.Connect(ctx, primary.admin())
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	for {
		var inSync bool
		err := conn.QueryRow(ctx, `select exists (select from pg_stat_replication where sync_state = $1 and state = 'streaming')`, s.state).Scan(&inSync)
		if err != nil {
			return fmt.Errorf("see whether the standby is in sync: %w\n%s", err, s.log)
		}
		if inSync {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Promote makes the standby a primary.
func (s *Standby) Promote() error {
	ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.admin())
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	var done bool
	if err := conn.QueryRow(ctx, `select pg_promote(true, 60)`).Scan(&done); err != nil || !done {
		return fmt.Errorf("promote the standby: %v, %w\n%s", done, err, s.log)
	}
	return nil
}

func (s *Standby) close() {
	s.FromPrimary.Cut()
	if s.Postgres != nil && s.process != nil {
		s.End(syscall.SIGQUIT)
	}
}

// kill ends a server as a failure of its machine does: its children end at once too, and send nothing more.
func (p *Postgres) kill() { p.End(syscall.SIGQUIT) }

// promoteStandby kills the primary, and promotes the standby after a pause.
func (env *Environment) promoteStandby(c *Crowd, pause time.Duration) {
	env.DB.kill()
	c.Wait(pause)
	if err := env.Standby.Promote(); err != nil {
		env.T.Error(err)
	}
}
