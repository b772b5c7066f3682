package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A second start has the data of the first.
func TestOpen(t *testing.T) {
	needServer(t)
	cfg := both(t)
	cfg.RedisKind = Server

	s := open(t, cfg)
	put(t, s, 1)
	dirs := []string{cfg.DataDir, homeOf(t, cfg.DataDir)}
	if len(processesIn(t, dirs...)) < 2 {
		t.Error("the servers do not run in the folders of the sandbox: tests of their end prove nothing")
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

	again := open(t, cfg)
	if inPostgres, inRedis := stored(t, again); inPostgres != 1 || inRedis != 1 {
		t.Errorf("after a restart Postgres has %d and Redis %d, want 1 and 1", inPostgres, inRedis)
	}
	if again.Secret != s.Secret || len(s.Secret) < 32 {
		t.Errorf("secret was %q and is %q", s.Secret, again.Secret)
	}
}

// The path of a data folder may contain any characters.
func TestDataFolderHasAnOddPath(t *testing.T) {
	needServer(t)
	cfg := Config{Postgres: true, Redis: true, RedisKind: Server, Throwaway: true,
		DataDir: filepath.Join(t.TempDir(), `秒杀 [1*] "data" it's \ 100%`)}
	put(t, open(t, cfg), 1)
}

func TestOpenRefuses(t *testing.T) {
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
		{"folder with other files", Config{Redis: true, DataDir: full}, "holds other things"},
		{"folder below a file", Config{Redis: true, DataDir: filepath.Join(full, "letter.txt", "data")}, "choose another --data-dir"},
		{"no Redis server", Config{Redis: true, RedisKind: Server}, "apt install redis-server"},
		{"data that Close would delete", Config{Redis: true, Throwaway: true, DataDir: used.DataDir}, "holds data already"},
		{"no Postgres, no network", Config{Postgres: true, PostgresBin: "fetch", PostgresMirror: "https://127.0.0.1:1"}, "apt install postgresql"},
		{"no Postgres in the given folder", Config{Postgres: true, PostgresBin: full}, "initdb"},
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
		t.Errorf("a refusal deleted the data: %v", err)
	}
}
