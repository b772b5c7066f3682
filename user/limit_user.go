package user

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

const (
	countWait  = 50 * time.Millisecond  // the longest wait of a user for a count that all processes share
	countPause = 500 * time.Millisecond // without a call to Redis, after three failures in a row
)

// counts are limits of users that all processes share. While Redis is down, a call fails at once and not
// after a timeout.
type counts struct {
	limits  limits
	wait    time.Duration
	breaker *gobreaker.CircuitBreaker[struct{}]
}

func newCounts(rdb redis.UniversalClient) *counts {
	return &counts{limits{rdb}, countWait, gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         "limits",
		Timeout:      countPause,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= 3 },
		IsSuccessful: func(err error) bool { return err == nil || isTooMany(err) },
	})}
}

// Count takes a token from the bucket that a user has in all processes together, or returns a
// TooManyError. Buckets of another name are others. If Redis does not reply in time, it returns a fault
// with ErrUnavailable: then the caller decides.
func (s *Store) Count(ctx context.Context, name string, userID int64, most Limit) error {
	_, err := s.counts.breaker.Execute(func() (struct{}, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.counts.wait)
		defer cancel()
		return struct{}{}, s.counts.limits.take(ctx, limitUser+name+":"+strconv.FormatInt(userID, 10), most)
	})
	if err != nil && !isTooMany(err) {
		return fault(err, "count for user %d", userID)
	}
	return err
}

func isTooMany(err error) bool {
	_, is := errors.AsType[TooManyError](err)
	return is
}
