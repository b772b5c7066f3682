// Package bench is the load generator: buyers who send HTTP requests to a running shop, and a report of
// the responses. It knows only the HTTP API. The number of sold units and the resource usage of the shop
// come from functions that the caller passes.
//
// A run has one or more turns. In each turn buyers arrive by a plan: at once, at a rate, or as fast as
// possible. A buyer is not a connection: a worker owns one connection and performs the next due step of
// any of its buyers, so a waiting buyer costs only a place in a heap. The hot loop writes prepared bytes
// and has a small HTTP reader of its own, since the bench shares the machine with the shop.
//
// Latency is measured from the planned time of the click, so it includes the delay of a stalled shop.
package bench

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"
)

// Buyer has a live session. Path is the hidden address, or "" to request one. Sale 0 is that of the run.
type Buyer struct {
	Token, Path string
	Sale        int64
}

// Config selects the shop and the load.
type Config struct {
	URL         string
	AllowRemote bool // otherwise only this machine is allowed
	Sale        int64
	Shape       string
	Seconds     int     // for how long new buyers arrive
	Conns       int     // concurrent connections
	Rate        float64 // buyers a second, for open; 1x of ramp, which measures it if 0
	Poll        int     // percent of the accepted buyers who poll for their result
	Pay         int     // percent of the buyers with an order who pay
	Captcha     bool    // every buyer solves a captcha first; the shop must reveal the answers
	Spread      bool    // the buyers are those of many sales; only for a Shape with Spreads
	Cold        []Buyer // buyers of other sales, a hundred a second; only for a Shape with AllowsCold

	// Watch is called each tenth of a second of a turn. nil: not at all.
	Watch func(Sample)
	// Sold returns how many units of the sale are sold. nil: unknown.
	Sold func(context.Context) (int, error)
	// Committed returns when each order of the sales was written, by its id. nil: unknown.
	Committed func(context.Context) (map[string]time.Time, error)
	// Usage returns what the shop has used so far. nil: unknown.
	Usage func(context.Context) (Usage, error)
	// Spent returns what the stores have used and the shop has counted so far. nil: unknown.
	Spent func(context.Context) Spent
}

// The bounds of a run, against typing errors. spareFiles are open files that are not connections.
const (
	spareFiles = 200
	MaxBuyers  = 1_000_000
	maxConns   = 20_000
	maxSeconds = 600
)

// Validate reports the first value that is out of bounds. The error begins with the flag.
func (c Config) Validate() error {
	if _, ok := shapes[c.Shape]; !ok {
		return fmt.Errorf("--shape: unknown shape %q", c.Shape)
	}
	switch {
	case c.Seconds < 1 || c.Seconds > maxSeconds:
		return fmt.Errorf("--seconds: 1 to %d", maxSeconds)
	case c.Conns < 1 || c.Conns > maxConns:
		return fmt.Errorf("--conns: 1 to %d", maxConns)
	case c.Shape == "open" && c.Rate <= 0, c.Rate < 0, c.Rate > 1e7:
		return errors.New("--rate: above 0")
	case c.Poll < 0 || c.Poll > 100:
		return errors.New("--poll: 0 to 100")
	case c.Pay < 0 || c.Pay > 100:
		return errors.New("--pay: 0 to 100")
	}
	_, err := parseTarget(c.URL, c.AllowRemote)
	return err
}

// target is the address of the shop.
type target struct {
	addr, host string
	tls        *tls.Config // nil for http
}

func parseTarget(raw string, remote bool) (t target, err error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return t, fmt.Errorf("--url: %q is not http://host:port", raw)
	}
	ip := net.ParseIP(u.Hostname())
	if !remote && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return t, fmt.Errorf("--url: %s is not this machine; use --allow-remote if you may load it", u.Hostname())
	}
	t.host, t.addr = u.Host, u.Host
	if u.Scheme == "https" {
		t.tls = &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
	}
	if u.Port() == "" {
		t.addr = net.JoinHostPort(u.Hostname(), u.Scheme)
	}
	return t, nil
}

func (t target) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	c, err := d.DialContext(ctx, "tcp", t.addr)
	if err != nil || t.tls == nil {
		return c, err
	}
	return tls.Client(c, t.tls), nil
}

// Run drives the shop with the buyers, each at most once (in soldout, polls and list again and again).
// It writes a line a second to progress. A response of the shop is a result, never an error of Run.
func Run(ctx context.Context, c Config, buyers []Buyer, progress io.Writer) ([]Turn, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if len(buyers) == 0 || len(buyers) > MaxBuyers {
		return nil, fmt.Errorf("-n: 1 to %d buyers", MaxBuyers)
	}
	to, err := parseTarget(c.URL, c.AllowRemote)
	if err != nil {
		return nil, err
	}
	d := &driver{Config: c, to: to, progress: progress}
	if err := d.waitUntilOpen(ctx); err != nil {
		return nil, err
	}
	if buyers, err = d.prepareCaptcha(ctx, buyers); err != nil {
		return nil, err
	}
	return shapes[c.Shape].run(ctx, d, buyers)
}
