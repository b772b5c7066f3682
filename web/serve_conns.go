package web

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"miaosha/user"
)

// leastIdle is how long a connection may wait for a request, also when places run short. A client that
// has just connected, or has just received an answer, is not closed, unless its network has more than
// its share.
const leastIdle = time.Second

// connLimit bounds the open connections of a listener. Two rules keep one client from taking every
// place:
//
//   - Once three quarters of the places are taken, a network that has its share gets no further one.
//   - Once nine tenths are taken, each new connection closes the one that has waited longest for a
//     request, those that never had a session first. If none has waited leastIdle, the new one takes a
//     free place. If there is none, it gets the oldest place of the network that has most, or of another
//     one that has at least two more than its own: one with a request, or any of more than a share.
//
// A connection waits for a request from its start, or from the end of the last request, until the whole
// header of the next one has been read. So half a header is no request.
type connLimit struct {
	size, share int
	exempt      func(netip.Addr) bool // trusted proxies: they have no share, and are not closed
	handshakes  *buckets              // of TLS; nil without it, and with --ip-rate off
	now         func() time.Time

	mu      sync.Mutex
	open    int
	nets    tally[netip.Prefix] // open connections of each network, without exempt ones
	waiting [2]connList         // for a request: connections without a session, and those with one
	busy    connList            // with a request

	evicted, refused, hurried atomic.Int64
}

// tlsHandshakes bounds what one network makes the shop compute before its first request. A handshake costs 0.4 ms of a
// processor with an ECDSA key, and 1 ms with an RSA key of 2048 bits. A class behind one address needs one for each
// browser. With --ip-rate off the limit does not exist.
var tlsHandshakes = &limit{per: perAddress, most: user.MustLimit("80/s", 600), kept: here}

// newConnLimit returns a limit of size connections. share is the percentage of one network.
func newConnLimit(size, share int) *connLimit {
	return &connLimit{size: size, share: max(1, size*share/100), nets: newTally[netip.Prefix](),
		exempt: func(netip.Addr) bool { return false }, now: time.Now}
}

// mayShakeHands reports whether the network of c may begin one more TLS handshake.
func (l *connLimit) mayShakeHands(c net.Conn) bool {
	network := l.network(c)
	if l.handshakes == nil || !network.IsValid() || l.handshakes.take(bucketKey{addr: network.Addr()}) == nil {
		return true
	}
	l.hurried.Add(1)
	return false
}

// clientConn is a connection that has a place.
type clientConn struct {
	net.Conn
	limit   *connLimit
	from    netip.Prefix // the zero Prefix for a trusted proxy
	session atomic.Bool  // a request on it had a session

	// limit.mu guards these.
	in         *connList // nil without a place, and for a trusted proxy
	prev, next *clientConn
	since      time.Time // when it was put into the list
	released   bool
}

// admit returns c with a place, or nil if there is none for it.
func (l *connLimit) admit(c net.Conn) *clientConn {
	placed := &clientConn{Conn: c, limit: l, from: l.network(c)}
	admitted, evicted := l.place(placed, l.now())
	if evicted != nil {
		l.evicted.Add(1)
		evicted.Conn.Close()
	}
	if !admitted {
		l.refused.Add(1)
		return nil
	}
	return placed
}

// place reports whether there is a place for c, and returns the connection that must be closed for it,
// if any.
func (l *connLimit) place(c *clientConn, now time.Time) (admitted bool, evicted *clientConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.from.IsValid() && 4*l.open >= 3*l.size && l.nets.of[c.from] >= l.share {
		return false, nil
	}
	if 10*l.open >= 9*l.size {
		evicted = l.longestWaiting(now)
	}
	if l.open >= l.size && evicted == nil && l.nets.most >= l.nets.of[c.from]+2 {
		evicted = l.oldestOfLarger(l.nets.of[c.from])
	}
	if evicted != nil {
		l.release(evicted)
	}
	if l.open >= l.size {
		return false, nil
	}
	l.open++
	if c.from.IsValid() {
		l.nets.count(c.from, 1)
		c.since = now
		l.waiting[0].push(c)
	}
	return true, evicted
}

// longestWaiting returns the connection that is closed first, nil if none has waited long enough.
func (l *connLimit) longestWaiting(now time.Time) *clientConn {
	for i := range l.waiting {
		if c := l.waiting[i].first; c != nil && now.Sub(c.since) >= leastIdle {
			return c
		}
	}
	return nil
}

