//go:build faults && linux

package faults

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox"
	"miaosha/seckill/sandbox/sandboxtest"
)

const redisPassword = "private"

// Redis is a private server on a port of its own, or the embedded one, which cannot be killed.
type Redis struct {
	fsync string // always, everysec or no
	more  string // of the configuration
	ahead bool   // its clock is redisAhead ahead
	dir   string
	port  int
	addr  string
	stop  func() // of the embedded one
	log   *sandboxtest.SyncBuffer
	*process
}

// newRedis starts a server with its data in dir.
func newRedis(dir, fsync string) (*Redis, error) {
	r := &Redis{fsync: fsync, dir: dir}
	if sandboxtest.Kind() == sandbox.Server {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		return r, r.Start()
	}
	at, stop, err := sandbox.EmbeddedRedis(redisPassword)
	if err != nil {
		return nil, err
	}
	opt, err := redis.ParseURL(at)
	if err != nil {
		return nil, err
	}
	r.addr, r.stop = opt.Addr, stop
	return r, nil
}

// Start starts the server and waits until it has read its AOF.
func (r *Redis) Start() (err error) {
	if r.port == 0 {
		if r.port, err = sandbox.FreePort(); err != nil {
			return err
		}
		r.addr = fmt.Sprintf("127.0.0.1:%d", r.port)
	}
	cmd, err := shared.tools.Redis(r.dir, r.port, redisPassword, r.fsync, r.more)
	if err != nil {
		return err
	}
	if r.ahead {
		clock, err := clockOfRedis()
		if err != nil {
			return err
		}
		cmd.Env = append(cmd.Environ(), "LD_PRELOAD="+clock)
	}
	r.log = &sandboxtest.SyncBuffer{}
	cmd.Stdout, cmd.Stderr = r.log, r.log
	if r.process, err = startProcess(cmd); err != nil {
		return err
	}
	if err := waitReady(r.process, "redis", func(ctx context.Context) error { return sandbox.PingRedis(ctx, r.URL()) }); err != nil {
		return fmt.Errorf("%w\n%s", err, r.log)
	}
	return nil
}

// Kill sends SIGKILL and waits for the exit.
func (r *Redis) Kill() { r.End(syscall.SIGKILL, sandboxtest.Hang) }

// Stop freezes the server: connections stay open, and no reply comes. Continue ends it.
func (r *Redis) Stop()     { r.Signal(syscall.SIGSTOP) }
func (r *Redis) Continue() { r.Signal(syscall.SIGCONT) }

// close stops a server of either kind, in any state.
func (r *Redis) close() {
	if r.stop != nil {
		r.stop()
	} else if r.process != nil {
		r.End(syscall.SIGKILL, sandboxtest.Hang)
	}
}

// SaveAOF copies the AOF as it is on disk now.
func (r *Redis) SaveAOF() error { return r.copyAOF(r.aof(), r.aof()+".saved") }

// RestoreAOF replaces the AOF by the saved copy. The server must not run.
func (r *Redis) RestoreAOF() error {
	if err := os.RemoveAll(r.aof()); err != nil {
		return err
	}
	return r.copyAOF(r.aof()+".saved", r.aof())
}

func (r *Redis) aof() string { return filepath.Join(r.dir, "appendonlydir") }

func (r *Redis) copyAOF(from, to string) error {
	out, err := exec.Command("cp", "-a", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copy the AOF: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// URL returns the URL of the server, without a proxy.
func (r *Redis) URL() string { return r.on(r.addr) }

func (r *Redis) on(addr string) string { return "redis://:" + redisPassword + "@" + addr + "/0" }

// client returns a client without a proxy that gives up soon.
func (r *Redis) client() *redis.Client {
	opt, err := redis.ParseURL(r.URL())
	if err != nil {
		panic(err) // the URL is our own
	}
	opt.ContextTimeoutEnabled, opt.MaxRetries, opt.DialerRetries = true, -1, 1
	opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout = 500*time.Millisecond, 500*time.Millisecond, 500*time.Millisecond
	return redis.NewClient(opt)
}
