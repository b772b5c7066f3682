//go:build unix

package sandbox

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// After kill -9 a server is started again, on the same address, with its data.
func TestKilledServerIsStartedAgain(t *testing.T) {
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
		// Ctrl-C at the terminal must not reach the servers, so they are in other process groups.
		if group, err := syscall.Getpgid(before); err != nil || group == syscall.Getpgrp() {
			t.Errorf("%s: the server is in process group %d (%v), which is ours", path, group, err)
		}
		if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		until(t, "a new process after "+path, func() bool { return pidIn(t, path) != before })
	}
	until(t, "both answer again", func() bool {
		return pingPostgres(t.Context(), s.DatabaseURL) == nil && pingRedis(t.Context(), s.RedisURL) == nil
	})
	if inPostgres, inRedis := stored(t, s); inPostgres != 1 || inRedis != 1 {
		t.Errorf("Postgres has %d and Redis %d, want 1 and 1", inPostgres, inRedis)
	}
}

// pidIn returns the process id in a file; 0 if the file does not exist at this moment.
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
