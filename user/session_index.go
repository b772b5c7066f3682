package user

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A user's sessions are listed in a zset, so that they can be ended together. The list may name a session that is
// gone; a session that goes on is always listed.
const mostPerUser = 20

// EndAll ends the sessions of a user but the one whose token is given ("" spares none): at once here, within two
// seconds in every other process. One that is being started at this moment may be missed.
func (s *Sessions) EndAll(ctx context.Context, userID int64, except string) error {
	spared := hashed(except)
	return s.end(ctx, userID, func(conn redis.Conn) ([]string, error) {
		all, err := redis.Strings(conn.Do("ZRANGE", indexKey(userID), 0, -1))
		return slices.DeleteFunc(all, func(token string) bool { return token == spared }), err
	})
}

// remember lists a session that is about to be kept, and ends the oldest if they are too many.
func (s *Sessions) remember(ctx context.Context, userID int64, token string, expires time.Time) error {
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
		return redis.Strings(conn.Do("ZRANGE", index, 0, -1-mostPerUser))
	})
}

// end deletes the sessions that which names, then takes them off the list: stopped half-way, it can be done again.
func (s *Sessions) end(ctx context.Context, userID int64, which func(redis.Conn) ([]string, error)) error {
	var ended []string
	err := s.remote.with(ctx, "end sessions", func(conn redis.Conn) (err error) {
		if ended, err = which(conn); err != nil || len(ended) == 0 {
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
	replies, err := redis.Values(conn.Do("")) // flushes, and reads a reply to each
	if err != nil {
		return err
	}
	for _, reply := range replies {
		if err, refused := reply.(redis.Error); refused {
			return err
		}
	}
	return nil
}
