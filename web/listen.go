package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/acme/autocert"
	"golang.org/x/sync/errgroup"
)

// Listen has the settings of the two addresses.
type Listen struct {
	Addr      string `name:"addr" env:"MIAOSHA_ADDR" default:"127.0.0.1:8080" help:"Where the shop listens."`
	OpsAddr   string `name:"ops-addr" env:"MIAOSHA_OPS_ADDR" default:"127.0.0.1:8081" help:"Where /metrics, /healthz, /readyz and /debug/pprof are; off for none."`
	MaxConns  int    `name:"max-conns" env:"MIAOSHA_MAX_CONNS" default:"20000" help:"Connections open at once; who comes beyond that is told busy."`
	AllowLAN  bool   `name:"allow-lan" env:"MIAOSHA_ALLOW_LAN" help:"Let the sandbox, whose accounts are public, listen where others reach it."`
	TLSCert   string `name:"tls-cert" env:"MIAOSHA_TLS_CERT" placeholder:"FILE" help:"Certificate chain (PEM). With --tls-key the shop speaks TLS."`
	TLSKey    string `name:"tls-key" env:"MIAOSHA_TLS_KEY" placeholder:"FILE" help:"Its key (PEM)."`
	TLSDomain string `name:"tls-domain" env:"MIAOSHA_TLS_DOMAIN" placeholder:"NAME" help:"Get and renew a certificate for this name by itself (ACME, Let's Encrypt); the shop must be reachable at its port 443."`
}

// Doors are open listeners, before anything stands behind them: so that a port that is taken is told at once.
type Doors struct {
	shop, ops net.Listener // ops is nil for none
	beyond    *overflow
	tls       *tls.Config
}

// Open listens. Errors name the setting.
func (l Listen) Open(sandboxed bool) (d *Doors, err error) {
	d = &Doors{}
	if l.MaxConns < 1 {
		return nil, errors.New("--max-conns (MIAOSHA_MAX_CONNS): at least 1")
	}
	if sandboxed && !l.AllowLAN {
		for name, addr := range map[string]string{"--addr (MIAOSHA_ADDR)": l.Addr, "--ops-addr (MIAOSHA_OPS_ADDR)": l.OpsAddr} {
			if addr != "off" && !loopback(addr) {
				return nil, fmt.Errorf("%s: the sandbox's accounts are public, so it listens on loopback only, not on %s; --allow-lan if you mean it", name, addr)
			}
		}
	}
	if (l.TLSCert == "") != (l.TLSKey == "") {
		return nil, errors.New("--tls-cert and --tls-key: both or none")
	}
	if l.TLSCert != "" {
		cert, err := tls.LoadX509KeyPair(l.TLSCert, l.TLSKey)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
		}
		d.tls = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	}
	if l.TLSDomain != "" {
		if l.TLSCert != "" {
			return nil, errors.New("--tls-domain: not together with --tls-cert")
		}
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("--tls-domain: no place for its certificates: %w", err)
		}
		m := autocert.Manager{Prompt: autocert.AcceptTOS, HostPolicy: autocert.HostWhitelist(l.TLSDomain),
			Cache: autocert.DirCache(filepath.Join(cache, "miaosha-certificates"))}
		d.tls = m.TLSConfig()
	}
	if d.shop, err = listen(l.Addr); err != nil {
		return nil, fmt.Errorf("--addr (MIAOSHA_ADDR): %w", err)
	}
	d.beyond = newOverflow(d.shop)
	d.shop = &bounded{d.shop, make(chan struct{}, l.MaxConns), d.beyond}
	if l.OpsAddr != "off" {
		if d.ops, err = listen(l.OpsAddr); err != nil {
			d.shop.Close()
			return nil, fmt.Errorf("--ops-addr (MIAOSHA_OPS_ADDR): %w", err)
		}
	}
	return d, nil
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

// bounded has a limited number of connections open. Of who comes beyond that, beyond takes those it has room for.
type bounded struct {
	net.Listener
	room   chan struct{} // one token per connection
	beyond *overflow
}

func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if in := count(c, b.room); in != nil {
			return in, nil
		}
		if in := count(c, b.beyond.room); in != nil {
			b.beyond.conns <- in // as long as room
		} else {
			c.Close()
		}
	}
}

// overflow is the listener of connections there is no room for, so that each hears so in answer to its request, and over
// TLS too.
type overflow struct {
	net.Listener // for its address
	room         chan struct{}
	conns        chan net.Conn
	closed       chan struct{}
	close        func()
}

// overflowConns are told busy at once; who comes beyond that too is let go without a word.
const overflowConns = 256

func newOverflow(l net.Listener) *overflow {
	o := &overflow{Listener: l, room: make(chan struct{}, overflowConns), conns: make(chan net.Conn, overflowConns), closed: make(chan struct{})}
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

// counted is a connection that gives its place back when it is closed.
type counted struct {
	net.Conn
	leave func()
}

// count gives c a place in room, or nil if there is none.
func count(c net.Conn, room chan struct{}) net.Conn {
	select {
	case room <- struct{}{}:
		return &counted{c, sync.OnceFunc(func() { <-room })}
	default:
		return nil
	}
}

func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close()
}

// loopback tells whether only this machine reaches addr.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Close closes doors that Serve was never called for.
func (d *Doors) Close() {
	d.shop.Close()
	if d.ops != nil {
		d.ops.Close()
	}
}

// URL is the shop's address for this machine.
func (d *Doors) URL() string {
	if d.tls != nil {
		return "https://" + reachable(d.shop)
	}
	return "http://" + reachable(d.shop)
}

// OpsURL is the operator's address for this machine, "" for none.
func (d *Doors) OpsURL() string {
	if d.ops == nil {
		return ""
	}
	return "http://" + reachable(d.ops)
}

func reachable(l net.Listener) string {
	addr := l.Addr().(*net.TCPAddr)
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, fmt.Sprint(addr.Port))
}

// stopLimit is how long requests in flight may take once the shop closes.
const stopLimit = 5 * time.Second

// Serve answers until ctx ends, then lets what is in flight finish.
func (d *Doors) Serve(ctx context.Context, shop *Server, ops http.Handler, log *slog.Logger) error {
	errors := slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	// One limit for a request's header and its body, which is 4 KB at most: a second one costs each request a system timer.
	front := &http.Server{Handler: shop, TLSConfig: d.tls, ErrorLog: errors, ReadTimeout: 8 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	front.RegisterOnShutdown(shop.EndStreams)
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
			if err == http.ErrServerClosed {
				return nil
			}
			return err
		})
		g.Go(func() error {
			<-ctx.Done()
			late, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
			defer cancel()
			if s.Shutdown(late) != nil {
				s.Close()
			}
			return nil
		})
	}
	serve(front, d.shop)
	full := &http.Server{Handler: http.HandlerFunc(shop.full), TLSConfig: d.tls, ErrorLog: errors, ReadTimeout: time.Second,
		WriteTimeout: time.Second, MaxHeaderBytes: 16 << 10}
	full.SetKeepAlivesEnabled(false)
	serve(full, d.beyond)
	if d.ops != nil {
		serve(&http.Server{Handler: ops, ErrorLog: errors, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}, d.ops)
	}
	return g.Wait()
}
