package sandboxtest

import (
	"context"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// redisNumbers are the numbers of the Redis databases. No test has number 0.
var redisNumbers struct {
	mu   sync.Mutex
	last int
	free []int
}

// RedisURL returns the URL of an empty Redis database of the test's own. The end of the test
// empties it, for another test: so all clients must be closed by then.
func RedisURL(t testing.TB) string {
	t.Helper()
	u, err := url.Parse(servers(t).RedisURL)
	if err != nil {
		t.Fatalf("parse the Redis URL: %v", err)
	}
	n := claimNumber()
	u.Path = "/" + strconv.Itoa(n)
	t.Cleanup(func() {
		c := client(t, u.String())
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), Hang)
		defer cancel()
		if err := c.FlushDB(ctx).Err(); err != nil {
			t.Errorf("empty Redis database %d: %v", n, err) // and no other test gets it
			return
		}
		releaseNumber(n)
	})
	return u.String()
}

// Redis returns a client of such a database, with the shop's settings but longer timeouts. The end
// of the test closes it.
func Redis(t testing.TB) redis.UniversalClient {
	t.Helper()
	c := client(t, RedisURL(t))
	t.Cleanup(func() { c.Close() })
	return c
}

// RedisOptions returns the options of the Redis at a URL.
func RedisOptions(t testing.TB, at string) *redis.UniversalOptions {
	t.Helper()
	o, err := redis.ParseURL(at)
	if err != nil {
		t.Fatal(err)
	}
	return &redis.UniversalOptions{Addrs: []string{o.Addr}, Username: o.Username, Password: o.Password, DB: o.DB,
		TLSConfig: o.TLSConfig}
}

// Port returns a port of 127.0.0.1 for a server of the test, which no other process gets until the test ends.
func Port(t testing.TB) string {
	t.Helper()
	at, reserved, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reserved.Close() })
	_, port, _ := net.SplitHostPort(at)
	return port
}

// StartRedis runs a Redis server with options for as long as the test, and returns its address.
func StartRedis(t testing.TB, options ...string) string {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("there is no redis-server here")
	}
	port := Port(t)
	at := net.JoinHostPort("127.0.0.1", port)
	var log SyncBuffer
	child := exec.Command(program, append([]string{"--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly",
		"no"}, options...)...)
	child.Dir, child.Stdout = t.TempDir(), &log
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		child.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		child.Process.Kill()
		<-ended
	})
	c := redis.NewClient(&redis.Options{Addr: at})
	defer c.Close()
	Until(t, "the Redis server replies", func() bool {
		select {
		case <-ended:
			t.Fatalf("the Redis server does not start: %s", &log)
		default:
		}
		return c.Ping(t.Context()).Err() == nil
	})
	return at
}

func client(t testing.TB, at string) *redis.Client {
	t.Helper()
	opt, err := redis.ParseURL(at)
	if err != nil {
		t.Fatalf("parse the Redis URL: %v", err)
	}
	opt.ContextTimeoutEnabled = true
	opt.MaxRetries = 1
	// A busy test machine is no reason to fail.
	opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout = Hang, Hang, Hang
	return redis.NewClient(opt)
}

func claimNumber() int {
	redisNumbers.mu.Lock()
	defer redisNumbers.mu.Unlock()
	if n := len(redisNumbers.free); n > 0 {
		taken := redisNumbers.free[n-1]
		redisNumbers.free = redisNumbers.free[:n-1]
		return taken
	}
	redisNumbers.last++
	return redisNumbers.last
}

func releaseNumber(n int) {
	redisNumbers.mu.Lock()
	defer redisNumbers.mu.Unlock()
	redisNumbers.free = append(redisNumbers.free, n)
}
