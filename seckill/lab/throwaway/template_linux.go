package throwaway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// settings are all that such a server has. Nothing of it has to outlive it: it syncs nothing, and after the crash of
// one process all of it ends. Nothing works in the background, so that all work is that of a statement. The log says
// how the server ends, which watch reads, and no word of a program.
const settings = `listen_addresses = ''
unix_socket_permissions = 0700
max_connections = 60
superuser_reserved_connections = 5
shared_buffers = 16MB
huge_pages = off
dynamic_shared_memory_type = mmap
max_pred_locks_per_transaction = 256
max_prepared_transactions = 0
max_worker_processes = 0
max_parallel_workers = 0
max_parallel_workers_per_gather = 0
max_parallel_maintenance_workers = 0
max_logical_replication_workers = 0
autovacuum = off
wal_level = minimal
max_wal_senders = 0
min_wal_size = 2MB
max_wal_size = 16MB
checkpoint_timeout = 1h
fsync = off
full_page_writes = off
synchronous_commit = off
restart_after_crash = off
jit = off
temp_file_limit = 64MB
deadlock_timeout = 20ms
timezone = 'UTC'
lc_messages = 'C'
log_checkpoints = off
log_min_messages = log
log_error_verbosity = terse
`

// access lets in whoever may pass the folder.
const access = "local all all trust\n"

// statements make the database and the role, each in one line. A program has no right in the cluster beside its
// database, and what it raises is read by its author, not written to the log. The databases that initdb makes are two
// thirds of the files.
var statements = []struct{ database, text string }{
	{"template1", `create role ` + Role + ` login connection limit 40
alter role ` + Role + ` set log_min_messages = panic
alter role ` + Role + ` set client_min_messages = warning
create database ` + Database + ` template template0
revoke all on database ` + Database + ` from public
grant connect, temporary on database ` + Database + ` to ` + Role + `
alter database template0 is_template false
alter database template1 is_template false
`},
	{Database, `revoke create on schema public from public
drop database template0
drop database template1
drop database postgres
checkpoint
`},
}

// data makes a cluster at path: a copy of the one that an earlier start has kept, if it can be kept. It reports whether
// it is a copy.
func (p Programs) data(ctx context.Context, path string) (copied bool, err error) {
	kept := p.kept()
	if _, err := os.Stat(kept); err == nil {
		if copyTree(kept, path, p.own) == nil {
			return true, nil
		}
		if err := os.RemoveAll(path); err != nil { // a file of it is lost
			return false, err
		}
	}
	err = p.make(ctx, path)
	if err == nil && kept != "" { // the next start makes one, too, if this one cannot be kept
		keep(path, kept)
	}
	return false, err
}

// kept returns where an empty cluster lies, in a folder that only our account can write to; "" if there is none.
func (p Programs) kept() string {
	if p.Cache == "" {
		return ""
	}
	folder := filepath.Join(p.Cache, "miaosha-lab")
	if os.MkdirAll(folder, 0o700) != nil || !ours(folder) {
		return ""
	}
	sum := sha256.New()
	fmt.Fprint(sum, p.Version, settings, access, statements)
	return filepath.Join(folder, fmt.Sprintf("%x", sum.Sum(nil)[:8]))
}

// keep copies a new cluster to a folder, in place of one that cannot be copied. It removes what lies beside it for
// longer than a day: a half of one, or a cluster of another version, whose next start makes it again.
func keep(path, kept string) {
	beside, _ := filepath.Glob(filepath.Join(filepath.Dir(kept), "*"))
	for _, old := range beside {
		if info, err := os.Lstat(old); err == nil && old != kept && time.Since(info.ModTime()) > 24*time.Hour {
			_ = os.RemoveAll(old)
		}
	}
	half, err := os.MkdirTemp(filepath.Dir(kept), "new-")
	if err != nil {
		return
	}
	defer os.RemoveAll(half)
	data := filepath.Join(half, "data")
	if copyTree(path, data, func(string) error { return nil }) == nil && syncTree(data) == nil {
		_ = os.Rename(kept, filepath.Join(half, "old")) // there may be none
		_ = os.Rename(data, kept)                       // of two that make it at once one stays
	}
}

// syncTree writes a folder to the disk, so that a cluster that has its name is whole, also after the machine has lost
// its power.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// make makes a new cluster.
func (p Programs) make(ctx context.Context, path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	if err := p.own(path); err != nil {
		return err
	}
	_, err := p.run(ctx, "", "initdb", "-D", path, "-U", Superuser, "--auth=trust", "--encoding=UTF8", "--no-locale",
		"--wal-segsize=1", "--no-sync")
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"postgresql.conf": settings, "pg_hba.conf": access} {
		if err := os.WriteFile(filepath.Join(path, name), []byte(text), 0o600); err != nil {
			// the file and its owner stay
			return err
		}
	}
	for _, s := range statements {
		said, err := p.run(ctx, s.text, "postgres", "--single", "-D", path, s.database)
		if err == nil && strings.Contains(said, "ERROR:") { // which does not end it
			err = errors.New(said)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// run runs a program to its end and returns what it prints.
func (p Programs) run(ctx context.Context, input, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(p.Bin, name), args...)
	cmd.Dir, cmd.Stdin = "/", strings.NewReader(input)
	p.prepare(cmd)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, &said)
	}
	return said.String(), nil
}

func (p Programs) own(path string) error {
	if !p.Account {
		return nil
	}
	return os.Lchown(path, int(p.UID), int(p.GID))
}

// copyTree copies a cluster on which no server runs, and calls own with each new file and folder.
func copyTree(from, to string, own func(path string) error) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		switch {
		case entry.IsDir():
			err = os.Mkdir(target, 0o700)
		case entry.Type().IsRegular():
			err = copyFile(path, target)
		default:
			err = fmt.Errorf("%s is no file of a cluster", path)
		}
		if err != nil {
			return err
		}
		return own(target)
	})
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}
