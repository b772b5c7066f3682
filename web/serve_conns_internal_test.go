package web

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/user"
)

// peerConn is a connection of which only the peer counts. It is closed once.
type peerConn struct {
	net.Conn
	peer   string
	closed bool
}

func (c *peerConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.peer))
}
func (c *peerConn) Close() error { c.closed = true; return nil }

// place is a new connection at the limit.
func place(l *connLimit, peer string, now time.Time) (c *clientConn, admitted bool, evicted *clientConn) {
	conn := &peerConn{peer: peer}
	c = &clientConn{Conn: conn, limit: l, from: l.network(conn)}
	admitted, evicted = l.place(c, now)
	return c, admitted, evicted
}

// A connection that has just come, or just received an answer, does not give way to a new one.
func TestConnectionsMayWaitASecond(t *testing.T) {
	now := time.Now()
	for waited, want := range map[time.Duration]bool{0: false, leastIdle - 1: false, leastIdle: true, time.Hour: true} {
		l := newConnLimit(10, 100)
		first, _, _ := place(l, "192.0.2.1:1", now)
		for range 9 {
			place(l, "192.0.2.2:1", now)
		}
		_, admitted, evicted := place(l, "192.0.2.3:1", now.Add(waited))
		if admitted != want || want != (evicted == first) {
			t.Errorf("after %v: admitted %t, and the first connection was closed: %t; want %t", waited, admitted, evicted == first, want)
		}
	}
}

// When every place has a request, a new connection gets the oldest place of the network that has most, if
// that leaves the network no fewer places than the new one's. Connections that only wait are left alone for a
// second: then the oldest request of another network is closed, by the same rule.
func TestTheLargestNetworkGivesWay(t *testing.T) {
	for _, c := range []struct {
		waiting int      // connections of 192.0.2.1 that have just come
		busy    []string // whose requests are under way, in the order in which they come
		want    int      // the request that ends for a connection of 192.0.2.9, -1 if none does
	}{
		{0, []string{"1", "2", "3", "4", "1", "2", "3", "4"}, 0},
		{0, []string{"1", "2", "3", "3", "4", "5", "6", "7"}, 2},
		{0, []string{"1", "2", "3", "4", "5", "6", "7", "8"}, -1},
		{0, []string{"9", "1", "1", "2", "2", "3", "3", "4"}, -1},
		{0, []string{"9", "1", "1", "2", "2", "2", "3", "4"}, 3},
		{3, []string{"4", "2", "2", "3", "3"}, 1},
		{3, []string{"4", "5", "6", "7", "8"}, -1},
	} {
		l := newConnLimit(8, 50)
		now := time.Now()
		for range c.waiting {
			if _, admitted, _ := place(l, "192.0.2.1:1", now); !admitted {
				t.Fatalf("%v: no place for one that waits", c)
			}
		}
		var busy []*clientConn
		for _, peer := range c.busy {
			conn, admitted, _ := place(l, "192.0.2."+peer+":1", now)
			if !admitted {
				t.Fatalf("%v: no place for %s", c, peer)
			}
			l.connState(conn, http.StateActive)
			busy = append(busy, conn)
		}
		_, admitted, evicted := place(l, "192.0.2.9:1", now)
		if got := slices.Index(busy, evicted); got != c.want || admitted != (c.want >= 0) {
			t.Errorf("%v: request %d, admitted %t", c, got, admitted)
		}
	}
}

// Connections of one network count together.
func TestNetworksOfConnections(t *testing.T) {
	l := newConnLimit(10, 10)
	l.exempt = func(a netip.Addr) bool { return a == netip.MustParseAddr("10.0.0.1") }
	for peer, want := range map[string]string{
		"192.0.2.1:1": "192.0.2.1/32", "192.0.2.1:2": "192.0.2.1/32", "192.0.2.2:1": "192.0.2.2/32", "[::ffff:192.0.2.1]:1": "192.0.2.1/32",
		"[2001:db8::1]:1": "2001:db8::/64", "[2001:db8::ffff:1]:1": "2001:db8::/64", "[2001:db8:0:1::1]:1": "2001:db8:0:1::/64",
		"[fe80::1%eth0]:1": "fe80::/64", "[fe80::2%eth1]:1": "fe80::/64", "10.0.0.1:1": "invalid Prefix",
	} {
		if got := l.network(&peerConn{peer: peer}).String(); got != want {
			t.Errorf("%s: %s, want %s", peer, got, want)
		}
	}
}