// lookAt is how many connections are looked at, from the oldest on, to find one to close.
const lookAt = 1000

// oldestOfLarger returns a connection of the network that has most, or else of one that has at least two
// more than own; nil if there is none. Only one of a network with more than its share may be without a
// request.
func (l *connLimit) oldestOfLarger(own int) (other *clientConn) {
	lists := []*connList{&l.waiting[0], &l.waiting[1], &l.busy}
	if l.nets.most <= l.share {
		lists = lists[2:]
	}
	for _, list := range lists {
		looked := 0
		for c := list.first; c != nil && looked < lookAt; c = c.next {
			looked++
			n := l.nets.of[c.from]
			switch {
			case list != &l.busy && n <= l.share:
			case n == l.nets.most:
				return c
			case other == nil && n >= own+2:
				other = c
			}
		}
	}
	return other
}

// release takes the place of c away. A second call does nothing.
func (l *connLimit) release(c *clientConn) {
	if c.released {
		return
	}
	c.released = true
	l.open--
	if c.in == nil {
		return
	}
	c.in.remove(c)
	l.nets.count(c.from, -1)
}

// waitEmpty waits until no connection is open, or for d.
func (l *connLimit) waitEmpty(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		l.mu.Lock()
		open := l.open
		l.mu.Unlock()
		if open == 0 {
			return
		}
	}
}

// connState keeps the lists. It is the hook of an http.Server.
func (l *connLimit) connState(nc net.Conn, state http.ConnState) {
	c := placeOf(nc)
	if c == nil || !c.from.IsValid() || state != http.StateActive && state != http.StateIdle {
		return
	}
	list := &l.busy
	var now time.Time
	if state == http.StateIdle {
		now, list = l.now(), &l.waiting[0]
		if c.session.Load() {
			list = &l.waiting[1]
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.released {
		return
	}
	c.in.remove(c)
	c.since = now
	list.push(c)
}

type connKey struct{}

// connContext lets the handlers of a connection call markSession. It is a hook of an http.Server.
func connContext(ctx context.Context, nc net.Conn) context.Context {
	if c := placeOf(nc); c != nil {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

// markSession marks the connection of a request as one that has a session.
func markSession(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*clientConn); ok && !c.session.Load() {
		c.session.Store(true)
	}
}

// placeOf returns the connection under TLS, nil if it has no place.
func placeOf(c net.Conn) *clientConn {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	placed, _ := c.(*clientConn)
	return placed
}

func (c *clientConn) Close() error {
	c.limit.mu.Lock()
	c.limit.release(c)
	c.limit.mu.Unlock()
	return c.Conn.Close()
}

// network returns the network whose connections count together: an IPv4 address, or a /64 of IPv6. It
// is the zero Prefix for a trusted proxy.
func (l *connLimit) network(c net.Conn) netip.Prefix {
	peer, _ := netip.ParseAddrPort(c.RemoteAddr().String())
	addr := peer.Addr().Unmap().WithZone("")
	if l.exempt(addr) {
		return netip.Prefix{}
	}
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	network, _ := addr.Prefix(bits)
	return network
}

func (l *connLimit) collectors() []prometheus.Collector {
	count := func(name, help string, n *atomic.Int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "miaosha_" + name, Help: help},
			func() float64 { return float64(n.Load()) })
	}
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "miaosha_connections",
			Help: "Open connections that have a place."}, func() float64 {
			l.mu.Lock()
			defer l.mu.Unlock()
			return float64(l.open)
		}),
		count("connections_evicted_total", "Connections closed to make room for new ones.", &l.evicted),
		count("connections_refused_total", "Connections without a place, which are answered busy.", &l.refused),
		count("handshakes_refused_total",
			"Connections closed before their TLS handshake, since their network began too many.", &l.hurried),
	}
}

// connList is a list of connections in the order in which they were put into it. It links the
// connections themselves, so that a request allocates nothing for it.
type connList struct{ first, last *clientConn }

func (l *connList) push(c *clientConn) {
	c.in, c.prev, c.next = l, l.last, nil
	if l.last == nil {
		l.first = c
	} else {
		l.last.next = c
	}
	l.last = c
}

func (l *connList) remove(c *clientConn) {
	if c.prev == nil {
		l.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.in, c.prev, c.next = nil, nil, nil
}
