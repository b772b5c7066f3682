package sandbox

import (
	"os"
	"path/filepath"
	"testing"
)

func temporaries(t *testing.T, cfg Config) []string {
	t.Helper()
	return globIn(cfg.DataDir, temporaryPrefix+"*")
}

// A command's folder goes with it, and its servers are not those of the folder around it. What a killed command has left goes
// with the next one, but not while a process still runs on it.
func TestTemporaryFolders(t *testing.T) {
	cfg := both(t)
	cfg.Postgres = false
	first, err := NewTemporary(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	own := cfg
	own.DataDir = first.DataDir
	s, outer := open(t, own), open(t, cfg)
	if s.RedisURL == outer.RedisURL || s.Secret == outer.Secret {
		t.Error("the temporary folder has the servers or the secret of the other one")
	}
	second, err := NewTemporary(t.Context(), cfg) // beside the first, which is in use
	if err != nil {
		t.Fatal(err)
	}
	if n := len(temporaries(t, cfg)); n != 2 {
		t.Errorf("%d temporary folders, want 2", n)
	}
	first.lock.Close() // as a kill does; its servers still run
	if err := second.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if left := temporaries(t, cfg); len(left) != 1 || left[0] != first.DataDir {
		t.Errorf("left: %v, want that of the running servers", left)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(cfg.DataDir, temporaryPrefix+"unmarked"), 0o700); err != nil { // killed at the very beginning
		t.Fatal(err)
	}
	third, err := NewTemporary(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if left := temporaries(t, cfg); len(left) != 1 || left[0] != third.DataDir {
		t.Errorf("left: %v, want the new one alone", left)
	}
	third.lock.Close()
	if err := outer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Reset(t.Context(), cfg); err != nil {
		t.Error(err)
	}
	if left := temporaries(t, cfg); len(left) != 0 {
		t.Errorf("left after Reset: %v", left)
	}
}

// What is fetched is kept in the folder around the temporary one.
func TestTemporaryFolderSharesPrograms(t *testing.T) {
	cfg := both(t)
	temporary, err := NewTemporary(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	outer, err := findPlace(cfg.DataDir, "id", cfg.Log)
	if err != nil {
		t.Skip(err) // no account may run Postgres there
	}
	inner, err := findPlace(temporary.DataDir, "id", cfg.Log)
	if err != nil || inner.base != outer.base || inner.home == outer.home {
		t.Errorf("the programs are in %s, want %s; the data is in %s: %v", inner.base, outer.base, inner.home, err)
	}
	if err := temporary.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}
