//go:build !windows

package operator

import (
	"os"
	"syscall"
)

// QuietSignals would end the shop without a word. Other servers take them for a request, such as to open their logs
// again.
var QuietSignals = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2}
