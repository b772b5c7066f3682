package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestResetEmptiesADataFolder(t *testing.T) {
	cfg := both(t)
	if err := Reset(t.Context(), cfg); err != nil {
		t.Errorf("a folder that does not exist: %v", err)
	}
	exists := func(want bool) {
		t.Helper()
		if got, err := Exists(cfg); err != nil || got != want {
			t.Errorf("a sandbox exists: %t, %v; want %t", got, err, want)
		}
	}
	exists(false)
	if _, err := os.Stat(cfg.DataDir); err == nil {
		t.Error("to look for a sandbox has made its folder")
	}
	s := open(t, cfg)
	exists(true)
	put(t, s, 1)

	err := Reset(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "is running on") || strings.Contains(err.Error(), "\n") {
		t.Errorf("while a process runs: %v, want one line about it", err)
	}
	if inPostgres, _ := stored(t, s); inPostgres != 1 {
		t.Error("the refusal changed the data")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	exists(true)

	home := homeOf(t, cfg.DataDir)
	foreign := filepath.Join(cfg.DataDir, "notes.txt")
	if err := os.WriteFile(foreign, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(cfg.DataDir, ArchivesDir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cfg.DataDir, ArchivesDir, "a.jsonl.gz"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Reset(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(cfg.DataDir, secretFile), filepath.Join(cfg.DataDir, redisDir), filepath.Join(cfg.DataDir, ArchivesDir), home + "/postgres-*"} {
		if left, _ := filepath.Glob(path); len(left) > 0 {
			t.Errorf("left after Reset: %v", left)
		}
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("a file that is not ours is gone: %v", err)
	}
	exists(false)
	again := open(t, cfg)
	if again.Secret == s.Secret {
		t.Error("the secret is still the old one")
	}
	execSQL(t, again, `create table numbers (n integer)`) // it does not exist any more
}

func TestResetRefusesAForeignFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, redisDir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Reset(t.Context(), Config{DataDir: dir}); err == nil {
		t.Error("the folder was emptied")
	}
	if _, err := os.Stat(filepath.Join(dir, redisDir)); err != nil {
		t.Error(err)
	}
}
