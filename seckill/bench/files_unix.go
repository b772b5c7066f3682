//go:build unix

package bench

import (
	"fmt"
	"syscall"
)

// RoomFor lets this process, and those that it starts from then on, have so many connections open at once.
func RoomFor(conns int) error {
	var has syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &has); err != nil {
		return fmt.Errorf("read how many files may be open: %w", err)
	}
	need := uint64(conns + otherFiles)
	if has.Cur >= need {
		return nil
	}
	want := syscall.Rlimit{Cur: need, Max: max(need, has.Max)} // only root may raise the second
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &want); err != nil {
		return fmt.Errorf("--conns: %d connections take %d open files, and %d are allowed: ulimit -n %d", conns, need, has.Cur, need)
	}
	return nil
}
