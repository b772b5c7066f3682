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
	bucketsAlive = 200_000 // keys remembered at once; who is forgotten begins with a full bucket
	bucketLife   = time.Minute
	wordsRate    = 0.2 // sums in words a second, per user
)

// buckets gives each key its own token bucket, in this process, in bounded memory.
type buckets[K comparable] struct {
	rate rate.Limit
	size int
	of   interface { // an otter.Cache: see goods.Cache for why it is not named
		ComputeIfAbsent(K, func() (*rate.Limiter, bool)) (*rate.Limiter, bool)
	}
}

// newBuckets allows perSecond, and twice that in one go. 0 allows everything.
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

// take takes a token of the key's, or says when there will be one.
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

// allow asks both buckets: one per user, one per address (a /64 for IPv6). One does not empty the other's.
func (s *Server) allow(r *http.Request, userID int64) error {
	if err := s.users.take(userID); err != nil {
		return err
	}
	if s.addrs == nil {
		return nil
	}
	addr := s.addr(r)
	if addr.Is6() {
		p, _ := addr.Prefix(64)
		addr = p.Addr()
	}
	return s.addrs.take(addr)
}

// addr is who asks: the peer, or behind trusted proxies the address they vouch for. The zero Addr is somebody unknown.
func (s *Server) addr(r *http.Request) netip.Addr {
	if len(s.cfg.TrustedProxies) > 0 {
		return middleware.GetClientIPAddr(r.Context())
	}
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	return peer.Addr().Unmap()
}

func (s *Server) addrOf(r *http.Request) string {
	if a := s.addr(r); a.IsValid() {
		return a.String()
	}
	return "?"
}

// limited puts a logged-in handler behind both buckets.
func (s *Server) limited(h func(http.ResponseWriter, *http.Request, user.Session) error) func(http.ResponseWriter, *http.Request, user.Session) error {
	return func(w http.ResponseWriter, r *http.Request, who user.Session) error {
		if err := s.allow(r, who.UserID); err != nil {
			return err
		}
		return h(w, r, who)
	}
}