// Whatever connections do, the counts are those of the open ones, each open one of a client is in the
// list of its state, and no bound is passed.
func TestPlacesOfConnectionsAreCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newConnLimit(rapid.IntRange(1, 30).Draw(t, "size"), rapid.IntRange(1, 100).Draw(t, "share"))
		l.exempt = func(a netip.Addr) bool { return a == netip.MustParseAddr("10.0.0.1") }
		peers := []string{"10.0.0.1:1", "192.0.2.1:1", "192.0.2.2:1", "[2001:db8::1]:1"}
		now := time.Now()
		lists := map[*clientConn]*connList{}
		pick := func() *clientConn {
			var open []*clientConn
			for _, list := range []*connList{&l.waiting[0], &l.waiting[1], &l.busy} {
				for c := list.first; c != nil; c = c.next {
					open = append(open, c)
				}
			}
			if len(open) == 0 {
				t.Skip("no connection is open")
			}
			return rapid.SampledFrom(open).Draw(t, "connection")
		}
		var proxies int
		t.Repeat(map[string]func(*rapid.T){
			"connect": func(t *rapid.T) {
				peer := rapid.SampledFrom(peers).Draw(t, "peer")
				crowded, from := 4*l.open >= 3*l.size, l.network(&peerConn{peer: peer})
				had := l.nets.of[from]
				now = now.Add(rapid.SampledFrom([]time.Duration{0, leastIdle}).Draw(t, "later"))
				c, admitted, evicted := place(l, peer, now)
				if admitted && crowded && from.IsValid() && had >= l.share {
					t.Errorf("a network with %d connections got one more than its share of %d", had, l.share)
				}
				if evicted != nil && !admitted {
					t.Error("a connection was closed for nothing")
				}
				delete(lists, evicted)
				if admitted && from.IsValid() {
					lists[c] = &l.waiting[0]
				} else if admitted {
					proxies++
				}
			},
			"request": func(t *rapid.T) {
				c := pick()
				l.connState(tls.Client(c, &tls.Config{}), http.StateActive)
				lists[c] = &l.busy
			},
			"answer": func(t *rapid.T) {
				c := pick()
				if rapid.Bool().Draw(t, "session") {
					c.session.Store(true)
				}
				l.connState(c, http.StateIdle)
				if lists[c] = &l.waiting[0]; c.session.Load() {
					lists[c] = &l.waiting[1]
				}
			},
			"close": func(t *rapid.T) {
				c := pick()
				c.Close()
				c.Close()
				l.connState(c, http.StateIdle) // the hook may be late
				delete(lists, c)
			},
			"": func(t *rapid.T) {
				ofNet, most := map[netip.Prefix]int{}, 0
				for c, list := range lists {
					ofNet[c.from]++
					if c.in != list {
						t.Error("a connection is in a wrong list")
					}
				}
				for network, n := range ofNet {
					most = max(most, n)
					if l.nets.of[network] != n {
						t.Errorf("%v has %d connections, and %d are counted", network, n, l.nets.of[network])
					}
				}
				if l.open != len(lists)+proxies || l.open > l.size || l.nets.most != most || len(l.nets.of) != len(ofNet) {
					t.Errorf("%d of %d places, and %d of one network at most, are counted; %d and %d are", l.open, l.size, l.nets.most, len(lists)+proxies, most)
				}
			},
		})
	})
}

// connShop is a shop in this process with one session. The clock of its places stands still.
type connShop struct {
	*Listeners
	t     *testing.T
	ahead atomic.Int64
	token string
}

func openConnShop(t *testing.T, l Listen, proxies ...string) *connShop {
	t.Helper()
	sessions, err := user.NewSessions(sandboxtest.RedisOptions(t, sandboxtest.RedisURL(t)), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sessions.Close() })
	shop := &connShop{t: t}
	if shop.token, _, err = sessions.Start(t.Context(), user.User{ID: 1, Role: user.RoleBuyer}, "", ""); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	rate := "off"
	if l.TLSCert != "" {
		rate = "200" // without it handshakes have no limit
	}
	s, err := New(Config{Rate: "off", IPRate: rate, TimeZone: "UTC", Cashier: "off", TrustedProxies: proxies}, Deps{Sessions: sessions, Log: log}, "")
	if err != nil {
		t.Fatal(err)
	}
	l.Addr, l.OpsAddr = "127.0.0.1:0", "off"
	if shop.Listeners, err = l.Open(true); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	shop.limit.now = func() time.Time { return now.Add(time.Duration(shop.ahead.Load())) }
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- shop.Serve(ctx, s, nil, log) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return shop
}

// wait waits until so many connections without a session, and with one, wait for a request. Then all have waited for
// leastIdle.
func (shop *connShop) wait(strangers, members int) {
	shop.t.Helper()
	sandboxtest.Until(shop.t, "the connections wait for a request", func() bool {
		shop.limit.mu.Lock()
		defer shop.limit.mu.Unlock()
		var n [2]int
		for i := range n {
			for c := shop.limit.waiting[i].first; c != nil; c = c.next {
				n[i]++
			}
		}
		return n == [2]int{strangers, members}
	})
	shop.ahead.Add(int64(leastIdle))
}

// dialer connects from another address of this machine: see NeedAddresses.
func dialer(from string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: sandboxtest.Hang}
}

// keepAlive is a client that keeps its connection open.
type keepAlive struct {
	client *http.Client
	dials  atomic.Int64
}

func (shop *connShop) keepAlive(from string) *keepAlive {
	v := &keepAlive{}
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			v.dials.Add(1)
			return dialer(from).DialContext(ctx, network, addr)
		}}
	v.client = &http.Client{Timeout: sandboxtest.Hang, Transport: transport}
	shop.t.Cleanup(transport.CloseIdleConnections)
	return v
}

