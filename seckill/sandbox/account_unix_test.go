//go:build unix

package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// needRoot skips the test unless root runs it, and returns the account that runs Postgres for root.
func needRoot(t *testing.T) account {
	t.Helper()
	other := postgresAccount()
	if !other.set {
		t.Skip("only root runs Postgres as another user")
	}
	return other
}

func TestAccountCanReachAFolder(t *testing.T) {
	other := needRoot(t)
	dir := passableDir(t)
	for _, c := range []struct {
		name     string
		mode     os.FileMode
		uid, gid uint32
		want     bool
	}{
		{"closed", 0o700, 0, 0, false},
		{"readable only", 0o744, 0, 0, false},
		{"open to all", 0o711, 0, 0, true},
		{"its own", 0o700, other.uid, 0, true},
		{"its own, closed to it", 0o077, other.uid, 0, false},
		{"of its group", 0o710, 0, other.gid, true},
		{"of its group, closed to the group", 0o701, 0, other.gid, false},
	} {
		path := filepath.Join(dir, c.name)
		below := filepath.Join(path, "below")
		if err := os.MkdirAll(below, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, int(c.uid), int(c.gid)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		if got := other.canReach(below); got != c.want {
			t.Errorf("%s: canReach is %v, want %v", c.name, got, c.want)
		}
		if os.Chmod(path, 0o700) != nil {
			t.Error(c.name)
		}
	}
}

// Files that a copy by another user has taken over are named, with the command that returns them.
func TestFilesOfAnotherUserAreNamed(t *testing.T) {
	other := needRoot(t)
	dir := filepath.Join(passableDir(t), "data")
	inside := filepath.Join(dir, "redis", "appendonlydir")
	if err := os.MkdirAll(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{lockFile, "letter.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	give := func(path string, uid uint32) {
		t.Helper()
		if err := os.Chown(path, int(uid), -1); err != nil {
			t.Fatal(err)
		}
	}
	check := func() error { return checkFiles(dir, other, lockFile, "redis", "redis/*") }
	for _, path := range []string{filepath.Join(dir, lockFile), filepath.Join(dir, "redis"), inside} {
		give(path, other.uid)
	}
	if err := check(); err != nil {
		t.Errorf("its own files: %v", err)
	}
	if err := checkFiles(dir, account{}, lockFile); err != nil {
		t.Errorf("root may use all files: %v", err)
	}
	for _, path := range []string{filepath.Join(dir, lockFile), inside} {
		give(path, 0)
		want := fmt.Sprintf("%s belongs to the user root, not to %s, as after a copy by another user: give it back (chown -R %[2]s %q as root), or choose another --data-dir", path, other.name, dir)
		if err := check(); err == nil || err.Error() != want {
			t.Errorf("the error is %v, want %s", err, want)
		}
		give(path, other.uid)
	}
}

// A data folder that root has copied stops the start of Postgres and of another user in one line.
func TestAFolderCopiedByRootSaysHowToGiveItBack(t *testing.T) {
	other := needRoot(t)
	cfg := Config{DataDir: filepath.Join(passableDir(t), "data"), Postgres: true}
	t.Cleanup(func() { Reset(context.Background(), cfg) })
	s := open(t, cfg)
	put(t, s, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := filepath.Glob(filepath.Join(cfg.DataDir, "postgres-*", "PG_VERSION"))
	if err != nil || len(data) != 1 {
		t.Fatal(data, err)
	}
	folder := filepath.Dir(data[0])
	if out, err := exec.Command("chown", "-R", "root", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, err = Open(t.Context(), cfg)
	way := fmt.Sprintf("chown -R %s %q", other.name, folder)
	if err == nil || !strings.Contains(err.Error(), way) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("the error is %v, want one line with %s", err, way)
	}
	if out, err := exec.Command("sh", "-c", way).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if inPostgres, _ := stored(t, open(t, cfg)); inPostgres != 1 {
		t.Errorf("Postgres has %d, want 1", inPostgres)
	}
}
