package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Data whose Postgres is not on this machine is kept, and no empty database is made in its place, beside the Redis of
// the old one. The error names the version, its package and the ways out.
func TestDataOfAMissingPostgresIsRefused(t *testing.T) {
	for _, c := range []struct {
		data  int // version
		bin   string
		wants []string
	}{
		{99, "", []string{"apt install postgresql-99"}},
		{9, "", []string{"apt install postgresql-9,"}}, // an older one, too
		{99, fetchOnly, []string{"is of Postgres 99", "none is usable"}},
	} {
		t.Run(fmt.Sprint(c.data, c.bin), func(t *testing.T) {
			cfg := both(t)
			cfg.PostgresBin, cfg.PostgresMirror = c.bin, "https://127.0.0.1:1"
			redisOnly := cfg
			redisOnly.Postgres, redisOnly.RedisKind, redisOnly.PostgresBin = false, Embedded, ""
			if err := open(t, redisOnly).Close(); err != nil { // makes the folder and its secret
				t.Fatal(err)
			}
			home := homeOf(t, cfg.DataDir)
			data := filepath.Join(home, fmt.Sprint("postgres-", c.data))
			err := errors.Join(os.MkdirAll(data, 0o700), os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte(fmt.Sprintln(c.data)), 0o600))
			if home != cfg.DataDir { // the home knows its folder
				err = errors.Join(err, os.WriteFile(filepath.Join(home, homeFile), []byte(idOf(t, cfg.DataDir)+"\n"+cfg.DataDir+"\n"), 0o600))
			}
			if account := postgresAccount(); account.set {
				err = errors.Join(err, account.chown(data), account.chown(filepath.Join(data, "PG_VERSION")))
			}
			if err != nil {
				t.Fatal(err)
			}
			s, err := Open(t.Context(), cfg)
			if err == nil {
				s.Close()
				t.Fatal("opened")
			}
			t.Log(err)
			for _, want := range append(c.wants, home, "--data-dir", "miaosha reset") {
				if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("the error is %q, want one line with %q", err, want)
				}
			}
			if made, _ := filepath.Glob(filepath.Join(home, "postgres-*")); len(made) != 1 {
				t.Errorf("there are %v, want the old data alone", made)
			}
		})
	}
}

// A start that was killed while it made its database leaves nothing behind, and no warning.
func TestAKillInTheFirstStartLeavesNothing(t *testing.T) {
	cfg := both(t)
	cfg.Redis = false
	redisOnly := cfg
	redisOnly.Postgres, redisOnly.Redis, redisOnly.RedisKind = false, true, Embedded
	if err := open(t, redisOnly).Close(); err != nil {
		t.Fatal(err)
	}
	home := homeOf(t, cfg.DataDir)
	for _, name := range []string{"postgres-15.new", "postgres-99.new"} {
		half := filepath.Join(home, name)
		if err := errors.Join(os.MkdirAll(half, 0o700), os.WriteFile(filepath.Join(half, "PG_VERSION"), []byte("99\n"), 0o600),
			os.WriteFile(half+".pw", []byte("secret"), 0o600)); err != nil {
			t.Fatal(err)
		}
		if account := postgresAccount(); account.set {
			if err := errors.Join(account.chown(half), account.chown(filepath.Join(half, "PG_VERSION")), account.chown(half+".pw")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if home != cfg.DataDir {
		if err := os.WriteFile(filepath.Join(home, homeFile), []byte(idOf(t, cfg.DataDir)+"\n"+cfg.DataDir+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	s := open(t, cfg)
	put(t, s, 1)
	if log.Len() > 0 {
		t.Errorf("it says %s", &log)
	}
	if left, _ := filepath.Glob(filepath.Join(home, "*.new*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// idOf returns the id of a data folder.
func idOf(t *testing.T, dataDir string) string {
	t.Helper()
	secret, err := loadSecret(dataDir)
	if err != nil {
		t.Fatal(err)
	}
	return derive(secret, "place")
}

// A Redis that is older than its data would not see it. It is refused, too.
func TestDataOfANewerRedisIsRefused(t *testing.T) {
	needServer(t)
	cfg := both(t)
	cfg.Postgres, cfg.RedisKind = false, Server
	journal := filepath.Join(cfg.DataDir, redisDir, "appendonlydir")
	if err := errors.Join(makeDataDir(cfg.DataDir), os.MkdirAll(journal, 0o700)); err != nil {
		t.Fatal(err)
	}
	old := t.TempDir()
	if err := os.WriteFile(filepath.Join(old, "redis-server"), []byte("#!/bin/sh\necho 'Redis server v=6.2.14 sha=0'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", old+":"+os.Getenv("PATH"))
	s, err := Open(t.Context(), cfg)
	if err == nil {
		s.Close()
		t.Fatal("opened")
	}
	if text := err.Error(); !strings.Contains(text, "older than the data in "+journal) || strings.Contains(text, "\n") {
		t.Errorf("the error is %q", text)
	}
}
