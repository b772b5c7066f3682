package backend

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox/sandboxtest"
)

// However long Redis was down, the first call after it is back finds it, and each call before says why it failed.
func TestRedisIsFoundAtOnceWhenItIsBack(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	proxy, at := sandboxtest.ProxyTo(t, "redis://"+m.Addr())
	rdb, err := openRedis(t.Context(), at, 64, false)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	proxy.Cut()
	for range 200 {
		if err := rdb.Ping(t.Context()).Err(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("while Redis is away: %v", err)
		}
	}
	if err := proxy.Join(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Errorf("when Redis is back: %v", err)
	}
}

// Callers give up before their connection could be made. The connections that no caller waits for are not used once Redis is back.
func TestConnectionThatFailedLateIsNotUsed(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	const callers = 50
	var dialing atomic.Int64
	fail := make(chan struct{})
	dial := redis.NewDialer(&redis.Options{DialTimeout: sandboxtest.Hang})
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr(), ContextTimeoutEnabled: true, MaxRetries: 1, PoolSize: 64, DialerRetries: 1,
		MaxConcurrentDials: callers, DialTimeout: sandboxtest.Hang,
		Dialer: quickDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dialing.Add(1) <= callers {
				<-fail
				return nil, syscall.EHOSTUNREACH
			}
			return dial(ctx, network, addr)
		})})
	defer rdb.Close()
	ctx, giveUp := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for range callers {
		waiting.Go(func() {
			if err := rdb.Ping(ctx).Err(); err == nil {
				t.Error("a reply while Redis is away")
			}
		})
	}
	sandboxtest.Until(t, "each caller waits for its connection", func() bool { return dialing.Load() == callers })
	giveUp()
	waiting.Wait()
	close(fail)
	sandboxtest.Until(t, "the client has the connections that no caller waits for", func() bool { return rdb.PoolStats().IdleConns == callers })
	for range 100 {
		if err := rdb.Ping(t.Context()).Err(); err != nil {
			t.Errorf("Redis is back: %v", err)
		}
	}
}
