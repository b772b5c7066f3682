package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A first start, a second one with the data of the first, and the times that are promised.
func TestOpen(t *testing.T) {
	needServer(t)
	cfg := both(t)
	cfg.RedisKind = Server

	begun := time.Now()
	s := open(t, cfg)
	cold := time.Since(begun)
	put(t, s, 1)
	dirs := []string{cfg.DataDir, homeOf(t, cfg.DataDir)}
	if len(processesIn(t, dirs...)) < 2 {
		t.Error("the servers don't run in the folders of the sandbox: tests of their end are void")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left := processesIn(t, dirs...); len(left) > 0 {
		t.Errorf("left after Close: %v", left)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}

	begun = time.Now()
	again := open(t, cfg)
	warm := time.Since(begun)
	if inPostgres, inRedis := number(t, again); inPostgres != 1 || inRedis != 1 {
		t.Errorf("after a restart Postgres has %d and Redis %d, want 1 and 1", inPostgres, inRedis)
	}
	if again.Secret != s.Secret || len(s.Secret) < 32 {
		t.Errorf("secret was %q and is %q", s.Secret, again.Secret)
	}
	t.Logf("cold %v, warm %v", cold, warm)
	if cold > 20*time.Second || warm > 5*time.Second {
		t.Errorf("took %v and %v to start, want less than 20s and 5s", cold, warm)
	}
}

// What others must not read, they can't; what must be durable, is.
func TestSettings(t *testing.T) {
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
		// lc_ctype isn't a setting any more from Postgres 16 on.
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

// Paths may hold what paths hold.
func TestOddPath(t *testing.T) {
	needServer(t)
	cfg := Config{Postgres: true, Redis: true, RedisKind: Server, Throwaway: true,
		DataDir: filepath.Join(t.TempDir(), `秒杀 [1*] "data" it's \ 100%`)}
	put(t, open(t, cfg), 1)
}

func TestRefusals(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "letter.txt"), []byte("dear"), 0o600); err != nil {
		t.Fatal(err)
	}
	used := Config{DataDir: filepath.Join(t.TempDir(), "data"), Redis: true, RedisKind: Embedded}
	if err := open(t, used).Close(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	for _, c := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"nothing wanted", Config{}, "nothing to start"},
		{"unknown kind", Config{Redis: true, RedisKind: "memcached"}, `"memcached"`},
		{"folder of somebody else", Config{Redis: true, DataDir: full}, "holds other things"},
		{"folder below a file", Config{Redis: true, DataDir: filepath.Join(full, "letter.txt", "data")}, "choose another --data-dir"},
		{"no Redis server", Config{Redis: true, RedisKind: Server}, "apt install redis-server"},
		{"data that would be thrown away", Config{Redis: true, Throwaway: true, DataDir: used.DataDir}, "holds data already"},
		{"no Postgres, no network", Config{Postgres: true, PostgresBin: "fetch", PostgresMirror: "http://127.0.0.1:1"}, "apt install postgresql"},
		{"no Postgres where it is said to be", Config{Postgres: true, PostgresBin: full}, "initdb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.cfg.DataDir == "" {
				c.cfg.DataDir = both(t).DataDir
			}
			s, err := Open(t.Context(), c.cfg)
			if err == nil {
				s.Close()
				t.Fatal("opened")
			}
			t.Log(err)
			if text := err.Error(); !strings.Contains(text, c.want) || strings.Contains(text, "\n") {
				t.Errorf("error is %q, want one line with %q", text, c.want)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(used.DataDir, secretFile)); err != nil {
		t.Errorf("the data that was not to be thrown away is gone: %v", err)
	}
}
