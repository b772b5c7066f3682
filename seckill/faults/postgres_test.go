//go:build faults && linux

package faults

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox"
	"miaosha/seckill/sandbox/sandboxtest"
)

// ground is what all worlds of this test binary share: a folder, the programs, and a Postgres cluster with the schema in
// it, at rest, to copy.
var ground struct {
	dir   string
	once  sync.Once
	tools *sandbox.Breakable
	err   error
}

func makeGround() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if ground.tools, err = sandbox.FindBreakable(ctx, ground.dir); err != nil {
		return err
	}
	data := filepath.Join(ground.dir, "template")
	// Small, for it is copied often. A process that is killed loses nothing by fsync off, only a machine does.
	const small = "\nmin_wal_size = 32MB\nmax_wal_size = 512MB\nshared_buffers = 64MB\nfsync = off\ndeadlock_timeout = 200ms\n"
	if err := ground.tools.InitDB(ctx, data, small); err != nil {
		return err
	}
	p := &Postgres{data: data}
	if err := p.Start(); err != nil {
		return err
	}
	schema, err := os.ReadFile(filepath.Join("..", "..", "schema.sql"))
	if err != nil {
		return err
	}
	if err := sandbox.CreateDatabase(ctx, p.admin()); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, p.URL())
	if err != nil {
		return err
	}
	_, err = conn.PgConn().Exec(ctx, string(schema)).ReadAll()
	conn.Close(ctx)
	p.End(syscall.SIGINT)
	return err
}

// Postgres is a private server on a port of its own.
type Postgres struct {
	data string
	port int
	set  []string // settings, as name=value
	log  *sandboxtest.Tape
	*process
}

// newPostgres copies the template to data and runs it.
func newPostgres(data string, set ...string) (*Postgres, error) {
	if ground.once.Do(func() { ground.err = makeGround() }); ground.err != nil {
		return nil, fmt.Errorf("make the template: %w", ground.err)
	}
	if out, err := exec.Command("cp", "-a", "--reflink=auto", filepath.Join(ground.dir, "template"), data).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copy the template: %w: %s", err, out)
	}
	p := &Postgres{data: data, set: set}
	return p, p.Start()
}

// Start runs it on its port and waits until it answers. One that was killed may leave children that hold its memory for
// a moment: then it is tried again.
func (p *Postgres) Start() (err error) {
	if p.port == 0 {
		if p.port, err = sandbox.FreePort(); err != nil {
			return err
		}
	}
	for range 50 {
		cmd := ground.tools.Postgres(p.data, p.port, p.set...)
		p.log = &sandboxtest.Tape{}
		cmd.Stderr = p.log
		if p.process, err = startProcess(cmd); err != nil {
			return err
		}
		if err = answers(p.process, "postgres", func(ctx context.Context) error { return sandbox.PingPostgres(ctx, p.admin()) }); err == nil {
			return nil
		}
		if !p.Ended() {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("%w\n%s", err, p.log)
}

// End: SIGINT is the fast shutdown, SIGQUIT the immediate one, which leaves recovery to the next start.
func (p *Postgres) End(sig os.Signal) { p.process.End(sig, 20*time.Second) }

func (p *Postgres) Addr() string { return fmt.Sprintf("127.0.0.1:%d", p.port) }

// URL is that of the shop's database, asked directly.
func (p *Postgres) URL() string { return p.on(p.Addr(), ground.tools.PostgresName) }

func (p *Postgres) admin() string { return p.on(p.Addr(), "postgres") }

func (p *Postgres) on(addr, database string) string {
	return fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", ground.tools.PostgresName, ground.tools.PostgresPassword(), addr, database)
}
