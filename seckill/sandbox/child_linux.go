package sandbox

import (
	"os"
	"os/exec"
	"syscall"
)

// prepare ties a child to us: it gets the signal p.dies when we die, kill -9 included; a process group of its own, so that
// Ctrl-C at the terminal reaches us alone and we stop the servers in order; and the bond.
func prepare(cmd *exec.Cmd, p program) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: p.as.credential(),
		Setpgid:    true,
		Pdeathsig:  p.dies.(syscall.Signal),
	}
	endAsGroup(cmd)
	if p.bond != nil {
		cmd.ExtraFiles = []*os.File{p.bond}
	}
}

// adopt has nothing to do here: prepare has done it.
func adopt(*os.Process) error { return nil }
