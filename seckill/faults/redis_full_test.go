//go:build faults && linux

package faults

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	// Children inherit it: a file at its limit is then an error that Redis is told of, as a full disk is, and not its end.
	signal.Ignore(syscall.SIGXFSZ)
}

// redisFull are the scenarios in which Redis has no room, in memory or on its disk.
func redisFull() []scenario {
	return []scenario{
		{name: "Redis out of memory", long: true, realRedis: true, crowd: enough,
			run: func(w *World, c *Crowd) {
				c.For(1500 * time.Millisecond)
				w.Strike("out of memory", func() {
					w.configRedis("maxmemory", "100kb") // less than an empty one uses
					c.For(3 * time.Second)
					w.configRedis("maxmemory", "0")
				})
			},
			after: func(w *World, c *Crowd) { w.answersWithin(c, 40, 0.9, time.Second) }},
		{name: "Redis's disk full (appendfsync everysec)", long: true, realRedis: true, crowd: enough,
			run: func(w *World, c *Crowd) {
				c.For(1500 * time.Millisecond)
				w.Strike("disk full", func() {
					w.fillDisk()
					if err := until(3*time.Second, "Redis refuses to write", func() bool {
						err := w.rdb.Set(context.Background(), "full", 1, time.Minute).Err()
						return err != nil && strings.HasPrefix(err.Error(), "MISCONF")
					}); err != nil {
						w.T.Error(err)
					}
					c.For(3 * time.Second)
					w.limitFiles(unix.RLIM_INFINITY)
					// It tries again each second; the fault lasts until then.
					if err := until(5*time.Second, "Redis writes again", func() bool {
						return w.rdb.Set(context.Background(), "full", 1, time.Minute).Err() == nil
					}); err != nil {
						w.T.Error(err)
					}
				})
			},
			after: func(w *World, c *Crowd) { w.answersWithin(c, 40, 0.9, time.Second) }},
		{name: "Redis's disk full (appendfsync always)", detail: "it ends, and is started again when there is room", long: true,
			realRedis: true, setup: setup{fsync: "always"}, crowd: enough,
			run: func(w *World, c *Crowd) {
				c.For(1500 * time.Millisecond)
				w.Strike("disk full", func() {
					w.fillDisk()
					if err := until(5*time.Second, "Redis ends for want of room", w.Redis.Ended); err != nil {
						w.T.Error(err)
						w.Redis.Kill()
					}
					c.For(2 * time.Second)
					w.restartRedis() // the limit was the old one's
				})
			},
			after: func(w *World, c *Crowd) { w.answersWithin(c, 40, 0.9, time.Second) }},
	}
}

func (w *World) configRedis(name, value string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := w.rdb.ConfigSet(ctx, name, value).Err(); err != nil {
		w.T.Errorf("set %s of Redis: %v", name, err)
	}
}

// fillDisk lets Redis write a few bytes more to its journal, and then none: the last write is cut short, as by a disk
// that is full.
func (w *World) fillDisk() {
	parts, err := filepath.Glob(filepath.Join(w.Redis.aof(), "*.incr.aof"))
	if err != nil || len(parts) != 1 {
		w.T.Errorf("the journal of Redis has %d parts: %v", len(parts), err)
		return
	}
	is, err := os.Stat(parts[0])
	if err != nil {
		w.T.Error(err)
		return
	}
	w.limitFiles(uint64(is.Size()) + 10)
}

// limitFiles bounds the files that Redis writes. The hard limit stays open, so that it can be taken back.
func (w *World) limitFiles(size uint64) {
	if err := unix.Prlimit(w.Redis.cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: unix.RLIM_INFINITY}, nil); err != nil {
		w.T.Errorf("limit the files of Redis: %v", err)
	}
}
