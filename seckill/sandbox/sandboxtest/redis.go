package sandboxtest

import (
	"context"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// numbers hands out the numbers of the Redis databases; 0 is nobody's.
var numbers struct {
	mu   sync.Mutex
	last int
	free []int
}

// RedisURL returns the URL of an empty Redis database of the test's own. It is emptied when the test ends, and then given
// to another: clients have to be closed by then.
func RedisURL(t testing.TB) string {
	t.Helper()
	u, err := url.Parse(servers(t).RedisURL)
	if err != nil {
		t.Fatalf("parse the Redis URL: %v", err)
	}
	n := takeNumber()
	u.Path = "/" + strconv.Itoa(n)
	t.Cleanup(func() {
		c := client(t, u.String())
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
		defer cancel()
		if err := c.FlushDB(ctx).Err(); err != nil {
			t.Errorf("empty Redis database %d: %v", n, err) // and leave it alone
			return
		}
		giveNumber(n)
	})
	return u.String()
}

// Redis returns a client on such a database, set as the shop's is but for longer timeouts. It is closed when the test ends.
func Redis(t testing.TB) redis.UniversalClient {
	t.Helper()
	c := client(t, RedisURL(t))
	t.Cleanup(func() { c.Close() })
	return c
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
	opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout = 5*time.Second, 5*time.Second, 5*time.Second
	return redis.NewClient(opt)
}

func takeNumber() int {
	numbers.mu.Lock()
	defer numbers.mu.Unlock()
	if n := len(numbers.free); n > 0 {
		taken := numbers.free[n-1]
		numbers.free = numbers.free[:n-1]
		return taken
	}
	numbers.last++
	return numbers.last
}

func giveNumber(n int) {
	numbers.mu.Lock()
	defer numbers.mu.Unlock()
	numbers.free = append(numbers.free, n)
}
