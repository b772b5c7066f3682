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
	cfg := both(t)
	cfg.RedisKind = Server
	open(t, cfg)
	pids, err := filepath.Glob(filepath.Join(homeOf(t, cfg.DataDir), "postgres-*", "postmaster.pid"))
	if err != nil || len(pids) != 1 {
		t.Fatalf("%v, %v", pids, err)
	}
	for server, path := range map[string]string{"postgres": pids[0], "redis": filepath.Join(cfg.DataDir, redisDir, redisPID)} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pidIn(t, path)))
		if err != nil {
			t.Fatal(err)
		}
		var seen []string
		for v := range strings.SplitSeq(strings.Trim(string(text), "\x00"), "\x00") {
			// Redis writes its title over this text, so it may hold other things too.
			if name, _, found := strings.Cut(v, "="); found {
				seen = append(seen, name)
			}
		}
		if server == "postgres" && !slices.Contains(seen, "PATH") {
			t.Errorf("postgres has no PATH among %v: the test reads the wrong text", seen)
		}
		for _, name := range seen {
			if name != "LC_ALL" && !slices.Contains(passedOn, name) {
				t.Errorf("%s sees %s", server, name)
			}
		}
	}
}
