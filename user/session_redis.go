package user

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alexedwards/scs/redisstore"
	"github.com/gomodule/redigo/redis"
	"github.com/sony/gobreaker/v2"
)

const (
	redisTimeout = 500 * time.Millisecond
	bulkTimeout  = 10 * time.Second       // where no buyer waits
	redisConns   = 8                      // reads are combined, so a few are enough
	breakerPause = 500 * time.Millisecond // without a call to Redis, after three failures in a row
)

// remote is the Redis that has the sessions. Every call goes through a breaker: while Redis is
// unavailable, a call fails at once and not after a timeout.
type remote struct {
	timeout time.Duration // to connect, to read, to write
	pool    *redis.Pool
	bulk    func(context.Context) (redis.Conn, error) // a connection with a longer timeout, for many commands
	store   *redisstore.RedisStore
	breaker *gobreaker.CircuitBreaker[struct{}]
}

// newRemote checks the address. It does not connect yet. The options come after those of the shop.
func newRemote(address string, more ...redis.DialOption) (*remote, error) {
	dial, err := dialer(address, redisTimeout, more...)
	if err != nil {
		return nil, err
	}
	bulk, err := dialer(address, bulkTimeout, more...)
	if err != nil {
		return nil, err
	}
	pool := &redis.Pool{
		DialContext: dial,
		MaxActive:   redisConns,
		MaxIdle:     redisConns / 2,
		Wait:        true,
		IdleTimeout: 5 * time.Minute,
		TestOnBorrowContext: func(ctx context.Context, c redis.Conn, lastUsed time.Time) error {
			if time.Since(lastUsed) < time.Second {
				return nil
			}
			_, err := redis.DoContext(c, ctx, "PING")
			return err
		},
	}
	return &remote{
		timeout: redisTimeout,
		pool:    pool,
		bulk:    bulk,
		store:   redisstore.NewWithPrefix(pool, sessionPrefix),
		breaker: gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
			Name:        "sessions",
			Timeout:     breakerPause,
			ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= 3 },
		}),
	}, nil
}

// try runs work, which calls Redis. While Redis is unavailable, it returns an error at once.
func (r *remote) try(doing string, work func() error) error {
	_, err := r.breaker.Execute(func() (struct{}, error) { return struct{}{}, work() })
	if err != nil {
		return fault(err, "%s", doing)
	}
	return nil
}

// with calls try with a connection. Work does not end with ctx; it has a time limit of its own.
func (r *remote) with(ctx context.Context, doing string, work func(redis.Conn) error) error {
	return r.try(doing, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*r.timeout)
		defer cancel()
		conn, err := r.pool.GetContext(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		return work(conn)
	})
}

// records reads many sessions in one round trip. A missing session is nil.
func (r *remote) records(ctx context.Context, tokens []string) (records [][]byte, err error) {
	keys := make([]any, len(tokens))
	for i, token := range tokens {
		keys[i] = sessionPrefix + token
	}
	err = r.with(ctx, "read sessions", func(conn redis.Conn) error {
		records, err = redis.ByteSlices(conn.Do("MGET", keys...))
		if err == nil && len(records) != len(tokens) {
			err = fmt.Errorf("%d sessions for %d tokens", len(records), len(tokens))
		}
		return err
	})
	return records, err
}

// dialer parses redis://, rediss:// and unix:// addresses (unix://:password@/path?db=1).
func dialer(address string, timeout time.Duration, more ...redis.DialOption) (func(context.Context) (redis.Conn, error), error) {
	options := slices.Clip(append([]redis.DialOption{
		redis.DialConnectTimeout(timeout), redis.DialTLSHandshakeTimeout(timeout),
		redis.DialReadTimeout(timeout), redis.DialWriteTimeout(timeout),
	}, more...)) // without room behind it: the library appends to it, for each connection at once
	if strings.Contains(address, ",") || strings.HasPrefix(address, "redis+sentinel:") {
		return nil, errors.New("sessions need a single Redis of their own (SESSION_REDIS_URL), no Cluster and no sentinels")
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("not a Redis address") // the cause would repeat the password
	}
	switch u.Scheme {
	case "redis", "rediss":
		return func(ctx context.Context) (redis.Conn, error) {
			return redis.DialURLContext(ctx, address, options...)
		}, nil
	case "unix":
		password, _ := u.User.Password()
		db, err := strconv.Atoi(u.Query().Get("db"))
		if err != nil && u.Query().Has("db") {
			return nil, fmt.Errorf("database %q of a Redis address is not a number", u.Query().Get("db"))
		}
		options = append(options,
			redis.DialUsername(u.User.Username()), redis.DialPassword(password), redis.DialDatabase(db))
		return func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "unix", u.Path, options...)
		}, nil
	default:
		return nil, fmt.Errorf("scheme %q of a Redis address is neither redis, rediss nor unix", u.Scheme)
	}
}
