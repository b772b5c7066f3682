//go:build !windows

package sandbox

import (
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is a user other than our own, as whom Postgres runs; the zero account is our own.
type account struct {
	set      bool
	name     string
	uid, gid uint32
}

// otherAccount returns the account that root lends to Postgres, and the zero one for anybody but root, or if there is none.
func otherAccount() account {
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

// credential returns what makes a child run as a; nil for our own account.
func (a account) credential() *syscall.Credential {
	if !a.set {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}

// give makes a the owner of a file.
func (a account) give(path string) error {
	if !a.set {
		return nil
	}
	return os.Lchown(path, int(a.uid), int(a.gid))
}

// reaches reports whether a may pass through dir and every folder above it. Access control lists are not looked at.
func (a account) reaches(dir string) bool {
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

// ownedByUs reports whether path is a folder that nobody but our account can write to. In a folder open to everybody
// somebody else might have put one there.
func ownedByUs(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
