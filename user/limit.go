package user

import (
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// How often one may try. Each limit is a bucket that refills evenly: the 11th log-in in a row waits six seconds, not a
// minute, and nobody who guesses at an account can keep its owner out for long.
var (
	loginsPerAccount = redis_rate.PerMinute(10)
	codesPerPhone    = redis_rate.Limit{Rate: 3, Burst: 3, Period: 10 * time.Minute}
	perAddress       = redis_rate.PerMinute(200) // a class sits behind one address
)

// limits are kept in Redis: all processes count together.
type limits struct{ limiter *redis_rate.Limiter }

func newLimits(rdb redis.UniversalClient) *limits { return &limits{redis_rate.NewLimiter(rdb)} }

// login counts a try at an account from an address. The address is asked first, so that a refusal there costs the
// account nothing.
func (l *limits) login(ctx context.Context, phone, addr string) error {
	if err := l.take(ctx, limitLoginAddress+addr, perAddress); err != nil {
		return err
	}
	return l.take(ctx, limitLogin+short(phone), loginsPerAccount)
}

// code counts a code for a phone asked from an address.
func (l *limits) code(ctx context.Context, phone, addr string) error {
	if err := l.take(ctx, limitCodeAddress+addr, perAddress); err != nil {
		return err
	}
	return l.take(ctx, limitCode+short(phone), codesPerPhone)
}

func (l *limits) take(ctx context.Context, key string, limit redis_rate.Limit) error {
	res, err := l.limiter.Allow(ctx, key, limit)
	switch {
	case err != nil:
		return fault(err, "count a try")
	case res.Allowed == 0:
		return TooManyError{res.RetryAfter}
	}
	return nil
}
