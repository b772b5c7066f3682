//go:build unix

package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A server sees none of our secrets: its environment holds the allowed variables and no others.
// Postgres may run as another account, and every process of that account can read them.
func TestServersSeeNoneOfOurSecrets(t *testing.T) {
	needServer(t)
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("looks into /proc")
	}
	t.Setenv("MIAOSHA_SECRET", "the secret of the shop")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "a key of another program")
	t.Setenv("PGPASSWORD", "a password for another database")
	// Redis writes its title over its environment in /proc, so a script notes what it was started with.
	redis, err := findRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	scripts := t.TempDir()
	ofRedis := filepath.Join(scripts, "environment")
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = - ] && cat /proc/$$/environ >%q\nexec %q \"$@\"\n", ofRedis, redis)
	if err := os.WriteFile(filepath.Join(scripts, "redis-server"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", scripts+":"+os.Getenv("PATH"))
	cfg := both(t)
	cfg.RedisKind = Server
	open(t, cfg)
	pids, err := filepath.Glob(filepath.Join(homeOf(t, cfg.DataDir), "postgres-*", "postmaster.pid"))
	if err != nil || len(pids) != 1 {
		t.Fatalf("%v, %v", pids, err)
	}
	ofPostgres := fmt.Sprintf("/proc/%d/environ", pidIn(t, pids[0]))
	for server, path := range map[string]string{"postgres": ofPostgres, "redis": ofRedis} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var seen []string
		for v := range strings.SplitSeq(strings.Trim(string(text), "\x00"), "\x00") {
			name, _, _ := strings.Cut(v, "=")
			seen = append(seen, name)
		}
		if !slices.Contains(seen, "PATH") {
			t.Errorf("%s has no PATH among %v: the test reads the wrong text", server, seen)
		}
		for _, name := range seen {
			if name != "LC_ALL" && !slices.Contains(passedOn, name) {
				t.Errorf("%s sees %s", server, name)
			}
		}
	}
}
