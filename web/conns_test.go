package web_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// needAddresses skips a test that connects from several addresses, where a system has 127.0.0.1 alone.
func needAddresses(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skip(err)
	}
	l.Close()
}

// dialFrom connects to the shop from another address of this machine: see needAddresses.
func (shop testShop) dialFrom(from string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 5 * time.Second}
	return d.Dial("tcp", strings.TrimPrefix(strings.TrimPrefix(shop.URL, "https://"), "http://"))
}

// clientFrom is a client at another address of this machine, with a connection for each request.
func (shop testShop) clientFrom(from string) *http.Client {
	return &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(context.Context, string, string) (net.Conn, error) { return shop.dialFrom(from) }}}
}

const (
	wholeRequest = "GET /api/slots HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
	halfHeader   = "GET /api/slots HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
	halfBody     = "POST /api/login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
)

// hold opens a connection that stays open, sends text on it and reads the answer to a whole request. It
// returns the status, 0 for none.
func (shop testShop) hold(from, text string) (c net.Conn, status int) {
	shop.t.Helper()
	c, err := shop.dialFrom(from)
	if err != nil {
		shop.t.Fatal(err)
	}
	shop.t.Cleanup(func() { c.Close() })
	io.WriteString(c, text)
	if text != wholeRequest {
		return c, 0
	}
	c.SetReadDeadline(time.Now().Add(15 * time.Second))
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return c, 0
	}
	io.Copy(io.Discard, r.Body)
	r.Body.Close()
	return c, r.StatusCode
}

// isOpen reports whether the shop has left a connection open on which it owes no answer.
func isOpen(c net.Conn) bool {
	c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// One address that opens as many connections as it can, and leaves them idle, gets no more than three
// quarters of the places. The others stay for clients at other addresses.
func TestOneAddressDoesNotTakeEveryPlace(t *testing.T) {
	t.Parallel()
	needAddresses(t)
	for name, text := range map[string]string{"idle": wholeRequest, "half a header": halfHeader, "half a body": halfBody} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shop := openShop(t, "MIAOSHA_MAX_CONNS=100")
			var got int
			for range 120 {
				if _, status := shop.hold("127.0.0.2", text); status == 200 {
					got++
				}
			}
			if text == wholeRequest && got != 75 {
				t.Errorf("one address got %d of 100 places, want 75", got)
			}
			another := shop.clientFrom("127.0.0.3")
			for range 20 {
				if r := sandboxtest.CallBy(another, "GET", shop.URL+"/api/slots", "", ""); outcome(r) != "200 ok" {
					t.Fatalf("another address: %s", outcome(r))
				}
			}
		})
	}
}

// Two addresses take every place, or four that have no more than their share, with requests that don't
// end. A client at another address gets a place of the one that has most.
func TestTwoAddressesDoNotTakeEveryPlace(t *testing.T) {
	t.Parallel()
	needAddresses(t)
	for name, takers := range map[string][]string{"two": {"127.0.0.2", "127.0.0.2", "127.0.0.3"}, "four": {"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shop := openShop(t, "MIAOSHA_MAX_CONNS=100")
			for i := range 120 {
				shop.hold(takers[i%len(takers)], halfBody)
			}
			another := shop.clientFrom("127.0.0.6")
			sandboxtest.Until(t, "the last of them have come or gone, and another address has a place", func() bool {
				return outcome(sandboxtest.CallBy(another, "GET", shop.URL+"/api/slots", "", "")) == "200 ok"
			})
			for range 20 {
				if r := sandboxtest.CallBy(another, "GET", shop.URL+"/api/slots", "", ""); outcome(r) != "200 ok" {
					t.Fatalf("another address: %s", outcome(r))
				}
			}
		})
	}
}

// idleLongEnough is a little more than leastIdle, for which each connection may wait.
const idleLongEnough = 1200 * time.Millisecond

// keepAlive is a client that keeps its connection open.
type keepAlive struct {
	client *http.Client
	dials  atomic.Int64
}

func (shop testShop) keepAlive(from string) *keepAlive {
	v := &keepAlive{}
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			v.dials.Add(1)
			return shop.dialFrom(from)
		}}
	v.client = &http.Client{Timeout: 15 * time.Second, Transport: transport}
	shop.t.Cleanup(transport.CloseIdleConnections)
	return v
}

