package sandboxtest

import (
	"bytes"
	"fmt"
	"net"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"
)

// Proxy is the network between the code under test and one server. It listens on an address of its
// own, which stays the same for its whole life, and passes every connection on. It can be cut, be
// slow, and lose replies. A reply is one piece of what the server sends, as it arrives: enough for
// the short replies of Redis.
type Proxy struct {
	to, at string
	port   *os.File // keeps the address while the proxy is cut; closed with the last reference to it

	mu      sync.Mutex
	listen  net.Listener // nil while cut
	conns   map[*proxied]struct{}
	delay   time.Duration
	healed  chan struct{} // closed by Heal
	lose    loss
	lost    int
	sent    *SyncBuffer
	running sync.WaitGroup
}

// loss says which replies get lost.
type loss struct {
	text []byte
	n    int
	cut  bool
}

// proxied is one connection through the proxy.
type proxied struct {
	client, server net.Conn
	once           sync.Once
	closed         chan struct{}
}

func (c *proxied) close() {
	c.once.Do(func() {
		close(c.closed)
		c.client.Close()
		c.server.Close()
	})
}

// NewProxy opens a proxy to the address to.
func NewProxy(to string) (*Proxy, error) {
	p := &Proxy{to: to, conns: map[*proxied]struct{}{}, healed: make(chan struct{})}
	var err error
	if p.at, p.port, err = reservePort(); err == nil {
		err = p.Join()
	}
	if err != nil {
		return nil, fmt.Errorf("open a proxy to %s: %w", to, err)
	}
	return p, nil
}

// ProxyTo opens a proxy to the server of a store's URL, and returns it with the URL that leads
// through it. It ends with the test.
func ProxyTo(t testing.TB, store string) (p *Proxy, through string) {
	t.Helper()
	u, err := url.Parse(store)
	if err != nil {
		t.Fatalf("parse the URL of a store: %v", err)
	}
	if p, err = NewProxy(u.Host); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Cut)
	u.Host = p.Addr()
	return p, u.String()
}

// Addr returns the address at which the proxy listens.
func (p *Proxy) Addr() string { return p.at }

// Cut closes all connections and refuses new ones, until Join. It returns when all of that is done.
func (p *Proxy) Cut() {
	p.mu.Lock()
	if p.listen != nil {
		p.listen.Close()
		p.listen = nil
	}
	for c := range p.conns {
		c.close()
	}
	p.mu.Unlock()
	p.running.Wait()
}

// Join ends a Cut.
func (p *Proxy) Join() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listen != nil {
		return nil
	}
	listen, err := net.Listen("tcp", p.at)
	if err != nil {
		return err
	}
	p.listen = listen
	p.running.Go(func() { p.accept(listen) })
	return nil
}

// Delay makes every reply later by d, until Heal. Replies wait side by side: the connection does
// not get narrower.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Lose drops the next n replies that contain text, with their connections: the client sees them
// reset.
func (p *Proxy) Lose(text string, n int) { p.setLoss(loss{[]byte(text), n, true}) }

// Swallow drops the next n replies that contain text. Their connections stay open, and are silent.
func (p *Proxy) Swallow(text string, n int) { p.setLoss(loss{[]byte(text), n, false}) }

func (p *Proxy) setLoss(l loss) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = l
}

// Lost returns how many replies were dropped so far.
func (p *Proxy) Lost() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// Heal ends Delay, Lose and Swallow. A delayed reply arrives at once.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay, p.lose = 0, loss{}
	close(p.healed)
	p.healed = make(chan struct{})
}

// Record returns a buffer that receives all that clients send from now on.
func (p *Proxy) Record() *SyncBuffer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sent == nil {
		p.sent = &SyncBuffer{}
	}
	return p.sent
}

// accept serves connections until listen is closed.
func (p *Proxy) accept(listen net.Listener) {
	for {
		client, err := listen.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(listen, client) })
	}
}

// serve passes one connection on until either side ends it, or Cut.
func (p *Proxy) serve(listen net.Listener, client net.Conn) {
	defer client.Close()
	server, err := net.DialTimeout("tcp", p.to, Hang)
	if err != nil {
		return
	}
	defer server.Close()
	c := &proxied{client: client, server: server, closed: make(chan struct{})}
	if !p.add(c, listen) {
		return
	}
	defer p.remove(c)
	replies := make(chan reply, 1024)
	var both sync.WaitGroup
	both.Go(func() { p.requests(c) })
	both.Go(func() { p.replies(c, replies) })
	p.deliver(c, replies)
	c.close()
	for range replies { // until the reader sees the end
	}
	both.Wait()
}

// add keeps a connection so that Cut can close it. It reports false if the proxy has been cut since
// listen accepted it.
func (p *Proxy) add(c *proxied, listen net.Listener) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listen != listen {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) remove(c *proxied) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// requests passes on what the client sends. When the client has no more, the connection ends.
func (p *Proxy) requests(c *proxied) {
	defer c.close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := c.client.Read(buffer)
		if n > 0 {
			p.mu.Lock()
			sent := p.sent
			p.mu.Unlock()
			if sent != nil {
				sent.Write(buffer[:n])
			}
			if _, err := c.server.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// reply is one piece of what a server sends, which the client must not see before due.
type reply struct {
	data   []byte
	due    time.Time
	healed <-chan struct{}
}

// replies reads what the server sends, and drops what is to be lost.
func (p *Proxy) replies(c *proxied, out chan<- reply) {
	defer close(out)
	buffer := make([]byte, 32<<10)
	for {
		n, err := c.server.Read(buffer)
		if n > 0 {
			p.mu.Lock()
			r := reply{bytes.Clone(buffer[:n]), time.Now().Add(p.delay), p.healed}
			lost, cut := p.lose.n > 0 && bytes.Contains(r.data, p.lose.text), p.lose.cut
			if lost {
				p.lose.n--
				p.lost++
			}
			p.mu.Unlock()
			switch {
			case lost && cut:
				if client, ok := c.client.(*net.TCPConn); ok {
					client.SetLinger(0) // a reset
				}
				c.close()
				return
			case !lost:
				out <- r // deliver takes it, or serve once deliver has ended
			}
		}
		if err != nil {
			return
		}
	}
}

// deliver passes replies on when they are due, until there are no more or the client is gone.
func (p *Proxy) deliver(c *proxied, replies <-chan reply) {
	for r := range replies {
		if wait := time.Until(r.due); wait > 0 {
			timer := time.NewTimer(wait) //timing: the delay that the test asked for
			select {
			case <-timer.C:
			case <-r.healed:
			case <-c.closed:
			}
			timer.Stop()
		}
		if _, err := c.client.Write(r.data); err != nil {
			return
		}
	}
}
