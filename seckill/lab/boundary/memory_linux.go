package boundary

import (
	"os"
	"os/signal"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"miaosha/seckill/lab/throwaway"
)

// limitMemory lets the system refuse memory beyond n bytes. RLIMIT_DATA counts what can be written to, unlike
// RLIMIT_AS, which counts the large ranges that Go only reserves.
func limitMemory(n uint64) {
	n += 256 << 20 // Go's own tables and stacks
	_ = unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: n, Max: n})
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	// if the machine has none left, this process goes, and not the shop
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
}

// limitProcessor lets the system end the process when it has used that much time of the processor, and prefer others to
// it.
func limitProcessor(limit time.Duration) {
	seconds := uint64((limit + time.Second - 1) / time.Second)
	over := make(chan os.Signal, 1)
	signal.Notify(over, unix.SIGXCPU)
	go func() {
		<-over
		os.Exit(exitProcessor)
	}()
	_ = unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: seconds, Max: seconds + 2}) // then the system kills it
	threads, _ := os.ReadDir("/proc/self/task")                                       // later ones inherit it
	for _, thread := range threads {
		id, _ := strconv.Atoi(thread.Name())
		if now, err := unix.Getpriority(unix.PRIO_PROCESS, id); err == nil && 20-now < throwaway.Niceness {
			_ = unix.Setpriority(unix.PRIO_PROCESS, id, throwaway.Niceness)
		}
	}
}
