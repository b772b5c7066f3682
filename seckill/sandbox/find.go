package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// oldest is the first Postgres that will do: the schema says "create or replace trigger".
const oldest = 14

// fetch, as Config.PostgresBin, passes over what is installed.
const fetch = "fetch"

// usual are the folders that packagers put Postgres in, besides PATH.
var usual = []string{
	"/usr/lib/postgresql/*/bin", // Debian
	"/usr/pgsql-*/bin",          // Red Hat
	"/usr/local/pgsql/bin",      // from source
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
	"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
	"/Library/PostgreSQL/*/bin",
	`C:\Program Files\PostgreSQL\*\bin`,
}

// findPostgres chooses the programs: of those on this machine the newest whose data folder is there already, so that an
// upgrade of the system doesn't make the data vanish; else the first found; else they are fetched.
func (o *owner) findPostgres(ctx context.Context) (programs, error) {
	found, err := o.onThisMachine(ctx)
	if err != nil {
		return programs{}, err
	}
	var best programs
	for _, p := range found {
		if initialised(o.dataOf(p)) && p.major > best.major {
			best = p
		}
	}
	if best.major > 0 {
		return best, nil
	}
	if len(found) > 0 {
		best = found[0]
	} else if best, err = o.fetchPostgres(ctx); err != nil {
		return programs{}, err
	}
	if others := globIn(o.place.home, "postgres-*/PG_VERSION"); len(others) > 0 && !initialised(o.dataOf(best)) {
		o.cfg.Log.Warn("beginning anew: the data is that of another version of Postgres, and stays as it is",
			"data", filepath.Dir(others[0]), "version", best.version)
	}
	return best, nil
}

// dataOf returns the data folder for p: one for each major version, since none can read another's.
func (o *owner) dataOf(p programs) string {
	return filepath.Join(o.place.home, "postgres-"+strconv.Itoa(p.major))
}

// onThisMachine returns the programs that are of use, installed and fetched ones, the better ones first. If Config names
// the folder, it is an error if those there are of none.
func (o *owner) onThisMachine(ctx context.Context) ([]programs, error) {
	var found []programs
	seen := map[string]bool{}
	for _, dir := range o.candidates() {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		if seen[dir] {
			continue
		}
		seen[dir] = true
		p, err := o.inspect(ctx, dir)
		if err == nil && p.major < oldest {
			err = fmt.Errorf("the Postgres in %s is %s: %d is the oldest that will do", dir, p.version, oldest)
		}
		switch {
		case err == nil:
			found = append(found, p)
		case o.cfg.PostgresBin != "" && o.cfg.PostgresBin != fetch:
			return nil, err
		default:
			o.cfg.Log.Debug("passing over a Postgres", "error", err)
		}
	}
	return found, nil
}

// candidates lists folders that may hold the programs.
func (o *owner) candidates() []string {
	var dirs []string
	switch o.cfg.PostgresBin {
	case "":
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			path, err := filepath.EvalSymlinks((programs{dir: dir}).path("postgres"))
			if err == nil && filepath.IsAbs(path) {
				dirs = append(dirs, filepath.Dir(path))
			}
		}
		for _, pattern := range usual {
			found, _ := filepath.Glob(pattern) // fails for a wrong pattern only
			dirs = append(dirs, newestFirst(found)...)
		}
	case fetch:
	default:
		return []string{o.cfg.PostgresBin}
	}
	return append(dirs, newestFirst(globIn(o.place.base, "bin/postgres-*/bin"))...)
}

// newestFirst sorts folders by the version in their path.
func newestFirst(dirs []string) []string {
	slices.SortStableFunc(dirs, func(a, b string) int { return cmp.Compare(numberIn(b), numberIn(a)) })
	return dirs
}
