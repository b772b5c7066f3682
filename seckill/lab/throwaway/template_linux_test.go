package throwaway

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// cached returns programs with a cache of their own, and the cluster that they keep there. Something old lay beside it.
func cached(t *testing.T) (p Programs, kept string) {
	t.Helper()
	p = programs(t)
	p.Cache = t.TempDir()
	old := filepath.Join(p.Cache, "miaosha-lab", "new-1", "data")
	must(t, os.MkdirAll(old, 0o700))
	must(t, os.Chtimes(filepath.Dir(old), time.Time{}, time.Now().Add(-25*time.Hour)))
	s, err := Start(t.Context(), p, roomy, wrapperEnv)
	must(t, err)
	must(t, s.Close())
	all, err := filepath.Glob(filepath.Join(p.Cache, "miaosha-lab", "*"))
	if err != nil || len(all) != 1 || filepath.Base(all[0]) == "new-1" {
		t.Fatalf("kept: %v, %v", all, err)
	}
	return p, all[0]
}

// A machine that loses its power damages the cluster that is kept: the next server makes another one.
func TestADamagedClusterIsMadeAgain(t *testing.T) {
	t.Parallel()
	p, kept := cached(t)
	maps, err := filepath.Glob(filepath.Join(kept, "base", "[0-9]*", "pg_filenode.map"))
	if err != nil || len(maps) < 1 {
		t.Fatal(maps, err)
	}
	for name, files := range map[string][]string{"Postgres ends": {filepath.Join(kept, "global", "pg_control")}, "no one can log in": maps} {
		for _, file := range files {
			must(t, os.Truncate(file, 0))
		}
		s, err := Start(t.Context(), p, roomy, wrapperEnv)
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
