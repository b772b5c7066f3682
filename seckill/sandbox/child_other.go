//go:build !linux && !windows

package sandbox

import (
	"os"
	"os/exec"
	"syscall"
)

// prepare gives a child a process group of its own, so that Ctrl-C at the terminal reaches us alone and we stop the servers
// in order; and the bond. Here nothing ends the children of a process that is killed: the next owner finds the bond held
// and ends them.
func prepare(cmd *exec.Cmd, p program) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as.credential(), Setpgid: true}
	endAsGroup(cmd)
	if p.bond != nil {
		cmd.ExtraFiles = []*os.File{p.bond}
	}
}

// adopt has nothing to do here.
func adopt(*os.Process) error { return nil }
