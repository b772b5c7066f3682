package throwaway

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ticksPerSecond is that of the times in /proc on all systems with Linux.
const ticksPerSecond = 100

// procfs is where Linux shows processes.
var procfs = "/proc"

// seesChildren returns an error if Linux does not show which children a process has: it may have been built without
// CONFIG_PROC_CHILDREN, or be an imitation. Then nothing could be added up, or ended.
func seesChildren() error {
	_, err := os.ReadFile(fmt.Sprintf("%s/self/task/%d/children", procfs, unix.Gettid()))
	return err
}

// descendants returns the children of this process, and theirs.
func descendants() (all []int) {
	all = childrenOf(os.Getpid())
	for i := 0; i < len(all); i++ {
		all = append(all, childrenOf(all[i])...)
	}
	return all
}

// childrenOf returns the children of all threads of a process.
func childrenOf(pid int) (all []int) {
	threads, _ := os.ReadDir(fmt.Sprintf(procfs+"/%d/task", pid))
	for _, thread := range threads {
		text, _ := os.ReadFile(fmt.Sprintf(procfs+"/%d/task/%s/children", pid, thread.Name()))
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// used returns the processor time of all processes of the server. The time of one that has ended is its parent's.
func used(running []int) time.Duration {
	var ended unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_CHILDREN, &ended)
	sum := time.Duration(ended.Utime.Nano() + ended.Stime.Nano())
	for _, pid := range running {
		text, err := os.ReadFile(fmt.Sprintf(procfs+"/%d/stat", pid))
		if err != nil {
			continue
		}
		// The name in parentheses may have anything in it. Behind it: state, and from the twelfth field on the times.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		for i := 11; i < 15 && i < len(fields); i++ {
			ticks, _ := strconv.ParseInt(fields[i], 10, 64)
			sum += time.Duration(ticks) * time.Second / ticksPerSecond
		}
	}
	return sum
}

// memoryOf returns how much memory processes have for themselves.
func memoryOf(running []int) (bytes int64) {
	for _, pid := range running {
		text, err := os.ReadFile(fmt.Sprintf(procfs+"/%d/statm", pid))
		if err != nil {
			continue
		}
		var size, resident, shared int64
		if _, err := fmt.Sscan(string(text), &size, &resident, &shared); err == nil {
			bytes += (resident - shared) * int64(os.Getpagesize())
		}
	}
	return bytes
}

// beNice puts each process at Niceness, and its session: backends begin sessions, and Linux shares the processor among
// sessions before it looks at the niceness of their processes, if it has autogroups. Some services refuse both.
func (w *wrapper) beNice(running []int) {
	for _, pid := range running {
		if w.polite[pid] {
			continue
		}
		if now, err := unix.Getpriority(unix.PRIO_PROCESS, pid); err == nil && 20-now < Niceness {
			_ = unix.Setpriority(unix.PRIO_PROCESS, pid, Niceness)
		}
		w.polite[pid] = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", pid), []byte(strconv.Itoa(Niceness)), 0) == nil
	}
}

// sizeOf returns how much room a folder takes, and how many files it has. Files come and go meanwhile.
func sizeOf(folder string) (bytes int64, files int) {
	_ = filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		files++
		if info, err := entry.Info(); err == nil && entry.Type().IsRegular() {
			bytes += info.Size()
		}
		return nil
	})
	return bytes, files
}
