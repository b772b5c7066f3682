//go:build faults && linux

package faults

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox"
	"miaosha/seckill/sandbox/sandboxtest"
)

const sentinelName = "shop" // of the master

const sentinelConf = `port %d
bind 127.0.0.1
protected-mode no
dir %s
sentinel monitor shop 127.0.0.1 %d 2
sentinel auth-pass shop %s
sentinel down-after-milliseconds shop 1000
sentinel failover-timeout shop 5000
`

// openSentinel starts a master, its replica, and three sentinels.
func (g *redisGroup) openSentinel(ctx context.Context, dir, fsync string) (redis.UniversalClient, error) {
	if err := g.start(dir, fsync, 2, func(int) (string, error) { return "", nil }); err != nil {
		return nil, err
	}
	master, replica := g.nodes[0], g.nodes[1]
	if err := g.of(replica).ReplicaOf(ctx, "127.0.0.1", strconv.Itoa(master.port)).Err(); err != nil {
		return nil, err
	}
	if !sandboxtest.Poll(func() bool { return g.replication(ctx, replica, "master_link_status") == "up" }) {
		return nil, fmt.Errorf("the replica never knew its master")
	}
	var addrs, urls []string
	for i := range 3 {
		addr, err := g.startSentinel(filepath.Join(dir, fmt.Sprint("sentinel-", i)), master)
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, addr)
		urls = append(urls, "redis+sentinel://:"+redisPassword+"@"+addr+"/0?master_name="+sentinelName)
	}
	for i, c := range g.watchers {
		if !sandboxtest.Poll(func() bool {
			others, replicas := c.Sentinels(ctx, sentinelName).Val(), c.Replicas(ctx, sentinelName).Val()
			return len(others) == 2 && len(replicas) == 1
		}) {
			return nil, fmt.Errorf("the sentinel at %s does not know the others and the replica", addrs[i])
		}
	}
	g.url = strings.Join(urls, ",")
	opt := master.client().Options()
	return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: sentinelName, SentinelAddrs: addrs, Password: redisPassword,
		ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
		DialTimeout: opt.DialTimeout, ReadTimeout: opt.ReadTimeout, WriteTimeout: opt.WriteTimeout}), nil
}

// startSentinel starts a sentinel of a master and returns its address.
func (g *redisGroup) startSentinel(dir string, master *Redis) (addr string, err error) {
	port, err := sandbox.FreePort()
	if err != nil {
		return "", err
	}
	server, err := shared.tools.Redis(dir, port, redisPassword, "no", "") // only for the program's path
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	conf := filepath.Join(dir, "sentinel.conf") // which a sentinel rewrites
	if err := os.WriteFile(conf, fmt.Appendf(nil, sentinelConf, port, dir, master.port, redisPassword), 0o600); err != nil {
		return "", err
	}
	cmd := exec.Command(server.Path, conf, "--sentinel")
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	p, err := startProcess(cmd)
	if err != nil {
		return "", err
	}
	g.sentinels = append(g.sentinels, p)
	addr = fmt.Sprintf("127.0.0.1:%d", port)
	c := redis.NewSentinelClient(&redis.Options{Addr: addr, DialerRetries: 1, ContextTimeoutEnabled: true})
	g.watchers = append(g.watchers, c)
	return addr, waitReady(p, "sentinel", func(ctx context.Context) error { return c.Ping(ctx).Err() })
}
