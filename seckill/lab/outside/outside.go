// Package outside judges an outside shop: the student's own server, in any language. The lab sends buyers to its
// processes and kills one of them.
//
// A process finds a port of 127.0.0.1 in the variable PORT and answers three calls there:
//
//   - GET /ready: 200 when it can sell;
//   - POST /buy?user=ID: 200 is yes and 409 is no. After any other answer, or none, the buyer presses again;
//   - POST /end: 200 when it has finished the work that it has accepted. It may end then; it is killed after its
//     answer.
//
// Each process has a process group of its own, which is killed whole: a command such as "go run shop.go" or a script
// starts the program as its child.
package outside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	buyLimit    = 5 * time.Second // a buyer presses again after it
	endLimit    = 10 * time.Second
	exitLimit   = time.Second // from the answer to POST /end, or its failure, to the end of the process
	outputLimit = 2 * time.Second
	ports       = 3  // tries to find a port that no one takes before the process does
	connections = 64 // to one process at one time, as from a load balancer; other clicks wait for one
)

// Shop is an outside shop: its processes sell from the same stores.
type Shop struct {
	command    string
	output     io.Writer
	readyLimit time.Duration
	freePort   func() (string, error)
	started    atomic.Int32
}

// New returns the shop that a command of the system's shell starts. What its processes print goes to output, each line
// with the number of its process in front; the first hundred lines of each.
func New(command string, output io.Writer) *Shop {
	return &Shop{command: command, output: output, readyLimit: 20 * time.Second, freePort: freePort}
}

// Process is a running process of a shop.
type Process struct {
	number int
	port   string
	lines  *lines
	cmd    *exec.Cmd
	client *http.Client
	exited chan struct{} // closed when the process has ended
}

var errPortTaken = errors.New("its port was taken by another program before it could listen; start again")

// Start starts a process with these variables in its environment, as NAME=value, and PORT. It returns when GET /ready
// has answered 200. An error has the last lines that the process printed.
func (s *Shop) Start(ctx context.Context, env []string) (p *Process, err error) {
	number := int(s.started.Add(1))
	for range ports {
		if p, err = s.start(ctx, number, env); !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("process %d of %q: %w", number, s.command, err)
	}
	return p, nil
}

func (s *Shop) start(ctx context.Context, number int, env []string) (*Process, error) {
	port, err := s.freePort()
	if err != nil {
		return nil, err
	}
	p := &Process{number: number, port: port, cmd: shell(s.command), exited: make(chan struct{}),
		lines: &lines{to: s.output, prefix: fmt.Sprintf("[process %d] ", number)}}
	p.client = &http.Client{Transport: &http.Transport{MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	p.cmd.Env = slices.Concat(ownEnvironment(), env, []string{"PORT=" + port})
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = p.lines, p.lines, outputLimit
	if err := p.launch(); err != nil {
		return nil, err
	}
	if err := p.waitReady(ctx, s.readyLimit); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// launch starts the process, and a goroutine that waits for its end.
func (p *Process) launch() error {
	started := make(chan error, 1)
	go func() {
		defer close(p.exited)
		runtime.LockOSThread() // Linux ends the process with the thread that made it: see group_linux.go
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.cmd.Wait() // its state says how it ended
			killGroup(p.cmd.Process.Pid)
		}
	}()
	return <-started
}

// waitReady asks every 20 ms. An answer may take all the time that the process has to become ready.
func (p *Process) waitReady(ctx context.Context, limit time.Duration) error {
	asking, cancel := context.WithCancel(ctx)
	var end sync.WaitGroup
	defer end.Wait()
	defer cancel()
	end.Go(func() {
		select {
		case <-p.exited: // what listens on the port now is another program, which may never answer
			cancel()
		case <-asking.Done():
		}
	})
	began, deadline := time.Now(), time.After(limit)
	for {
		status, err := p.call(asking, "GET", "/ready", max(time.Second, limit-time.Since(began)))
		if err == nil && status == http.StatusOK {
			return nil
		}
		select {
		case <-p.exited:
			if !canListen(p.port) {
				return fmt.Errorf("%w%s", errPortTaken, p.lines.last())
			}
			return fmt.Errorf("the program ended before it was ready (%v)%s", p.cmd.ProcessState, p.lines.last())
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline:
			why := fmt.Sprintf("answers %d, not 200", status)
			if err != nil {
				why = "is not answered: does the program listen on 127.0.0.1 and on the port in the variable PORT?"
			}
			return fmt.Errorf("not ready after %v: GET http://127.0.0.1:%s/ready %s%s", limit, p.port,
				why, p.lines.last())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Buy sends one click. An error means that the buyer knows nothing.
func (p *Process) Buy(ctx context.Context, user int64) (yes bool, err error) {
	switch status, err := p.call(ctx, "POST", "/buy?user="+strconv.FormatInt(user, 10), buyLimit); {
	case err != nil:
		return false, err
	case status == http.StatusOK:
		return true, nil
	case status == http.StatusConflict:
		return false, nil
	default:
		return false, fmt.Errorf("POST /buy answers %d: want 200 for yes or 409 for no%s", status, p.lines.last())
	}
}

// call returns the status of a reply.
func (p *Process) call(ctx context.Context, method, path string, limit time.Duration) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1:"+p.port+path, nil)
	if err != nil {
		return 0, err
	}
	reply, err := p.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer reply.Body.Close()
	io.Copy(io.Discard, io.LimitReader(reply.Body, 64<<10)) // so that the connection is used again
	return reply.StatusCode, nil
}

// Kill ends the process and its children as kill -9 does, and waits until it is gone.
func (p *Process) Kill() {
	select {
	case <-p.exited: // its group was killed then, and the id may belong to another program by now
	default:
		killGroup(p.cmd.Process.Pid)
		<-p.exited
	}
	p.client.CloseIdleConnections()
}

// Stop sends POST /end, waits for the answer, and kills the process. It kills the process at once if ctx has ended. An
// error says that the process had ended before, or that it did not answer 200.
func (p *Process) Stop(ctx context.Context) (err error) {
	defer p.Kill()
	select {
	case <-p.exited:
		return fmt.Errorf("process %d ended by itself (%v)%s", p.number, p.cmd.ProcessState, p.lines.last())
	default:
	}
	status, err := p.call(ctx, "POST", "/end", endLimit)
	if ctx.Err() != nil || err == nil && status == http.StatusOK {
		return nil
	}
	select {
	case <-p.exited: // it ended instead of an answer
		return nil
	case <-time.After(exitLimit):
	}
	if err == nil {
		err = fmt.Errorf("answers %d", status)
	}
	return fmt.Errorf("process %d: POST /end: %w: want 200 when the accepted work is done%s", p.number,
		err, p.lines.last())
}

// ownEnvironment returns our environment without the settings of this shop.
func ownEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		name = strings.TrimSuffix(name, "_FILE")
		return strings.HasPrefix(name, "MIAOSHA_") || strings.HasSuffix(name, "DATABASE_URL") ||
			strings.HasSuffix(name, "REDIS_URL")
	})
}

// freePort returns a port on which nothing listens at this moment.
func freePort() (string, error) {
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer listen.Close()
	return strconv.Itoa(listen.Addr().(*net.TCPAddr).Port), nil
}

func canListen(port string) bool {
	listen, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return false
	}
	listen.Close()
	return true
}
