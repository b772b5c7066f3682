//go:build faults && linux

package faults

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"

	"miaosha/seckill/sandbox/sandboxtest"
)

func init() {
	// Redis inherits it. A write at the file size limit is then an error for Redis, as on a full disk. Without it, the signal
	// would end Redis.
	signal.Ignore(syscall.SIGXFSZ)
}

// redisFullScenarios returns the scenarios in which Redis has no space left, in memory or on its disk.
func redisFullScenarios() []scenario {
	return []scenario{
		{name: "Redis out of memory", long: true, realRedis: true, crowd: amplePlan,
			run: func(env *Environment, c *Crowd) {
				c.WaitSold(20)
				env.Inject("out of memory", func() {
					env.configRedis("maxmemory", "100kb") // less than an empty Redis uses
					c.Wait(3 * time.Second)
					env.configRedis("maxmemory", "0")
				})
			},
			after: func(env *Environment, c *Crowd) { env.checkResponseTimes(c, 40, 0.9, time.Second) }},
		{name: "Redis's disk full (appendfsync everysec)", long: true, realRedis: true, crowd: amplePlan,
			run: func(env *Environment, c *Crowd) {
				c.WaitSold(20)
				env.Inject("disk full", func() {
					env.fillDisk()
					if !sandboxtest.Poll(func() bool {
						err := env.rdb.Set(context.Background(), "full", 1, time.Minute).Err()
						return redis.HasErrorPrefix(err, "MISCONF")
					}) {
						env.T.Error("Redis still accepts writes")
					}
					c.Wait(3 * time.Second)
					env.limitFiles(unix.RLIM_INFINITY)
					// Redis tries to write again each second. The fault lasts until that succeeds.
					if !sandboxtest.Poll(func() bool {
						return env.rdb.Set(context.Background(), "full", 1, time.Minute).Err() == nil
					}) {
						env.T.Error("Redis accepts no writes")
					}
				})
			},
			after: func(env *Environment, c *Crowd) { env.checkResponseTimes(c, 40, 0.9, time.Second) }},
		{name: "Redis's disk full (appendfsync always)", detail: "it exits, and is restarted when there is space", long: true,
			realRedis: true, setup: setup{fsync: "always"}, crowd: amplePlan,
			run: func(env *Environment, c *Crowd) {
				c.WaitSold(20)
				env.Inject("disk full", func() {
					env.fillDisk()
					if !sandboxtest.Poll(env.Redis.Ended) {
						env.T.Error("Redis did not exit on the full disk")
						env.Redis.Kill()
					}
					c.Wait(2 * time.Second)
					env.restartRedis() // the limit was that of the old process
				})
			},
			after: func(env *Environment, c *Crowd) { env.checkResponseTimes(c, 40, 0.9, time.Second) }},
	}
}

func (env *Environment) configRedis(name, value string) {
	ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
	defer cancel()
	if err := env.rdb.ConfigSet(ctx, name, value).Err(); err != nil {
		env.T.Errorf("set %s of Redis: %v", name, err)
	}
}

// fillDisk lets Redis write a few more bytes to its AOF and then none. The last write is cut short, as on a full disk.
func (env *Environment) fillDisk() {
	parts, err := filepath.Glob(filepath.Join(env.Redis.aof(), "*.incr.aof"))
	if err != nil || len(parts) != 1 {
		env.T.Errorf("the AOF of Redis has %d parts: %v", len(parts), err)
		return
	}
	info, err := os.Stat(parts[0])
	if err != nil {
		env.T.Error(err)
		return
	}
	env.limitFiles(uint64(info.Size()) + 10)
}

// limitFiles limits the size of the files that Redis writes. The hard limit stays open, so that it can be undone.
func (env *Environment) limitFiles(size uint64) {
	if err := unix.Prlimit(env.Redis.cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: unix.RLIM_INFINITY}, nil); err != nil {
		env.T.Errorf("limit the files of Redis: %v", err)
	}
}
