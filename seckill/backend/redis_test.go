package backend

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox/sandboxtest"
)

// fakeServer speaks the protocol of Redis, with these commands and PING, and without HELLO.
func fakeServer(t *testing.T, commands map[string]server.Cmd) *server.Server {
	t.Helper()
	s, err := server.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	register := func(name string, do server.Cmd) {
		if err := s.Register(name, do); err != nil {
			t.Fatal(err)
		}
	}
	register("PING", func(c *server.Peer, _ string, _ []string) { c.WriteInline("PONG") })
	register("INFO", func(c *server.Peer, _ string, _ []string) { c.WriteBulk("maxmemory_policy:noeviction") })
	for name, do := range commands {
		register(name, do)
	}
	return s
}

func openTest(t *testing.T, at string) redis.UniversalClient {
	t.Helper()
	rdb, err := openRedis(t.Context(), at, 64, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// A dead master of a Cluster does not say who its successor is. The client asks the other nodes.
func TestTheNewMasterOfAClusterIsFoundSoon(t *testing.T) {
	t.Parallel()
	var nodes [2]*server.Server
	var master atomic.Int64 // which of them has all slots
	for i := range nodes {
		nodes[i] = fakeServer(t, map[string]server.Cmd{
			"CLUSTER": func(c *server.Peer, _ string, _ []string) {
				at := nodes[master.Load()].Addr()
				c.WriteLen(1)
				c.WriteLen(3)
				c.WriteInt(0)
				c.WriteInt(16383)
				c.WriteLen(3)
				c.WriteBulk("127.0.0.1")
				c.WriteInt(at.Port)
				c.WriteBulk(strconv.Itoa(at.Port))
			},
			"GET": func(c *server.Peer, _ string, _ []string) {
				if int64(i) != master.Load() {
					c.WriteError("CLUSTERDOWN Hash slot not served")
					return
				}
				c.WriteBulk(strconv.Itoa(i))
			},
		})
	}
	rdb := openTest(t, "redis://"+nodes[0].Addr().String()+",redis://"+nodes[1].Addr().String())
	if got, err := rdb.Get(t.Context(), "k").Result(); err != nil || got != "0" {
		t.Fatalf("before: %q, %v, want the first node", got, err)
	}
	nodes[0].Close()
	master.Store(1)
	var err error
	if !sandboxtest.Poll(func() bool {
		err = rdb.Get(t.Context(), "k").Err()
		return err == nil
	}) {
		t.Errorf("after a master has died the client does not learn of its successor: %v", err)
	}
}

// Sentinels name the master, and after its death another.
func TestSentinelsNameTheMaster(t *testing.T) {
	t.Parallel()
	masters := [2]*miniredis.Miniredis{miniredis.RunT(t), miniredis.RunT(t)}
	var addrs [2]string
	for i, m := range masters {
		m.RequireUserAuth("shop", "opensesame")
		addrs[i] = m.Addr()
	}
	var master atomic.Int64
	sentinel := fakeServer(t, map[string]server.Cmd{
		"AUTH": func(c *server.Peer, _ string, args []string) {
			if len(args) != 1 || args[0] != "watch" {
				c.WriteError("WRONGPASS invalid username-password pair")
				return
			}
			c.WriteOK()
		},
		"SENTINEL": func(c *server.Peer, _ string, args []string) {
			if strings.ToLower(args[0]) != "get-master-addr-by-name" {
				c.WriteLen(0)
				return
			}
			if args[1] != "main" {
				c.WriteNull()
				return
			}
			host, port, _ := net.SplitHostPort(addrs[master.Load()])
			c.WriteStrings([]string{host, port})
		},
		"SUBSCRIBE": func(*server.Peer, string, []string) {},
	})
	at := sentinel.Addr().String()
	rdb := openTest(t, "redis+sentinel://shop:opensesame@"+at+"/0?master_name=main&sentinel_password=watch,redis+sentinel://"+at)
	if err := rdb.Set(t.Context(), "k", 1, 0).Err(); err != nil || !masters[0].Exists("k") {
		t.Fatalf("before: %v, and the first master has the keys %v", err, masters[0].Keys())
	}
	masters[0].Close()
	if err := rdb.Set(t.Context(), "k", 2, 0).Err(); err == nil {
		t.Error("without a master a write succeeds")
	}
	master.Store(1)
	var err error
	if !sandboxtest.Poll(func() bool {
		err = rdb.Set(t.Context(), "k", 3, 0).Err()
		return err == nil
	}) || !masters[1].Exists("k") {
		t.Errorf("the new master is not found: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), sandboxtest.Hang)
	defer cancel()
	if _, err := openRedis(ctx, "redis+sentinel://shop:opensesame@"+at+"?master_name=other&sentinel_password=watch", 64, false); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a master that the sentinels do not know: %v", err)
	}
}

func TestAddressesOfSentinels(t *testing.T) {
	t.Parallel()
	got, err := redisOptions("redis+sentinel://me:secret@a/3?master_name=shop&sentinel_username=w&sentinel_password=x, redis+sentinel://b:7")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(got.Addrs, " ") != "a:26379 b:7" || got.MasterName != "shop" || got.Username != "me" || got.Password != "secret" || got.DB != 3 ||
		got.SentinelUsername != "w" || got.SentinelPassword != "x" {
		t.Errorf("sentinels %v, master %q, Redis %s:%s/%d, sentinel %s:%s", got.Addrs, got.MasterName, got.Username, got.Password, got.DB,
			got.SentinelUsername, got.SentinelPassword)
	}
	const want = "a redis+sentinel:// address needs ?master_name=, and sentinels beside it only"
	for _, at := range []string{"redis+sentinel://a", "redis+sentinel://a?master_name=shop,redis://b", "redis://b,redis+sentinel://a?master_name=shop"} {
		if _, err := redisOptions(at); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want: %s", at, err, want)
		}
	}
}
