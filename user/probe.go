package user

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
)

// Scripts are the sources of all scripts of this package.
func Scripts() []string {
	return []string{limitTakeSource, codeUseSource, banSource, sessionStartSource, sessionEndSource, sessionRenewSource}
}

// Probe makes the calls of this package to the shop's Redis once, on keys that no account has, which it deletes. It
// returns the first error.
func Probe(ctx context.Context, rdb goredis.UniversalClient) error {
	id := math.MaxInt64 - rand.Int64N(1<<62)
	phone, l, c := fmt.Sprintf("probe%d", id), limits{rdb}, codes{rdb: rdb}
	_, err := rdb.Pipelined(ctx, func(p goredis.Pipeliner) error { return p.ZRem(ctx, bansKey, id).Err() })
	if err == nil {
		_, _, err = runBans(ctx, rdb, longestBan)
	}
	if err == nil { // the script that bans, on a set of its own
		own := fmt.Sprintf("%s:{probe%d}", bansKey, id)
		err = errors.Join(banScript.Run(ctx, rdb, []string{own}, 1, maxBans, 1).Err(), rdb.Del(ctx, own).Err())
	}
	if err == nil {
		err = errors.Join(l.loggedIn(ctx, phone, ""), rdb.Exists(ctx, knownKey(phone, "")).Err(),
			rdb.Del(ctx, knownKey(phone, "")).Err())
	}
	if err == nil {
		err = errors.Join(l.run(ctx, refusedKey(id), LoginsPerAccount, 1),
			l.run(ctx, refusedKey(id), LoginsPerAccount, -1))
	}
	if err == nil {
		// A transaction hides which of its commands is refused.
		if err = rdb.HSet(ctx, codeKey(phone), "mac", "").Err(); err == nil {
			err = rdb.PExpire(ctx, codeKey(phone), codeLife).Err()
		}
	}
	if err == nil {
		var code string
		if code, err = c.make(ctx, phone, "probe"); err == nil {
			_, wrong := c.use(ctx, phone, "wrong", "probe")
			giveBack, right := c.use(ctx, phone, code, "probe")
			if !errors.Is(wrong, ErrWrongCode) || right != nil {
				err = errors.Join(wrong, right)
			} else {
				err = giveBack(ctx)
			}
			err = errors.Join(err, rdb.Del(ctx, codeKey(phone)).Err())
		}
	}
	return err
}

// Probe makes the calls of s to the sessions' Redis once, with sessions of a user that no shop has, which it ends. It
// returns the first error.
func (s *Sessions) Probe(ctx context.Context) error {
	u := User{ID: math.MaxInt64 - rand.Int64N(1<<62), Role: RoleBuyer}
	tokens, err := s.mint(ctx, []User{u})
	if err != nil {
		return err
	}
	began, _, err := s.Start(ctx, u, "probe", "")
	if err != nil {
		return err
	}
	if _, err := s.remote.records(ctx, []string{hashed(began)}); err != nil {
		return err
	}
	if _, err := s.renewals.renew(ctx, []renewal{{hashed(tokens[0]), u.ID,
		s.copies.now().Add(s.manager.Lifetime)}}); err != nil {
		return err
	}
	if _, err := s.List(ctx, u.ID, began); err != nil {
		return err
	}
	if err := s.endOne(ctx, u.ID, hashed(began)); err != nil {
		return err
	}
	if err := s.EndAll(ctx, u.ID, 1, ""); err != nil {
		return err
	}
	return s.remote.with(ctx, "delete keys", func(conn redis.Conn) error {
		_, err := conn.Do("DEL", indexKey(u.ID), originsKey(u.ID), sessionPrefix+hashed(began),
			sessionPrefix+hashed(tokens[0]))
		return err
	})
}

// Ready returns an error if the sessions' Redis takes no writes now. It waits for no breaker.
func (s *Sessions) Ready(ctx context.Context) error {
	conn, err := s.remote.bulk(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = redis.DoContext(conn, ctx, "SET", sessionPrefix+"ready", "", "PX", time.Minute.Milliseconds())
	return err
}
