package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const confFile = "miaosha.conf"

// settings are those of Postgres, written at every start. They leave durability on: the shop keeps
// its promises.
const settings = `# Written by miaosha at every start: changes here are lost.
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 200
shared_buffers = 256MB
# This bounds the time of a recovery after a crash.
max_wal_size = 1GB
min_wal_size = 256MB
checkpoint_timeout = 15min
# A sale's row is updated all the time.
autovacuum_naptime = 15s
# Compilation does not make short statements faster.
jit = off
timezone = 'UTC'
lc_messages = 'C'
log_destination = 'stderr'
logging_collector = off
log_line_prefix = '%m [%p] '
log_checkpoints = off
`

// throwaway are the settings of tests, which delete their data anyway.
const throwaway = `
fsync = off
synchronous_commit = off
full_page_writes = off
wal_level = minimal
max_wal_senders = 0
shared_buffers = 128MB
max_connections = 400
`

// initialised reports whether data holds a database cluster. An unfinished cluster has another
// name: see initdb.
func initialised(data string) bool {
	_, err := os.Stat(filepath.Join(data, "PG_VERSION"))
	return err == nil
}

// initdb creates a database cluster. It has another name until it is complete and on disk.
func (o *owner) initdb(ctx context.Context, bin programs, data string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("make a database with initdb %s: %w", bin.version, err)
		}
	}()
	o.cfg.Log.Debug("making a database", "postgres", bin.version, "folder", data)
	o.cfg.Say(fmt.Sprintf("the sandbox makes a database with Postgres %s (only this once; it takes some seconds)",
		bin.version))
	half := data + ".new"
	password := half + ".pw"
	defer os.Remove(password)
	for _, left := range globIn(o.place.home, "postgres-*.new*") { // of a start that was killed
		if err := os.RemoveAll(left); err != nil {
			return err
		}
	}
	if err := os.Mkdir(half, 0o700); err != nil {
		return err
	}
	if err := o.place.account.chown(half); err != nil {
		return err
	}
	if err := writeFile(password, []byte(derive(o.secret, "postgres")+"\n"), 0o600, o.place.account); err != nil {
		return err
	}
	args := []string{"-D", half, "-U", postgresName, "--pwfile=" + password, "--auth=scram-sha-256",
		"--encoding=UTF8", "--no-locale"}
	if o.cfg.Throwaway {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, bin.path("initdb"), args...)
	cmd.Dir, cmd.Env = o.place.home, serverEnv()
	text, err := onOwnThread(cmd, program{account: o.place.account, serversLock: o.serversLock, deathSignal: os.Kill},
		cmd.CombinedOutput)
	if err != nil {
		return fmt.Errorf("%w: %s", err, lastLine(text, "error:", "could not", "FATAL:"))
	}
	conf, err := openFile(filepath.Join(half, "postgresql.conf"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = conf.WriteString("\ninclude_if_exists = '" + confFile + "'\n")
	if err := errors.Join(err, conf.Sync(), conf.Close()); err != nil {
		return err
	}
	return os.Rename(half, data)
}

// configure writes the settings into a cluster, followed by more.
func (o *owner) configure(data, more string) error {
	return writeFile(filepath.Join(data, confFile), []byte(settings+more), 0o600, o.place.account)
}
