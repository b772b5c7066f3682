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

	"miaosha/seckill/sandbox/sandboxtest"
)

// process is a child that the suite may kill. It ends with the test binary.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has exited
}

var starts = make(chan func())

// startChildren starts every child, on one thread that never ends: Linux kills a child when the thread that started it ends.
func startChildren() {
	runtime.LockOSThread()
	for f := range starts {
		f()
	}
}

func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	starts <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		cmd.Wait()
	}()
	return p, nil
}

// Signal sends a signal to the process, unless it has exited.
func (p *process) Signal(sig os.Signal) { p.cmd.Process.Signal(sig) }

// End sends a signal and waits for the exit. After limit it kills the process. It returns the exit code, or -1 for a process
// that was killed.
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

// Ended reports whether the process has exited.
func (p *process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// waitReady waits until a server answers a ping. It returns an error if the server exits.
func waitReady(p *process, what string, ping func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
	defer cancel()
	for {
		err := ping(ctx)
		if err == nil {
			return nil
		}
		if p.Ended() {
			return fmt.Errorf("%s exited: %v", what, p.cmd.ProcessState)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s does not answer: %w", what, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
