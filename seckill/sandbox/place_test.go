//go:build unix

package sandbox

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// For root, Postgres lies in the data folder if its account can reach that, and elsewhere if not.
// The folders above keep their modes. In both cases Postgres runs as that account.
func TestRootRunsPostgresAsAnotherUser(t *testing.T) {
	other := needRoot(t)
	closed := filepath.Join(t.TempDir(), "home")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		parent string
		inside bool
	}{
		"reachable":   {passableDir(t), true},
		"unreachable": {closed, false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{DataDir: filepath.Join(c.parent, "cache", "miaosha"), Postgres: true, Throwaway: true}
			before, err := os.Stat(c.parent)
			if err != nil {
				t.Fatal(err)
			}
			s := open(t, cfg)
			put(t, s, 1)
			home := homeOf(t, cfg.DataDir)
			if inside := home == cfg.DataDir; inside != c.inside {
				t.Errorf("Postgres lies in %s, the data in %s", home, cfg.DataDir)
			}
			after, err := os.Stat(c.parent)
			if err != nil {
				t.Fatal(err)
			}
			if before.Mode() != after.Mode() {
				t.Errorf("the folder above changed from %v to %v", before.Mode(), after.Mode())
			}
			pids, _ := filepath.Glob(filepath.Join(home, "postgres-*", "postmaster.pid"))
			if len(pids) != 1 {
				t.Fatalf("no Postgres runs in %s", home)
			}
			info, err := os.Stat("/proc/" + strconv.Itoa(pidIn(t, pids[0])))
			if err != nil {
				t.Fatal(err)
			}
			if uid := info.Sys().(*syscall.Stat_t).Uid; uid != other.uid {
				t.Errorf("Postgres runs as user %d, want %d", uid, other.uid)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if left, _ := filepath.Glob(filepath.Join(home, "postgres-*")); len(left) > 0 {
				t.Errorf("Close has left %v", left)
			}
		})
	}
}

// A user other than root needs no other account and no other place.
func TestOtherUsersRunPostgresThemselves(t *testing.T) {
	needRoot(t) // only root can start a process of another account
	needServer(t)
	dir := passableDir(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The test binary lies in a closed folder.
	program := filepath.Join(dir, "helper")
	if text, err := os.ReadFile(self); err != nil {
		t.Fatal(err)
	} else if err := os.WriteFile(program, text, 0o755); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Postgres: true, Redis: true, RedisKind: Server}
	asNobody := func(c *exec.Cmd) {
		c.Path, c.Dir = program, home
		c.Env = append(c.Env, "HOME="+home, "XDG_CACHE_HOME=")
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	for n := 1; n <= 2; n++ {
		h := startHelper(t, cfg, asNobody)
		if !strings.HasPrefix(h.DataDir, home) {
			t.Errorf("the default data folder is %s, want one below %s", h.DataDir, home)
		}
		if n == 2 {
			if inPostgres, inRedis := stored(t, &h.Sandbox); inPostgres != 1 || inRedis != 1 {
				t.Errorf("after a kill Postgres has %d and Redis %d, want 1 and 1", inPostgres, inRedis)
			}
			h.leave(t)
			break
		}
		put(t, &h.Sandbox, n)
		h.kill(t)
	}
	if found, _ := filepath.Glob(filepath.Join(home, ".cache", "miaosha", "postgres-*", "PG_VERSION")); len(found) != 1 {
		t.Errorf("Postgres lies in %v", found)
	}
	// What root has copied is not the user's any more, the folder itself or a file in it.
	data := filepath.Join(home, ".cache", "miaosha")
	for _, copied := range []string{data, filepath.Join(data, lockFile), filepath.Join(data, redisDir)} {
		if err := os.Chown(copied, 0, 0); err != nil {
			t.Fatal(err)
		}
		var errs bytes.Buffer
		h, out := launchHelper(t, cfg, asNobody, func(c *exec.Cmd) { c.Stderr = &errs })
		io.Copy(io.Discard, out)
		err := h.Wait()
		if way := fmt.Sprintf("belongs to the user root, not to nobody, as after a copy by another user: give it back (chown -R nobody %q as root)", data); err == nil || strings.Count(errs.String(), "\n") != 1 || !strings.Contains(errs.String(), copied+" "+way) {
			t.Errorf("%s of root: %v, %q; want one line with %q", copied, err, &errs, way)
		}
		if err := os.Chown(copied, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
}

// A data folder that is deleted and made again does not get the old Postgres. The home of a data
// folder that is gone from the temporary folder is removed.
func TestHomeOfADeletedDataFolder(t *testing.T) {
	needRoot(t)
	cfg := both(t)
	cfg.Redis = false
	s := open(t, cfg)
	put(t, s, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	home := homeOf(t, cfg.DataDir)
	if home == cfg.DataDir {
		t.Skip("the temporary folder of tests is open here")
	}
	if err := os.RemoveAll(cfg.DataDir); err != nil {
		t.Fatal(err)
	}
	s = open(t, cfg)
	if again := homeOf(t, cfg.DataDir); again != home {
		t.Errorf("the home was %s and is %s", home, again)
	}
	execSQL(t, s, `create table numbers (n integer)`) // it does not exist
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	removeOldHomes(filepath.Dir(home), slog.New(slog.DiscardHandler))
	if _, err := os.Stat(home); err != nil {
		t.Errorf("the home was removed though its data folder exists: %v", err)
	}
	if err := os.RemoveAll(cfg.DataDir); err != nil {
		t.Fatal(err)
	}
	removeOldHomes(filepath.Dir(home), slog.New(slog.DiscardHandler))
	if _, err := os.Stat(home); err == nil {
		t.Error("the home is left though its data folder is gone")
	}
}
