package operator

import (
	"os/exec"
	"syscall"
)

// stopWithParent lets the kernel stop the child when this process ends, even by kill -9.
func stopWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
