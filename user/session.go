package user

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/gomodule/redigo/redis"
)

// Sessions is who is logged in, in a Redis of its own that may be the one the gate uses. It is safe for concurrent
// use. Close it when nothing asks any more.
type Sessions struct {
	manager *scs.SessionManager
	copies  *copies
	remote  *remote
}

// NewSessions makes Sessions that live for lifetime from log-in, used or not. The address is redis://, rediss:// or
// unix://, with password and database; nothing is connected to until it is needed.
func NewSessions(redisURL string, lifetime time.Duration) (*Sessions, error) {
	if lifetime <= 0 {
		return nil, fmt.Errorf("session lifetime %v: must be positive", lifetime)
	}
	r, err := newRemote(redisURL)
	if err != nil {
		return nil, fmt.Errorf("open the sessions: %w", err)
	}
	c, err := newCopies(r)
	if err != nil {
		return nil, fmt.Errorf("open the sessions: %w", err)
	}
	return &Sessions{
		// Not scs.New: that starts a goroutine nobody can stop. No IdleTimeout: it would write on every request.
		manager: &scs.SessionManager{Lifetime: lifetime, Store: c, Codec: codec{}, HashTokenInStore: true},
		copies:  c,
		remote:  r,
	}, nil
}

// Get returns whose token it is, or ErrNoSession. The answer may be 0.9 s old, or ten minutes while Redis is
// away; without a copy that is a fault with ErrAway.
func (s *Sessions) Get(ctx context.Context, token string) (Session, error) {
	if !wellFormed(token) {
		return Session{}, ErrNoSession
	}
	// As scs's Load would, without a context and a map for each request.
	record, found, err := s.copies.FindCtx(ctx, hashed(token))
	if err != nil {
		return Session{}, fmt.Errorf("find a session: %w", err)
	}
	if !found {
		return Session{}, ErrNoSession
	}
	deadline, who, err := decodeRecord(record)
	if err != nil || !s.copies.now().Before(deadline) { // written by another version, or over: he logs in again
		return Session{}, ErrNoSession
	}
	return who, nil
}

// Start logs somebody in under a new token of 256 bits. Of his sessions the twenty newest go on.
func (s *Sessions) Start(ctx context.Context, u User) (token string, expires time.Time, err error) {
	if ctx, err = s.manager.Load(ctx, ""); err != nil {
		return "", time.Time{}, fmt.Errorf("start a session: %w", err)
	}
	if err = s.manager.RenewToken(ctx); err != nil {
		return "", time.Time{}, fmt.Errorf("start a session: %w", err)
	}
	s.manager.Put(ctx, sessionValue, Session{u.ID, u.Role})
	// First into the index: a session that isn't there could not be ended with the others.
	token = s.manager.Token(ctx)
	if err = s.remember(ctx, u.ID, hashed(token), s.manager.Deadline(ctx)); err != nil {
		return "", time.Time{}, fmt.Errorf("start a session: %w", err)
	}
	if token, expires, err = s.manager.Commit(ctx); err != nil {
		return "", time.Time{}, fmt.Errorf("start a session: %w", err)
	}
	return token, expires, nil
}

// End logs out: at once here, within two seconds elsewhere. A token that is nobody's is not an error.
func (s *Sessions) End(ctx context.Context, token string) error {
	who, err := s.Get(ctx, token)
	switch {
	case errors.Is(err, ErrNoSession):
		return nil
	case err != nil:
		return fmt.Errorf("log out: %w", err)
	}
	return s.end(ctx, who.UserID, func(redis.Conn) ([]string, error) { return []string{hashed(token)}, nil })
}

// Close lets go of the connections. Get goes on answering from the copies it has, for a few seconds.
func (s *Sessions) Close() error {
	s.copies.reads.work.Wait()
	s.copies.kept.StopAllGoroutines()
	if err := s.remote.pool.Close(); err != nil {
		return fmt.Errorf("close the sessions: %w", err)
	}
	return nil
}

// wellFormed reports whether a token can be one of ours; anything else costs no I/O.
func wellFormed(token string) bool {
	if len(token) != 43 {
		return false
	}
	for _, c := range []byte(token) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}

// hashed is the name a token has in the store: a dump of Redis logs nobody in. It is what scs makes of it too
// (hashToken in its data.go), which doesn't tell.
func hashed(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
