package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/crypto/acme/autocert"
	"golang.org/x/sync/errgroup"

	"miaosha/user"
)

// Listen has the settings of the two listeners.
type Listen struct {
	Addr      string   `name:"addr" env:"MIAOSHA_ADDR" default:"127.0.0.1:8080" help:"Where the shop listens."`
	OpsAddr   string   `name:"ops-addr" env:"MIAOSHA_OPS_ADDR" default:"127.0.0.1:8081" help:"Where /metrics, /healthz, /readyz and /debug/pprof are; off for none."`
	MaxConns  int      `name:"max-conns" env:"MIAOSHA_MAX_CONNS" default:"20000" help:"Connections open at once; more of them are told busy."`
	MaxShare  int      `name:"max-conns-share" env:"MIAOSHA_MAX_CONNS_SHARE" default:"25" help:"Percent of them that one address (a /64 of IPv6) may have when most are open; trusted proxies may have all."`
	AllowHost []string `name:"allow-host" env:"MIAOSHA_ALLOW_HOST" placeholder:"NAME" help:"Names of this shop in a URL besides localhost and --tls-domain. On loopback, or if a name is given, requests for other names are refused."`
	AllowLAN  bool     `name:"allow-lan" env:"MIAOSHA_ALLOW_LAN" help:"Let the sandbox, whose accounts are public, listen where other machines reach it. Its demo administrator is used at this machine only."`
	TLSCert   string   `name:"tls-cert" env:"MIAOSHA_TLS_CERT" placeholder:"FILE" help:"Certificate chain (PEM). With --tls-key the shop speaks TLS. New files are served within seconds, or at once on SIGHUP."`
	TLSKey    string   `name:"tls-key" env:"MIAOSHA_TLS_KEY" placeholder:"FILE" help:"Its key (PEM)."`
	TLSDomain string   `name:"tls-domain" env:"MIAOSHA_TLS_DOMAIN" placeholder:"NAME" help:"Get and renew a certificate for this name by itself (ACME, Let's Encrypt); the shop must be reachable at its port 443."`
}

// otherFiles is how many files a process may have open besides its admitted connections: those that
// overflow answers, files of its own, 61 connections to Postgres, and 64 to each node of Redis, of which
// the Redis inside the process has both ends.
const otherFiles = overflowConns + 768

// hostName matches a name as browsers send it in a Host header, without a port.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// Listeners has the open listeners. They are opened before anything else, so that a port which is taken
// is reported at once.
type Listeners struct {
	config    Listen
	shop, ops net.Listener // ops is nil for none
	limit     *connLimit
	overflow  *overflow
	tls       *tls.Config
	cert      *certificate     // of --tls-cert; nil for none
	reload    <-chan os.Signal // see ReloadOn
}

// Open opens the listeners. Its errors name the setting.
func (l Listen) Open(sandboxed bool) (ls *Listeners, err error) {
	if l.MaxConns < 1 {
		return nil, errors.New("--max-conns (MIAOSHA_MAX_CONNS): at least 1")
	}
	if l.MaxShare < 1 || l.MaxShare > 100 {
		return nil, errors.New("--max-conns-share (MIAOSHA_MAX_CONNS_SHARE): a percentage from 1 to 100")
	}
	for _, name := range l.AllowHost {
		if !hostName.MatchString(name) {
			return nil, fmt.Errorf("--allow-host (MIAOSHA_ALLOW_HOST): %q is not a name such as shop.example", name)
		}
	}
	type address struct{ name, addr, example string }
	addresses := []address{{"--addr (MIAOSHA_ADDR)", l.Addr, "127.0.0.1:8080"}}
	if l.OpsAddr != "off" {
		addresses = append(addresses, address{"--ops-addr (MIAOSHA_OPS_ADDR)", l.OpsAddr, "127.0.0.1:8081"})
	}
	for _, at := range addresses {
		if _, _, err := net.SplitHostPort(at.addr); err != nil {
			return nil, fmt.Errorf("%s: %q is not a host and a port such as %s", at.name, at.addr, at.example)
		}
		if sandboxed && !l.AllowLAN && !loopback(at.addr) {
			return nil, fmt.Errorf(
				"%s: the sandbox's accounts are public, so it listens on loopback only, not on %s; --allow-lan if you mean it",
				at.name, at.addr)
		}
	}
	places := min(l.MaxConns, max(fileLimit()-otherFiles, fileLimit()/16)) // with few files the shop still starts
	if places < 1 {
		return nil, fmt.Errorf(
			"--max-conns (MIAOSHA_MAX_CONNS): this process may open %d files, which leaves none for connections: raise the limit (ulimit -n)",
			fileLimit())
	}
	ls = &Listeners{config: l}
	if ls.tls, ls.cert, err = l.tlsConfig(); err != nil {
		return nil, err
	}
	if ls.shop, err = listen(l.Addr); err != nil {
		return nil, fmt.Errorf("--addr (MIAOSHA_ADDR): %w", err)
	}
	ls.limit, ls.overflow = newConnLimit(places, l.MaxShare), newOverflow(ls.shop)
	ls.shop = &limitedListener{ls.shop, ls.limit, ls.overflow}
	if l.OpsAddr != "off" {
		if ls.ops, err = listen(l.OpsAddr); err != nil {
			ls.shop.Close()
			return nil, fmt.Errorf("--ops-addr (MIAOSHA_OPS_ADDR): %w", err)
		}
	}
	return ls, nil
}

