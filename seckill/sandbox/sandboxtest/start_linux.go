package sandboxtest

import (
	"runtime"
	"syscall"
)

// start starts a process that the kernel kills when this test binary ends, however it ends: a run of tests that is
// killed leaves no shop behind. It lasts until ended is closed.
func (s *Shop) start() error {
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the signal comes when the thread ends that has started the process
		defer runtime.UnlockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			<-s.ended
		}
	}()
	return <-started
}
