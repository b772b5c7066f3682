package operator

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"miaosha/seckill/bench"
)

// child is another process of this program that says where it listens.
type child struct {
	url  string
	cmd  *exec.Cmd
	in   io.Closer
	life errgroup.Group // starts it and waits for its end
	done chan struct{}
}

const childStarts, childStops = 2 * time.Minute, 15 * time.Second // a first start may fetch Postgres

// startChild starts one with our environment and our stores, and waits for its address. Call stop in the end.
func startChild(ctx context.Context, d Desk, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(self, args...), done: make(chan struct{})}
	c.cmd.Env = append(c.cmd.Environ(), "MIAOSHA_LOG_LEVEL=warn")
	b := d.Backend // its passwords are not for the list of processes, so they go by environment
	for name, value := range map[string]string{"DATABASE_URL": b.DatabaseURL, "REDIS_URL": b.RedisURL, "SESSION_REDIS_URL": b.SessionRedisURL,
		"MIAOSHA_DATA_DIR": b.DataDir, "MIAOSHA_SANDBOX_REDIS": b.SandboxRedis, "MIAOSHA_POSTGRES_BIN": b.PostgresBin,
		"MIAOSHA_POSTGRES_MIRROR": b.PostgresMirror, "MIAOSHA_SECRET": b.Secret} {
		if value != "" {
			c.cmd.Env = append(c.cmd.Env, name+"="+value)
		}
	}
	c.cmd.Stderr = d.Err
	tie(c.cmd)
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started, address := make(chan error, 1), make(chan string, 1)
	c.life.Go(func() error {
		defer close(c.done)
		runtime.LockOSThread() // a tie is to the thread that starts the child; it stays until the child has ended
		err := c.cmd.Start()
		started <- err
		if err != nil {
			return err
		}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if _, rest, ok := strings.Cut(lines.Text(), "http"); ok {
				select {
				case address <- strings.Fields("http" + rest)[0]:
				default: // the first is the one
				}
			}
		}
		return c.cmd.Wait()
	})
	if err := <-started; err != nil {
		return nil, err
	}
	limit := time.NewTimer(childStarts)
	defer limit.Stop()
	select {
	case c.url = <-address:
		return c, nil
	case <-c.done:
		err = errors.New("it ended at once")
	case <-ctx.Done():
		err = ctx.Err()
	case <-limit.C:
		err = errors.New("it doesn't open")
	}
	c.stop()
	return nil, err
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// stop asks the child to end, waits, and ends it if it doesn't.
func (c *child) stop() {
	c.in.Close()
	if c.cmd.Process.Signal(syscall.SIGTERM) != nil { // gone, or a system without signals
		c.cmd.Process.Kill()
	}
	select {
	case <-c.done:
	case <-time.After(childStops):
		c.cmd.Process.Kill()
	}
	c.life.Wait() // it was told to end: how it did is no news
}

// Yardstick is what Bench starts to compare with.
type Yardstick struct{}

// Run serves until standard input ends, as it does when whoever started it has ended.
func (Yardstick) Run(d Desk) error { return bench.ServeYardstick(d.In, d.Out) }
