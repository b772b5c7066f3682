//go:build faults && linux

package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"miaosha/seckill/sandbox"
	"miaosha/seckill/sandbox/sandboxtest"
)

// redisGroup is servers of Redis that replace a dead master by its replica: a Cluster of three masters, each with a replica, or
// a master and a replica that three sentinels watch.
type redisGroup struct {
	url       string // for the shops
	ahead     bool   // see setup
	nodes     []*Redis
	sentinels []*process
	watchers  []*redis.SentinelClient // one of each sentinel

	mu      sync.Mutex
	clients map[*Redis]*redis.Client
}

// openGroup starts the group of the scenario, and opens a client of it.
func (env *Environment) openGroup(fsync string) (err error) {
	env.group = &redisGroup{ahead: env.sc.setup.ahead, clients: map[*Redis]*redis.Client{}}
	ctx, cancel := context.WithTimeout(context.Background(), 3*sandboxtest.Hang)
	defer cancel()
	if env.sc.setup.cluster {
		env.rdb, err = env.group.openCluster(ctx, filepath.Join(env.dir, "redis"), fsync)
	} else {
		env.rdb, err = env.group.openSentinel(ctx, filepath.Join(env.dir, "redis"), fsync)
	}
	return err
}

// start starts n servers. more returns the configuration of the ith.
func (g *redisGroup) start(dir, fsync string, n int, more func(i int) (string, error)) error {
	var starts errgroup.Group
	for i := range n {
		r := &Redis{fsync: fsync, dir: filepath.Join(dir, strconv.Itoa(i)), ahead: g.ahead && i == 1}
		text, err := more(i)
		if err != nil {
			return err
		}
		r.more = text + "masterauth " + redisPassword + "\nrepl-diskless-sync-delay 0\nrepl-ping-replica-period 1\n"
		if err := os.MkdirAll(r.dir, 0o700); err != nil {
			return err
		}
		starts.Go(r.Start)
		g.nodes = append(g.nodes, r)
	}
	return starts.Wait()
}

// of returns a client of one server. It follows no redirection.
func (g *redisGroup) of(r *Redis) *redis.Client {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.clients[r] == nil {
		g.clients[r] = r.client()
	}
	return g.clients[r]
}

// replication returns a value of the replication of one server, "" for none.
func (g *redisGroup) replication(ctx context.Context, r *Redis, name string) string {
	return g.of(r).InfoMap(ctx, "replication").Item("Replication", name)
}

func (g *redisGroup) close() {
	for _, c := range g.clients {
		c.Close()
	}
	for _, s := range g.watchers {
		s.Close()
	}
	for _, r := range g.nodes {
		r.close()
	}
	for _, s := range g.sentinels {
		s.End(os.Kill, sandboxtest.Hang)
	}
}

// masterAndReplica returns the server that has the sale, and its replica.
func (env *Environment) masterAndReplica() (master, replica *Redis) {
	ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
	defer cancel()
	master, err := env.saleMaster(ctx)
	if err != nil {
		env.T.Fatal(err)
	}
	for _, r := range env.group.nodes {
		if r.Ended() {
			continue
		}
		if env.group.replication(ctx, r, "master_port") == strconv.Itoa(master.port) {
			return master, r
		}
	}
	env.T.Fatal("the sale's master has no replica")
	return nil, nil
}

// saleMaster returns the server that has the sale.
func (env *Environment) saleMaster(ctx context.Context) (*Redis, error) {
	for _, r := range env.group.nodes {
		if !r.Ended() && env.servesSale(ctx, r) {
			return r, nil
		}
	}
	return nil, fmt.Errorf("no Redis has the sale")
}

// servesSale reports whether a server takes writes for the sale.
func (env *Environment) servesSale(ctx context.Context, r *Redis) bool {
	return env.group.of(r).Del(ctx, env.key("none")).Err() == nil
}

// waitServes waits until a server takes writes for the sale, and every sentinel names it as the master.
func (env *Environment) waitServes(r *Redis) {
	ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
	defer cancel()
	if !sandboxtest.Poll(func() bool {
		for _, s := range env.group.watchers {
			if at, err := s.GetMasterAddrByName(ctx, sentinelName).Result(); err != nil || at[1] != strconv.Itoa(r.port) {
				return false
			}
		}
		return env.servesSale(ctx, r)
	}) {
		env.T.Errorf("after %v the Redis at %s does not serve the sale", sandboxtest.Hang, r.addr)
	}
}

// nodeTimeout is after how many milliseconds without a reply the others call a master of a Cluster dead.
const nodeTimeout = 1000

// openCluster starts a Cluster: servers 0 to 2 are masters, and server i+3 is the replica of i.
func (g *redisGroup) openCluster(ctx context.Context, dir, fsync string) (redis.UniversalClient, error) {
	const masters, slots = 3, 16384
	bus := make([]int, 2*masters)
	if err := g.start(dir, fsync, len(bus), func(i int) (text string, err error) {
		bus[i], err = sandbox.FreePort()
		// A replica may take over however old its data is: a scenario makes it old.
		return fmt.Sprintf("cluster-enabled yes\ncluster-port %d\ncluster-node-timeout %d\ncluster-replica-validity-factor 0\n"+
			"cluster-allow-replica-migration no\n", bus[i], nodeTimeout), err
	}); err != nil {
		return nil, err
	}
	ids, urls, addrs := make([]string, len(bus)), make([]string, len(bus)), make([]string, len(bus))
	for i, r := range g.nodes {
		var err error
		if ids[i], err = g.of(r).ClusterMyID(ctx).Result(); err != nil {
			return nil, err
		}
		urls[i], addrs[i] = r.URL(), r.addr
		commands := [][]any{{"cluster", "set-config-epoch", i + 1}}
		if i < masters {
			commands = append(commands, []any{"cluster", "addslotsrange", i * slots / masters, (i+1)*slots/masters - 1})
		}
		if i > 0 {
			commands = append(commands, []any{"cluster", "meet", "127.0.0.1", g.nodes[0].port, bus[0]})
		}
		for _, c := range commands {
			if err := g.of(r).Do(ctx, c...).Err(); err != nil {
				return nil, fmt.Errorf("%v: %w", c, err)
			}
		}
	}
	for i, r := range g.nodes[masters:] {
		if !sandboxtest.Poll(func() bool { return g.of(r).Do(ctx, "cluster", "replicate", ids[i]).Err() == nil }) {
			return nil, fmt.Errorf("%s never knew its master", r.addr)
		}
	}
	for _, r := range g.nodes {
		if !sandboxtest.Poll(func() bool {
			nodes := g.of(r).ClusterNodes(ctx).Val()
			return g.replication(ctx, r, "master_link_status") != "down" && strings.Count(nodes, "slave ") == masters && strings.Contains(g.of(r).ClusterInfo(ctx).Val(), "cluster_state:ok")
		}) {
			return nil, fmt.Errorf("the Cluster is not ready: %s", g.of(r).ClusterNodes(ctx).Val())
		}
	}
	g.url = strings.Join(urls, ",")
	opt := g.nodes[0].client().Options()
	return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, Password: redisPassword, ContextTimeoutEnabled: true, DialerRetries: 1,
		DialTimeout: opt.DialTimeout, ReadTimeout: opt.ReadTimeout, WriteTimeout: opt.WriteTimeout,
		ClusterStateReloadInterval: 50 * time.Millisecond}), nil
}
