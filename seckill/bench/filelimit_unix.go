//go:build unix

package bench

import (
	"fmt"
	"syscall"
)

// RaiseFileLimit allows that many open connections in this process and those that it starts later.
func RaiseFileLimit(conns int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	need := uint64(conns + spareFiles)
	if limit.Cur >= need {
		return nil
	}
	want := syscall.Rlimit{Cur: need, Max: max(need, limit.Max)} // only root may raise Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &want); err != nil {
		return fmt.Errorf("--conns: %d connections need %d open files, but the limit is %d: ulimit -n %d", conns, need,
			limit.Cur, need)
	}
	return nil
}
