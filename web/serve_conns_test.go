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
	"strings"
	"sync"
	"testing"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/web"
)

// dialFrom connects to the shop from another address of this machine: see web.NeedAddresses.
func (shop testShop) dialFrom(from string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: sandboxtest.Hang}
	return d.Dial("tcp", strings.TrimPrefix(strings.TrimPrefix(shop.URL, "https://"), "http://"))
}

// clientFrom is a client at another address of this machine, with a connection for each request.
func (shop testShop) clientFrom(from string) *http.Client {
	return &http.Client{Timeout: sandboxtest.Hang, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
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
	c.SetReadDeadline(time.Now().Add(sandboxtest.Hang))
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return c, 0
	}
	io.Copy(io.Discard, r.Body)
	r.Body.Close()
	return c, r.StatusCode
}

// One address that opens as many connections as it can, and leaves them idle, gets no more than three
// quarters of the places. The others stay for clients at other addresses.
func TestOneAddressDoesNotTakeEveryPlace(t *testing.T) {
	t.Parallel()
	web.NeedAddresses(t)
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
	web.NeedAddresses(t)
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

// Two addresses take nine tenths of the places, one with idle connections and one with half headers,
// and come back for each that is closed. A client at another address, with a connection for each
// request, is never refused.
func TestAnotherAddressFindsAPlace(t *testing.T) {
	t.Parallel()
	web.NeedAddresses(t)
	shop := openShop(t, "MIAOSHA_MAX_CONNS=60", "MIAOSHA_OPS_ADDR=127.0.0.1:0")
	shop.takePlaces(60)
	victim := shop.clientFrom("127.0.0.4")
	for range 60 {
		if r := sandboxtest.CallBy(victim, "GET", shop.URL+"/api/sales", "", ""); outcome(r) != "200 ok" {
			t.Fatalf("another address: %s", outcome(r))
		}
	}
}

// takenPlaces returns how many connections are open, by the metrics.
func (shop testShop) takenPlaces() (n int) {
	_, rest, _ := strings.Cut(string(sandboxtest.Call("GET", shop.opsURL()+"/metrics", "", "").Raw), "\nmiaosha_connections ")
	fmt.Sscan(rest, &n)
	return n
}

// takePlaces takes nine tenths of the places until the end of the test, from two addresses with a few connections
// more than there are places each. It returns when they are taken.
func (shop testShop) takePlaces(places int) {
	shop.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var crowd sync.WaitGroup
	shop.t.Cleanup(func() { stop(); crowd.Wait() })
	attack := func(from, text string, until int) {
		for range places + 20 {
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
					case <-time.After(time.Second): //timing: how often the attacker comes
					}
				}
			})
		}
		sandboxtest.Until(shop.t, fmt.Sprintf("%d places are taken", until), func() bool { return shop.takenPlaces() >= until })
	}
	attack("127.0.0.2", wholeRequest, places*3/4)
	attack("127.0.0.3", halfHeader, places*9/10)
}

// A process that may open fewer files than --max-conns says so at the start. Clients that connect beyond
// its limit are answered.
func TestTheFileLimitBoundsConnections(t *testing.T) {
	t.Parallel()
	web.NeedAddresses(t)
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
	shop := sharedShop(t)
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
	c.SetDeadline(time.Now().Add(sandboxtest.Hang))
	go io.WriteString(c, text)
	for in := bufio.NewReader(c); len(statuses) < n; {
		r, err := http.ReadResponse(in, nil)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			shop.t.Errorf("after the answers %v the connection stays open: %.80q", statuses, text)
		}
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
	shop := sharedShop(t)
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
	client := &http.Client{Timeout: sandboxtest.Hang, Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(client.CloseIdleConnections)
	for size, want := range map[int]int{7 << 10: 200, 16 << 10: 431} {
		r := sandboxtest.CallBy(client, "GET", shop.URL+"/api/slots", "", "", "X-Fill", strings.Repeat("x", size))
		if r.Status != want && (want == 200 || r.Status != 0) {
			t.Errorf("a field of %d bytes over HTTP/2: %d %s, want %d", size, r.Status, r.Code, want)
		}
	}
}
