//go:build faults && linux

package faults

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"miaosha/seckill/sandbox/sandboxtest"
)

// upstreams are two servers in place of shops, and a client at an address of its own, behind the nginx of deploy/nginx.conf.
type upstreams struct {
	nginx   *Nginx
	servers []*httptest.Server
	client  *http.Client
}

// openUpstreams starts them. answer gets the number of the server: 0 or 1.
func openUpstreams(t *testing.T, client string, answer func(w http.ResponseWriter, r *http.Request, server int)) *upstreams {
	t.Helper()
	needProgram(t, "nginx")
	u := &upstreams{client: clientAt(client)}
	var addrs []string
	for i := range 2 {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r, i) }))
		t.Cleanup(s.Close)
		u.servers = append(u.servers, s)
		addrs = append(addrs, s.Listener.Addr().String())
	}
	dir, err := os.MkdirTemp(shared.dir, "nginx-") // its worker has an account of its own, which cannot enter t.TempDir
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if err == nil {
		u.nginx, err = newNginx(dir, addrs)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		u.nginx.Kill()
		if t.Failed() {
			t.Logf("log of nginx:\n%s", tail(u.nginx.errors(), 40))
		}
	})
	return u
}

// clientAt is a client with the source address ip.
func clientAt(ip string) *http.Client {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	return &http.Client{Timeout: sandboxtest.Hang, Transport: &http.Transport{DialContext: d.DialContext, MaxIdleConnsPerHost: 100, DisableCompression: true}}
}

func (u *upstreams) call(method, path, body string, headers ...string) sandboxtest.Reply {
	return sandboxtest.CallBy(u.client, method, u.nginx.URL()+path, "", body, headers...)
}

const (
	buyPath    = "/api/sales/7/buy/secret"
	cancelPath = "/api/orders/01a2057e-4cdb-71c7-a9e8-5c7ae9ed25d2/cancel"
)

// nginx adds what the shop reads of a proxy, drops what the client says of itself, and passes all else as it is.
func TestNginxPassesRequests(t *testing.T) {
	t.Parallel()
	type request struct {
		Method, URI, Host, XFF, Proto, Encoding, Agent, Body string
		Chunks                                               []string
		Length                                               int64
	}
	seen := make(chan request, 1)
	u := openUpstreams(t, "127.1.200.1", func(w http.ResponseWriter, r *http.Request, _ int) {
		body, _ := io.ReadAll(r.Body)
		seen <- request{r.Method, r.RequestURI, r.Host, strings.Join(r.Header["X-Forwarded-For"], "|"), r.Header.Get("X-Forwarded-Proto"),
			r.Header.Get("Accept-Encoding"), r.Header.Get("User-Agent"), string(body), r.TransferEncoding, r.ContentLength}
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(418)
		io.WriteString(w, "as it is")
	})
	req, err := http.NewRequest("POST", u.nginx.URL()+"/api/x%2fy?q=1", io.MultiReader(strings.NewReader("in chunks"))) // of unknown length
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "shop.example:81"
	for name, value := range map[string]string{"X-Forwarded-For": "192.0.2.1", "X-Forwarded-Proto": "https", "Accept-Encoding": "br, gzip", "User-Agent": "a"} {
		req.Header.Set(name, value)
	}
	resp, err := u.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 418 || string(body) != "as it is" || resp.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("the reply is %d %q %v, %v", resp.StatusCode, body, resp.Header, err)
	}
	if got := resp.Header.Get("Server"); got != "nginx" {
		t.Errorf("Server: %s", got)
	}
	want := request{"POST", "/api/x%2fy?q=1", "shop.example:81", "127.1.200.1", "http", "br, gzip", "a", "in chunks", nil, 9}
	if diff := cmp.Diff(want, <-seen); diff != "" {
		t.Errorf("the request (-want +got):\n%s", diff)
	}
}