// cipherSuites are those of TLS 1.2 with forward secrecy and authenticated encryption. Those of TLS 1.3 all are.
var cipherSuites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// tlsConfig returns how the shop speaks TLS, nil if it does not, and the certificate in its files.
func (l Listen) tlsConfig() (*tls.Config, *certificate, error) {
	if (l.TLSCert == "") != (l.TLSKey == "") {
		return nil, nil, errors.New("--tls-cert and --tls-key: both or none")
	}
	if l.TLSCert != "" && l.TLSDomain != "" {
		return nil, nil, errors.New("--tls-domain: not together with --tls-cert")
	}
	if l.TLSDomain != "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, nil, fmt.Errorf("--tls-domain: no folder for its certificates: %w", err)
		}
		m := autocert.Manager{Prompt: autocert.AcceptTOS, HostPolicy: autocert.HostWhitelist(l.TLSDomain),
			Cache: autocert.DirCache(filepath.Join(cache, "miaosha-certificates"))}
		config := m.TLSConfig()
		config.MinVersion, config.CipherSuites = tls.VersionTLS12, cipherSuites
		return config, nil, nil
	}
	if l.TLSCert == "" {
		return nil, nil, nil
	}
	cert, err := openCertificate(l.TLSCert, l.TLSKey)
	if err != nil {
		return nil, nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
	}
	current := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return cert.current.Load(), nil }
	return &tls.Config{GetCertificate: current, MinVersion: tls.VersionTLS12, CipherSuites: cipherSuites,
		NextProtos: []string{"h2", "http/1.1"}}, cert, nil
}

func listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is taken by another program; choose another port", addr)
	}
	if err != nil {
		return nil, fmt.Errorf("can't listen on %s: %w", addr, err)
	}
	return l, nil
}

// limitedListener accepts the connections that the limit admits, and passes the others to overflow.
type limitedListener struct {
	net.Listener
	limit    *connLimit
	overflow *overflow
}

func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if !l.limit.mayShakeHands(c) { // an answer over TLS would cost the handshake
			c.Close()
			continue
		}
		if placed := l.limit.admit(c); placed != nil {
			return placed, nil
		}
		if placed := takePlace(c, l.overflow.places); placed != nil {
			l.overflow.conns <- placed // never blocks: conns is as long as places
		} else {
			c.Close()
		}
	}
}

// overflow is the listener of the connections beyond the limit. Each request on them is answered busy,
// over TLS too.
type overflow struct {
	net.Listener // for its address
	places       chan struct{}
	conns        chan net.Conn
	closed       chan struct{}
	close        func()
}

// overflowConns bounds the connections that are answered busy at once. Those beyond it are closed
// without an answer.
const overflowConns = 256

func newOverflow(l net.Listener) *overflow {
	o := &overflow{Listener: l, places: make(chan struct{}, overflowConns), conns: make(chan net.Conn, overflowConns),
		closed: make(chan struct{})}
	o.close = sync.OnceFunc(func() { close(o.closed) })
	return o
}

