package web

import (
	"math"
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
	wordsRate    = 0.2 // sums in words a second, per user
)

// buckets keeps one token bucket per key, in this process and in bounded memory.
type buckets[K comparable] struct {
	rate rate.Limit
	size int
	of   interface { // an otter.Cache: goods.Cache says why its type is not named
		ComputeIfAbsent(K, func() (*rate.Limiter, bool)) (*rate.Limiter, bool)
	}
}

// newBuckets allows each key perSecond tokens a second, and twice as many at once. With 0 it returns
// nil, which allows everything.
func newBuckets[K comparable](perSecond float64) *buckets[K] {
	if perSecond == 0 {
		return nil
	}
	return &buckets[K]{rate: rate.Limit(perSecond), size: max(1, int(math.Ceil(2*perSecond))),
		of: otter.Must(&otter.Options[K, *rate.Limiter]{
			MaximumSize:      bucketsAlive,
			ExpiryCalculator: otter.ExpiryAccessing[K, *rate.Limiter](bucketLife),
		})}
}

// take takes a token from the bucket of k. If it is empty, take returns a seckill.TooManyError with the
// time until the next token.
func (b *buckets[K]) take(k K) error {
	if b == nil {
		return nil
	}
	l, _ := b.of.ComputeIfAbsent(k, func() (*rate.Limiter, bool) { return rate.NewLimiter(b.rate, b.size), false })
	if l.Allow() {
		return nil
	}
	return seckill.TooManyError{RetryAfter: time.Duration(float64(time.Second) / float64(b.rate))}
}

// limits are the buckets of some routes: one per user, and one per address (per /64 network for IPv6).
type limits struct {
	users *buckets[int64]
	addrs *buckets[netip.Addr]
}

func newLimits(cfg Config) limits {
	return limits{newBuckets[int64](cfg.rate), newBuckets[netip.Addr](cfg.ipRate)}
}

// allow takes a token from the user's bucket, then one from that of the address: a user who is refused
// takes nothing from the others behind the address.
func (s *Server) allow(l limits, r *http.Request, userID int64) error {
	if err := l.users.take(userID); err != nil {
		return err
	}
	return l.addrs.take(s.clientNetwork(r))
}

// clientAddr returns the address of the client: the peer, or the address that trusted proxies report.
// It is the zero Addr if that is not known.
func (s *Server) clientAddr(r *http.Request) netip.Addr {
	if len(s.cfg.TrustedProxies) > 0 {
		return middleware.GetClientIPAddr(r.Context())
	}
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	return peer.Addr().Unmap()
}

// clientNetwork returns clientAddr, or the /64 network of an IPv6 address, as the key of a bucket.
func (s *Server) clientNetwork(r *http.Request) netip.Addr {
	addr := s.clientAddr(r)
	if addr.Is6() {
		p, _ := addr.Prefix(64)
		addr = p.Addr()
	}
	return addr
}

// clientIP returns clientAddr as text, "?" if it is not known.
func (s *Server) clientIP(r *http.Request) string {
	if a := s.clientAddr(r); a.IsValid() {
		return a.String()
	}
	return "?"
}

// limited runs a handler if both buckets allow it.
func (s *Server) limited(l limits, h sessionHandler) sessionHandler {
	return func(w http.ResponseWriter, r *http.Request, session user.Session) error {
		if err := s.allow(l, r, session.UserID); err != nil {
			return err
		}
		return h(w, r, session)
	}
}
