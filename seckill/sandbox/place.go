package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

const (
	serversLockFile = "servers.lock" // held by the owner and by every process of its servers
	homeFile        = "owner"        // in a home outside of the data folder: the id and the path of that folder
)

// place is the folder in which Postgres lies and the account that runs it. Postgres refuses to run
// as root, so root lets another account run it (see postgresAccount). That account may not reach
// the data folder: it may lie below /root, or in a private temporary folder. Then Postgres has a
// home elsewhere, which an id ties to the data folder. The folders between are not ours and keep
// their modes.
type place struct {
	dataDir string
	id      string  // of the data folder; a folder that is deleted and made again has another id
	base    string  // holds bin, the fetched programs
	home    string  // holds postgres-<major> and the servers' lock
	account account // runs Postgres
}

// findPlace chooses the place for a data folder and makes its folders.
func findPlace(dataDir, id string, log *slog.Logger) (place, error) {
	p := place{dataDir: dataDir, id: id, base: dataDir, home: dataDir, account: postgresAccount()}
	if isTemporary(dataDir) {
		p.base = filepath.Dir(dataDir)
	}
	if !p.account.set || p.account.canReach(dataDir) {
		return p, nil
	}
	sum := sha256.Sum256([]byte(dataDir))
	for _, base := range []string{"/var/lib/miaosha", "/var/tmp/miaosha"} {
		// Nothing is written below a folder that another user may have put there.
		if makeFolder(base) != nil || !ownedByUs(base) || makeDataDir(base) != nil || !p.account.canReach(base) {
			continue
		}
		removeOldHomes(base, log)
		p.base, p.home = base, filepath.Join(base, hex.EncodeToString(sum[:6]))
		if err := makeFolder(p.home); err != nil {
			return p, fmt.Errorf("make a home for Postgres: %w", err)
		}
		return p, nil
	}
	return p, fmt.Errorf(
		"the user %s, which runs Postgres for root, can't reach %s: choose another --data-dir, or run as another user",
		p.account.name, dataDir)
}

// claim makes sure that the home belongs to this very data folder. It removes the home of a deleted
// data folder of the same path: its passwords are lost, so it is of no use. The caller holds the
// servers' lock, so nothing runs there.
func (p place) claim(log *slog.Logger) error {
	if p.home == p.dataDir {
		return nil
	}
	path := filepath.Join(p.home, homeFile)
	text, err := readFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("find the owner of the home %s: %w", p.home, err)
	}
	if id, _, _ := strings.Cut(string(text), "\n"); id == p.id {
		return nil
	}
	if len(text) > 0 {
		log.Info("removing the Postgres of an earlier data folder of this name", "folder", p.home)
	}
	if err := removeAllBut(p.home, serversLockFile); err != nil {
		return fmt.Errorf("remove the Postgres of an earlier data folder: %w", err)
	}
	if err := writeFile(path, []byte(p.id+"\n"+p.dataDir+"\n"), 0o600, account{}); err != nil {
		return fmt.Errorf("claim a home for Postgres: %w", err)
	}
	return nil
}

// sweep removes the homes of data folders that lay in the temporary folder and are gone, as after a
// test or a trial. Any other home stays, for its data folder may be on a disk that is away just
// now.
func removeOldHomes(base string, log *slog.Logger) {
	for _, path := range globIn(base, "*/"+homeFile) {
		text, err := readFile(path)
		_, dataDir, found := strings.Cut(strings.TrimSpace(string(text)), "\n")
		if err != nil || !found || !strings.HasPrefix(dataDir,
			filepath.Clean(os.TempDir())+string(filepath.Separator)) {
			continue
		}
		if _, err := os.Lstat(dataDir); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		home := filepath.Dir(path)
		serversLock, err := tryLock(filepath.Join(home, serversLockFile))
		if serversLock == nil || err != nil {
			continue
		}
		if err := os.RemoveAll(home); err != nil {
			log.Warn("remove the Postgres of a data folder that is gone", "folder", home, "error", err)
		}
		serversLock.Close()
	}
}

// removeAllBut empties a folder of ours except for one file.
func removeAllBut(dir, keep string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != keep {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}
