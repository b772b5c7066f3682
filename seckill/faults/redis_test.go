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

// Redis is a private server on a port of its own, or the embedded one, which can't be killed.
type Redis struct {
	Real   bool
	Fsync  string   // always, everysec or no
	More   string   // settings that the next Start adds, a line each
	Prefix []string // command that the next Start runs it with, such as one that limits its files
	dir    string
	port   int
	addr   string
	stop   func()
	log    *sandboxtest.Tape
	*process
}

// newRedis runs one with its data in dir.
func newRedis(dir, fsync string) (*Redis, error) {
	r := &Redis{Real: sandboxtest.Kind() == sandbox.Server, Fsync: fsync, dir: dir}
	if r.Real {
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

// Start runs it on its port and waits until it has read its journal.
func (r *Redis) Start() (err error) {
	if r.port == 0 {
		if r.port, err = sandbox.FreePort(); err != nil {
			return err
		}
		r.addr = fmt.Sprintf("127.0.0.1:%d", r.port)
	}
	cmd, err := ground.tools.Redis(r.dir, r.port, redisPassword, r.Fsync, r.More)
	if err != nil {
		return err
	}
	if len(r.Prefix) > 0 {
		if cmd.Path, err = exec.LookPath(r.Prefix[0]); err != nil {
			return err
		}
		cmd.Args = append(append([]string{}, r.Prefix...), cmd.Args...)
	}
	r.log = &sandboxtest.Tape{}
	cmd.Stdout, cmd.Stderr = r.log, r.log
	if r.process, err = startProcess(cmd); err != nil {
		return err
	}
	if err := answers(r.process, "redis", func(ctx context.Context) error { return sandbox.PingRedis(ctx, r.URL()) }); err != nil {
		return fmt.Errorf("%w\n%s", err, r.log)
	}
	return nil
}

// Kill is kill -9.
func (r *Redis) Kill() { r.End(syscall.SIGKILL, 10*time.Second) }

// Stop freezes it: connections stay, nothing answers. Continue goes on.
func (r *Redis) Stop()     { r.Signal(syscall.SIGSTOP) }
func (r *Redis) Continue() { r.Signal(syscall.SIGCONT) }

// close ends it, of whichever kind, in whatever state.
func (r *Redis) close() {
	if r.stop != nil {
		r.stop()
	} else if r.process != nil {
		r.End(syscall.SIGKILL, 10*time.Second)
	}
}

// SaveAOF copies the journal as it is on disk now; RestoreAOF puts the copy in its place, of a Redis that does not run.
func (r *Redis) SaveAOF() error { return r.copyAOF(r.aof(), r.aof()+".saved") }

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

// URL asks it directly.
func (r *Redis) URL() string { return r.on(r.addr) }

func (r *Redis) on(addr string) string { return "redis://:" + redisPassword + "@" + addr + "/0" }

// client asks it directly, and gives up soon.
func (r *Redis) client() *redis.Client {
	opt, err := redis.ParseURL(r.URL())
	if err != nil {
		panic(err) // ours
	}
	opt.ContextTimeoutEnabled, opt.MaxRetries, opt.DialerRetries = true, -1, 1
	opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout = 500*time.Millisecond, 500*time.Millisecond, 500*time.Millisecond
	return redis.NewClient(opt)
}
