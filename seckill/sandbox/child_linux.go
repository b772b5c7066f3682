package sandbox

import (
	"os"
	"syscall"
)

// tie makes the child receive a signal when this process dies, by kill -9 too.
func tie(child *syscall.SysProcAttr, deathSignal os.Signal) {
	child.Pdeathsig = deathSignal.(syscall.Signal)
}
