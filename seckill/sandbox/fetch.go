package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// fetchLimit bounds the download, which has 10 to 40 MB.
const fetchLimit = 5 * time.Minute

// releases are the versions that can be fetched, in order of preference.
var releases = []embedded.PostgresVersion{embedded.V17, embedded.V18, embedded.V16, embedded.V15, embedded.V14}

// fetchPostgres downloads Postgres and unpacks it below the base of the place.
func (o *owner) fetchPostgres(ctx context.Context) (programs, error) {
	version := o.release()
	target := filepath.Join(o.place.base, "bin", "postgres-"+string(version))
	o.cfg.Log.Info("downloading Postgres (only this once)", "version", string(version), "folder", target)
	if err := o.unpack(ctx, version, target); err != nil {
		return programs{}, fmt.Errorf("no Postgres %d or newer is installed, and none could be fetched (%w): install one (Debian: apt install postgresql, macOS: brew install postgresql@17), name a mirror in MIAOSHA_POSTGRES_MIRROR, or set DATABASE_URL", oldestMajor, err)
	}
	p, err := o.inspect(ctx, filepath.Join(target, "bin"))
	if err != nil {
		return programs{}, fmt.Errorf("the Postgres that was fetched doesn't run here (%w): install one, or set DATABASE_URL", err)
	}
	return p, nil
}

// release returns the version to fetch: the one that the existing data needs, else the preferred
// one.
func (o *owner) release() embedded.PostgresVersion {
	for _, v := range releases {
		major, _, _ := strings.Cut(string(v), ".")
		if initialised(filepath.Join(o.place.home, "postgres-"+major)) {
			return v
		}
	}
	return releases[0]
}

// unpack lets the library download a release, check its sum and unpack it. Then one rename puts the
// whole release in place.
//
// The library cannot stop there: it goes on to create and start a database, and it deletes a data
// folder of another version. So it works in temporary folders only. The folder that it makes after
// unpacking has the path of a program that it has just unpacked. That is impossible, so the library
// stops with an error, which unpack expects.
func (o *owner) unpack(ctx context.Context, version embedded.PostgresVersion, target string) error {
	bin := filepath.Dir(target)
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	removeOldFetches(bin)
	temp, err := os.MkdirTemp(bin, ".fetch-")
	if err != nil {
		return err
	}
	unpacked := filepath.Join(temp, "unpacked")
	obstacle := (programs{dir: filepath.Join(unpacked, "bin")}).path("initdb")
	port, err := freePort()
	if err != nil {
		return err
	}
	config := embedded.DefaultConfig().Version(version).Port(uint32(port)).Logger(io.Discard).
		CachePath(filepath.Join(temp, "cache")).BinariesPath(unpacked).
		RuntimePath(obstacle).DataPath(filepath.Join(temp, "data"))
	if o.cfg.PostgresMirror != "" {
		config = config.BinaryRepositoryURL(strings.TrimRight(o.cfg.PostgresMirror, "/"))
	}

	// The library takes no context. If ctx ends first, the goroutine is left behind. It writes to a
	// folder of its own, which a later fetch removes.
	done := make(chan error, 1)
	go func() { done <- embedded.NewDatabase(config).Start() }()
	ctx, cancel := context.WithTimeoutCause(ctx, fetchLimit, fmt.Errorf("not done in %v", fetchLimit))
	defer cancel()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case err = <-done:
	}
	defer os.RemoveAll(temp)
	switch info, statErr := os.Stat(obstacle); {
	case err == nil:
		return errors.New("the library has started a database of its own") // a new version of the library, with another order of steps
	case !strings.HasPrefix(err.Error(), "unable to create runtime directory"):
		return err
	case statErr != nil || info.IsDir():
		return errors.New("what was downloaded holds no Postgres")
	}
	if err := o.makeReadable(unpacked); err != nil {
		return err
	}
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	return os.Rename(unpacked, target)
}

// makeReadable lets the account that runs Postgres read what was unpacked, whatever the umask is.
func (o *owner) makeReadable(dir string) error {
	if !o.place.account.set || runtime.GOOS == "windows" {
		return nil
	}
	if err := os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755); err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if d.IsDir() || mode&0o100 != 0 {
			mode |= 0o111
		}
		return os.Chmod(path, mode)
	})
}

// removeOldFetches removes the folders of interrupted fetches.
func removeOldFetches(bin string) {
	for _, dir := range globIn(bin, ".fetch-*") {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > time.Hour {
			os.RemoveAll(dir)
		}
	}
}
