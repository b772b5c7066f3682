//go:build unix

package main

import (
	"os/exec"
	"syscall"
	"time"
)

// group lets the end of a command's context interrupt it with all processes that it starts: a Ctrl-C of the terminal
// does not reach them then. The function that it returns kills those that are left.
func group(cmd *exec.Cmd) (kill func()) {
	signal := func(s syscall.Signal) error { return syscall.Kill(-cmd.Process.Pid, s) }
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return signal(syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second // for the tests to stop their servers
	return func() { signal(syscall.SIGKILL) }
}
