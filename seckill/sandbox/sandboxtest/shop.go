package sandboxtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Stores returns the environment of a shop with a new database and a new Redis, on a free port. The
// first entry is the DATABASE_URL. Its pools are small: each session of Postgres is a process.
func Stores(t testing.TB) []string {
	return []string{"DATABASE_URL=" + DatabaseURL(t), "REDIS_URL=" + RedisURL(t),
		"MIAOSHA_POOL_SETTLE=4", "MIAOSHA_QUEUE_WORKERS=4", "MIAOSHA_POOL_WEB=4", "MIAOSHA_POOL_PAY=3",
		"MIAOSHA_POOL_USERS=3", "MIAOSHA_POOL_STAFF=2",
		"MIAOSHA_SECRET=0123456789abcdef0123456789abcdef", "MIAOSHA_OPS_ADDR=off", "MIAOSHA_ADDR=127.0.0.1:0",
		"HOME=" + t.TempDir()}
}

// Home returns a temporary folder in which Postgres can work, also the one that root runs. It is deleted after the
// test. Below t.TempDir, which is closed to other accounts, root's Postgres has its data at a fixed place on the disk
// instead.
func Home(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Command runs one command of the shop, and returns when it has ended. It has as long as the test: on a busy machine
// some commands have work for minutes.
func Command(t testing.TB, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	binary := Binary(t) // a busy machine takes more than the minute to build it
	until := time.Now().Add(Hang)
	if of, is := t.(*testing.T); is {
		if end, limited := of.Deadline(); limited {
			until = end.Add(-Hang / 10) // so that the test can say what the command has printed
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v", args, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// MustCommand is Command for a command that must succeed. It returns the standard output.
func MustCommand(t testing.TB, env []string, args ...string) string {
	t.Helper()
	out, errs, code := Command(t, env, args...)
	if code != 0 {
		t.Fatalf("miaosha %v: exit %d\n%s%s", args, code, out, errs)
	}
	return out
}

// Sale creates a sale that is open for an hour, and returns its id. More arguments of the command
// override these.
func Sale(t testing.TB, env []string, stock int, args ...string) string {
	t.Helper()
	args = append([]string{"sale", "--title", "T", "--price", "990", "--stock", strconv.Itoa(stock)}, args...)
	return strings.TrimSpace(MustCommand(t, env, args...))
}

// Shop is a running shop.
type Shop struct {
	URL string
	Log *SyncBuffer // its standard error
	Say *SyncBuffer // its standard output

	env []string
	cmd *exec.Cmd
	out chan struct{} // closed when its output ends

	ended chan struct{} // closed when it has been waited for
}

// Open starts the shop and waits until it is open. The end of the test kills it. A data race in it
// fails the test.
func Open(t testing.TB, env []string, args ...string) *Shop {
	t.Helper()
	return open(t, env, exec.Command(Binary(t), args...))
}

// OpenWithFiles is Open for a process that may open that many files.
func OpenWithFiles(t testing.TB, files int, env []string, args ...string) *Shop {
	t.Helper()
	script := fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, files)
	return open(t, env, exec.Command("sh", append([]string{"-c", script, Binary(t)}, args...)...))
}

func open(t testing.TB, env []string, cmd *exec.Cmd) *Shop {
	t.Helper()
	s := &Shop{env: env, cmd: cmd, Log: &SyncBuffer{}, Say: &SyncBuffer{}, out: make(chan struct{}),
		ended: make(chan struct{})}
	s.cmd.Env, s.cmd.Stderr = env, s.Log
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.End(syscall.SIGKILL)
		if _, race, found := strings.Cut(s.Log.String(), "WARNING: DATA RACE"); found {
			t.Errorf("a data race in the shop: %s", race)
		}
	})
	ready := make(chan string, 1)
	go func() {
		defer close(s.out)
		var url string
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			fmt.Fprintln(s.Say, lines.Text())
			if rest, ok := strings.CutPrefix(lines.Text(), "miaosha is open at "); ok {
				url = strings.Fields(rest)[0]
			}
			// The last line of the welcome: a test may ask at once for what stands before it.
			if strings.TrimSpace(lines.Text()) == "stop with Ctrl-C" {
				ready <- url
			}
		}
	}()
	select {
	case s.URL = <-ready:
	case <-s.out:
		s.wait()
		t.Fatalf("the shop ended: %s", s.Log)
	case <-time.After(Hang):
		t.Fatalf("the shop did not open: %s", s.Log)
	}
	return s
}

// SyncBuffer is a buffer that may be read while it is written to.
type SyncBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (t *SyncBuffer) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.Write(b)
}

func (t *SyncBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.String()
}

// PID returns the process id.
func (s *Shop) PID() int { return s.cmd.Process.Pid }

func (s *Shop) wait() {
	s.cmd.Wait()
	close(s.ended)
}

// Signal sends a signal.
func (s *Shop) Signal(t testing.TB, sig os.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// End sends a signal, waits for the end, and returns the exit code, which is -1 for a killed shop.
func (s *Shop) End(sig os.Signal) int {
	if s.cmd.ProcessState == nil {
		s.cmd.Process.Signal(sig)
		<-s.out
		s.wait()
	}
	return s.cmd.ProcessState.ExitCode()
}

// Wait waits until the shop has ended, and returns the exit code.
func (s *Shop) Wait(t testing.TB) int {
	t.Helper()
	if s.cmd.ProcessState == nil {
		select {
		case <-s.out:
		case <-time.After(Hang):
			t.Fatalf("the shop runs on: %s", s.Log)
		}
		s.wait()
	}
	return s.cmd.ProcessState.ExitCode()
}
