package lab

import "golang.org/x/sys/unix"

// limitMemory lets the system refuse memory beyond n bytes. RLIMIT_DATA counts what can be written to, unlike RLIMIT_AS,
// which counts the large ranges that Go only reserves.
func limitMemory(n uint64) {
	n += 256 << 20 // Go's own tables and stacks
	_ = unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: n, Max: n})
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}