// A process that breaks a connection may have done what it was asked for. Only a click and a GET are sent to another one.
func TestNginxRepeatsOnlyWhatIsSafe(t *testing.T) {
	t.Parallel()
	var broken atomic.Int64
	u := openUpstreams(t, "127.1.200.2", func(w http.ResponseWriter, r *http.Request, server int) {
		if server == 0 {
			broken.Add(1)
			panic(http.ErrAbortHandler) // closes the connection
		}
		io.WriteString(w, `{"code":"ok"}`)
	})
	for _, c := range []struct {
		method, path string
		repeated     bool
	}{
		{"POST", buyPath, true}, {"GET", "/api/sales/7", true}, {"GET", "/", true},
		{"POST", cancelPath, false}, {"POST", "/api/logout", false}, {"POST", "/api/register", false}, {"POST", "/api/sales/7/path", false},
	} {
		var r sandboxtest.Reply
		before := broken.Load()
		if !sandboxtest.Poll(func() bool { // after three failures in a second it is not asked for a second
			r = u.call(c.method, c.path, "")
			return broken.Load() > before
		}) {
			t.Errorf("%s %s: the broken server was not asked", c.method, c.path)
			continue
		}
		busy := r.Status == 503 && r.Code == "busy" && r.RetryAfter() == time.Second
		if c.repeated && r.Code != "ok" || !c.repeated && !busy {
			t.Errorf("%s %s: %d %s", c.method, c.path, r.Status, r.Raw)
		}
	}
	for _, name := range []string{"access.log", "error.log"} {
		log, err := os.ReadFile(filepath.Join(u.nginx.dir, name))
		if err != nil || !strings.Contains(string(log), cancelPath) || strings.Contains(string(log), "/buy/") {
			t.Errorf("%s must have the requests, and no hidden address: %v\n%s", name, err, log)
		}
	}
}

// The replies of the shop pass, errors too. Those of nginx itself are such that the pages understand them.
func TestNginxErrors(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	u := openUpstreams(t, "127.1.200.3", func(w http.ResponseWriter, r *http.Request, _ int) {
		calls.Add(1)
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(503)
		io.WriteString(w, `{"code":"busy","msg":"of the shop"}`)
	})
	for _, path := range []string{buyPath, "/api/sales"} {
		calls.Store(0)
		if r := u.call("POST", path, ""); r.Status != 503 || r.Msg != "of the shop" || r.RetryAfter() != 2*time.Second || calls.Load() != 1 {
			t.Errorf("busy: %d %s, sent %d times", r.Status, r.Raw, calls.Load())
		}
	}
	// More than nginx passes: the shop has limits of its own below, see TestNginxPassesTheLargestBodies of package web.
	if r := u.call("POST", "/api/login", `"`+strings.Repeat("a", 64<<10)+`"`); r.Status != 413 || r.Code != "too_large" {
		t.Errorf("a large body: %d %s", r.Status, r.Raw)
	}
	for _, s := range u.servers {
		s.Close()
	}
	for range 5 {
		for _, path := range []string{buyPath, cancelPath} {
			r := u.call("POST", path, "")
			if r.Status != 503 || r.Code != "busy" || r.RetryAfter() == 0 || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("no process, %s: %d %s %v", path, r.Status, r.Raw, r.Header)
			}
		}
		for _, path := range []string{"/", "/lab.html"} {
			r := u.call("GET", path, "")
			if r.Status != 503 || !strings.Contains(string(r.Raw), "<p>系统繁忙") || r.Header.Get("Content-Type") != "text/html; charset=utf-8" {
				t.Errorf("no process, %s: %d %s %v", path, r.Status, r.Raw, r.Header)
			}
		}
	}
}

