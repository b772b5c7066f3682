package backend

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// However long Redis was away, the first call after it is back finds it, and each call before says why it failed.
func TestRedisIsFoundAtOnceWhenItIsBack(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	rdb, err := openRedis(t.Context(), "redis://"+m.Addr(), 64, false)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	m.Close()
	for range 200 {
		if err := rdb.Ping(t.Context()).Err(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("while Redis is away: %v", err)
		}
	}
	if err := m.Restart(); err != nil {
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
	var away atomic.Bool
	dial := redis.NewDialer(&redis.Options{DialTimeout: time.Second})
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr(), ContextTimeoutEnabled: true, MaxRetries: 1, PoolSize: 64, DialerRetries: 1,
		Dialer: quickDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			if away.Load() {
				time.Sleep(300 * time.Millisecond)
				return nil, syscall.EHOSTUNREACH
			}
			return dial(ctx, network, addr)
		})})
	defer rdb.Close()
	away.Store(true)
	var callers sync.WaitGroup
	for range 50 {
		callers.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := rdb.Ping(ctx).Err(); err == nil {
				t.Error("a reply while Redis is away")
			}
		})
	}
	callers.Wait()
	time.Sleep(500 * time.Millisecond)
	away.Store(false)
	for range 100 {
		if err := rdb.Ping(t.Context()).Err(); err != nil {
			t.Errorf("Redis is back: %v", err)
		}
	}
}
