package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// both asks for both servers, with data in a folder of the test's own.
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

// passableDir is a temporary folder of the test that Postgres can pass through, whoever it runs as: one of testing is closed.
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

// open opens a sandbox and closes it at the end of the test, unless the test does.
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

// put writes a number to both servers, and number reads the last one back from both.
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

func number(t *testing.T, s *Sandbox) (inPostgres, inRedis int) {
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

// until polls for up to limit; it fails the test if ok never holds.
func until(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain: %s", limit, what)
		}
		pause(context.Background(), 5*time.Millisecond)
	}
}

// needServer skips without a Redis server.
func needServer(t *testing.T) {
	t.Helper()
	if _, err := findRedis(t.Context()); err != nil {
		t.Skip(err)
	}
}

// processesIn lists the processes whose working folder lies in one of dirs, which is so for all of Postgres and Redis.
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
			continue // ended meanwhile
		}
		for _, dir := range dirs {
			if strings.HasPrefix(cwd, dir) {
				found = append(found, link+" is "+cwd)
			}
		}
	}
	return found
}

// homeOf returns where the Postgres of a data folder lies.
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
