package sandbox

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The files in a data folder. Postgres lies there too, unless its account cannot reach the folder:
// see place.go.
const (
	markerFile = ".miaosha-sandbox" // the folder is ours
	lockFile   = "lock"             // held by the owner
	stateFile  = "state.json"       // the addresses of the owner's servers; it exists while they are ready
	secretFile = "secret"
	redisDir   = "redis"
	logSuffix  = ".log"
)

// ArchivesDir is the folder of miaosha archive in a data folder.
const ArchivesDir = "archives"

const markerText = "A data folder of the miaosha sandbox. `miaosha reset` empties it.\n"

// makeDataDir makes sure that dir exists and is ours. It refuses a folder that holds other files, and
// one in which another account may have laid files.
func makeDataDir(dir string) error {
	ours, err := isOurs(dir)
	if err != nil || ours {
		return err
	}
	if err := makeFolder(dir); err != nil {
		return fmt.Errorf("make the data folder: %w: choose another --data-dir", err)
	}
	if err := checkOwner(dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read the data folder: %w", err)
	}
	if len(entries) > 0 {
		// Another process may have been faster by a moment. The first file that it makes is the
		// marker.
		if ours, err := isOurs(dir); err != nil || ours {
			return err
		}
		return fmt.Errorf("the folder %s holds other things: choose an empty one as --data-dir", dir)
	}
	// Not through a temporary file: another process would take that for one of the other files.
	if err := os.WriteFile(filepath.Join(dir, markerFile), []byte(markerText), 0o644); err != nil {
		return fmt.Errorf("mark the data folder: %w", err)
	}
	return nil
}

// tryLock takes the lock of a file. It returns the file that holds the lock, or nil if another
// process holds it.
func tryLock(path string) (*os.File, error) {
	f, err := openFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err = lock(f); err == nil {
		return f, nil
	}
	f.Close()
	if isHeld(err) {
		return nil, nil
	}
	return nil, &os.PathError{Op: "lock", Path: path, Err: err}
}

// isOurs reports whether dir has our marker. A folder that does not exist has none. A marked folder
// in which another account may have laid files is an error.
func isOurs(dir string) (bool, error) {
	_, err := os.Lstat(filepath.Join(dir, markerFile))
	switch {
	case err == nil:
		return true, checkOwner(dir)
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case errors.Is(err, fs.ErrPermission) && checkOwner(dir) != nil:
		return false, checkOwner(dir) // it says more
	default:
		return false, fmt.Errorf("look at the data folder: %w: choose another --data-dir", err)
	}
}

// makeFolder makes dir and its parents, closed to other users. If root makes it, others may pass
// through dir but not list it, because Postgres runs as another user. A folder that exists keeps
// its mode.
func makeFolder(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	var mode fs.FileMode = 0o700
	if os.Geteuid() == 0 {
		mode = 0o711
	}
	if err := os.Mkdir(dir, mode); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return os.Chmod(dir, mode) // despite the umask; the folder is new, so it is ours
}

// loadSecret returns the secret of a data folder. The first call makes it. Only the owner of the
// folder may call it.
func loadSecret(dir string) (string, error) {
	path := filepath.Join(dir, secretFile)
	text, err := readFile(path)
	if err == nil {
		secret := strings.TrimSpace(string(text))
		if len(secret) < 32 {
			return "", fmt.Errorf("the secret in %s is too short: run `miaosha reset`", path)
		}
		return secret, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the secret: %w", err)
	}
	random := make([]byte, 32)
	rand.Read(random) // never fails
	secret := hex.EncodeToString(random)
	if err := writeFile(path, []byte(secret+"\n"), 0o600, account{}); err != nil {
		return "", fmt.Errorf("keep the secret: %w", err)
	}
	return secret, nil
}

// derive returns a password or an id that is computed from the secret, so that one file is enough.
func derive(secret, purpose string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("miaosha sandbox " + purpose))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// globIn returns the paths below dir that match pattern, which has slashes and the syntax of
// path.Match. Unlike in filepath.Glob, the path of dir may hold characters such as * and [.
func globIn(dir, pattern string) []string {
	found, _ := fs.Glob(os.DirFS(dir), pattern) // it fails for a wrong pattern only
	for i, name := range found {
		found[i] = filepath.Join(dir, filepath.FromSlash(name))
	}
	return found
}

// readFile returns the text of a file that is no link.
func readFile(path string) ([]byte, error) {
	f, err := openFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// writeFile replaces a whole file at once, with an account as its owner. A reader finds either the old
// text or the new one, after a crash too. A link of that name is replaced, not followed.
func writeFile(path string, text []byte, mode fs.FileMode, to account) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(mode), to.own(f), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
