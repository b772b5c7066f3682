//go:build !windows

package sandbox

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// postgresStopSteps returns the fast shutdown and the immediate one. SIGINT is the fast one:
// Postgres disconnects the clients and writes a checkpoint. SIGQUIT is the immediate one: the next
// start has to recover.
func postgresStopSteps(_, _ string) []func(*os.Process) error {
	return []func(*os.Process) error{send(syscall.SIGINT), send(syscall.SIGQUIT)}
}

// redisStopSteps returns SIGTERM, on which Redis writes and syncs its journal.
func redisStopSteps() []func(*os.Process) error {
	return []func(*os.Process) error{send(syscall.SIGTERM)}
}

// The signals that the servers receive when this process dies. For Postgres it is the immediate
// shutdown: the next start would have to wait for the checkpoint of a fast one, and committed data
// is in the log anyway. For Redis it is SIGTERM: it takes milliseconds without a snapshot, syncs
// the journal, and ends a rewrite under way, which SIGKILL would orphan.
var (
	postgresDeathSignal os.Signal = syscall.SIGQUIT
	redisDeathSignal    os.Signal = syscall.SIGTERM
)

func send(sig os.Signal) func(*os.Process) error {
	return func(p *os.Process) error { return p.Signal(sig) }
}

// prepare ties a child to this process. The child has a process group of its own, so that Ctrl-C
// reaches this process only, which then stops the servers in order. The end of the command's
// context ends the command's own children too, such as those of initdb. All of them inherit the
// servers' lock.
func prepare(cmd *exec.Cmd, p program) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.account.credential(), Setpgid: true}
	tie(cmd.SysProcAttr, p.deathSignal)
	if cmd.Cancel != nil {
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	}
	if p.serversLock != nil {
		cmd.ExtraFiles = []*os.File{p.serversLock}
	}
}

// addToJob does nothing: prepare has tied the child to this process, as far as the system can.
func addToJob(*os.Process) error { return nil }

// alive reports whether a process of this id exists.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || err == syscall.EPERM
}

// endOldServers ends the servers whose process ids are in the folders of Postgres and Redis.
func endOldServers(home, redis string, force bool) {
	end := func(path string, sig syscall.Signal) {
		text, err := readFile(path)
		if err != nil {
			return
		}
		line, _, _ := bytes.Cut(text, []byte("\n"))
		pid, err := strconv.Atoi(string(bytes.TrimSpace(line)))
		if err != nil || pid <= 1 {
			return
		}
		if force {
			sig = syscall.SIGKILL
		}
		syscall.Kill(pid, sig)
	}
	for _, path := range globIn(home, "postgres-*/postmaster.pid") {
		end(path, syscall.SIGQUIT)
	}
	end(filepath.Join(redis, redisPID), syscall.SIGTERM)
}