func (o *overflow) Accept() (net.Conn, error) {
	select {
	case c := <-o.conns:
		return c, nil
	case <-o.closed:
		return nil, net.ErrClosed
	}
}

func (o *overflow) Close() error { o.close(); return nil }

// placedConn is a connection of overflow. It releases its place when it is closed.
type placedConn struct {
	net.Conn
	release func()
}

// takePlace returns c with a place, or nil if no place is free.
func takePlace(c net.Conn, places chan struct{}) net.Conn {
	select {
	case places <- struct{}{}:
		return &placedConn{c, sync.OnceFunc(func() { <-places })}
	default:
		return nil
	}
}

func (c *placedConn) Close() error {
	c.release()
	return c.Conn.Close()
}

// loopback reports whether only this machine reaches addr.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// CheckPayments returns an error if other machines reach a shop, themselves or through a proxy, that would
// take play money and was not told to. The sandbox's shop has nothing else.
func (l Listen) CheckPayments(c Config, outside []Outside, sandboxed bool) error {
	proxied := l.proxied(c)
	notified := slices.ContainsFunc(outside, Outside.Notifies)
	if sandboxed || notified || c.Cashier != "auto" || loopback(l.Addr) && !proxied {
		return nil
	}
	reached := l.Addr
	if proxied {
		reached += " by another name (--trusted-proxies, --allow-host, --tls-domain)"
	}
	return fmt.Errorf(
		"--notify-secret (MIAOSHA_NOTIFY_SECRET): without the payment provider's key buyers would pay with play money, and other machines reach %s; --cashier sandbox if you mean it",
		reached)
}

// proxied reports whether the shop has another name than its address, by which other machines may reach it.
func (l Listen) proxied(c Config) bool {
	return len(c.TrustedProxies) > 0 || len(l.AllowHost) > 0 || l.TLSDomain != ""
}

// TLS reports whether the shop speaks TLS.
func (ls *Listeners) TLS() bool { return ls.tls != nil }

// ReloadOn makes Serve read the files of the certificate at once, and not in a few seconds, when c receives a signal.
// Call it before Serve.
func (ls *Listeners) ReloadOn(c <-chan os.Signal) { ls.reload = c }

// Local reports whether only this machine reaches the shop.
func (l Listen) Local(c Config) bool { return !l.AllowLAN && loopback(l.Addr) && !l.proxied(c) }

// Collectors returns the metrics of the connections.
func (ls *Listeners) Collectors() []prometheus.Collector { return ls.limit.collectors() }

// Close closes the listeners. Only listeners without a Serve need it.
func (ls *Listeners) Close() {
	ls.shop.Close()
	if ls.ops != nil {
		ls.ops.Close()
	}
}

// NetworkURLs returns the shop's URLs in the networks of this machine, by its IPv4 addresses; none unless it listens on
// all of them.
func (ls *Listeners) NetworkURLs() (urls []string) {
	at := ls.shop.Addr().(*net.TCPAddr)
	if !at.IP.IsUnspecified() {
		return nil
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil // a teacher knows the address, or asks for it
	}
	scheme := "http://"
	if ls.tls != nil {
		scheme = "https://"
	}
	for _, a := range own {
		if network, isNet := a.(*net.IPNet); isNet && network.IP.To4() != nil && !network.IP.IsLoopback() &&
			!network.IP.IsLinkLocalUnicast() {
			urls = append(urls, scheme+net.JoinHostPort(network.IP.String(), fmt.Sprint(at.Port)))
		}
	}
	return urls
}

// URL returns the shop's URL on this machine.
func (ls *Listeners) URL() string {
	if ls.tls != nil {
		return "https://" + localAddr(ls.shop)
	}
	return "http://" + localAddr(ls.shop)
}

// OpsURL returns the operator's URL on this machine, "" if there is none.
func (ls *Listeners) OpsURL() string {
	if ls.ops == nil {
		return ""
	}
	return "http://" + localAddr(ls.ops)
}

func localAddr(l net.Listener) string {
	addr := l.Addr().(*net.TCPAddr)
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, fmt.Sprint(addr.Port))
}

// maxHeader is a request's header that is always accepted. net/http reads 4 KB more, and another 4 KB
// that came right behind the request before, so a header of more than 16 KB never is.
const maxHeader = 8 << 10

