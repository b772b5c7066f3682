package user

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/alexedwards/scs/redisstore"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
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

// newRemote checks where Redis is. It does not connect yet. The options come after those of the shop.
func newRemote(at *goredis.UniversalOptions, more ...redis.DialOption) (*remote, error) {
	if len(at.Addrs) != 1 || at.MasterName != "" {
		return nil,
			errors.New("sessions need a single Redis of their own (SESSION_REDIS_URL), no Cluster and no sentinels")
	}
	pool := &redis.Pool{
		DialContext: dialer(at, redisTimeout, more...),
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
		bulk:    dialer(at, bulkTimeout, more...),
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

// dialer returns a function that connects to the Redis of these options, as go-redis would. It alone knows how, for
// sentinels or a Cluster too if sessions come to need them.
func dialer(
	at *goredis.UniversalOptions, timeout time.Duration, more ...redis.DialOption,
) func(context.Context) (redis.Conn, error) {
	single := at.Simple()
	network := "tcp"
	if strings.HasPrefix(single.Addr, "/") {
		network = "unix"
	}
	connect := goredis.NewDialer(&goredis.Options{DialTimeout: timeout, TLSConfig: single.TLSConfig})
	options := slices.Clip(append([]redis.DialOption{
		redis.DialContextFunc(func(ctx context.Context, network, addr string) (net.Conn, error) {
			return connect(ctx, network, addr)
		}),
		redis.DialReadTimeout(timeout), redis.DialWriteTimeout(timeout),
		redis.DialUsername(single.Username), redis.DialPassword(single.Password), redis.DialDatabase(single.DB),
	}, more...)) // without room behind it: the library appends to it, for each connection at once
	return func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, network, single.Addr, options...)
	}
}
