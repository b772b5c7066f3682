package user

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Listed is a session in the list of its user.
type Listed struct {
	ID      string // of SessionID
	Client  string // of the log-in; "" if it is not known
	Current bool
	BegunAt time.Time
	UsedAt  time.Time // to ten minutes; zero if it is in the last twelve hours of its life, and so is its last use
	EndsAt  time.Time // unless it is used again
}

const listedBytes = 16

// SessionID returns the name of a token's session in the list of its user: a part of the token's hash, with which no
// one can log in.
func SessionID(token string) string { return hashed(token)[:listedBytes] }

// List returns the sessions of a user: that of the given token first, then the one that was used last.
func (s *Sessions) List(ctx context.Context, userID int64, current string) (list []Listed, err error) {
	var expiries map[string]int64
	var origins map[string]string
	var records [][]byte
	var tokens []string
	err = s.remote.with(ctx, "list sessions", func(conn redis.Conn) (err error) {
		if expiries, err = redis.Int64Map(conn.Do("ZRANGE", indexKey(userID), 0, -1, "WITHSCORES")); err != nil ||
			len(expiries) == 0 {
			return err
		}
		if origins, err = redis.StringMap(conn.Do("HGETALL", originsKey(userID))); err != nil {
			return err
		}
		var keys []any
		for token := range expiries {
			tokens, keys = append(tokens, token), append(keys, sessionPrefix+token)
		}
		records, err = redis.ByteSlices(conn.Do("MGET", keys...))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("sessions of user %d: %w", userID, err)
	}
	now := s.copies.now()
	for i, token := range tokens {
		deadline, _, err := decodeRecord(records[i])
		if e, ok := s.copies.entries.GetIfPresent(token); err != nil || !now.Before(deadline) || ok && e.record == nil {
			continue // it has ended
		}
		l := Listed{ID: token[:listedBytes], BegunAt: deadline.Add(-s.manager.Lifetime),
			EndsAt: time.UnixMilli(expiries[token])}
		if words := strings.SplitN(origins[token], " ", 3); len(words) == 3 {
			l.Client = words[2]
		}
		if l.EndsAt.Before(deadline) {
			l.UsedAt = l.EndsAt.Add(-idleFor)
		}
		if current != "" && token == hashed(current) {
			l.Current, l.UsedAt = true, now
		}
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b Listed) int {
		switch {
		case a.Current:
			return -1
		case b.Current:
			return 1
		}
		return cmp.Or(b.EndsAt.Compare(a.EndsAt), b.BegunAt.Compare(a.BegunAt), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

// EndListed ends one session of a user, as End does. ErrNotListed.
func (s *Sessions) EndListed(ctx context.Context, userID int64, id string) error {
	var tokens []string
	err := s.remote.with(ctx, "list sessions", func(conn redis.Conn) (err error) {
		tokens, err = redis.Strings(conn.Do("ZRANGE", indexKey(userID), 0, -1))
		return err
	})
	if err != nil {
		return fmt.Errorf("sessions of user %d: %w", userID, err)
	}
	i := slices.IndexFunc(tokens, func(token string) bool {
		return len(id) == listedBytes && strings.HasPrefix(token, id)
	})
	if i < 0 {
		return ErrNotListed
	}
	return s.endOne(ctx, userID, tokens[i])
}
