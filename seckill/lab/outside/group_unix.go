//go:build !windows

package outside

import (
	"os/exec"
	"syscall"
)

// shell returns the command in a process group of its own: Ctrl-C reaches this program only, and the group can be
// killed.
func shell(command string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endWithParent(cmd.SysProcAttr)
	return cmd
}

// killGroup kills a process and its children. It does nothing if all have ended.
func killGroup(pid int) { syscall.Kill(-pid, syscall.SIGKILL) }
