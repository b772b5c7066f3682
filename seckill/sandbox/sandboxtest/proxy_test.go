package sandboxtest_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox/sandboxtest"
)

// openProxy returns a proxy to a Redis database of the test's own, and a client behind it which
// tries nothing twice.
func openProxy(t *testing.T) (*sandboxtest.Proxy, *redis.Client) {
	t.Helper()
	p, through := sandboxtest.ProxyTo(t, sandboxtest.RedisURL(t))
	opt, err := redis.ParseURL(through)
	if err != nil {
		t.Fatal(err)
	}
	opt.MaxRetries, opt.DialerRetries, opt.ReadTimeout = -1, 1, sandboxtest.Hang
	c := redis.NewClient(opt)
	t.Cleanup(func() { c.Close() })
	return p, c
}

func TestProxyIsCutAndJoined(t *testing.T) {
	t.Parallel()
	p, c := openProxy(t)
	for range 3 {
		if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
			t.Errorf("before the cut: %v", err)
		}
		p.Cut()
		if err := c.Get(t.Context(), "k").Err(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("through a proxy that is cut: %v", err)
		}
		if err := p.Join(); err != nil {
			t.Fatal(err)
		}
		sandboxtest.Until(t, "the connection is back", func() bool { return c.Get(t.Context(), "k").Val() == "v" })
	}
}

func TestProxyLosesReplies(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*sandboxtest.Proxy, string, int){
		"with their connections": (*sandboxtest.Proxy).Lose, "in silence": (*sandboxtest.Proxy).Swallow,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, c := openProxy(t)
			lose(p, "lose me", 1)
			if got := c.Echo(t.Context(), "something else").Val(); got != "something else" {
				t.Errorf("another reply: %q", got)
			}
			got := make(chan error, 1)
			go func() { got <- c.Echo(t.Context(), "lose me").Err() }()
			sandboxtest.Until(t, "a reply is lost", func() bool { return p.Lost() == 1 })
			if name == "in silence" { // for as long as the connection is there
				p.Cut()
				if err := p.Join(); err != nil {
					t.Fatal(err)
				}
			}
			if err := <-got; err == nil {
				t.Error("the reply arrived")
			}
			if err := c.Echo(t.Context(), "lose me").Err(); err != nil {
				t.Errorf("the second reply: %v", err)
			}
			if n := p.Lost(); n != 1 {
				t.Errorf("%d replies were lost, want 1", n)
			}
		})
	}
}

func TestProxyDelaysRepliesSideBySide(t *testing.T) {
	t.Parallel()
	p, c := openProxy(t)
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	const delay = 200 * time.Millisecond
	p.Delay(delay)
	began := time.Now()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < delay { //timing: at least: the clock starts before
		t.Errorf("a reply came after %v, want at least %v", took, delay)
	}
	p.Delay(time.Hour)
	time.AfterFunc(delay/2, p.Heal) //timing: the reply waits an hour, so it is never early
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Errorf("a reply that was on its way when the proxy healed: %v", err)
	}
}

func TestProxyRecordsWhatClientsSend(t *testing.T) {
	t.Parallel()
	p, c := openProxy(t)
	if err := c.Echo(t.Context(), "unrecorded").Err(); err != nil {
		t.Fatal(err)
	}
	sent := p.Record()
	if err := c.Echo(t.Context(), "recorded").Err(); err != nil {
		t.Fatal(err)
	}
	if got := sent.String(); strings.Contains(got, "unrecorded") || !strings.Contains(got, "recorded") {
		t.Errorf("recorded: %q", got)
	}
}
