package sandbox

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// A second process on the same folder uses the servers of the first, and leaves them running.
func TestSecondProcessJoins(t *testing.T) {
	cfg := both(t)
	cfg.RedisKind = Embedded // other processes must reach it too
	h := startHelper(t, cfg)
	cfg.RedisKind = Auto
	s := open(t, cfg)
	want := h.Sandbox
	want.RedisKind, want.Shared = Embedded, h.Process.Pid
	if diff := cmp.Diff(want, *s, cmpopts.IgnoreUnexported(Sandbox{})); diff != "" {
		t.Errorf("joined (-want +got):\n%s", diff)
	}
	put(t, s, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if inPostgres, inRedis := stored(t, &h.Sandbox); inPostgres != 1 || inRedis != 1 {
		t.Errorf("the owner sees %d and %d, want 1 and 1", inPostgres, inRedis)
	}
	h.leave(t)
	if s := open(t, cfg); s.Shared != 0 {
		t.Errorf("joined process %d, which has left", s.Shared)
	}
}

// Of many processes that start at once on a new folder, one becomes the owner and all use the same
// servers.
func TestManyProcessesStartAtOnce(t *testing.T) {
	cfg := both(t)
	helpers := make([]*helper, 4)
	outs := make([]io.Reader, len(helpers))
	for i := range helpers {
		helpers[i], outs[i] = launchHelper(t, cfg)
	}
	owners := 0
	for i, h := range helpers {
		h.wait(t, outs[i])
		if h.Shared == 0 {
			owners++
		}
		if h.DatabaseURL == "" || h.DatabaseURL != helpers[0].DatabaseURL || h.RedisURL != helpers[0].RedisURL {
			t.Errorf("one process uses %s, another %s", h.DatabaseURL, helpers[0].DatabaseURL)
		}
	}
	if owners != 1 {
		t.Errorf("%d owners, want 1", owners)
	}
}

// The owner dies while another process waits for its servers. The other process becomes the owner.
// A state file that is older still does not mislead it.
func TestOwnerDiesWhileStarting(t *testing.T) {
	cfg := both(t)
	cfg.RedisKind = Embedded
	old := startHelper(t, cfg)
	old.kill(t) // leaves its state

	lock, err := tryLock(filepath.Join(cfg.DataDir, lockFile))
	if err != nil || lock == nil {
		t.Fatalf("%v, %v", lock, err)
	}
	h, out := launchHelper(t, cfg)
	synctest.Test(t, func(t *testing.T) { // what waits opens nothing, for as long as it waits
		if s, err := Open(t.Context(), cfg); s != nil || err == nil || !strings.Contains(err.Error(), "another miaosha has been starting") {
			t.Errorf("opened though the folder is locked: %v", err)
		}
	})
	lock.Close() // like the system at the end of a process
	h.wait(t, out)
	if h.Shared != 0 || h.DatabaseURL == old.DatabaseURL {
		t.Errorf("joined process %d at %s", h.Shared, h.DatabaseURL)
	}
	put(t, &h.Sandbox, 1)
	h.leave(t)
}

// Servers that do not fit the Config are refused, and the error names their process.
func TestJoinRefuses(t *testing.T) {
	cfg := both(t)
	cfg.Postgres, cfg.RedisKind = false, Embedded
	s := open(t, cfg)
	for want, cfg := range map[string]Config{
		"without a Postgres":          {DataDir: cfg.DataDir, Postgres: true, Redis: true},
		"of the kind embedded, not s": {DataDir: cfg.DataDir, Redis: true, RedisKind: Server},
	} {
		other, err := Open(t.Context(), cfg)
		if err == nil {
			other.Close()
			t.Errorf("joined, want a refusal with %q", want)
			continue
		}
		t.Log(err)
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error is %q, want one line with %q and our process id", err, want)
		}
	}
	if err := pingRedis(t.Context(), s.RedisURL); err != nil {
		t.Errorf("a refusal did harm: %v", err)
	}
}
