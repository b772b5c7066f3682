//go:build unix

package sandbox

import (
	"os"
	"path/filepath"
	"testing"
)

// needRoot skips unless we are root, who has to lend Postgres another account, and returns that account.
func needRoot(t *testing.T) account {
	t.Helper()
	as := otherAccount()
	if !as.set {
		t.Skip("only root runs Postgres as somebody else")
	}
	return as
}

func TestReaches(t *testing.T) {
	as := needRoot(t)
	dir := passableDir(t)
	for _, c := range []struct {
		name     string
		mode     os.FileMode
		uid, gid uint32
		want     bool
	}{
		{"closed", 0o700, 0, 0, false},
		{"readable only", 0o744, 0, 0, false},
		{"for all", 0o711, 0, 0, true},
		{"his own", 0o700, as.uid, 0, true},
		{"his own, not for him", 0o077, as.uid, 0, false},
		{"of his group", 0o710, 0, as.gid, true},
		{"of his group, not for it", 0o701, 0, as.gid, false},
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
		if got := as.reaches(below); got != c.want {
			t.Errorf("%s: reaches is %v, want %v", c.name, got, c.want)
		}
		if os.Chmod(path, 0o700) != nil {
			t.Error(c.name)
		}
	}
}
