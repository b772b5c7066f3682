package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// busyArgument makes this program a busy loop.
const busyArgument = "busy-loop"

// loops are the busy loops beside the tests. Each is a process.
type loops struct {
	cmds []*exec.Cmd
	pipe []io.Closer
}

// startLoops starts n busy loops. Those that it has started are in loops even if it fails.
func startLoops(n int) (*loops, error) {
	l := &loops{}
	self, err := os.Executable()
	for range n {
		if err != nil {
			break
		}
		cmd := exec.Command(self, busyArgument)
		cmd.Env = append(os.Environ(), "GOMAXPROCS=2") // one for the loop, one for the end
		var stdin io.Closer
		if stdin, err = cmd.StdinPipe(); err != nil {
			break
		}
		if err = cmd.Start(); err == nil {
			l.cmds, l.pipe = append(l.cmds, cmd), append(l.pipe, stdin)
		}
	}
	if err != nil {
		return l, fmt.Errorf("start a busy loop: %w", err)
	}
	return l, nil
}

// end ends the loops and waits for them.
func (l *loops) end() {
	for i, cmd := range l.cmds {
		l.pipe[i].Close()
		if err := cmd.Wait(); err != nil && !errors.Is(err, os.ErrClosed) {
			fmt.Fprintln(os.Stderr, "flakes: a busy loop:", err)
		}
	}
}

// busy keeps a processor busy until its input ends, which also happens when the process that started it dies.
func busy(in io.Reader) {
	go func() {
		for x := uint32(1); ; {
			x ^= x << 5
		}
	}()
	io.Copy(io.Discard, in)
	os.Exit(0)
}