// When nearly all places are taken, a new connection closes the one that has waited longest for a
// request. Those without a session are closed first, over TLS and HTTP/2 too.
func TestIdleConnectionsGiveWay(t *testing.T) {
	t.Parallel()
	needAddresses(t)
	cert, key := pair(t)
	for name, env := range map[string][]string{"HTTP/1": nil, "HTTP/2": {"MIAOSHA_TLS_CERT=" + cert, "MIAOSHA_TLS_KEY=" + key}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const places, each = 20, 9 // two times each are nine tenths
			shop := openShop(t, append(env, "MIAOSHA_RATE=off", "MIAOSHA_MAX_CONNS="+strconv.Itoa(places), "MIAOSHA_MAX_CONNS_SHARE=100")...)
			token := shop.tokens(1)[0]
			comeIn := func(who *keepAlive, token string) {
				t.Helper()
				path := "/api/me"
				if token == "" {
					path = "/api/slots"
				}
				if r := sandboxtest.CallBy(who.client, "GET", shop.URL+path, token, ""); outcome(r) != "200 ok" {
					t.Fatalf("a client: %s", outcome(r))
				}
			}
			var members, strangers []*keepAlive
			for range each {
				members = append(members, shop.keepAlive("127.0.0.2"))
				comeIn(members[len(members)-1], token)
			}
			for range each {
				strangers = append(strangers, shop.keepAlive("127.0.0.2"))
				comeIn(strangers[len(strangers)-1], "")
			}
			time.Sleep(idleLongEnough)
			for range each {
				comeIn(shop.keepAlive("127.0.0.3"), token)
			}
			for i, m := range members {
				if comeIn(m, token); m.dials.Load() != 1 {
					t.Errorf("member %d was closed while there were strangers", i)
				}
			}
			time.Sleep(idleLongEnough)
			comeIn(strangers[0], "") // takes a place of a member
			if n := strangers[0].dials.Load(); n != 2 {
				t.Errorf("the first stranger connected %d times, want 2: it was closed for a new member", n)
			}
		})
	}
}

// A trusted proxy may take all places, and its idle connections stay open.
func TestTrustedProxiesHaveNoShare(t *testing.T) {
	t.Parallel()
	needAddresses(t)
	shop := openShop(t, "MIAOSHA_MAX_CONNS=20", "MIAOSHA_TRUSTED_PROXIES=127.0.0.2/32")
	var all []net.Conn
	for i := range 20 {
		c, status := shop.hold("127.0.0.2", wholeRequest)
		if status != 200 {
			t.Fatalf("connection %d of the proxy: %d", i, status)
		}
		all = append(all, c)
	}
	time.Sleep(idleLongEnough) // others would now give way
	if _, status := shop.hold("127.0.0.3", wholeRequest); status != 503 {
		t.Errorf("with all places taken: %d", status)
	}
	for i, c := range all {
		if !isOpen(c) {
			t.Errorf("connection %d of the proxy was closed", i)
		}
	}
}

