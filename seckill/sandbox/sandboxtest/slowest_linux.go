package sandboxtest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// leastSlow is the processor time below which an input is not worth a file.
const leastSlow = time.Millisecond

// coldCalls are the first ones of a process, which fill caches and are slow whatever their input is.
const coldCalls = 200

// Slowest returns a function for the first line of a fuzz target: defer slowest(input...)(). Under MIAOSHA_SLOWEST,
// which make fuzz sets, it keeps the input that takes most processor time as a seed,
// testdata/fuzz/FuzzX/slowest-MICROSECONDS, in place of the former one. So what once was slow is tried by every test. A
// new one has to take half as much again, or the noise of a machine would change the file each time.
func Slowest(f *testing.F) func(input ...any) func() {
	f.Helper()
	if os.Getenv("MIAOSHA_SLOWEST") == "" {
		return func(...any) func() { return func() {} }
	}
	dir, most := filepath.Join("testdata", "fuzz", f.Name()), leastSlow
	former, _ := filepath.Glob(filepath.Join(dir, "slowest-*"))
	for _, path := range former {
		var us int64
		if _, err := fmt.Sscanf(filepath.Base(path), "slowest-%d", &us); err == nil {
			most = max(most, time.Duration(us)*time.Microsecond)
		}
	}
	calls := 0
	return func(input ...any) func() {
		runtime.LockOSThread()
		began := threadTime()
		return func() {
			took := threadTime() - began
			runtime.UnlockOSThread()
			if calls++; calls < coldCalls || took < most*3/2 {
				return
			}
			most = took
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return
			}
			former, _ := filepath.Glob(filepath.Join(dir, "slowest-*"))
			path := filepath.Join(dir, fmt.Sprintf("slowest-%d", took.Microseconds()))
			if os.WriteFile(path, []byte(corpusFile(input)), 0o644) == nil {
				for _, old := range former {
					_ = os.Remove(old)
				}
			}
		}
	}
}

// corpusFile returns the file of a seed in the form of go test: https://go.dev/doc/security/fuzz
func corpusFile(input []any) string {
	var b strings.Builder
	b.WriteString("go test fuzz v1\n")
	for _, value := range input {
		switch v := value.(type) {
		case string, []byte:
			fmt.Fprintf(&b, "%T(%q)\n", v, v)
		default:
			fmt.Fprintf(&b, "%T(%v)\n", v, v)
		}
	}
	return strings.ReplaceAll(b.String(), "[]uint8(", "[]byte(")
}

// threadTime returns what this thread has used: the collector and the fuzzer have others.
func threadTime() time.Duration {
	var used unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
