//go:build faults && linux

package faults

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is a child that the harness may kill. It dies with the test binary.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and was waited for
}

var toStart = make(chan func())

// starter starts every child, on one thread that never ends: Linux ends a child when the thread that made it does.
func starter() {
	runtime.LockOSThread()
	for f := range toStart {
		f()
	}
}

func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	toStart <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		cmd.Wait()
	}()
	return p, nil
}

// Signal sends one to the process itself; one that has ended gets none.
func (p *process) Signal(sig os.Signal) { p.cmd.Process.Signal(sig) }

// End sends a signal and waits for the end, at last by force. It gives the exit code: -1 for one that was killed.
func (p *process) End(sig os.Signal, limit time.Duration) int {
	p.Signal(sig)
	select {
	case <-p.done:
	case <-time.After(limit):
		p.Signal(syscall.SIGKILL)
		<-p.done
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// until asks ok each few milliseconds; an error after limit.
func until(limit time.Duration, what string, ok func() bool) error {
	for end := time.Now().Add(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("waited %v in vain: %s", limit, what)
		}
	}
	return nil
}

// answers waits until a server answers, for as long as it lives.
func answers(p *process, what string, ping func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		err := ping(ctx)
		if err == nil {
			return nil
		}
		if p.Ended() {
			return fmt.Errorf("%s ended: %v", what, p.cmd.ProcessState)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s does not answer: %w", what, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
