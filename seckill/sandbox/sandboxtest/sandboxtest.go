// Package sandboxtest has all that tests share: real servers, the built shop, a buyer, a proxy, and
// one way to wait.
//
// Each test binary has one Postgres and one Redis. They start when a test first asks for one, and
// end with the binary. In them each test has a new database and a new Redis database of its own, so
// tests may run in parallel. The servers do not sync to disk, which makes them faster than those of
// the shop. A test of durability opens a sandbox of its own.
//
// A package that uses it has
//
//	func TestMain(m *testing.M) { sandboxtest.Main(m) }
//
// MIAOSHA_TEST_REDIS is "server", which is the default if a server is on PATH, or "embedded". With
// CI=true a missing Redis server is a failure. Otherwise the embedded Redis takes its place.
package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// shared is the state that all tests of this binary share.
var shared struct {
	mu      sync.Mutex
	main    bool // Main runs
	tried   bool
	err     error // of the start
	sandbox *sandbox.Sandbox
	dir     string
	admin   *pgxpool.Pool // on the server, for create and drop database
}

// Main runs the tests of a package, audits the shop that they share, calls ends, stops the servers and exits. It does
// not return.
func Main(m *testing.M, ends ...func()) {
	shared.mu.Lock()
	shared.main = true
	shared.mu.Unlock()
	code := m.Run()
	if !endShared() {
		code = max(code, 1)
	}
	for _, end := range ends {
		end()
	}
	removeBinary()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the servers of the tests:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Kind returns the kind of Redis that the tests use, a value of sandbox.Config.RedisKind. It starts
// nothing.
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
		return sandbox.Server // which fails, because there is none
	}
	return sandbox.Embedded
}

// servers returns the servers of this binary. The first call starts them.
func servers(t testing.TB) *sandbox.Sandbox {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.main {
		t.Fatal("this package has no func TestMain(m *testing.M) { sandboxtest.Main(m) }")
	}
	if !shared.tried {
		shared.tried = true
		shared.err = start()
	}
	if shared.err != nil {
		t.Fatalf("start the servers of the tests: %v", shared.err)
	}
	return shared.sandbox
}

// start starts the servers in a new folder.
func start() (err error) {
	if shared.dir, err = os.MkdirTemp("", "miaosha-test-"); err != nil {
		return err
	}
	removeOldDirs()
	// The account that runs Postgres for root must pass through it.
	if err := os.Chmod(shared.dir, 0o711); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit) //timing: the first start may download a Postgres
	defer cancel()
	data := filepath.Join(shared.dir, "data")
	made, err := copyOfRun(ctx, data)
	if err != nil {
		return err
	}
	if shared.sandbox, err = openServers(ctx, sandbox.Config{DataDir: data, Throwaway: true, Copy: made}); err != nil {
		return err
	}
	if !made {
		if err := makeTemplate(ctx, shared.sandbox.DatabaseURL); err != nil {
			return err
		}
	}
	shared.admin, err = pgxpool.New(ctx, shared.sandbox.DatabaseURL)
	return err
}

// openServers starts the servers of tests.
func openServers(ctx context.Context, cfg sandbox.Config) (*sandbox.Sandbox, error) {
	cfg.Postgres, cfg.PostgresBin, cfg.PostgresMirror = true, os.Getenv("MIAOSHA_POSTGRES_BIN"), os.Getenv(
		"MIAOSHA_POSTGRES_MIRROR")
	cfg.Redis, cfg.RedisKind = true, Kind()
	return sandbox.Open(ctx, cfg)
}

// copyOfRun copies the data folder that all packages of a run share, with the template in its Postgres, to data, and
// reports whether it did. The first package makes it. make test names the folder of the run in MIAOSHA_TEST_RUN;
// without one, each package makes its own.
func copyOfRun(ctx context.Context, data string) (bool, error) {
	run := os.Getenv("MIAOSHA_TEST_RUN")
	if run == "" {
		return false, nil
	}
	first := filepath.Join(run, "servers-"+Kind())
	if _, err := os.Stat(first); err != nil {
		mine, err := os.MkdirTemp(run, "making-")
		if err != nil {
			return false, err
		}
		if err := os.Chmod(mine, 0o711); err != nil {
			return false, err
		}
		s, err := openServers(ctx, sandbox.Config{DataDir: mine})
		if err != nil {
			return false, err
		}
		if err := errors.Join(makeTemplate(ctx, s.DatabaseURL), s.Close()); err != nil {
			return false, err
		}
		if err := os.Rename(mine, first); err != nil && !errors.Is(err, fs.ErrExist) {
			// of two that make it at once the first stays
			return false, err
		}
	}
	return true, exec.Command("cp", "-a", first, data).Run() // with the owner: another account runs Postgres for root
}

// removeOldDirs removes the folders of test binaries that were killed. Reset refuses the folder of
// a binary that still runs, and after an hour every such folder has its lock.
func removeOldDirs() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "miaosha-test-*"))
	for _, dir := range left {
		if info, err := os.Stat(dir); err != nil || time.Since(info.ModTime()) < time.Hour { //timing: the age of a folder
			continue
		}
		if sandbox.Reset(context.Background(), sandbox.Config{DataDir: filepath.Join(dir, "data")}) == nil {
			os.RemoveAll(dir)
		}
	}
}

// stop stops the servers and removes their folder.
func stop() error {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.admin != nil {
		shared.admin.Close()
	}
	err := shared.sandbox.Close()
	if shared.dir != "" {
		if removeErr := os.RemoveAll(shared.dir); err == nil {
			err = removeErr
		}
	}
	return err
}
