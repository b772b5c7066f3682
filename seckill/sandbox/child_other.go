//go:build !linux && !windows

package sandbox

import (
	"os"
	"os/exec"
	"syscall"
)

// prepare puts a child into a process group of its own, so that Ctrl-C reaches this process only,
// which then stops the servers in order. The child inherits the servers' lock. On these systems
// nothing ends the children of a killed process: the next owner finds the servers' lock held and
// ends them.
func prepare(cmd *exec.Cmd, p program) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.account.credential(), Setpgid: true}
	endAsGroup(cmd)
	if p.serversLock != nil {
		cmd.ExtraFiles = []*os.File{p.serversLock}
	}
}

// addToJob does nothing on these systems.
func addToJob(*os.Process) error { return nil }
