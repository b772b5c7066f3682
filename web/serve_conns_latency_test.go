//go:build latency

package web_test

import (
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/web"
)

// p99 returns the 99th percentile of times. It sorts them.
func p99(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[len(times)*99/100]
}

// noise is the least waiting time that counts: below it the noise of a machine is more than twice the time before.
const noise = 20 * time.Millisecond

// slower reports whether a waiting time is more than twice the one that was measured before, on a machine with noise.
func slower(before, during time.Duration) bool { return during > 2*max(before, noise) }

// Two addresses take nine tenths of the places, one with idle connections and one with half headers, and come back
// for each that is closed. A client at another address, with a connection for each request, waits hardly longer than
// without them.
func TestLatencyBesideTakenPlaces(t *testing.T) {
	web.NeedAddresses(t)
	const places, asks = 500, 400
	shop := openShop(t, "MIAOSHA_MAX_CONNS="+strconv.Itoa(places), "MIAOSHA_OPS_ADDR=127.0.0.1:0")
	shop.sale()
	victim := shop.clientFrom("127.0.0.4")
	ask := func() time.Duration {
		return p99(asking(t, victim, shop.URL+"/api/sales", asks))
	}
	before := ask()
	shop.takePlaces(places)
	taken := shop.takenPlaces()
	during := ask()
	t.Logf("p99 at another address: %v alone, %v while %d, then %d of %d places are taken", before, during, taken, shop.takenPlaces(), places)
	if slower(before, during) {
		t.Errorf("p99 %v, want at most twice the time before, %v", during, before)
	}
}

// asking makes n requests, one after another with a pause, and returns how long each took.
func asking(t *testing.T, c *http.Client, url string, n int) (took []time.Duration) {
	for range n {
		began := time.Now()
		if r := sandboxtest.CallBy(c, "GET", url, "", ""); r.Status != 200 {
			t.Errorf("%s: %s", url, outcome(r))
		}
		took = append(took, time.Since(began))
		time.Sleep(5 * time.Millisecond)
	}
	return took
}

// Slow clients and fat requests hardly slow down the others. MIAOSHA_SLOW=5000 needs a machine with as many file
// descriptors.
func TestLatencyBesideSlowAndFat(t *testing.T) {
	many, err := strconv.Atoi(os.Getenv("MIAOSHA_SLOW"))
	if err != nil {
		many = 2000
	}
	shop := openShop(t, "MIAOSHA_OPS_ADDR=127.0.0.1:0")
	shop.sale()
	ops := shop.opsURL()
	var calm [2]time.Duration
	calm[0], calm[1] = p99(asking(t, http.DefaultClient, ops+"/healthz", 200)), p99(asking(t, http.DefaultClient, shop.URL+"/api/sales", 200))
	stop := make(chan struct{})
	var watch sync.WaitGroup
	var busy [2]time.Duration
	watch.Go(func() { busy[0], busy[1] = healthAndList(t, ops, shop.URL, stop) })
	last := shop.sendSlowAndFat(many)
	close(stop)
	watch.Wait()
	t.Logf("%d slow connections, the last ended after %v; p99 of health %v, %v meanwhile, of the list %v, %v meanwhile",
		many, last.Round(time.Millisecond), calm[0], busy[0], calm[1], busy[1])
	for i, what := range []string{"health", "list"} {
		// The fat ones send ten gigabytes of memory through the same processors.
		if busy[i] == 0 || busy[i] > 10*max(calm[i], noise) {
			t.Errorf("%s: p99 %v, want at most ten times the time before, %v", what, busy[i], calm[i])
		}
	}
}

// healthAndList asks for both again and again until stop is closed, and returns the p99 of each.
func healthAndList(t *testing.T, ops, shop string, stop chan struct{}) (health, list time.Duration) {
	ask := func(url string) (times []time.Duration) {
		c := &http.Client{Timeout: sandboxtest.Hang, Transport: &http.Transport{}}
		defer c.CloseIdleConnections()
		for {
			select {
			case <-stop:
				return times
			case <-time.After(10 * time.Millisecond):
			}
			began := time.Now()
			r, err := c.Get(url)
			if err != nil {
				t.Errorf("%s: %v", url, err)
				return times
			}
			io.Copy(io.Discard, r.Body)
			if r.Body.Close(); r.StatusCode != 200 {
				t.Errorf("%s: %s", url, r.Status)
			}
			times = append(times, time.Since(began))
		}
	}
	var both sync.WaitGroup
	both.Go(func() { health = p99(ask(ops + "/healthz")) })
	both.Go(func() { list = p99(ask(shop + "/api/sales")) })
	both.Wait()
	return health, list
}
