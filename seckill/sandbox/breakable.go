//go:build faults && linux

package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Breakable runs servers that the fault suite can kill, stop and start again. They have the
// sandbox's programs, account and settings, but are not restarted automatically.
type Breakable struct {
	PostgresVersion string
	PostgresName    string // of the superuser and the database

	o     *owner
	bin   programs
	redis string
}

// FindBreakable looks for the programs. Any account must be able to pass through dir.
func FindBreakable(ctx context.Context, dir string) (*Breakable, error) {
	o := &owner{secret: "", place: place{base: dir, home: dir, dataDir: dir, account: postgresAccount()}}
	o.cfg = Config{DataDir: dir, Postgres: true, Redis: true, PostgresBin: os.Getenv("MIAOSHA_POSTGRES_BIN"),
		Throwaway: true}
	if err := o.cfg.Validate(); err != nil {
		return nil, err
	}
	bin, err := o.findPostgres(ctx)
	if err != nil {
		return nil, err
	}
	redis, err := findRedis(ctx)
	if err != nil {
		redis = "" // most scenarios can use the embedded one
	}
	return &Breakable{PostgresVersion: bin.version, PostgresName: postgresName, o: o, bin: bin, redis: redis}, nil
}

// InitDB creates a database cluster in data with the sandbox's settings, followed by more.
func (b *Breakable) InitDB(ctx context.Context, data, more string) error {
	if err := b.o.initdb(ctx, b.bin, data); err != nil {
		return err
	}
	return b.o.configure(data, more)
}

// PostgresPassword returns the superuser's password.
func (b *Breakable) PostgresPassword() string { return derive(b.o.secret, "postgres") }

// Postgres returns the command that runs a cluster on a port, with settings written as name=value.
func (b *Breakable) Postgres(data string, port int, set ...string) *exec.Cmd {
	args := []string{"-D", data, "-p", strconv.Itoa(port)}
	for _, s := range set {
		args = append(args, "-c", s)
	}
	cmd := exec.Command(b.bin.path("postgres"), args...)
	cmd.Dir, cmd.Env = b.o.place.home, serverEnv()
	prepare(cmd, program{account: b.o.place.account, deathSignal: syscall.SIGQUIT})
	return cmd
}

// Redis returns the command that runs a Redis in dir with the sandbox's settings, followed by more.
// When this process dies the Redis receives SIGKILL, because a stopped one takes no other signal.
func (b *Breakable) Redis(dir string, port int, password, fsync, more string) (*exec.Cmd, error) {
	if b.redis == "" {
		return nil, fmt.Errorf("there is no redis-server or valkey-server on PATH")
	}
	text := fmt.Sprintf(redisConf, port, password, quote(dir), quote(filepath.Join(dir, redisPID)), 16, fsync) + more
	cmd := exec.Command(b.redis, "-")
	cmd.Dir, cmd.Env, cmd.Stdin = dir, serverEnv(), strings.NewReader(text)
	prepare(cmd, program{deathSignal: syscall.SIGKILL})
	return cmd, nil
}

// AsPostgres returns the command that runs another program under the account of Postgres.
func (b *Breakable) AsPostgres(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Env = b.o.place.home, serverEnv()
	prepare(cmd, program{account: b.o.place.account, deathSignal: syscall.SIGKILL})
	return cmd
}

// EmbeddedRedis runs a Redis inside this process until stop is called.
func EmbeddedRedis(password string) (at string, stop func(), err error) { return runEmbedded(password) }

// FreePort returns a port of 127.0.0.1 that is free at this moment.
func FreePort() (int, error) { return freePort() }

// PingPostgres connects once and disconnects.
func PingPostgres(ctx context.Context, dsn string) error { return pingPostgres(ctx, dsn) }

// PingRedis connects once and disconnects. It returns an error while the Redis reads its journal.
func PingRedis(ctx context.Context, at string) error { return pingRedis(ctx, at) }

// CreateDatabase creates the shop's database.
func CreateDatabase(ctx context.Context, dsn string) error { return createDatabase(ctx, dsn) }
