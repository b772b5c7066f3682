package throwaway

import (
	"os"
	"path/filepath"
	"testing"
)

// cached returns the environment of a wrapper with a cache of its own, and the cluster that it keeps there.
func cached(t *testing.T) (env []string, kept string) {
	t.Helper()
	cache := t.TempDir()
	env = append(append([]string{}, wrapperEnv...), "XDG_CACHE_HOME="+cache)
	s, err := Start(t.Context(), programs(t), roomy, env)
	must(t, err)
	must(t, s.Close())
	all, err := filepath.Glob(filepath.Join(cache, "miaosha-lab", "*"))
	if err != nil || len(all) != 1 {
		t.Fatalf("kept: %v, %v", all, err)
	}
	return env, all[0]
}

// A machine that loses its power damages the cluster that is kept: the next server makes another one.
func TestADamagedClusterIsMadeAgain(t *testing.T) {
	t.Parallel()
	env, kept := cached(t)
	maps, err := filepath.Glob(filepath.Join(kept, "base", "[0-9]*", "pg_filenode.map"))
	if err != nil || len(maps) < 1 {
		t.Fatal(maps, err)
	}
	for name, files := range map[string][]string{"Postgres ends": {filepath.Join(kept, "global", "pg_control")}, "no one can log in": maps} {
		for _, file := range files {
			must(t, os.Truncate(file, 0))
		}
		s, err := Start(t.Context(), programs(t), roomy, env)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		must(t, s.Close())
		nothingLeft(t, s.folder)
		for _, file := range files {
			if info, err := os.Stat(file); err != nil || info.Size() == 0 {
				t.Errorf("%s: %s of the cluster that is kept: %v, %v", name, file, info, err)
			}
		}
	}
}