// When nearly all places are taken, a new connection closes the one that has waited longest for a
// request. Those without a session are closed first, over TLS and HTTP/2 too.
func TestIdleConnectionsGiveWay(t *testing.T) {
	t.Parallel()
	NeedAddresses(t)
	pem := filepath.Join(t.TempDir(), "shop.pem") // the key and the certificate
	if err := os.WriteFile(pem, kept(t, "shop.example"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]Listen{"HTTP/1": {}, "HTTP/2": {TLSCert: pem, TLSKey: pem}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const each = 9 // two times each are nine tenths of the places
			l.MaxConns, l.MaxShare = 20, 100
			shop := openConnShop(t, l)
			comeIn := func(v *keepAlive, token string) {
				t.Helper()
				path := "/login.html"
				if token != "" {
					path = "/api/account/sessions"
				}
				if r := sandboxtest.CallBy(v.client, "GET", shop.URL()+path, token, ""); r.Status != 200 {
					t.Fatalf("a client: %d %s", r.Status, r.Code)
				}
			}
			var members, strangers []*keepAlive
			for range each {
				members = append(members, shop.keepAlive("127.0.0.2"))
				comeIn(members[len(members)-1], shop.token)
			}
			for range each {
				strangers = append(strangers, shop.keepAlive("127.0.0.2"))
				comeIn(strangers[len(strangers)-1], "")
			}
			shop.wait(each, each)
			for range each {
				comeIn(shop.keepAlive("127.0.0.3"), shop.token)
			}
			for i, m := range members {
				if comeIn(m, shop.token); m.dials.Load() != 1 {
					t.Errorf("member %d was closed while there were strangers", i)
				}
			}
			shop.wait(0, 2*each)
			comeIn(strangers[0], "") // takes a place of a member
			if n := strangers[0].dials.Load(); n != 2 {
				t.Errorf("the first stranger connected %d times, want 2: it was closed for a new member", n)
			}
			shop.wait(1, 2*each-1)
		})
	}
}

// One network that begins handshakes without end is not answered, before it costs one; other networks and proxies are.
func TestHandshakesAreBounded(t *testing.T) {
	t.Parallel()
	NeedAddresses(t)
	pem := filepath.Join(t.TempDir(), "shop.pem")
	if err := os.WriteFile(pem, kept(t, "shop.example"), 0o600); err != nil {
		t.Fatal(err)
	}
	shop := openConnShop(t, Listen{MaxConns: 50, MaxShare: 100, TLSCert: pem, TLSKey: pem}, "127.0.0.4/32")
	dial := func(from string) net.Conn {
		c, err := dialer(from).Dial("tcp", localAddr(shop.shop))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	burst := tlsHandshakes.most.Burst
	for _, from := range []string{"127.0.0.4", "127.0.0.2"} { // the proxy has no limit
		for range burst {
			dial(from).Close()
		}
		if n := shop.limit.hurried.Load(); n != 0 {
			t.Fatalf("%d of the first %d connections of %s are refused", n, burst, from)
		}
	}
	for n := 0; shop.limit.hurried.Load() == 0; n++ { // tokens come back meanwhile
		if n == 20*burst {
			t.Fatalf("one network began %d handshakes", n+burst)
		}
		dial("127.0.0.2").Close()
	}
	for _, from := range []string{"127.0.0.3", "127.0.0.4"} {
		c := tls.Client(dial(from), &tls.Config{InsecureSkipVerify: true})
		c.SetDeadline(time.Now().Add(sandboxtest.Hang))
		if err := c.Handshake(); err != nil {
			t.Errorf("%s: %v", from, err)
		}
		c.Close()
	}
}

// A trusted proxy may take all places, and its idle connections stay open.
func TestTrustedProxiesHaveNoShare(t *testing.T) {
	t.Parallel()
	NeedAddresses(t)
	shop := openConnShop(t, Listen{MaxConns: 20, MaxShare: 25}, "127.0.0.2/32")
	// ask sends a request and returns the status of the answer, 0 for none.
	ask := func(c net.Conn) int {
		c.SetDeadline(time.Now().Add(sandboxtest.Hang))
		io.WriteString(c, "GET /login.html HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return 0
		}
		defer r.Body.Close()
		io.Copy(io.Discard, r.Body)
		return r.StatusCode
	}
	dial := func(from string) net.Conn {
		c, err := dialer(from).Dial("tcp", localAddr(shop.shop))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	var all []net.Conn
	for i := range 20 {
		all = append(all, dial("127.0.0.2"))
		if status := ask(all[i]); status != 200 {
			t.Fatalf("connection %d of the proxy: %d", i, status)
		}
	}
	shop.wait(0, 0) // others would now give way
	sandboxtest.Until(t, "another address is answered busy", func() bool {
		status := ask(dial("127.0.0.3"))
		if status != 503 && status != 0 { // 0: the request came so late that the shop had closed the connection
			t.Fatalf("with all places taken: %d", status)
		}
		return status == 503
	})
	for i, c := range all {
		if status := ask(c); status != 200 {
			t.Errorf("connection %d of the proxy: %d", i, status)
		}
	}
}
