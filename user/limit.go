package user

import (
	"context"
	"net/netip"
	"strconv"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// How often one may try. Each limit is a bucket that refills evenly: the 11th log-in in a row waits six seconds, not a
// minute.
var (
	loginsPerAccount = redis_rate.PerMinute(10)
	codesPerPhone    = redis_rate.Limit{Rate: 3, Burst: 3, Period: 10 * time.Minute}
	perAddress       = redis_rate.PerMinute(200) // a class sits behind one address
)

// knownFor is how long an address keeps the bucket of its own that a log-in gave it.
const knownFor = 30 * 24 * time.Hour

// limits are kept in Redis: all processes count together.
//
// Strangers share one bucket for an account, so that a crowd of addresses guesses no faster than one. They can keep it
// empty, but not the owner out: an address that has logged in to the account before has a bucket for it of its own.
type limits struct {
	limiter *redis_rate.Limiter
	rdb     redis.UniversalClient
}

func newLimits(rdb redis.UniversalClient) *limits { return &limits{redis_rate.NewLimiter(rdb), rdb} }

// login counts a try at an account from an address. The address is asked first, so that a refusal there costs the
// account nothing.
func (l *limits) login(ctx context.Context, phone, addr string) error {
	addr = network(addr)
	if err := l.take(ctx, limitLoginAddress+addr, perAddress); err != nil {
		return err
	}
	known, err := l.rdb.Exists(ctx, knownKey(phone, addr)).Result()
	if err != nil {
		return fault(err, "look for an address")
	}
	if known > 0 {
		return l.take(ctx, limitLoginKnown+short(phone)+":"+addr, loginsPerAccount)
	}
	return l.take(ctx, limitLogin+short(phone), loginsPerAccount)
}

// loggedIn gives the address a bucket of its own at the account.
func (l *limits) loggedIn(ctx context.Context, phone, addr string) error {
	if err := l.rdb.Set(ctx, knownKey(phone, network(addr)), "", knownFor).Err(); err != nil {
		return fault(err, "remember an address")
	}
	return nil
}

// password counts a try at the password of somebody who is logged in, whom no stranger's tries are to hinder.
func (l *limits) password(ctx context.Context, userID int64) error {
	return l.take(ctx, limitPassword+strconv.FormatInt(userID, 10), loginsPerAccount)
}

// code counts a code for a phone asked from an address.
func (l *limits) code(ctx context.Context, phone, addr string) error {
	if err := l.take(ctx, limitCodeAddress+network(addr), perAddress); err != nil {
		return err
	}
	return l.take(ctx, limitCode+short(phone), codesPerPhone)
}

// register counts a try at registering from an address. The tries at one code are counted with the code.
func (l *limits) register(ctx context.Context, addr string) error {
	return l.take(ctx, limitRegister+network(addr), perAddress)
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

// network is the address, or for IPv6 its /64: a household has that many to itself.
func network(addr string) string {
	a, err := netip.ParseAddr(addr)
	if err != nil {
		return addr
	}
	if a = a.Unmap().WithZone(""); a.Is6() {
		p, _ := a.Prefix(64) // 64 fits
		return p.String()
	}
	return a.String()
}
