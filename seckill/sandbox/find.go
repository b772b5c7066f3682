package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// findPostgres chooses the programs: for existing data those of its version, else the first version on this machine. It
// downloads one if none is installed. Data whose programs are missing is an error: an empty database beside the Redis
// of the old one would be another shop, in which no one has an account.
func (o *owner) findPostgres(ctx context.Context) (programs, error) {
	found, err := o.onThisMachine(ctx)
	if err != nil {
		return programs{}, err
	}
	data := o.newestData()
	for _, p := range found {
		if data == 0 || p.major == data {
			return p, nil
		}
	}
	if _, fetchable := o.release(); data > 0 && (!fetchable || len(found) > 0 && o.cfg.PostgresBin != fetchOnly) {
		return programs{}, o.missing(data, found, fetchable)
	}
	return o.fetchPostgres(ctx)
}

// missing returns the error for data whose programs are not on this machine.
func (o *owner) missing(major int, found []programs, fetchable bool) error {
	have := "none is"
	if len(found) > 0 {
		have = "only " + found[0].version + " is"
	}
	ways := fmt.Sprintf(
		"install it (Debian: apt install postgresql-%d, macOS: brew install postgresql@%d) or name its folder in MIAOSHA_POSTGRES_BIN",
		major, major)
	if fetchable {
		ways += ", let the shop download it (MIAOSHA_POSTGRES_BIN=" + fetchOnly + ")"
	}
	return fmt.Errorf(
		"the data in %s is of Postgres %d, and %s usable here: %s, use another --data-dir, or delete the data (miaosha reset)",
		o.place.home, major, have, ways)
}

// newestData returns the newest version of Postgres that has data here, 0 for none. An unfinished cluster has another
// name, and is no data.
func (o *owner) newestData() (major int) {
	for _, path := range globIn(o.place.home, "postgres-*/PG_VERSION") {
		if n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(path)), "postgres-")); err == nil {
			major = max(major, n)
		}
	}
	return major
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
			err = fmt.Errorf("the Postgres in %s is %s: %d is the oldestMajor that will do", dir,
				p.version, oldestMajor)
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
