package user

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/jackc/pgx/v5"
)

// Minted buyers have phones of 199 and eight digits.
const (
	mintFirst    = 199_0000_0000
	mintLast     = 199_9999_9999
	mintBatch    = 5000 // buyers in one statement
	mintPipeline = 500  // sessions in one round trip
)

// Mint makes n buyers with live sessions, for load tests. It calls each for every buyer, in order,
// as soon as the buyer can buy. Minted buyers have no password. An error from each stops Mint; the
// buyers made so far stay. Several calls may run at once: no phone is used twice.
func (s *Store) Mint(
	ctx context.Context, sessions *Sessions, n int, each func(id int64, phone, token string) error,
) error {
	for n > 0 {
		buyers, err := s.mintBuyers(ctx, min(n, mintBatch))
		if err != nil {
			return err
		}
		tokens, err := sessions.mint(ctx, buyers)
		if err != nil {
			return err
		}
		for i, u := range buyers {
			if err := each(u.ID, u.Phone, tokens[i]); err != nil {
				return fmt.Errorf("hand out buyer %d: %w", u.ID, err)
			}
		}
		n -= len(buyers)
	}
	return nil
}

// mintBuyers adds at least one and at most n buyers under the next free phones: above those of
// earlier mints, without the phones of registered users. If another mint inserts the same phones at
// this moment, the insert waits and then adds fewer rows or none; the next phones are tried.
func (s *Store) mintBuyers(ctx context.Context, n int) ([]User, error) {
	for next := int64(mintFirst); ; next += int64(n) {
		if err := s.db.QueryRow(ctx, `
			select greatest($3, coalesce(max(phone)::bigint + 1, 0))
			from   users
			where  phone between $1 and $2 and length(phone) = 11 and password_hash = '' and legacy_hash is null`,
			strconv.Itoa(mintFirst), strconv.Itoa(mintLast), next).Scan(&next); err != nil {
			return nil, fault(err, "find %d phones for buyers", n)
		}
		if next > mintLast {
			return nil, fmt.Errorf("mint %d buyers: no phone left up to %d", n, mintLast)
		}
		rows, _ := s.db.Query(ctx, `
			insert into users (phone, nickname)
			select p::text, 'buyer ' || right(p::text, 8)
			from   generate_series($1::bigint, $2::bigint) p
			on conflict (phone) do nothing
			returning `+userColumns, next, min(next+int64(n)-1, mintLast))
		buyers, err := pgx.CollectRows(rows, pgx.RowToStructByName[User])
		if err != nil {
			return nil, fault(err, "mint %d buyers", n)
		}
		if len(buyers) > 0 {
			return buyers, nil
		}
	}
}

// mint writes a session for each user as Start would, many in one round trip, and returns their
// tokens. It uses a connection with a longer timeout, so a slow Redis does not stop it.
func (s *Sessions) mint(ctx context.Context, users []User) ([]string, error) {
	conn, err := s.remote.bulk(ctx)
	if err != nil {
		return nil, fault(err, "mint sessions")
	}
	defer conn.Close()
	tokens := make([]string, len(users))
	deadline := s.copies.now().Add(s.manager.Lifetime)
	for from := 0; from < len(users); from += mintPipeline {
		to := min(from+mintPipeline, len(users))
		err := pipeline(conn, func() error {
			for i := from; i < to; i++ {
				tokens[i] = newToken()
				if err := sendSession(conn, users[i], tokens[i], deadline,
					expiryOf(deadline, s.copies.now())); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, fault(err, "mint sessions")
		}
	}
	return tokens, nil
}

// newToken returns 256 random bits, like a token of scs.
func newToken() string {
	secret := make([]byte, 32)
	rand.Read(secret) // never returns an error
	return base64.RawURLEncoding.EncodeToString(secret)
}

// sendSession sends the index entry and then the record, and reads no reply. Unlike Start it writes
// no generation and no address: the account is new.
func sendSession(conn redis.Conn, u User, token string, deadline, expiry time.Time) error {
	record, err := encodeRecord(deadline, Session{u.ID, u.Role})
	if err != nil {
		return err
	}
	until, index := expiry.UnixMilli(), indexKey(u.ID)
	return errors.Join(
		conn.Send("ZADD", index, until, hashed(token)),
		conn.Send("PEXPIREAT", index, until),
		conn.Send("SET", sessionPrefix+hashed(token), record, "PXAT", until))
}
