package throwaway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox"
	"miaosha/seckill/sandbox/sandboxtest"
)

// asEnv says what the test binary is: a wrapper, or a shop that is killed.
const asEnv = "MIAOSHA_THROWAWAY_TEST"

func TestMain(m *testing.M) {
	switch os.Getenv(asEnv) {
	case "wrapper":
		Run()
	case "shop":
		shop()
	}
	os.Exit(m.Run())
}

var wrapperEnv = []string{asEnv + "=wrapper", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "HOME=" + os.Getenv("HOME")}

// shop starts a server, prints its folder, and waits until it is killed.
func shop() {
	var p Programs
	if err := json.Unmarshal([]byte(os.Getenv("PROGRAMS")), &p); err != nil {
		panic(err)
	}
	s, err := Start(context.Background(), p, roomy, wrapperEnv)
	if err != nil {
		panic(err)
	}
	fmt.Println(s.folder)
	_, _ = io.Copy(io.Discard, os.Stdin)
	select {}
}

var (
	roomy = Limits{Processor: sandboxtest.Hang, Memory: 1 << 30, Folder: 1 << 30, Files: 100_000}
	tight = Limits{Processor: 400 * time.Millisecond, Memory: 128 << 20, Folder: 64 << 20, Files: 1000}
)

func programs(t *testing.T) Programs {
	t.Helper()
	spare, err := sandbox.FindSpare(t.Context(), sandbox.Config{PostgresBin: os.Getenv("MIAOSHA_POSTGRES_BIN")})
	if err != nil {
		t.Fatal(err)
	}
	return Programs(spare)
}

// open starts a server that ends with the test, when nothing of it may be left.
func open(t *testing.T, l Limits) *Server {
	t.Helper()
	s, err := Start(t.Context(), programs(t), l, wrapperEnv)
	if err != nil {
		t.Fatal(err)
	}
	admin := connect(t, s, Superuser)
	for _, sql := range []string{`create schema work authorization program`, `alter role program set search_path = work`} { // as for a run
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Error(err)
		}
	}
	admin.Close(t.Context())
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		nothingLeft(t, s.folder)
	})
	return s
}

// nothingLeft waits until no process works in a folder and the folder is gone.
func nothingLeft(t *testing.T, folder string) {
	t.Helper()
	sandboxtest.Until(t, "no process in "+folder, func() bool { return len(processesIn(folder)) == 0 })
	sandboxtest.Until(t, folder+" is gone", func() bool { _, err := os.Lstat(folder); return os.IsNotExist(err) })
}

// processesIn returns the processes whose working folder is below a folder, which may have been removed, and those that have its path
// among their arguments.
func processesIn(folder string) (all []string) {
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range entries {
		cwd, _ := os.Readlink(filepath.Join(dir, "cwd"))
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if strings.HasPrefix(cwd, folder) || strings.Contains(string(args), folder) {
			all = append(all, filepath.Base(dir)+" "+string(args))
		}
	}
	return all
}

// connect logs in, perhaps after a session before it has given back its locks.
func connect(t *testing.T, s *Server, user string) (c *pgx.Conn) {
	t.Helper()
	sandboxtest.Until(t, user+" logs in", func() (ok bool) {
		var err error
		c, err = pgx.Connect(t.Context(), s.URL(user))
		return err == nil
	})
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}
