//go:build unix

package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A data folder that another account owns, or that every account may write to, is refused: its
// owner could have laid anything there, such as a configuration that runs a command. So is one that
// has our marker.
func TestStrangersFolderIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	const stranger = 4711
	for _, c := range []struct {
		name   string
		marked bool
		uid    int
		mode   os.FileMode
		want   string
	}{
		{"empty", false, stranger, 0o755, "belongs to the user 4711"},
		{"marked", true, stranger, 0o755, "belongs to the user 4711"},
		{"open to all", true, 0, 0o777, "every user may write to"},
		{"open to all, sticky", false, 0, 0o777 | os.ModeSticky, "every user may write to"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(passableDir(t), "data")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if c.marked {
				if err := os.WriteFile(filepath.Join(dir, markerFile), []byte(markerText), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(os.Chown(dir, c.uid, c.uid), os.Chmod(dir, c.mode)); err != nil {
				t.Fatal(err)
			}
			before := names(t, dir)
			cfg := Config{DataDir: dir, Redis: true, RedisKind: Embedded}
			s, err := Open(t.Context(), cfg)
			if err == nil {
				s.Close()
			}
			for what, err := range map[string]error{"Open": err, "Reset": Reset(t.Context(), cfg)} {
				if what == "Reset" && !c.marked {
					continue // it is no data folder: another refusal
				}
				if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s returns %v, want one line with %q", what, err, c.want)
				}
			}
			if after := names(t, dir); after != before {
				t.Errorf("the folder held %q and holds %q", before, after)
			}
		})
	}
}

// No file of the sandbox is opened through a link, which could lead to any file that we may write.
func TestLinksAreNotFollowed(t *testing.T) {
	const text = "0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, name := range []string{lockFile, secretFile, serversLockFile, stateFile, "postgres" + logSuffix} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			elsewhere, link := filepath.Join(dir, "elsewhere"), filepath.Join(dir, name)
			if err := errors.Join(os.WriteFile(elsewhere, []byte(text), 0o600), os.Symlink("elsewhere", link)); err != nil {
				t.Fatal(err)
			}
			var err error
			switch name {
			case secretFile:
				_, err = loadSecret(dir)
			case stateFile:
				_, err = readState(dir)
			case lockFile, serversLockFile:
				var f *os.File
				if f, err = tryLock(link); f != nil {
					f.Close()
				}
			default:
				var l *serverLog
				if l, err = openLog(link); l != nil {
					l.file.Close()
				}
			}
			if !errors.Is(err, syscall.ELOOP) {
				t.Errorf("the error is %v, want one of a link", err)
			}
			if got, err := os.ReadFile(elsewhere); string(got) != text {
				t.Errorf("the other file holds %q, %v", got, err)
			}
		})
	}
}
