package user

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/redis/go-redis/v9"
)

// Sessions keeps the sessions of logged-in users in a Redis, which may be the gate's. It is safe
// for concurrent use. Close it after the last call.
type Sessions struct {
	manager  *scs.SessionManager
	copies   *copies
	remote   *remote
	renewals *renewals
}

// NewSessions returns Sessions that end lifetime after the log-in, used or not, and twelve hours after
// their last use. at says where their Redis is, a single one. It connects at the first use.
func NewSessions(at *redis.UniversalOptions, lifetime time.Duration) (*Sessions, error) {
	if lifetime <= 0 {
		return nil, fmt.Errorf("session lifetime %v: must be positive", lifetime)
	}
	r, err := newRemote(at)
	if err != nil {
		return nil, fmt.Errorf("open the sessions: %w", err)
	}
	c := newCopies(r, lifetime)
	return &Sessions{
		// Not scs.New: its goroutine never stops. No IdleTimeout: it would write on every request; see renewals.
		manager:  &scs.SessionManager{Lifetime: lifetime, Store: c, Codec: codec{}, HashTokenInStore: true},
		copies:   c,
		remote:   r,
		renewals: startRenewals(c, lifetime),
	}, nil
}

// SetCopyLife sets how long a session is used without a read, before the first call.
func (s *Sessions) SetCopyLife(cfg Config) { s.copies.fresh = cfg.SessionCopies }

// Get returns the session of a token, or ErrNoSession. The session may be 0.9 s old, or ten minutes
// old while Redis is unavailable. Without a copy, that is a fault with ErrUnavailable.
func (s *Sessions) Get(ctx context.Context, token string) (Session, error) {
	if !wellFormed(token) {
		return Session{}, ErrNoSession
	}
	// What scs's Load would do, without a context and a map for each request.
	key := hashed(token)
	found, err := s.copies.find(ctx, key)
	if err != nil {
		return Session{}, fmt.Errorf("find a session: %w", err)
	}
	if found.record == nil {
		return Session{}, ErrNoSession
	}
	deadline, session, err := decodeRecord(found.record)
	now := s.copies.now()
	if err != nil || !now.Before(deadline) { // of another version, or expired: the user logs in again
		return Session{}, ErrNoSession
	}
	s.renewals.used(renewal{key, session.UserID, deadline}, found, now)
	return session, nil
}

// Start begins a session for a user who logged in from an address with a client, which is what List shows of it
// ("chrome windows"), and returns its new token of 256 bits, and the time when it ends at the latest. Of more than
// twenty sessions of a user it ends first the one of that address that was unused longest.
//
// u is the account as it was before its password was checked. If it has changed since then, Start
// returns ErrChanged: its sessions were ended, and this one would have survived. ErrDisabled.
func (s *Sessions) Start(
	ctx context.Context, u User, addr, client string,
) (token string, expires time.Time, err error) {
	if u.Disabled {
		return "", time.Time{}, ErrDisabled
	}
	if ctx, err = s.manager.Load(ctx, ""); err != nil {
		return "", time.Time{}, fmt.Errorf("start a session: %w", err)
	}
	if err = s.manager.RenewToken(ctx); err != nil {
		return "", time.Time{}, fmt.Errorf("start a session: %w", err)
	}
	s.manager.Put(ctx, sessionValue, u.session())
	if token, expires, err = s.manager.Commit(context.WithValue(ctx, ownerKey{}, owner{u, addr, client})); err != nil {
		return "", time.Time{}, fmt.Errorf("start a session: %w", err)
	}
	return token, expires, nil
}

// session returns the session that the account begins now.
func (u User) session() Session {
	if u.PasswordDue && u.Role != RoleBuyer {
		return Session{u.ID, RoleDue}
	}
	return Session{u.ID, u.Role}
}

// End ends a token's session, if it has one: at once here, within two seconds in other processes.
// While Redis is down, it returns a fault, and ends the session here alone, for good.
func (s *Sessions) End(ctx context.Context, token string) error {
	session, err := s.Get(ctx, token)
	switch {
	case errors.Is(err, ErrNoSession):
		return nil
	case err != nil:
		return fmt.Errorf("log out: %w", err)
	}
	err = s.endOne(ctx, session.UserID, hashed(token))
	s.copies.ended(hashed(token))
	return err
}

// Close closes the connections. For a few seconds, Get still answers from its copies.
func (s *Sessions) Close() error {
	s.renewals.close()
	s.copies.reads.work.Wait()
	s.copies.entries.StopAllGoroutines()
	if err := s.remote.pool.Close(); err != nil {
		return fmt.Errorf("close the sessions: %w", err)
	}
	return nil
}

// wellFormed reports whether a token has the form of ours. Get refuses any other without I/O.
func wellFormed(token string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return len(token) == 43 && strings.Trim(token, letters) == ""
}

// hashed returns a token's key in the store, so that a dump of Redis has no tokens. It is the same
// hash as hashToken in the data.go of scs, which is not exported.
func hashed(token string) string {
	sum := sha256.Sum256([]byte(token))
	var text [43]byte // of 32 bytes
	base64.RawURLEncoding.Encode(text[:], sum[:])
	return string(text[:]) // one allocation less than EncodeToString
}
