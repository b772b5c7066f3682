package sandbox

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// The largest release has 145 MB in 1,600 files.
const (
	unpackLimit = 400 << 20
	filesLimit  = 5000
)

const (
	contents  = "package/native/" // of a package: what is unpacked
	linksFile = "pg-symlinks.json"
)

// link is an entry of the list of links in a package, which cannot hold links itself. Paths begin
// with native/.
type link struct {
	Source string `json:"source"` // an existing file
	Target string `json:"target"` // the link to it
}

// unpack makes the folder dir and unpacks the contents of an npm package into it. Nothing is written
// outside of dir, whatever the package holds. Entries that are neither a file nor a folder are
// refused. Links are made last and lead to files in dir only.
func unpack(ctx context.Context, archive io.Reader, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	// Every account may read what is public anyway, whatever the umask is.
	if err := root.Chmod(".", 0o755); err != nil {
		return err
	}
	zipped, err := gzip.NewReader(archive)
	if err != nil {
		return err
	}
	limited := &io.LimitedReader{R: zipped, N: unpackLimit}
	files := tar.NewReader(limited)
	var links []link
	for n := 0; ; n++ {
		header, err := files.Next()
		switch {
		case err == io.EOF && limited.N > 0: // at the limit it may be the limit's end and not the archive's
			return makeLinks(root, links)
		case err != nil && limited.N > 0:
			return err
		case err != nil || header.Size > limited.N:
			return fmt.Errorf("it has more than %d MB", unpackLimit>>20)
		case n == filesLimit:
			return fmt.Errorf("it has more than %d files", filesLimit)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !filepath.IsLocal(header.Name):
			return fmt.Errorf("%q leads out of the folder", header.Name)
		}
		name, found := strings.CutPrefix(path.Clean(header.Name), contents)
		if !found {
			continue
		}
		switch header.Typeflag {
		case tar.TypeDir:
			err = makeDirs(root, name)
		case tar.TypeReg:
			if name == linksFile {
				err = json.NewDecoder(files).Decode(&links)
				break
			}
			err = errors.Join(makeDirs(root, path.Dir(name)), writeEntry(root, name, header.FileInfo().Mode(), files))
		default:
			err = fmt.Errorf("%q is neither a file nor a folder", header.Name)
		}
		if err != nil {
			return err
		}
	}
}

// makeDirs makes a folder and those above it, open to every account.
func makeDirs(root *os.Root, name string) error {
	if name == "." {
		return nil
	}
	if _, err := root.Lstat(name); err == nil {
		return nil
	}
	if err := makeDirs(root, path.Dir(name)); err != nil {
		return err
	}
	if err := root.Mkdir(name, 0o755); err != nil {
		return err
	}
	return root.Chmod(name, 0o755)
}

// writeEntry writes a new file. Every account may read it, and run it if its owner may.
func writeEntry(root *os.Root, name string, mode fs.FileMode, text io.Reader) error {
	if mode&0o100 != 0 {
		mode = 0o755
	} else {
		mode = 0o644
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, text)
	return errors.Join(err, f.Chmod(mode), f.Close())
}

// makeLinks makes the links that a package lists.
func makeLinks(root *os.Root, links []link) error {
	for _, l := range links {
		from, ok1 := strings.CutPrefix(path.Clean(l.Source), "native/")
		to, ok2 := strings.CutPrefix(path.Clean(l.Target), "native/")
		if !ok1 || !ok2 || !filepath.IsLocal(from) || !filepath.IsLocal(to) {
			return fmt.Errorf("the link %q to %q leads out of the folder", l.Target, l.Source)
		}
		if info, err := root.Lstat(from); err != nil {
			return err
		} else if !info.Mode().IsRegular() {
			return fmt.Errorf("the link %q leads to %q, which is no file", l.Target, l.Source)
		}
		relative, err := filepath.Rel(filepath.FromSlash(path.Dir(to)), filepath.FromSlash(from))
		if err != nil {
			return err
		}
		if err := root.Symlink(relative, to); err != nil {
			return err
		}
	}
	return nil
}