// One address cannot send more clicks, or more requests, than the limits. Others do not notice. What passes shares a few
// connections to the processes.
func TestNginxLimitsAddresses(t *testing.T) {
	t.Parallel()
	var connections sync.Map
	u := openUpstreams(t, "127.1.200.4", func(w http.ResponseWriter, r *http.Request, _ int) {
		connections.Store(r.RemoteAddr, nil)
		io.WriteString(w, `{"code":"ok"}`)
	})
	other := &upstreams{nginx: u.nginx, client: clientAt("127.1.200.5")}
	for _, c := range []struct {
		path        string
		rate, burst int // as in deploy/nginx.conf
	}{{buyPath, 200, 400}, {"/api/sales", 500, 1000}} {
		began := time.Now()
		var passed, limited atomic.Int64
		var senders sync.WaitGroup
		for range 8 { // one after the other would be slower than the limit, on a busy machine
			senders.Go(func() {
				for limited.Load() < 20 && time.Since(began) < sandboxtest.Hang {
					switch r := u.call("GET", c.path, ""); {
					case r.Code == "ok":
						passed.Add(1)
					case r.Status == 429 && r.Code == "too_many" && r.RetryAfter() == time.Second:
						limited.Add(1)
					default:
						t.Errorf("%s: %d %s", c.path, r.Status, r.Raw)
						return
					}
				}
			})
		}
		senders.Wait()
		n, most := int(passed.Load()), 1+c.burst+int(float64(c.rate)*(time.Since(began)+100*time.Millisecond).Seconds()) // nginx's clock is coarse
		if n < c.burst || n > most || limited.Load() < 20 {
			t.Errorf("%s: %d requests passed, want %d to %d, and %d were refused, want 20", c.path, n, c.burst, most, limited.Load())
		}
		if r := other.call("GET", c.path, ""); r.Code != "ok" {
			t.Errorf("%s: another address: %d %s", c.path, r.Status, r.Raw)
		}
	}
	if n := len(maps.Collect(connections.Range)); n > 50 {
		t.Errorf("%d connections to the processes", n)
	}
}

// An event reaches the browser when it is sent, not when a buffer is full.
func TestNginxPassesEventsAtOnce(t *testing.T) {
	t.Parallel()
	received := make(chan struct{})
	u := openUpstreams(t, "127.1.200.6", func(w http.ResponseWriter, r *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: first\n\n")
		http.NewResponseController(w).Flush()
		select {
		case <-received:
			fmt.Fprint(w, "data: second\n\n")
		case <-r.Context().Done():
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), sandboxtest.Hang)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", u.nginx.URL()+"/api/sales/7/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := u.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	if line, err := in.ReadString('\n'); line != "data: first\n" {
		t.Fatalf("%q, %v", line, err)
	}
	close(received)
	if rest, err := io.ReadAll(in); err != nil || string(rest) != "\ndata: second\n\n" {
		t.Errorf("%q, %v", rest, err)
	}
}

// A process that hangs does not keep a click: it goes to the other one.
func TestNginxLeavesAFrozenProcess(t *testing.T) {
	t.Parallel()
	var frozen atomic.Int64
	u := openUpstreams(t, "127.1.200.7", func(w http.ResponseWriter, r *http.Request, server int) {
		if server == 0 {
			frozen.Add(1)
			<-r.Context().Done()
			return
		}
		io.WriteString(w, `{"code":"ok"}`)
	})
	for frozen.Load() == 0 {
		if r := u.call("POST", buyPath, ""); r.Code != "ok" {
			t.Fatalf("%d %s", r.Status, r.Raw)
		}
	}
}

// The suite's end leaves no worker of nginx behind.
func TestNginxEndsWithItsWorkers(t *testing.T) {
	t.Parallel()
	u := openUpstreams(t, "127.1.200.8", func(w http.ResponseWriter, r *http.Request, _ int) {})
	group := u.nginx.cmd.Process.Pid
	u.nginx.Kill()
	if !sandboxtest.Poll(func() bool { return syscall.Kill(-group, 0) == syscall.ESRCH }) {
		t.Error("a worker is left")
	}
	if c, err := net.Dial("tcp", u.nginx.addr); err == nil {
		c.Close()
		t.Error("nginx still accepts connections")
	}
}
