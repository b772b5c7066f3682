package web

import (
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/go-chi/chi/v5/middleware"
	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"

	"miaosha/seckill"
	"miaosha/user"
)

const (
	bucketsAlive = 200_000 // keys kept at once; a key that was dropped starts with a full bucket
	bucketLife   = time.Minute
)

// buckets keeps the token buckets of a limit, one per key, in this process and in bounded memory.
type buckets struct {
	*limit
	most user.Limit  // zero: the limit is switched off
	of   interface { // an otter.Cache: goods.Cache says why its type is not named
		ComputeIfAbsent(bucketKey, func() (*rate.Limiter, bool)) (*rate.Limiter, bool)
		GetIfPresent(bucketKey) (*rate.Limiter, bool)
	}
}

// bucketKey has one of the two.
type bucketKey struct {
	user int64
	addr netip.Addr
}

func newBuckets(l *limit, most user.Limit) *buckets {
	return &buckets{limit: l, most: most, of: otter.Must(&otter.Options[bucketKey, *rate.Limiter]{
		MaximumSize:      bucketsAlive,
		ExpiryCalculator: otter.ExpiryAccessing[bucketKey, *rate.Limiter](max(bucketLife, most.Per)),
	})}
}

// take takes a token from the bucket of k. If it is empty, take returns a seckill.TooManyError with the
// time until the next token.
func (b *buckets) take(k bucketKey) error { return b.takeN(k, 1) }

// takeN takes n tokens at once, or none. Of a limit that is switched off it takes none.
func (b *buckets) takeN(k bucketKey, n int) error {
	if b.most == (user.Limit{}) {
		return nil
	}
	l, _ := b.of.ComputeIfAbsent(k, func() (*rate.Limiter, bool) {
		return rate.NewLimiter(rate.Every(b.most.Refill()), b.most.Burst), false
	})
	if l.AllowN(time.Now(), min(n, b.most.Burst)) {
		return nil
	}
	return seckill.TooManyError{RetryAfter: b.most.Refill()}
}

// empty returns the error of take if there is no token, and takes none.
func (b *buckets) empty(k bucketKey) error {
	if l, known := b.of.GetIfPresent(k); known && l.Tokens() < 1 {
		return seckill.TooManyError{RetryAfter: b.most.Refill()}
	}
	return nil
}

// allow takes a token from each limit of a route, in the order of its row, and returns the first refusal. The
// user's limits stand before those of the address: a user who is refused takes nothing from the others behind
// the address. A route for anyone has no limit of a user; its userID is 0.
func (d *desk) allow(l limits, r *http.Request, userID int64) error {
	if l.buys {
		if err := d.bans.Check(userID); err != nil {
			return err
		}
	}
	for _, b := range l.buckets {
		if b.most == (user.Limit{}) {
			continue
		}
		switch b.per {
		case perAddress:
			if err := b.take(bucketKey{addr: d.clientNetwork(r)}); err != nil {
				return err
			}
		case perNetwork:
			if err := b.take(bucketKey{addr: d.clientSite(r)}); err != nil {
				return err
			}
		default:
			if err := d.allowUser(b, r, userID); err != nil {
				d.bans.Refused(userID)
				return err
			}
		}
	}
	return nil
}

// allowUser takes a token from the user's bucket in this process and then, if the limit is shared, from the one in
// Redis. While Redis is away, the bucket in this process counts alone.
func (d *desk) allowUser(b *buckets, r *http.Request, userID int64) error {
	if err := b.take(bucketKey{user: userID}); err != nil || b.name == "" {
		return err
	}
	err := d.users.Count(r.Context(), b.name, userID, b.most)
	if errors.Is(err, user.ErrUnavailable) {
		d.faults.Do(func() { d.log.Warn("a limit counts in this process alone", "limit", b.name, "err", err) })
		return nil
	}
	return err
}

// clientAddr returns the address of the client: the peer, or the address that trusted proxies report.
// It is the zero Addr if that is not known.
func (c *clients) clientAddr(r *http.Request) netip.Addr {
	if len(c.proxies) > 0 {
		return middleware.GetClientIPAddr(r.Context())
	}
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	return peer.Addr().Unmap()
}

// clientNetwork returns clientAddr, or the /64 network of an IPv6 address, as the key of a bucket.
func (c *clients) clientNetwork(r *http.Request) netip.Addr {
	return networkOf(c.clientAddr(r), 32, 64)
}

// clientSite returns the /24 network of clientAddr, or the /48 of an IPv6 address, as user.Site does.
func (c *clients) clientSite(r *http.Request) netip.Addr { return networkOf(c.clientAddr(r), 24, 48) }

// networkOf returns the first address of a network of so many bits; the zero Addr of the zero Addr.
func networkOf(addr netip.Addr, v4, v6 int) netip.Addr {
	bits := v6
	if addr.Is4() {
		bits = v4
	}
	p, _ := addr.Prefix(bits)
	return p.Addr()
}

// clientIP returns clientAddr as text, "?" if it is not known.
func (c *clients) clientIP(r *http.Request) string {
	if a := c.clientAddr(r); a.IsValid() {
		return a.String()
	}
	return "?"
}

// limited runs a handler if the limits allow it.
func (d *desk) limited(l limits, h sessionHandler) sessionHandler {
	return func(w http.ResponseWriter, r *http.Request, session user.Session) error {
		if err := d.allow(l, r, session.UserID); err != nil {
			return err
		}
		return h(w, r, session)
	}
}
