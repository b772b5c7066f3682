package operator

import (
	"os/exec"
	"syscall"
)

// tie has the child stop when we end, kill -9 included.
func tie(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
