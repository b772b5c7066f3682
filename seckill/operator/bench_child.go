package operator

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"miaosha/seckill/bench"
)

// child is another process of this program. It prints the URL at which it listens.
type child struct {
	url    string
	cmd    *exec.Cmd
	stdin  io.Closer
	group  errgroup.Group // starts the process and waits for its end
	lines  chan string    // of its standard output, the first of them
	exited chan struct{}
}

const childStartLimit, childStopLimit = 2 * time.Minute, 15 * time.Second // a first start may download Postgres

// startChild starts a child with our environment and stores and waits for its URL. Call stop after.
func startChild(ctx context.Context, env Env, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(self, args...), lines: make(chan string, 100), exited: make(chan struct{})}
	c.cmd.Env = append(c.cmd.Environ(), "MIAOSHA_LOG_LEVEL=warn")
	b := env.Backend // passed by environment: the list of processes must not show the passwords
	for name, value := range map[string]string{"DATABASE_URL": b.DatabaseURL, "REDIS_URL": b.RedisURL,
		"SESSION_REDIS_URL": b.SessionRedisURL, "READ_DATABASE_URL": b.ReadDatabaseURL,
		"MIAOSHA_DATA_DIR": b.DataDir, "MIAOSHA_SANDBOX": b.SandboxRuns, "MIAOSHA_SANDBOX_REDIS": b.SandboxRedis,
		"MIAOSHA_POSTGRES_BIN":    b.PostgresBin,
		"MIAOSHA_POSTGRES_MIRROR": b.PostgresMirror, "MIAOSHA_SECRET": b.Secret} {
		// The child must not have a store from our environment that this command does not use.
		c.cmd.Env = slices.DeleteFunc(c.cmd.Env, func(v string) bool {
			return strings.HasPrefix(v, name+"_FILE=") || strings.HasPrefix(v, name+"=")
		})
		if value != "" {
			c.cmd.Env = append(c.cmd.Env, name+"="+value)
		}
	}
	c.cmd.Stderr = env.Err
	stopWithParent(c.cmd)
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	c.group.Go(func() error {
		defer close(c.exited)
		// stopWithParent binds the child to this thread, so the thread must live until the child has ended
		runtime.LockOSThread()
		err := c.cmd.Start()
		started <- err
		if err != nil {
			return err
		}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			select {
			case c.lines <- lines.Text():
			default: // no one reads that fast
			}
		}
		return c.cmd.Wait()
	})
	if err := <-started; err != nil {
		return nil, err
	}
	if c.url, err = c.nextURL(ctx, ""); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

// nextURL waits for a line of the child's that contains label and a URL, and returns the URL.
func (c *child) nextURL(ctx context.Context, label string) (string, error) {
	limit := time.After(childStartLimit)
	for {
		select {
		case line := <-c.lines:
			if strings.HasPrefix(line, "the sandbox ") { // a part of the start that takes longer
				fmt.Fprintln(c.cmd.Stderr, line)
			} else if _, rest, ok := strings.Cut(line, "http"); ok && strings.Contains(line, label) {
				return strings.Fields("http" + rest)[0], nil
			}
		case <-c.exited:
			return "", errors.New("the process ended at once")
		case <-ctx.Done():
			return "", ctx.Err()
		case <-limit:
			return "", errors.New("the process does not listen")
		}
	}
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// stop asks the child to end, waits, and kills it after childStopLimit.
func (c *child) stop() {
	c.stdin.Close()
	if c.cmd.Process.Signal(syscall.SIGTERM) != nil { // the child is gone, or the system has no signals
		c.cmd.Process.Kill()
	}
	select {
	case <-c.exited:
	case <-time.After(childStopLimit):
		c.cmd.Process.Kill()
	}
	c.group.Wait() // the child was told to end, so its exit status does not matter
}

// Baseline is the hidden command that Bench starts for comparison.
type Baseline struct{}

// Run serves until standard input ends, which it also does when the parent process ends.
func (Baseline) Run(env Env) error { return bench.ServeBaseline(env.In, env.Out) }
