//go:build faults && linux

package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"miaosha/seckill/sandbox"
	"miaosha/seckill/sandbox/sandboxtest"
)

// PgBouncer is a private connection pooler in front of the environment's Postgres. It has the settings of deploy/pgbouncer.ini.
type PgBouncer struct {
	path, conf string
	addr       string
	dsn        string
	log        *sandboxtest.SyncBuffer
	*process
}

// postgresAddr returns the address of what the shops take for Postgres.
func (env *Environment) postgresAddr() string {
	if env.pgBouncer != nil {
		return env.pgBouncer.addr
	}
	return env.DB.Addr()
}

// postgresURL returns the URL of the shop's database behind addr, as the shops have it. With a standby it has both servers.
func (env *Environment) postgresURL(addr string) string {
	if env.Standby != nil {
		return env.DB.on(addr+","+env.Standby.Addr(), shared.tools.PostgresName) + "&target_session_attrs=read-write"
	}
	url := env.DB.on(addr, shared.tools.PostgresName)
	if env.pgBouncer != nil {
		url += "&default_query_exec_mode=" + execMode
	}
	return url
}

// execMode is the value that deploy/README.md recommends. pgx then prepares no statement that outlives a transaction.
const execMode = "cache_describe"

// roleLimit is a line of deploy/README.md that sets a limit for the shop's role in Postgres.
var roleLimit = regexp.MustCompile(`(?m)^alter role shop set .*;$`)

// newPgBouncer sets the limits of the role as deploy/README.md does, and starts PgBouncer.
func newPgBouncer(env *Environment) (*PgBouncer, error) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "deploy", "README.md"))
	if err != nil {
		return nil, err
	}
	for _, line := range roleLimit.FindAllString(string(readme), -1) {
		sql := strings.Replace(line, "role shop", "role "+shared.tools.PostgresName, 1)
		if _, err := env.pool.Exec(context.Background(), sql); err != nil {
			return nil, fmt.Errorf("%s: %w", sql, err)
		}
	}
	b := &PgBouncer{}
	if b.path, err = findProgram("pgbouncer"); err != nil {
		return nil, err
	}
	port, err := sandbox.FreePort()
	if err != nil {
		return nil, err
	}
	b.addr = fmt.Sprintf("127.0.0.1:%d", port)
	b.dsn = env.DB.on(b.addr, shared.tools.PostgresName) + "&default_query_exec_mode=" + execMode
	dir := filepath.Join(env.dir, "pgbouncer")
	b.conf = filepath.Join(dir, "pgbouncer.ini")
	if err := b.configure(dir, port, env.DB.port); err != nil {
		return nil, err
	}
	return b, b.Start()
}

// configure writes deploy/pgbouncer.ini to dir, with other addresses, names and paths.
func (b *PgBouncer) configure(dir string, port, postgresPort int) error {
	sample, err := os.ReadFile(filepath.Join("..", "..", "deploy", "pgbouncer.ini"))
	if err != nil {
		return err
	}
	users := filepath.Join(dir, "userlist.txt")
	text, name := string(sample), shared.tools.PostgresName
	for old, other := range map[string]string{
		"\nshop = host=db port=5432 dbname=shop\n":    fmt.Sprintf("\n%s = host=127.0.0.1 port=%d dbname=%[1]s\n", name, postgresPort),
		"\nlisten_port = 6432\n":                      fmt.Sprintf("\nlisten_port = %d\n", port),
		"\nauth_file = /etc/pgbouncer/userlist.txt\n": "\nauth_file = " + users + "\n",
	} {
		if n := strings.Count(text, old); n != 1 {
			return fmt.Errorf("deploy/pgbouncer.ini has the line %q %d times, want once", old, n)
		}
		text = strings.Replace(text, old, other, 1)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(b.conf, []byte(text), 0o644); err != nil {
		return err
	}
	return os.WriteFile(users, fmt.Appendf(nil, "%q %q\n", name, shared.tools.PostgresPassword()), 0o644)
}

// Start starts the pooler and waits until a connection through it works.
func (b *PgBouncer) Start() (err error) {
	cmd := shared.tools.AsPostgres(b.path, b.conf) // it refuses to run as root
	b.log = &sandboxtest.SyncBuffer{}
	cmd.Stderr = b.log
	if b.process, err = startProcess(cmd); err != nil {
		return err
	}
	if err := waitReady(b.process, "pgbouncer", func(ctx context.Context) error { return sandbox.PingPostgres(ctx, b.dsn) }); err != nil {
		return fmt.Errorf("%w\n%s", err, b.log)
	}
	return nil
}

// Kill sends SIGKILL and waits for the exit.
func (b *PgBouncer) Kill() {
	if b.process != nil {
		b.End(syscall.SIGKILL, sandboxtest.Hang)
	}
}
