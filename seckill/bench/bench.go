// Package bench is the load generator: a crowd that speaks HTTP to a running shop and reports what it was told. It knows
// the shop's face and nothing behind it; what it can't see there, how many orders are committed and what the shop costs,
// the caller gives it as functions.
//
// A buyer is not a connection. A worker owns a connection and does whatever step of whichever buyer is due: so that
// thousands who wait for their result cost nothing but a place in a heap. The hot loop writes prepared bytes and reads
// with a small reader of its own, because the tool shares the machine with the shop.
//
// Latency is counted from the moment a click was planned. A shop that stalls makes later clicks late, and that is seen.
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

// Buyer is one person with a live session. Path is his hidden address, "" if he has to ask for one. Sale is where he buys,
// 0 for the run's.
type Buyer struct {
	Token, Path string
	Sale        int64
}

// Config says what to drive and how.
type Config struct {
	URL         string
	AllowRemote bool // else only this machine is driven
	Sale        int64
	Shape       string
	Seconds     int     // how long new buyers come
	Conns       int     // connections at once
	Rate        float64 // buyers a second, for open; 1x of ramp, which measures it if 0
	Poll        int     // percent of the accepted who poll for their result
	Pay         int     // percent of those with an order who pay
	Captcha     bool    // everybody solves the shop's sum first: it must tell the answers
	Cold        []Buyer // who come to other sales meanwhile, a hundred a second; for a Shape that is Alone

	// Sold counts the units that are sold for good, nil if that can't be known.
	Sold func(context.Context) (int, error)
	// Usage reads what the shop has cost so far, nil if that can't be known.
	Usage func(context.Context) (Usage, error)
}

// The bounds of a run: a typing error must not take the machine. otherFiles are those that are open beside connections.
const (
	otherFiles = 200
	MaxBuyers  = 1_000_000
	maxConns   = 20_000
	maxSeconds = 600
)

// Validate refuses what is out of bounds. The error begins with the flag.
func (c Config) Validate() error {
	if _, ok := shapes[c.Shape]; !ok {
		return fmt.Errorf("--shape: %q is not known", c.Shape)
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

// target is where the shop is.
type target struct {
	addr, host string
	tls        *tls.Config // nil: none
}

func parseTarget(raw string, remote bool) (t target, err error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return t, fmt.Errorf("--url: %q is not http://host:port", raw)
	}
	ip := net.ParseIP(u.Hostname())
	if !remote && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return t, fmt.Errorf("--url: %s is not this machine; --allow-remote if it is yours to load", u.Hostname())
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

// Run drives the shop with the buyers, each at most once (soldout: again and again), and writes a line a second to
// progress. What the shop answers is a result and never an error.
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
	if err := d.untilOpen(ctx); err != nil {
		return nil, err
	}
	if buyers, err = d.withSums(ctx, buyers); err != nil {
		return nil, err
	}
	return shapes[c.Shape].run(ctx, d, buyers)
}
