package sandbox

import (
	"os"
	"os/exec"
	"syscall"
)

// prepare ties a child to this process. The child receives p.deathSignal when this process dies, by
// kill -9 too. It has a process group of its own, so that Ctrl-C reaches this process only, which
// then stops the servers in order. It inherits the servers' lock.
func prepare(cmd *exec.Cmd, p program) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: p.account.credential(),
		Setpgid:    true,
		Pdeathsig:  p.deathSignal.(syscall.Signal),
	}
	endAsGroup(cmd)
	if p.serversLock != nil {
		cmd.ExtraFiles = []*os.File{p.serversLock}
	}
}

// addToJob does nothing on Linux: prepare has set the death signal.
func addToJob(*os.Process) error { return nil }
