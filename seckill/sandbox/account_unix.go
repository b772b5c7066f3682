//go:build !windows

package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// account is another user, which runs Postgres. The zero account is our own user.
type account struct {
	set      bool
	name     string
	uid, gid uint32
}

// postgresAccount returns the account that runs Postgres for root. It returns the zero account for
// any other user, and if that account does not exist.
func postgresAccount() account {
	if os.Geteuid() != 0 {
		return account{}
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil {
			return account{set: true, name: name, uid: uint32(uid), gid: uint32(gid)}
		}
	}
	return account{}
}

// credential returns the credential that makes a child run as a. It returns nil for our own
// account.
func (a account) credential() *syscall.Credential {
	if !a.set {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}

// ids returns the ids of an account, and false for our own.
func (a account) ids() (set bool, uid, gid uint32) { return a.set, a.uid, a.gid }

// chown makes a the owner of a file.
func (a account) chown(path string) error {
	if !a.set {
		return nil
	}
	return os.Lchown(path, int(a.uid), int(a.gid))
}

// own makes a the owner of an open file.
func (a account) own(f *os.File) error {
	if !a.set {
		return nil
	}
	return f.Chown(int(a.uid), int(a.gid))
}

// reaches reports whether a may pass through dir and every folder above it. It ignores access
// control lists.
func (a account) canReach(dir string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	for {
		info, err := os.Stat(dir)
		if err != nil {
			return false
		}
		need := fs.FileMode(0o001)
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid == a.uid {
			need = 0o100
		} else if ok && st.Gid == a.gid {
			need = 0o010
		}
		if info.Mode().Perm()&need == 0 {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}

// ownedByUs reports whether path is a folder that only our account can write to. Another user may
// have made it, if its parent is open to all.
func ownedByUs(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// checkOwner returns an error if another account may have laid files in a data folder: if it belongs
// to one that is neither ours nor root, or if every account may write to it. Members of its group
// are trusted, because the umask of many systems lets a user's own group write.
func checkOwner(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("find the owner of the data folder: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case ok && st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("the data folder %s belongs to the user %s: choose another --data-dir, or run as that user",
			dir, userName(st.Uid))
	case ok && int(st.Uid) != os.Geteuid() && unix.Access(dir, unix.W_OK) != nil:
		return wrongOwner(dir, st.Uid, uint32(os.Geteuid()), dir)
	}
	if info.Mode().Perm()&0o002 != 0 {
		return fmt.Errorf(
			"every user may write to the data folder %s: choose another --data-dir, or change its mode (chmod o-w)",
			dir)
	}
	return nil
}

// checkFiles returns an error if a file that matches a pattern below dir belongs to another account than the one that
// uses it, as after a copy that root has made. Root may use the files of all.
func checkFiles(dir string, by account, patterns ...string) error {
	uid := uint32(os.Geteuid())
	if by.set {
		uid = by.uid
	}
	if uid == 0 {
		return nil
	}
	for _, pattern := range patterns {
		for _, path := range globIn(dir, pattern) {
			info, err := os.Lstat(path)
			if err != nil {
				continue // it is gone, or whoever opens it says what is wrong
			}
			if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != uid {
				return wrongOwner(path, st.Uid, uid, dir)
			}
		}
	}
	return nil
}

// wrongOwner returns the error for a path below a folder whose files another account uses.
func wrongOwner(path string, is, want uint32, dir string) error {
	return fmt.Errorf(
		"%s belongs to the user %s, not to %s, as after a copy by another user: give it back (chown -R %s %q as root), or choose another --data-dir",
		path, userName(is), userName(want), userName(want), dir)
}

// userName returns the name of a user, or the number of one that has none.
func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}

// openFile opens a file of the sandbox. It fails if the file is a link.
func openFile(path string, flags int, mode fs.FileMode) (*os.File, error) {
	return os.OpenFile(path, flags|syscall.O_NOFOLLOW, mode)
}
