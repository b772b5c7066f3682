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

// oldestMajor is the oldest Postgres that works: the schema needs "create or replace trigger".
const oldestMajor = 14

// fetchOnly is the Config.PostgresBin that ignores every installed Postgres.
const fetchOnly = "fetch"

// packageDirs are the folders in which packages put Postgres. PATH is searched first.
var packageDirs = []string{
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

// findPostgres chooses the programs. It prefers the newest version that already has a data folder,
// so that the data does not vanish after an upgrade of the system. Otherwise it takes the first
// version on this machine, and fetches one if there is none.
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
		o.cfg.Log.Warn("starting with an empty database: the existing data needs another version of Postgres and stays as it is",
			"data", filepath.Dir(others[0]), "version", best.version)
	}
	return best, nil
}

// dataOf returns the data folder for p. Each major version has its own, because none can read
// another's.
func (o *owner) dataOf(p programs) string {
	return filepath.Join(o.place.home, "postgres-"+strconv.Itoa(p.major))
}

// onThisMachine returns the usable programs, installed and fetched ones, in order of preference. If
// Config names the folder, unusable programs in it are an error.
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
		if err == nil && p.major < oldestMajor {
			err = fmt.Errorf("the Postgres in %s is %s: %d is the oldestMajor that will do", dir, p.version, oldestMajor)
		}
		switch {
		case err == nil:
			found = append(found, p)
		case o.cfg.PostgresBin != "" && o.cfg.PostgresBin != fetchOnly:
			return nil, err
		default:
			o.cfg.Log.Debug("ignoring a Postgres", "error", err)
		}
	}
	return found, nil
}

// candidates returns the folders that may hold the programs.
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
		for _, pattern := range packageDirs {
			found, _ := filepath.Glob(pattern) // it fails for a wrong pattern only
			dirs = append(dirs, newestFirst(found)...)
		}
	case fetchOnly:
	default:
		return []string{o.cfg.PostgresBin}
	}
	return append(dirs, newestFirst(o.fetched())...)
}

// fetched returns the folders of programs that were fetched and whose sum was checked.
func (o *owner) fetched() []string {
	var dirs []string
	for _, r := range o.releases() {
		dir := filepath.Join(o.place.base, "bin", r.folder(system()), "bin")
		if _, err := os.Stat(dir); err == nil {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// newestFirst sorts folders by the version in their path, and returns them.
func newestFirst(dirs []string) []string {
	slices.SortStableFunc(dirs, func(a, b string) int { return cmp.Compare(versionIn(b), versionIn(a)) })
	return dirs
}
