//go:build latency

package web_test

import (
	"net/http"
	"slices"
	"strconv"
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

// Two addresses take nine tenths of the places, one with idle connections and one with half headers, and come back for each
// that is closed. A client at another address, with a connection for each request, waits hardly longer than without them.
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
