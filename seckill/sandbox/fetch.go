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

// fetchLimit bounds the download of some 10 to 40 MB.
const fetchLimit = 5 * time.Minute

// releases are those that can be fetched, the preferred one first.
var releases = []embedded.PostgresVersion{embedded.V17, embedded.V18, embedded.V16, embedded.V15, embedded.V14}

// fetchPostgres downloads Postgres and unpacks it below the base of the place.
func (o *owner) fetchPostgres(ctx context.Context) (programs, error) {
	version := o.release()
	target := filepath.Join(o.place.base, "bin", "postgres-"+string(version))
	o.cfg.Log.Info("downloading Postgres, this once", "version", string(version), "folder", target)
	if err := o.unpack(ctx, version, target); err != nil {
		return programs{}, fmt.Errorf("no Postgres %d or newer is installed, and none could be fetched (%w): install one (Debian: apt install postgresql, macOS: brew install postgresql@17), name a mirror in MIAOSHA_POSTGRES_MIRROR, or set DATABASE_URL", oldest, err)
	}
	p, err := o.inspect(ctx, filepath.Join(target, "bin"))
	if err != nil {
		return programs{}, fmt.Errorf("the Postgres that was fetched doesn't run here (%w): install one, or set DATABASE_URL", err)
	}
	return p, nil
}

// release chooses what to fetch: the version of the data that is there, else the preferred one.
func (o *owner) release() embedded.PostgresVersion {
	for _, v := range releases {
		major, _, _ := strings.Cut(string(v), ".")
		if initialised(filepath.Join(o.place.home, "postgres-"+major)) {
			return v
		}
	}
	return releases[0]
}

// unpack has the library download a release, check its sum and unpack it, and then puts the whole in place by one rename.
//
// The library knows only how to do that and go on to make and start a database, and it deletes a data folder whose version
// isn't the one it starts. So it gets throw-away folders alone, and the one that it makes between unpacking and initdb
// bears the name of a program just unpacked, which can't be: there it stops, with the error that we look for.
func (o *owner) unpack(ctx context.Context, version embedded.PostgresVersion, target string) error {
	bin := filepath.Dir(target)
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	sweepUnpacked(bin)
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

	// The library takes no context. If ours ends first the goroutine is left behind, with a folder of its own to write to
	// that the next fetch removes.
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
		return errors.New("the library has started a database of its own") // it must not, so it would be a new version
	case !strings.HasPrefix(err.Error(), "unable to create runtime directory"):
		return err
	case statErr != nil || info.IsDir():
		return errors.New("what was downloaded holds no Postgres")
	}
	if err := o.openUp(unpacked); err != nil {
		return err
	}
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	return os.Rename(unpacked, target)
}

// openUp lets the account that runs Postgres read what was unpacked, whatever our umask is.
func (o *owner) openUp(dir string) error {
	if !o.place.as.set || runtime.GOOS == "windows" {
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

// sweepUnpacked removes what fetches that were broken off have left.
func sweepUnpacked(bin string) {
	for _, dir := range globIn(bin, ".fetch-*") {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > time.Hour {
			os.RemoveAll(dir)
		}
	}
}