// Two addresses take nine tenths of the places, one with idle connections and one with half headers,
// and come back for each that is closed. A client at another address, with a connection for each
// request, waits no more than 50 ms and is never refused.
func TestLatencyBesideTakenPlaces(t *testing.T) {
	needAddresses(t)
	const places, attackers, asks = 500, 520, 400
	shop := openShop(t, "MIAOSHA_MAX_CONNS="+strconv.Itoa(places), "MIAOSHA_OPS_ADDR=127.0.0.1:0")
	shop.sale()
	ops := shop.opsURL()
	taken := func() (n int) {
		_, rest, _ := strings.Cut(string(sandboxtest.Call("GET", ops+"/metrics", "", "").Raw), "\nmiaosha_connections ")
		fmt.Sscan(rest, &n)
		return n
	}
	ctx, stop := context.WithCancel(t.Context())
	var crowd sync.WaitGroup
	defer crowd.Wait()
	defer stop()
	attack := func(from, text string, until int) {
		for range attackers {
			crowd.Go(func() {
				for ctx.Err() == nil {
					if c, err := shop.dialFrom(from); err == nil {
						end := context.AfterFunc(ctx, func() { c.Close() })
						io.WriteString(c, text)
						io.Copy(io.Discard, c) // until the shop closes it
						end()
						c.Close()
					}
					select {
					case <-ctx.Done():
					case <-time.After(time.Second):
					}
				}
			})
		}
		sandboxtest.Until(t, fmt.Sprintf("%d places are taken", until), func() bool { return taken() >= until })
	}
	attack("127.0.0.2", wholeRequest, places*3/4)
	attack("127.0.0.3", halfHeader, places*9/10)
	t.Logf("%d of %d places are taken", taken(), places)
	victim := shop.clientFrom("127.0.0.4")
	var took []time.Duration
	answers := map[string]int{}
	for range asks {
		began := time.Now()
		r := sandboxtest.CallBy(victim, "GET", shop.URL+"/api/sales", "", "")
		took = append(took, time.Since(began))
		answers[outcome(r)]++
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("then %d of %d; another address: p99 %v, answers %v", taken(), places, p99(took), answers)
	if answers["200 ok"] != asks {
		t.Errorf("answers %v, want 200 ok alone", answers)
	}
	if got := p99(took); sandboxtest.Alone() && got >= 50*time.Millisecond {
		t.Errorf("p99 %v, want less than 50ms", got)
	}
}

// A process that may open fewer files than --max-conns says so at the start. Clients that connect beyond
// its limit are answered.
func TestTheFileLimitBoundsConnections(t *testing.T) {
	t.Parallel()
	needAddresses(t)
	const files = 1024 + 88 // otherFiles, and those of connections
	env := append(sandboxtest.Stores(t), "MIAOSHA_MAX_CONNS_SHARE=100")
	shop := testShop{sandboxtest.OpenWithFiles(t, files, env), t, env}
	if !sandboxtest.Poll(func() bool { return strings.Contains(shop.Log.String(), "ulimit -n") }) {
		t.Errorf("the log does not name the limit: %s", shop.Log)
	}
	for range files + 50 {
		shop.hold("127.0.0.2", halfBody)
	}
	another := shop.clientFrom("127.0.0.3")
	another.Timeout = time.Second
	var last sandboxtest.Reply
	if !sandboxtest.Poll(func() bool { // after eight the shop ends the requests that it holds
		last = sandboxtest.CallBy(another, "GET", shop.URL+"/api/slots", "", "")
		return outcome(last) == "503 busy" || outcome(last) == "200 ok"
	}) {
		t.Errorf("beyond the limit: %s, want an answer", outcome(last))
	}
	if strings.Contains(shop.Log.String(), "too many open files") {
		t.Error("the shop has opened more files than it may")
	}
	_, errs, code := sandboxtest.Command(t, env, "--max-conns", "0")
	if code == 0 || !strings.Contains(errs, "--max-conns") {
		t.Errorf("--max-conns 0: exit %d %s", code, errs)
	}
}

// A request with Transfer-Encoding is the last one on its HTTP/1 connection, and so is every request of
// HTTP/1.0: what comes behind it is not taken for a request, whatever a proxy thinks of its length.
func TestTransferEncodingEndsTheConnection(t *testing.T) {
	t.Parallel()
	shop := openShop(t)
	const next = "GET /api/slots HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
	for name, c := range map[string]struct {
		request string
		answers int
	}{
		"with a length":              {"POST /api/login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\n{}", 2},
		"without a body":             {next, 2},
		"in chunks":                  {"POST /api/login HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 1},
		"without a chunk":            {"POST /api/logout HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 1},
		"GET in chunks":              {"GET /api/slots HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 1},
		"a page in chunks":           {"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n", 1},
		"in chunks, with a length":   {"POST /api/login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 1},
		"coded in an unknown way":    {"POST /api/login HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 1},
		"HTTP/1.0 with both":         {"POST /api/login HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 1},
		"HTTP/1.0 with an encoding":  {"GET /api/slots HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n", 1},
		"HTTP/1.0 that stays":        {"GET /api/slots HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 1},
		"HTTP/1.0 that has a length": {"POST /api/login HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}", 1},
	} {
		if got := shop.answersTo(c.request+next, 2); len(got) != c.answers {
			t.Errorf("%s: answers %v, want %d", name, got, c.answers)
		}
	}
}

// answersTo sends text on one connection and returns the statuses of the answers, at most n.
func (shop testShop) answersTo(text string, n int) (statuses []int) {
	shop.t.Helper()
	c, err := shop.dialFrom("127.0.0.1")
	if err != nil {
		shop.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(sandboxtest.Within(5 * time.Second)))
	go io.WriteString(c, text)
	for in := bufio.NewReader(c); len(statuses) < n; {
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			return statuses
		}
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
		statuses = append(statuses, r.StatusCode)
	}
	return statuses
}

// A header of 8 KB is read, and none of more than 16 KB is: the first of a connection, one behind
// another request, or over HTTP/2.
func TestHeadersAreBounded(t *testing.T) {
	t.Parallel()
	shop := openShop(t)
	const first = "GET /api/slots HTTP/1.1\r\nHost: 127.0.0.1\r\n"
	request := func(size int) string {
		return first + "X-Fill: " + strings.Repeat("x", size-len(first)-len("X-Fill: \r\n\r\n")) + "\r\n\r\n"
	}
	for size, want := range map[int]int{8 << 10: 200, 16<<10 + 1: 431} {
		if got := shop.answersTo(request(size), 1); len(got) != 1 || got[0] != want {
			t.Errorf("a first request of %d bytes: %v, want %d", size, got, want)
		}
		if got := shop.answersTo(first+"\r\n"+request(size), 2); len(got) != 2 || got[1] != want {
			t.Errorf("a second request of %d bytes: %v, want %d", size, got, want)
		}
	}
	cert, key := pair(t)
	shop = openShop(t, "MIAOSHA_TLS_CERT="+cert, "MIAOSHA_TLS_KEY="+key)
	client := shop.keepAlive("127.0.0.1").client
	for size, want := range map[int]int{7 << 10: 200, 16 << 10: 431} {
		r := sandboxtest.CallBy(client, "GET", shop.URL+"/api/slots", "", "", "X-Fill", strings.Repeat("x", size))
		if r.Status != want && (want == 200 || r.Status != 0) {
			t.Errorf("a field of %d bytes over HTTP/2: %d %s, want %d", size, r.Status, r.Code, want)
		}
	}
}
