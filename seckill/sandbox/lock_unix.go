//go:build !windows

package sandbox

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes the lock of a file. The system releases it when every process that has the file has
// closed it. So a child that inherits the file holds the lock too.
func lock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// isHeld reports whether lock has failed because another process holds the lock.
func isHeld(err error) bool { return errors.Is(err, unix.EWOULDBLOCK) }
