//go:build unix

package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// kill -9 of the owner takes the servers with it, and the next start has all that was written.
func TestOwnerIsKilled(t *testing.T) {
	needServer(t)
	cfg := both(t)
	cfg.RedisKind = Server
	for n := 1; n <= 3; n++ {
		h := startHelper(t, cfg)
		put(t, &h.Sandbox, n)
		dirs := []string{cfg.DataDir, homeOf(t, cfg.DataDir)}
		if len(processesIn(t, dirs...)) < 2 {
			t.Fatal("no servers to be seen")
		}
		h.kill(t)
		begun := time.Now()
		if n < 3 { // the third time the next start comes at once
			until(t, 5*time.Second, "the servers go down with their owner", func() bool { return len(processesIn(t, dirs...)) == 0 })
			t.Logf("servers were gone after %v", time.Since(begun))
		}
		begun = time.Now()
		s := open(t, cfg)
		t.Logf("ready after a crash in %v", time.Since(begun))
		if s.Shared != 0 {
			t.Errorf("joined process %d, which is dead", s.Shared)
		}
		if inPostgres, inRedis := number(t, s); inPostgres != n || inRedis != n {
			t.Errorf("after the crash Postgres has %d and Redis %d, want %d and %d", inPostgres, inRedis, n, n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// kill -9 of a server: it comes back by itself, on the same address, with its data.
func TestServerIsKilled(t *testing.T) {
	needServer(t)
	cfg := both(t)
	cfg.RedisKind = Server
	s := open(t, cfg)
	put(t, s, 1)
	pids, err := filepath.Glob(filepath.Join(homeOf(t, cfg.DataDir), "postgres-*", "postmaster.pid"))
	if err != nil || len(pids) != 1 {
		t.Fatalf("%v, %v", pids, err)
	}
	for _, path := range append(pids, filepath.Join(cfg.DataDir, redisDir, redisPID)) {
		before := pidIn(t, path)
		// Ctrl-C at the terminal goes to our process group, not to theirs.
		if group, err := syscall.Getpgid(before); err != nil || group == syscall.Getpgrp() {
			t.Errorf("%s: the server is in process group %d, %v, and so are we", path, group, err)
		}
		if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		until(t, 20*time.Second, "a new process after "+path, func() bool { return pidIn(t, path) != before })
	}
	until(t, 20*time.Second, "both answer again", func() bool {
		return pingPostgres(t.Context(), s.DatabaseURL) == nil && pingRedis(t.Context(), s.RedisURL) == nil
	})
	if inPostgres, inRedis := number(t, s); inPostgres != 1 || inRedis != 1 {
		t.Errorf("Postgres has %d and Redis %d, want 1 and 1", inPostgres, inRedis)
	}
}

// pidIn reads the process id in a file; 0 if it isn't there at this moment.
func pidIn(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	pid, _ := strconv.Atoi(string(bytes.TrimSpace(line)))
	return pid
}

// The servers of a dead owner that stay, as they may where no signal tells them, are ended by the next one.
func TestLeftOvers(t *testing.T) {
	needServer(t)
	cfg := both(t)
	cfg.RedisKind = Server
	h := startHelper(t, cfg)
	put(t, &h.Sandbox, 1)
	// A stopped process doesn't act on the signal of its parent's death.
	pid := pidIn(t, filepath.Join(cfg.DataDir, redisDir, redisPID))
	t.Cleanup(func() { syscall.Kill(pid, syscall.SIGCONT) }) // to its end, should the test fail
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	h.kill(t)
	s := open(t, cfg)
	// A dead process that nobody has waited for keeps its id, but not its folder.
	if _, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err == nil {
		t.Error("the old Redis lives on beside the new one")
	}
	if inPostgres, inRedis := number(t, s); inPostgres != 1 || inRedis != 1 {
		t.Errorf("Postgres has %d and Redis %d, want 1 and 1", inPostgres, inRedis)
	}
}
