// Package sandboxtest gives tests real servers: one Postgres and one Redis for each test binary, started when a test first
// asks for one and gone with the binary; in them, each test has a database and a Redis database of its own, fresh, so that
// tests may run in parallel. The servers don't sync to disk, which makes them faster than those of the shop; a test of
// durability opens a sandbox of its own.
//
// A package that uses it says
//
//	func TestMain(m *testing.M) { sandboxtest.Main(m) }
//
// MIAOSHA_TEST_REDIS says which Redis: "server", the default where a server is on PATH, or "embedded". Where the environment
// says CI=true, a Redis that is missing is a failure; elsewhere the embedded one stands in.
package sandboxtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/seckill/sandbox"
)

// startLimit bounds the start of the servers, a download of Postgres included.
const startLimit = 6 * time.Minute

// one is what the tests of this binary share.
var one struct {
	mu      sync.Mutex
	main    bool // Main runs
	tried   bool
	err     error // of the start
	sandbox *sandbox.Sandbox
	dir     string
	admin   *pgxpool.Pool // on the server, for create and drop database

	template sync.Once
	schema   error // of making the template
}

// Main runs the tests of a package, stops the servers and exits: it doesn't return.
func Main(m *testing.M) {
	one.mu.Lock()
	one.main = true
	one.mu.Unlock()
	code := m.Run()
	removeBinary()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the servers of the tests:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Alone tells that no other test runs, so that a test may compare waiting times: make latency says so.
func Alone() bool { return os.Getenv("MIAOSHA_TEST_ALONE") != "" }

// Within is the time that something has in a test: as promised where it is Alone, five times as long where other tests keep
// the machine busy.
func Within(promised time.Duration) time.Duration {
	if Alone() {
		return promised
	}
	return 5 * promised
}

// Kind tells which Redis the tests use, as sandbox.Config.RedisKind has it. It can be asked before anything is started.
func Kind() string {
	switch want := os.Getenv("MIAOSHA_TEST_REDIS"); want {
	case sandbox.Server, sandbox.Embedded:
		return want
	case "", sandbox.Auto:
	default:
		panic("MIAOSHA_TEST_REDIS is " + want + ": it has to be server or embedded")
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if _, err := exec.LookPath(name); err == nil {
			return sandbox.Server
		}
	}
	if os.Getenv("CI") == "true" {
		return sandbox.Server // and fail for want of it
	}
	return sandbox.Embedded
}

// servers returns the servers of this binary, started at the first call.
func servers(t testing.TB) *sandbox.Sandbox {
	t.Helper()
	one.mu.Lock()
	defer one.mu.Unlock()
	if !one.main {
		t.Fatal("this package has no func TestMain(m *testing.M) { sandboxtest.Main(m) }")
	}
	if !one.tried {
		one.tried = true
		one.err = start()
	}
	if one.err != nil {
		t.Fatalf("start the servers of the tests: %v", one.err)
	}
	return one.sandbox
}

// start starts the servers in a new folder.
func start() (err error) {
	if one.dir, err = os.MkdirTemp("", "miaosha-test-"); err != nil {
		return err
	}
	sweep()
	// It is ours, and so Postgres can run there though root can't run it.
	if err := os.Chmod(one.dir, 0o711); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	one.sandbox, err = sandbox.Open(ctx, sandbox.Config{
		DataDir:        filepath.Join(one.dir, "data"),
		Postgres:       true,
		PostgresBin:    os.Getenv("MIAOSHA_POSTGRES_BIN"),
		PostgresMirror: os.Getenv("MIAOSHA_POSTGRES_MIRROR"),
		Redis:          true,
		RedisKind:      Kind(),
		Throwaway:      true,
	})
	if err != nil {
		return err
	}
	one.admin, err = pgxpool.New(ctx, one.sandbox.DatabaseURL)
	return err
}

// sweep removes the folders of test binaries that were killed. Reset refuses those of binaries that still run, and an hour
// is more than enough for a folder to get as far as that.
func sweep() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "miaosha-test-*"))
	for _, dir := range left {
		if info, err := os.Stat(dir); err != nil || time.Since(info.ModTime()) < time.Hour {
			continue
		}
		if sandbox.Reset(context.Background(), sandbox.Config{DataDir: filepath.Join(dir, "data")}) == nil {
			os.RemoveAll(dir)
		}
	}
}

// stop stops what start has started, and removes its folder.
func stop() error {
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.admin != nil {
		one.admin.Close()
	}
	err := one.sandbox.Close()
	if one.dir != "" {
		if removeErr := os.RemoveAll(one.dir); err == nil {
			err = removeErr
		}
	}
	return err
}
