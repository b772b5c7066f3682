package web

import (
	"net/netip"
	"time"

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

// limiter has the buckets of all limits of this process. They are made while the shop starts, from its rows.
type limiter struct {
	cfg    Config
	made   map[*limit]*buckets
	sealed bool // requests are answered: made is only read
}

func newLimiter(cfg Config) *limiter { return &limiter{cfg: cfg, made: map[*limit]*buckets{}} }

// bucket returns the buckets of a limit. All routes share them that name it.
func (l *limiter) bucket(of *limit) *buckets { return l.made[of] }

// of returns the limits of a rule, without those from which a domain takes.
func (l *limiter) of(r rule) ruleBuckets {
	all := ruleBuckets{buys: r.buys}
	for _, one := range r.limits {
		if one.in != "" {
			continue
		}
		if l.made[one] == nil {
			if l.sealed {
				panic("a handler takes from a limit that no row names")
			}
			l.made[one] = newBuckets(one, l.cfg.of(one))
		}
		all.buckets = append(all.buckets, l.made[one])
	}
	return all
}

// atTheDoor makes the buckets of a rule, and returns the limits that the door keeps.
func (l *limiter) atTheDoor(r rule) ruleBuckets {
	all := l.of(r)
	l.of(rule{limits: r.words})
	if r.late {
		return ruleBuckets{}
	}
	return all
}

// ruleBuckets are the buckets of one rule.
type ruleBuckets struct {
	buys    bool
	buckets []*buckets // in the order in which they count
}

// requests is how much the limit of that name allows.
func (c Config) requests() user.Limit {
	l := c.ipRate
	l.N, l.Burst = 1.5*l.N, 25*l.Burst
	return l
}

// of returns how much a limit allows with these settings; the zero Limit if all.
func (c Config) of(l *limit) user.Limit {
	flag := map[string]user.Limit{"--rate": c.rate, "--ip-rate": c.ipRate}[l.flag]
	if l.flag != "" && (flag == user.Limit{} || l.most == user.Limit{}) {
		return flag
	}
	return l.most
}
