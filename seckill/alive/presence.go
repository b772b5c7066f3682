package alive

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
	"github.com/google/uuid"

	"miaosha/seckill/purpose"
)

// Presence shows the other processes of this machine that a process lives: a file with the process's name in the
// journals, locked for as long as the process runs. The kernel releases the lock when the process dies, however it
// dies. So a file without a lock proves a death, and the dead process's tickets need not wait until its beat has been
// quiet for DeadAfter.
//
// The proof counts only inside one boot of one machine and one pid namespace, which are part of the name. Where the
// system does not tell them (it is not Linux), there is no proof. Each shop has a folder of its own, found by its
// secret.
type Presence struct {
	Name   string // of this process in the journals, and of its beat
	dir    string
	kernel string // this boot and this pid namespace, or "" if they are not known
	lock   *flock.Flock
}

// NewPresence returns the Presence of a process of the shop with this secret. It has a new name, unless one is given.
func NewPresence(secret []byte, name string) *Presence {
	host, _ := os.Hostname()
	p := &Presence{kernel: kernelName()}
	p.dir = filepath.Join(os.TempDir(), fmt.Sprintf("miaosha-%d-%x", os.Getuid(), purpose.Presence.Key(secret)[:8]))
	p.Name = cmp.Or(name, fmt.Sprintf("%s-%s-%d-%s", p.kernel, host, os.Getpid(), uuid.NewString()[:8]))
	return p
}

// Shown returns the process's name as people read it: machine, process id, and what tells it from others.
func (p *Presence) Shown() string { return strings.TrimPrefix(p.Name, p.kernel+"-") }

// kernelName names the boot and the pid namespace of this process, or returns "".
func kernelName() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(append(boot, namespace...))
	return hex.EncodeToString(sum[:8])
}

// Enter shows that this process lives, until Leave. The file gets its name when it is locked, so no process sees it
// without its lock.
func (p *Presence) Enter() error {
	if p.kernel == "" {
		return nil
	}
	if err := os.Mkdir(p.dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("show that this process lives: %w", err)
	}
	if is, err := os.Lstat(p.dir); err != nil || is.Mode() != os.ModeDir|0o700 {
		p.kernel = "" // another user's, perhaps: no proof
		return fmt.Errorf("show that this process lives: %s is not a folder of this user alone", p.dir)
	}
	path := filepath.Join(p.dir, p.Name)
	p.lock = flock.New(path + ".new")
	if _, err := p.lock.TryLock(); err != nil {
		return fmt.Errorf("show that this process lives: %w", err)
	}
	return os.Rename(path+".new", path)
}

// Leave releases the lock. The file stays, so that another process looks for tickets that this one has left.
func (p *Presence) Leave() {
	if p.lock != nil {
		p.lock.Close()
	}
}

// Dead is a process that has surely ended. No other process looks after its tickets until Release is called.
type Dead struct {
	Name string
	lock *flock.Flock
}

// Dead finds processes of this shop and this kernel that have ended. The caller must release each.
func (p *Presence) Dead() iter.Seq[Dead] {
	return func(yield func(Dead) bool) {
		if p.kernel == "" {
			return
		}
		files, _ := os.ReadDir(p.dir) // without the folder there is no proof
		for _, f := range files {
			if f.Name() == p.Name || !strings.HasPrefix(f.Name(), p.kernel+"-") || strings.HasSuffix(f.Name(), ".new") {
				continue
			}
			lock := flock.New(filepath.Join(p.dir, f.Name()), flock.SetFlag(os.O_RDONLY)) // it must not make the file
			if locked, err := lock.TryLock(); err != nil || !locked {
				continue
			}
			if !yield(Dead{f.Name(), lock}) {
				return
			}
		}
	}
}

// Release ends the looking after a dead process. If done, no process looks again.
func (d Dead) Release(done bool) {
	if done {
		os.Remove(d.lock.Path())
	}
	d.lock.Close()
}
