package user

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A zset lists the sessions of a user, so that they can be ended together. It may list a session
// that is gone, but it lists every live session.
const maxPerUser = 20

// EndAll ends the sessions of a user except the given token's ("" for no exception): at once here,
// within two seconds in other processes. It may miss a session that starts at this moment.
func (s *Sessions) EndAll(ctx context.Context, userID int64, except string) error {
	kept := hashed(except)
	return s.end(ctx, userID, func(conn redis.Conn) ([]string, error) {
		all, err := redis.Strings(conn.Do("ZRANGE", indexKey(userID), 0, -1))
		return slices.DeleteFunc(all, func(token string) bool { return token == kept }), err
	})
}

// addToIndex adds a session that is about to start. It ends the oldest ones beyond maxPerUser.
func (s *Sessions) addToIndex(ctx context.Context, userID int64, token string, expires time.Time) error {
	return s.end(ctx, userID, func(conn redis.Conn) ([]string, error) {
		index := indexKey(userID)
		err := pipeline(conn, func() error {
			return errors.Join(
				conn.Send("ZREMRANGEBYSCORE", index, "-inf", s.copies.now().UnixMilli()),
				conn.Send("ZADD", index, expires.UnixMilli(), token),
				conn.Send("PEXPIREAT", index, expires.UnixMilli()))
		})
		if err != nil {
			return nil, err
		}
		return redis.Strings(conn.Do("ZRANGE", index, 0, -1-maxPerUser))
	})
}

// end deletes the sessions that choose returns, and then removes them from the index: if it stops
// half-way, it can run again.
func (s *Sessions) end(ctx context.Context, userID int64, choose func(redis.Conn) ([]string, error)) error {
	var ended []string
	err := s.remote.with(ctx, "end sessions", func(conn redis.Conn) (err error) {
		if ended, err = choose(conn); err != nil || len(ended) == 0 {
			return err
		}
		keys := make([]any, len(ended))
		for i, token := range ended {
			keys[i] = sessionPrefix + token
		}
		return pipeline(conn, func() error {
			return errors.Join(
				conn.Send("DEL", keys...),
				conn.Send("ZREM", redis.Args{indexKey(userID)}.AddFlat(ended)...))
		})
	})
	if err != nil {
		return fmt.Errorf("sessions of user %d: %w", userID, err)
	}
	for _, token := range ended {
		s.copies.ended(token)
	}
	return nil
}

// pipeline sends commands together and returns the first error among their replies.
func pipeline(conn redis.Conn, send func() error) error {
	if err := send(); err != nil {
		return err
	}
	replies, err := redis.Values(conn.Do("")) // flushes, and reads a reply to each command
	if err != nil {
		return err
	}
	for _, reply := range replies {
		if err, ok := reply.(redis.Error); ok {
			return err
		}
	}
	return nil
}
