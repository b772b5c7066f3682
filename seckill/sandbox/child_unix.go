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

// Postgres: SIGINT is its fast shutdown (clients are cut off, a checkpoint written), SIGQUIT the immediate one, which
// leaves recovery to the next start. Redis writes and syncs its journal on SIGTERM.
func postgresStops(_, _ string) []func(*os.Process) error {
	return []func(*os.Process) error{send(syscall.SIGINT), send(syscall.SIGQUIT)}
}

func redisStops() []func(*os.Process) error { return []func(*os.Process) error{send(syscall.SIGTERM)} }

// What they get when we die. Postgres: the immediate shutdown, for the checkpoint of a fast one would keep the next start
// waiting, and what was committed is in the log anyway. Redis: SIGTERM, for it takes milliseconds without a snapshot,
// syncs the journal and ends a rewrite that is under way, which SIGKILL would orphan.
var (
	postgresDies os.Signal = syscall.SIGQUIT
	redisDies    os.Signal = syscall.SIGTERM
)

func send(sig os.Signal) func(*os.Process) error {
	return func(p *os.Process) error { return p.Signal(sig) }
}

// endAsGroup has the end of a command's context end the children of the command as well, such as those of initdb.
func endAsGroup(cmd *exec.Cmd) {
	if cmd.Cancel != nil {
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	}
}

// alive reports whether a process of this id exists.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || err == syscall.EPERM
}

// endLeftOvers ends the servers whose process ids lie in the folders of Postgres and Redis.
func endLeftOvers(home, redis string, force bool) {
	end := func(path string, sig syscall.Signal) {
		text, err := os.ReadFile(path)
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
