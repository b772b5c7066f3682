package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Standby is a streaming standby of a Durable. Its methods Do and Text run on it.
type Standby struct {
	*Durable
	command func() *exec.Cmd
	kill    func() // returns when the server has ended
}

// Standby copies the server and starts the copy as its standby. It ends with the test. While it is dead, it keeps
// its port.
func (d *Durable) Standby(t testing.TB) *Standby {
	t.Helper()
	from := d.Text(t, "show data_directory")
	data := from + "-standby"
	t.Cleanup(func() { os.RemoveAll(data) })
	begin, end := "pg_backup_start('standby', true)", "select labelfile from pg_backup_stop(false)"
	if version, _ := strconv.Atoi(d.Text(t, "show server_version_num")); version < 150000 {
		begin, end = "pg_start_backup('standby', true, false)", "select labelfile from pg_stop_backup(false, false)"
	}
	d.Do(t, "select "+begin)
	if out, err := exec.Command("cp", "-a", from, data).CombinedOutput(); err != nil {
		t.Fatalf("copy the server: %v: %s", err, out)
	}
	primary, err := url.Parse(d.URL)
	if err != nil {
		t.Fatal(err)
	}
	at, reserved, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reserved.Close() })
	_, port, _ := net.SplitHostPort(at)
	password, _ := primary.User.Password()
	conninfo := fmt.Sprintf("host=%s port=%s user=%s password=%s", primary.Hostname(), primary.Port(),
		primary.User.Username(), password)
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	for name, text := range map[string]string{"backup_label": d.Text(t, end), "standby.signal": "",
		"postgresql.auto.conf": "primary_conninfo = '" + conninfo +
			"'\nwal_retrieve_retry_interval = '100ms'\nfsync = off\n"} {
		path := filepath.Join(data, name)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600),
			os.Chown(path, int(owner.Uid), int(owner.Gid))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(data, "postmaster.pid")); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(d.Text(t, "select setting from pg_config where name = 'BINDIR'"), "postgres")
	primary.Host = at
	s := &Standby{Durable: &Durable{URL: primary.String()}, command: func() *exec.Cmd {
		cmd := exec.Command(program, "-D", data, "-p", port)
		cmd.Dir, cmd.Env = "/", []string{"LC_ALL=C"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
		if os.Geteuid() == 0 {
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
		}
		return cmd
	}}
	s.Start(t)
	t.Cleanup(func() { s.Kill() })
	return s
}

// Start starts the standby, even after Kill, and waits until it may be read.
func (s *Standby) Start(t testing.TB) {
	t.Helper()
	var log SyncBuffer
	cmd, started, done := s.command(), make(chan error, 1), make(chan struct{})
	cmd.Stderr = &log
	go func() {
		runtime.LockOSThread() // the server gets its signal of death when this thread ends
		defer close(done)
		err := cmd.Start()
		if started <- err; err == nil {
			cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("start the standby: %v", err)
	}
	s.kill = func() {
		cmd.Process.Signal(syscall.SIGQUIT)
		<-done
	}
	var err error
	Poll(func() bool {
		s.admin, err = pgx.Connect(context.Background(), s.URL)
		select {
		case <-done:
			return true
		default:
			return err == nil
		}
	})
	if err != nil {
		s.kill()
		t.Fatalf("the standby does not reply: %v\n%s", err, &log)
	}
}

// Kill ends the standby at once, as a failure does.
func (s *Standby) Kill() {
	s.kill()
	s.admin.Close(context.Background())
}

// Pause makes the standby replay nothing more, until Resume.
func (s *Standby) Pause(t testing.TB) {
	t.Helper()
	s.Do(t, `select pg_wal_replay_pause()`)
	Until(t, "the standby pauses", func() bool { return s.Text(t, `select pg_get_wal_replay_pause_state()`) == "paused" })
}

// Resume ends a Pause.
func (s *Standby) Resume(t testing.TB) {
	t.Helper()
	s.Do(t, `select pg_wal_replay_resume()`)
}

// CatchUp waits until the standby has replayed all that the primary has now.
func (s *Standby) CatchUp(t testing.TB, primary *Durable) {
	t.Helper()
	at := primary.Text(t, "select pg_current_wal_flush_lsn()::text")
	Until(t, "the standby has replayed all", func() bool {
		return s.Text(t, "select (pg_last_wal_replay_lsn() >= '"+at+"')::text") == "true"
	})
}
