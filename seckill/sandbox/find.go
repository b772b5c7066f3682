package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// oldest is the first Postgres that will do: the schema says "create or replace trigger".
const oldest = 14

// fetch, as Config.PostgresBin, passes over what is installed.
const fetch = "fetch"

// programs is a folder that holds postgres and initdb.
type programs struct {
	dir     string
	version string // such as "15.13"
	major   int
}

// path returns the path of one of the programs.
func (p programs) path(name string) string {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return filepath.Join(p.dir, name)
}

// findPostgres chooses the programs: of the installed and the fetched ones the newest whose data folder is there already,
// so that an upgrade of the system doesn't make the data vanish; else the first found; else they are fetched.
func (o *owner) findPostgres(ctx context.Context) (programs, error) {
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
		switch {
		case err == nil && p.major >= oldest:
			found = append(found, p)
		case err == nil:
			err = fmt.Errorf("Postgres %s in %s is too old: %d is the least", p.version, dir, oldest)
			fallthrough
		default:
			if o.cfg.PostgresBin != "" && o.cfg.PostgresBin != fetch {
				return programs{}, err
			}
			o.cfg.Log.Debug("passing over a Postgres", "error", err)
		}
	}
	withData := slices.DeleteFunc(slices.Clone(found), func(p programs) bool {
		return !initialised(filepath.Join(o.place.home, "postgres-"+strconv.Itoa(p.major)))
	})
	if len(withData) > 0 {
		return slices.MaxFunc(withData, func(a, b programs) int { return cmp.Compare(a.major, b.major) }), nil
	}
	p, err := programs{}, error(nil)
	if len(found) > 0 {
		p = found[0]
	} else if p, err = o.fetchPostgres(ctx); err != nil {
		return programs{}, err
	}
	if others, _ := filepath.Glob(filepath.Join(o.place.home, "postgres-*", "PG_VERSION")); len(others) > 0 &&
		filepath.Base(filepath.Dir(others[0])) != "postgres-"+strconv.Itoa(p.major) {
		o.cfg.Log.Warn("the data of another version of Postgres is left as it is; beginning anew", "left", filepath.Dir(others[0]), "version", p.version)
	}
	return p, nil
}

// candidates lists folders that may hold the programs, the better ones first.
func (o *owner) candidates() []string {
	var dirs []string
	switch o.cfg.PostgresBin {
	case "":
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			if path, err := exec.LookPath(filepath.Join(dir, "postgres")); err == nil && filepath.IsAbs(path) {
				if real, err := filepath.EvalSymlinks(path); err == nil {
					dirs = append(dirs, filepath.Dir(real))
				}
			}
		}
		for _, pattern := range []string{
			"/usr/lib/postgresql/*/bin", // Debian
			"/usr/pgsql-*/bin",          // Red Hat
			"/usr/local/pgsql/bin",      // from source
			"/opt/homebrew/opt/postgresql*/bin",
			"/usr/local/opt/postgresql*/bin",
			"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
			"/Applications/Postgres.app/Contents/Versions/*/bin",
			"/Library/PostgreSQL/*/bin",
			`C:\Program Files\PostgreSQL\*\bin`,
		} {
			found, _ := filepath.Glob(pattern)
			slices.SortFunc(found, func(a, b string) int { return cmp.Compare(numberIn(b), numberIn(a)) })
			dirs = append(dirs, found...)
		}
	case fetch:
	default:
		return []string{o.cfg.PostgresBin}
	}
	fetched, _ := filepath.Glob(filepath.Join(o.place.base, "bin", "postgres-*", "bin"))
	slices.SortFunc(fetched, func(a, b string) int { return cmp.Compare(numberIn(b), numberIn(a)) })
	return append(dirs, fetched...)
}

var (
	versionOf = regexp.MustCompile(`\(PostgreSQL\) (\d+)[.\w]*`)
	digits    = regexp.MustCompile(`\d+`)
)

// numberIn returns the last number in a path, such as the 15 of /usr/lib/postgresql/15/bin; 0 if there is none. Of a
// fetched postgres-17.5.0 it is the 17.
func numberIn(path string) int {
	for dir := path; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if n, err := strconv.Atoi(digits.FindString(filepath.Base(dir))); err == nil {
			return n
		}
	}
	return 0
}

// inspect asks the programs of a folder for their version, as the user that is to run them: so they are known to be
// runnable, by him, on this machine.
func (o *owner) inspect(ctx context.Context, dir string) (programs, error) {
	p := programs{dir: dir}
	for _, name := range []string{"initdb", "postgres"} {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, p.path(name), "--version")
		cmd.Dir, cmd.Env = o.place.home, cleanEnv()
		var text []byte
		var err error
		onThread(func() {
			prepare(cmd, program{as: o.place.as, dies: os.Kill})
			text, err = cmd.Output()
		})
		if err != nil {
			return p, fmt.Errorf("ask %s for its version: %w", p.path(name), err)
		}
		match := versionOf.FindSubmatch(text)
		if match == nil {
			return p, errors.New(p.path(name) + " is not a Postgres")
		}
		p.version = strings.TrimPrefix(string(match[0]), "(PostgreSQL) ")
		p.major, _ = strconv.Atoi(string(match[1]))
	}
	return p, nil
}

// isPostgresDir reports whether name is that of a data folder of ours, whole or half-made.
func isPostgresDir(name string) bool {
	rest, ok := strings.CutPrefix(name, "postgres-")
	return ok && rest != "" && rest[0] >= '0' && rest[0] <= '9'
}