// serverLog logs what an http.Server prints: at Warn that it can accept no connection, and at Debug what
// clients do wrong.
type serverLog struct{ log *slog.Logger }

func (l serverLog) Write(line []byte) (int, error) {
	level := slog.LevelDebug
	if bytes.HasPrefix(line, []byte("http: Accept error")) {
		level = slog.LevelWarn
	}
	l.log.Log(context.Background(), level, string(bytes.TrimSuffix(line, []byte("\n"))))
	return len(line), nil
}

// stopLimit bounds the requests in flight once the shop closes.
const stopLimit = 5 * time.Second

// proxyLimit bounds the time in which trusted proxies may still send requests on the connections that they have, once
// the shop closes.
const proxyLimit = 2 * time.Second

// Serve answers requests until ctx ends. Then it stops accepting connections, and lets the requests in flight finish.
func (ls *Listeners) Serve(ctx context.Context, shop *Server, ops http.Handler, log *slog.Logger) error {
	if ls.limit.size < ls.config.MaxConns {
		log.Warn(
			"the limit of open files (ulimit -n) is too low for --max-conns: fewer connections are accepted, and others are answered busy",
			"files", fileLimit(), "max_conns", ls.config.MaxConns, "accepted", ls.limit.size)
	}
	errorLog := stdlog.New(serverLog{log}, "", 0)
	// One time limit for the header and the body, which has at most 4 KB: a second limit costs each
	// request a system timer.
	handler := checkHost(ls.config, ls.shop, shop.desk.isProxy, shop.headers(http.HandlerFunc(shop.refuseHost)), shop)
	front := &http.Server{Handler: handler, TLSConfig: ls.tls.Clone(), ErrorLog: errorLog, ReadTimeout: 8 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: maxHeader,
		ConnState: ls.limit.connState, ConnContext: connContext}
	ls.limit.exempt = shop.desk.isProxy
	if ls.tls != nil && shop.cfg.ipRate != (user.Limit{}) { // not with --ip-rate off
		ls.limit.handshakes = newBuckets(tlsHandshakes, tlsHandshakes.most)
	}
	var g errgroup.Group
	ctx, cancel := context.WithCancel(ctx)
	serve := func(s *http.Server, l net.Listener) {
		g.Go(func() error {
			defer cancel()
			var err error
			if s.TLSConfig != nil {
				err = s.ServeTLS(l, "", "")
			} else {
				err = s.Serve(l)
			}
			if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		})
		g.Go(func() error {
			<-ctx.Done()
			if s == front {
				ls.stopAccepting(shop)
			}
			late, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
			defer cancel()
			if s.Shutdown(late) != nil {
				s.Close()
			}
			return nil
		})
	}
	serve(front, ls.shop)
	if ls.cert != nil {
		g.Go(func() error { ls.cert.run(ctx, ls.reload, log); return nil })
	}
	full := &http.Server{Handler: http.HandlerFunc(shop.answerBusy), TLSConfig: ls.tls.Clone(), ErrorLog: errorLog,
		ReadTimeout:  time.Second,
		WriteTimeout: time.Second, MaxHeaderBytes: maxHeader}
	full.SetKeepAlivesEnabled(false)
	serve(full, ls.overflow)
	if ls.ops != nil {
		none := func(netip.Addr) bool { return false } // no proxy is between the operator and this address
		ops = checkHost(ls.config, ls.ops, none, http.HandlerFunc(refuseOpsHost), sameOriginOnly(ops))
		serve(&http.Server{Handler: ops, ErrorLog: errorLog, ReadHeaderTimeout: 5 * time.Second,
			IdleTimeout:    time.Minute,
			MaxHeaderBytes: maxHeader}, ls.ops)
	}
	return g.Wait()
}

// stopAccepting closes the listener, ends all event streams, and ends each connection with its next answer. A proxy
// which cannot connect passes the request to another process. But it does not know what became of a request which it
// sent on an idle connection just when the shop closed that. So it leaves trusted proxies time to use up their
// connections.
func (ls *Listeners) stopAccepting(shop *Server) {
	ls.shop.Close()
	shop.Close()
	if len(shop.cfg.TrustedProxies) > 0 {
		ls.limit.waitEmpty(proxyLimit)
	}
}
