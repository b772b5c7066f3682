package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

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

var (
	versionOf = regexp.MustCompile(`\(PostgreSQL\) (\d+)[.\w]*`)
	digits    = regexp.MustCompile(`\d+`)
)

// inspect asks the programs of a folder for their version. The account that will run them asks, so
// inspect also proves that this account can run them on this machine.
func (o *owner) inspect(ctx context.Context, dir string) (programs, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	p := programs{dir: dir}
	for _, name := range []string{"initdb", "postgres"} {
		cmd := exec.CommandContext(ctx, p.path(name), "--version")
		cmd.Dir, cmd.Env = o.place.home, serverEnv()
		text, err := onOwnThread(cmd, program{account: o.place.account, deathSignal: os.Kill}, cmd.Output)
		if err != nil {
			return p, fmt.Errorf("ask %s for its version: %w", p.path(name), err)
		}
		match := versionOf.FindSubmatch(text)
		if match == nil {
			return p, errors.New(p.path(name) + " is not of Postgres")
		}
		p.version = strings.TrimPrefix(string(match[0]), "(PostgreSQL) ")
		p.major, _ = strconv.Atoi(string(match[1]))
	}
	return p, nil
}

// versionIn returns the version in a path: the first number in the last part that has one, such as
// the 15 of /usr/lib/postgresql/15/bin or the 17 of postgres-17.5.0/bin; 0 if there is none.
func versionIn(path string) int {
	for dir := path; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if n, err := strconv.Atoi(digits.FindString(filepath.Base(dir))); err == nil {
			return n
		}
	}
	return 0
}
