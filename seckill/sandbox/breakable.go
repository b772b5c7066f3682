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

// Breakable is what the fault suite makes servers with that it can kill, stop and start again: the same programs, the
// same account and the same settings as the sandbox's, but nobody keeps them up.
type Breakable struct {
	PostgresVersion string
	PostgresName    string // of the superuser and the database

	o     *owner
	bin   programs
	redis string
}

// FindBreakable looks for the programs. dir is a folder that Postgres can pass through, whoever it runs as.
func FindBreakable(ctx context.Context, dir string) (*Breakable, error) {
	o := &owner{secret: "", place: place{base: dir, home: dir, dataDir: dir, as: otherAccount()}}
	o.cfg = Config{DataDir: dir, Postgres: true, Redis: true, PostgresBin: os.Getenv("MIAOSHA_POSTGRES_BIN"), Throwaway: true}
	if err := o.cfg.Validate(); err != nil {
		return nil, err
	}
	bin, err := o.findPostgres(ctx)
	if err != nil {
		return nil, err
	}
	redis, err := findRedis(ctx)
	if err != nil {
		redis = "" // the embedded one will do for most
	}
	return &Breakable{PostgresVersion: bin.version, PostgresName: postgresName, o: o, bin: bin, redis: redis}, nil
}

// InitDB makes a database cluster in data with the sandbox's settings, and more of them at the end.
func (b *Breakable) InitDB(ctx context.Context, data, more string) error {
	if err := b.o.initdb(ctx, b.bin, data); err != nil {
		return err
	}
	path := filepath.Join(data, confFile)
	if err := writeFile(path, []byte(settings+more), 0o600); err != nil {
		return err
	}
	return b.o.place.as.give(path)
}

// PostgresPassword is the superuser's.
func (b *Breakable) PostgresPassword() string { return derive(b.o.secret, "postgres") }

// Postgres is a command that runs a cluster on a port, with settings given as name=value.
func (b *Breakable) Postgres(data string, port int, set ...string) *exec.Cmd {
	args := []string{"-D", data, "-p", strconv.Itoa(port)}
	for _, s := range set {
		args = append(args, "-c", s)
	}
	cmd := exec.Command(b.bin.path("postgres"), args...)
	cmd.Dir, cmd.Env = b.o.place.home, cleanEnv()
	prepare(cmd, program{as: b.o.place.as, dies: syscall.SIGQUIT})
	return cmd
}

// Redis is a command that runs a Redis in dir with the sandbox's settings, and more of them at the end. A stopped one
// takes no other signal, so it gets SIGKILL when we die.
func (b *Breakable) Redis(dir string, port int, password, fsync, more string) (*exec.Cmd, error) {
	if b.redis == "" {
		return nil, fmt.Errorf("there is no redis-server or valkey-server on PATH")
	}
	text := fmt.Sprintf(redisConf, port, password, quote(dir), quote(filepath.Join(dir, redisPID)), 16, fsync) + more
	cmd := exec.Command(b.redis, "-")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(text)
	prepare(cmd, program{dies: syscall.SIGKILL})
	return cmd, nil
}

// EmbeddedRedis runs the Redis inside this process until stop.
func EmbeddedRedis(password string) (at string, stop func(), err error) { return runEmbedded(password) }

// FreePort gives a port of loopback that nobody listens on just now.
func FreePort() (int, error) { return freePort() }

// PingPostgres and PingRedis connect once and leave.
func PingPostgres(ctx context.Context, dsn string) error { return pingPostgres(ctx, dsn) }

// PingRedis: an error while it reads its journal.
func PingRedis(ctx context.Context, at string) error { return pingRedis(ctx, at) }

// CreateDatabase makes the shop's database.
func CreateDatabase(ctx context.Context, dsn string) error { return createDatabase(ctx, dsn) }
