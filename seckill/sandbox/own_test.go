//go:build unix

package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Other users cannot read the secrets, and the stores are durable.
func TestServersAreDurableAndClosedToOthers(t *testing.T) {
	needServer(t)
	cfg := both(t)
	cfg.RedisKind = Server
	s := open(t, cfg)
	for _, name := range []string{secretFile, stateFile} {
		info, err := os.Stat(filepath.Join(cfg.DataDir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", name, info.Mode().Perm())
		}
	}
	conn, err := pgx.Connect(t.Context(), s.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for name, want := range map[string]string{
		"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "listen_addresses": "127.0.0.1",
		"unix_socket_directories": "", "max_connections": "200", "server_encoding": "UTF8", "lc_ctype": "C",
		"password_encryption": "scram-sha-256", "TimeZone": "UTC",
	} {
		var got string
		// lc_ctype is no setting from Postgres 16 on.
		sql := `select coalesce(current_setting($1, true), (select datctype from pg_database where datname = current_database()))`
		if err := conn.QueryRow(t.Context(), sql, name).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	got, err := client(t, s).ConfigGet(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"appendonly": "yes", "appendfsync": "everysec", "save": "", "maxmemory-policy": "noeviction", "bind": "127.0.0.1",
	} {
		if got[name] != want {
			t.Errorf("Redis has %s %q, want %q", name, got[name], want)
		}
	}
}

// After kill -9 of the owner the servers end too, and the next start has all data that was written.
func TestServersEndWithAKilledOwner(t *testing.T) {
	needServer(t)
	cfg := both(t)
	cfg.RedisKind = Server
	for n := 1; n <= 3; n++ {
		h := startHelper(t, cfg)
		put(t, &h.Sandbox, n)
		dirs := []string{cfg.DataDir, homeOf(t, cfg.DataDir)}
		if len(processesIn(t, dirs...)) < 2 {
			t.Fatal("no servers are running")
		}
		h.kill(t)
		if n < 3 { // the third time the next start is immediate
			until(t, "the servers end with their owner", func() bool { return len(processesIn(t, dirs...)) == 0 })
		}
		s := open(t, cfg)
		if s.Shared != 0 {
			t.Errorf("joined process %d, which is dead", s.Shared)
		}
		if inPostgres, inRedis := stored(t, s); inPostgres != n || inRedis != n {
			t.Errorf("after the crash Postgres has %d and Redis %d, want %d and %d", inPostgres, inRedis, n, n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The next owner ends servers that outlive a dead owner, which happens where no signal reaches
// them.
func TestNextOwnerEndsOldServers(t *testing.T) {
	needServer(t)
	cfg := both(t)
	cfg.RedisKind = Server
	h := startHelper(t, cfg)
	put(t, &h.Sandbox, 1)
	// A stopped process does not act on the death signal.
	pid := pidIn(t, filepath.Join(cfg.DataDir, redisDir, redisPID))
	t.Cleanup(func() { syscall.Kill(pid, syscall.SIGCONT) }) // so that it ends if the test fails
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	h.kill(t)
	s := open(t, cfg)
	// A zombie keeps its process id, but has no working folder.
	if _, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err == nil {
		t.Error("the old Redis still runs beside the new one")
	}
	if inPostgres, inRedis := stored(t, s); inPostgres != 1 || inRedis != 1 {
		t.Errorf("Postgres has %d and Redis %d, want 1 and 1", inPostgres, inRedis)
	}
}
