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

// shared is for all environments: a folder, the server programs, and a stopped Postgres cluster with the schema, which
// every environment copies.
var shared struct {
	dir   string
	once  sync.Once
	tools *sandbox.Breakable
	err   error
}

func makeTemplate() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if shared.tools, err = sandbox.FindBreakable(ctx, shared.dir); err != nil {
		return err
	}
	data := filepath.Join(shared.dir, "template")
	// The cluster is small because it is copied often. With fsync off a killed process loses no data; only a machine would.
	const small = "\nmin_wal_size = 32MB\nmax_wal_size = 512MB\nshared_buffers = 64MB\nfsync = off\ndeadlock_timeout = 200ms\n"
	if err := shared.tools.InitDB(ctx, data, small); err != nil {
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
	log  *sandboxtest.SyncBuffer
	*process
}

// newPostgres copies the template to data and starts it.
func newPostgres(data string, set ...string) (*Postgres, error) {
	p, err := copyTemplate(data)
	if err != nil {
		return nil, err
	}
	p.set = set
	return p, p.Start()
}

// copyTemplate copies the template to data.
func copyTemplate(data string) (*Postgres, error) {
	if shared.once.Do(func() { shared.err = makeTemplate() }); shared.err != nil {
		return nil, fmt.Errorf("make the template: %w", shared.err)
	}
	if out, err := exec.Command("cp", "-a", "--reflink=auto", filepath.Join(shared.dir, "template"), data).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copy the template: %w: %s", err, out)
	}
	return &Postgres{data: data}, nil
}

// Start starts the server and waits until it answers. The children of a killed server may hold its memory for a moment:
// then Start tries again.
func (p *Postgres) Start() (err error) {
	if p.port == 0 {
		if p.port, err = sandbox.FreePort(); err != nil {
			return err
		}
	}
	for range 50 {
		cmd := shared.tools.Postgres(p.data, p.port, p.set...)
		p.log = &sandboxtest.SyncBuffer{}
		cmd.Stderr = p.log
		if p.process, err = startProcess(cmd); err != nil {
			return err
		}
		if err = waitReady(p.process, "postgres", func(ctx context.Context) error { return sandbox.PingPostgres(ctx, p.admin()) }); err == nil {
			return nil
		}
		if !p.Ended() {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("%w\n%s", err, p.log)
}

// End stops the server. SIGINT is the fast shutdown. SIGQUIT is the immediate one, after which the next start recovers.
func (p *Postgres) End(sig os.Signal) { p.process.End(sig, sandboxtest.Hang) }

func (p *Postgres) Addr() string { return fmt.Sprintf("127.0.0.1:%d", p.port) }

// URL returns the URL of the shop's database, without a proxy.
func (p *Postgres) URL() string { return p.on(p.Addr(), shared.tools.PostgresName) }

func (p *Postgres) admin() string { return p.on(p.Addr(), "postgres") }

func (p *Postgres) on(addr, database string) string {
	return fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", shared.tools.PostgresName, shared.tools.PostgresPassword(), addr, database)
}
