//go:build unix

package sandbox

import (
	"os"
	"path/filepath"
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
