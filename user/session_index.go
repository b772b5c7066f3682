package user

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A zset lists the sessions of a user, so that they can be ended together. It may list a session
// that is gone, but it lists every live session. A hash beside it has the generation, the
// address and the client of each of them.
const maxPerUser = 20

//go:embed session_start.lua
var sessionStartSource string
var sessionStart = redis.NewScript(3, sessionStartSource)

//go:embed session_end.lua
var sessionEndSource string
var sessionEnd = redis.NewScript(2, sessionEndSource)

// EndAll ends the sessions of a user that began with a lower generation of the account, except the
// given token's ("" for no exception): at once here, within two seconds in other processes. From
// now on Start refuses a log-in that read a lower generation. With generation 0, for one that is not
// known, all sessions end, and a log-in under way may survive.
func (s *Sessions) EndAll(ctx context.Context, userID, generation int64, except string) error {
	kept := ""
	if except != "" {
		kept = hashed(except)
	}
	return s.end(ctx, userID, func(conn redis.Conn) ([]string, error) {
		return redis.Strings(sessionEnd.Do(conn, indexKey(userID), originsKey(userID),
			generation, kept, s.copies.now().Add(s.manager.Lifetime).UnixMilli(), sessionPrefix))
	})
}

// owner is the account of a session that is about to start, and the address and the client of the log-in.
type owner struct {
	User
	addr, client string
}

// list lists a session that ends at expires at the latest, and writes it. It returns the sessions that ended to make
// room for it. ErrChanged.
func (r *remote) list(
	ctx context.Context, of owner, token string, record []byte, expires, now time.Time,
) (ended []string, err error) {
	err = r.with(ctx, "keep a session", func(conn redis.Conn) error {
		ended, err = redis.Strings(sessionStart.Do(conn, indexKey(of.ID), originsKey(of.ID), sessionPrefix+token,
			token, record, expiryOf(expires, now).UnixMilli(), now.UnixMilli(), of.Generation, network(of.addr),
			maxPerUser, sessionPrefix, of.client))
		return err
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("sessions of user %d: %w", of.ID, err)
	case len(ended) == 1 && ended[0] == "CHANGED":
		return nil, ErrChanged
	case len(ended) == 0 || ended[0] != "STARTED":
		return nil, fmt.Errorf("sessions of user %d: unknown reply %q", of.ID, ended)
	}
	return ended[1:], nil
}

// end marks the sessions that work has ended.
func (s *Sessions) end(ctx context.Context, userID int64, work func(redis.Conn) ([]string, error)) error {
	var ended []string
	err := s.remote.with(ctx, "end sessions", func(conn redis.Conn) (err error) {
		ended, err = work(conn)
		return err
	})
	if err != nil {
		return fmt.Errorf("sessions of user %d: %w", userID, err)
	}
	for _, token := range ended {
		s.copies.ended(token)
	}
	return nil
}

// endOne ends one session. If it stops half-way, it can run again.
func (s *Sessions) endOne(ctx context.Context, userID int64, token string) error {
	return s.end(ctx, userID, func(conn redis.Conn) ([]string, error) {
		return []string{token}, pipeline(conn, func() error {
			return errors.Join(
				conn.Send("DEL", sessionPrefix+token),
				conn.Send("ZREM", indexKey(userID), token),
				conn.Send("HDEL", originsKey(userID), token))
		})
	})
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
