package sandbox

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A second process on the same folder uses the servers of the first, and leaves them running.
func TestJoin(t *testing.T) {
	cfg := both(t)
	cfg.RedisKind = Embedded // which is to be reached from other processes too
	h := startHelper(t, cfg)
	cfg.RedisKind = Auto
	begun := time.Now()
	s := open(t, cfg)
	t.Logf("joined in %v", time.Since(begun))
	if s.Shared != h.Process.Pid {
		t.Errorf("Shared is %d, want the owner's %d", s.Shared, h.Process.Pid)
	}
	if s.DatabaseURL != h.DatabaseURL || s.RedisURL != h.RedisURL || s.Secret != h.Secret || s.RedisKind != Embedded || s.Postgres != h.Postgres {
		t.Errorf("joined %+v, want %+v", *s, h.Sandbox)
	}
	put(t, s, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if inPostgres, inRedis := number(t, &h.Sandbox); inPostgres != 1 || inRedis != 1 {
		t.Errorf("the owner sees %d and %d, want 1 and 1", inPostgres, inRedis)
	}
	h.leave(t)
	if s := open(t, cfg); s.Shared != 0 {
		t.Errorf("joined process %d, which has left", s.Shared)
	}
}

// Many processes that start at once on a new folder end up with one owner and the same servers.
func TestJoinWhileStarting(t *testing.T) {
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

// The owner dies while another waits for it to be ready: that one becomes the owner. What lies about where the servers are
// is older still, and misleads nobody.
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
	line := make(chan struct{})
	go func() { defer close(line); h.wait(t, out) }()
	select {
	case <-line:
		t.Fatalf("opened though the folder is locked, by %d", h.Shared)
	case <-time.After(300 * time.Millisecond):
	}
	lock.Close() // as the system does at the end of a process
	<-line
	if h.Shared != 0 || h.DatabaseURL == old.DatabaseURL {
		t.Errorf("joined process %d at %s", h.Shared, h.DatabaseURL)
	}
	put(t, &h.Sandbox, 1)
	h.leave(t)
}

// Servers that are of no use are named, not taken.
func TestJoinRefusals(t *testing.T) {
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
