package sandbox

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lock takes the lock of a file. The system releases it when the file is closed or its process ends.
// Children do not hold it: the job object ends them.
func lock(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
}

// isHeld reports whether lock has failed because another process holds the lock.
func isHeld(err error) bool {
	return errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING)
}
