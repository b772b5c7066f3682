package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// helperEnv holds a Config as JSON. It turns the test binary into a helper process, which opens
// that sandbox, prints the Sandbox as a line of JSON, and closes it when its standard input ends.
const helperEnv = "MIAOSHA_SANDBOX_HELPER"

func TestMain(m *testing.M) {
	if text := os.Getenv(helperEnv); text != "" {
		if err := help(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func help(text string) error {
	var cfg Config
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return err
	}
	s, err := Open(context.Background(), cfg)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(s); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return s.Close()
}

// helper is another process that uses a sandbox.
type helper struct {
	*exec.Cmd
	Sandbox
	stdin io.Closer
}

// startHelper starts one and waits until its sandbox is open.
func startHelper(t *testing.T, cfg Config, change ...func(*exec.Cmd)) *helper {
	t.Helper()
	h, out := launchHelper(t, cfg, change...)
	h.wait(t, out)
	return h
}

func launchHelper(t *testing.T, cfg Config, change ...func(*exec.Cmd)) (*helper, io.Reader) {
	t.Helper()
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := &helper{Cmd: exec.Command(self)}
	h.Env = append(os.Environ(), helperEnv+"="+string(text))
	h.Stderr = os.Stderr
	for _, f := range change {
		f(h.Cmd)
	}
	stdout, err := h.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if h.stdin, err = h.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if h.ProcessState == nil {
			h.kill(t)
		}
	})
	return h, stdout
}

func (h *helper) wait(t *testing.T, out io.Reader) {
	t.Helper()
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the helper ended early: %v, %v", err, h.Wait())
	}
	if err := json.Unmarshal(line, &h.Sandbox); err != nil {
		t.Fatal(err)
	}
}

// kill is kill -9.
func (h *helper) kill(t *testing.T) {
	t.Helper()
	if err := h.Process.Kill(); err != nil {
		t.Error(err)
	}
	h.Wait()
}

// leave makes the helper close its sandbox and end.
func (h *helper) leave(t *testing.T) {
	t.Helper()
	h.stdin.Close()
	if err := h.Wait(); err != nil {
		t.Errorf("the helper ended with %v", err)
	}
}

// both returns a Config with both servers and a data folder of the test's own.
func both(t *testing.T) Config {
	t.Helper()
	cfg := Config{DataDir: filepath.Join(t.TempDir(), "data"), Postgres: true, Redis: true}
	t.Cleanup(func() {
		// A home that lies elsewhere goes too.
		if err := Reset(context.Background(), cfg); err != nil {
			t.Error(err)
		}
	})
	return cfg
}

// passableDir returns a temporary folder that any account can pass through. t.TempDir is closed to
// other accounts.
func passableDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "miaosha-sandbox-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// open opens a sandbox. The end of the test closes it, if the test has not.
func open(t *testing.T, cfg Config) *Sandbox {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// put writes a number to both servers.
func put(t *testing.T, s *Sandbox, n int) {
	t.Helper()
	execSQL(t, s, `create table if not exists numbers (n integer)`)
	execSQL(t, s, fmt.Sprintf(`insert into numbers values (%d)`, n))
	if s.RedisURL != "" {
		if err := client(t, s).Set(t.Context(), "n", n, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// stored returns the last number that put wrote to each server.
func stored(t *testing.T, s *Sandbox) (inPostgres, inRedis int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(t.Context(), `select max(n) from numbers`).Scan(&inPostgres); err != nil {
		t.Fatal(err)
	}
	if s.RedisURL != "" {
		if inRedis, err = client(t, s).Get(t.Context(), "n").Int(); err != nil {
			t.Fatal(err)
		}
	}
	return inPostgres, inRedis
}

func execSQL(t *testing.T, s *Sandbox, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func client(t *testing.T, s *Sandbox) *redis.Client {
	t.Helper()
	opt, err := redis.ParseURL(s.RedisURL)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(opt)
	t.Cleanup(func() { c.Close() })
	return c
}

// hang is sandboxtest.Hang, and until is sandboxtest.Until, which this package cannot import.
const hang = time.Minute

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(hang); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain: %s", hang, what)
		}
		pause(context.Background(), 5*time.Millisecond)
	}
}

// missing skips the test because a program is missing. In CI that is a failure.
func missing(t *testing.T, why any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// needServer skips the test if there is no Redis server.
func needServer(t *testing.T) {
	t.Helper()
	if _, err := findRedis(t.Context()); err != nil {
		missing(t, err)
	}
}

// processesIn returns the processes whose working folder lies in one of dirs. All processes of
// Postgres and Redis are such.
func processesIn(t *testing.T, dirs ...string) []string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("looks into /proc")
	}
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, link := range links {
		cwd, err := os.Readlink(link)
		if err != nil {
			continue // it has ended
		}
		for _, dir := range dirs {
			if strings.HasPrefix(cwd, dir) {
				found = append(found, link+" is "+cwd)
			}
		}
	}
	return found
}

// homeOf returns the folder of the Postgres of a data folder.
func homeOf(t *testing.T, dataDir string) string {
	t.Helper()
	secret, err := loadSecret(dataDir)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{DataDir: dataDir, Redis: true}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	p, err := findPlace(dataDir, derive(secret, "place"), cfg.Log)
	if err != nil {
		t.Fatal(err)
	}
	return p.home
}

// names returns the names of what is in a folder.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}
