package user

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// between two looks for revoked accounts; with the life of a copy less than two seconds
	revokeEvery = 500 * time.Millisecond
	revokeLimit = time.Second // for Postgres, in one look
)

// EndRevoked ends the sessions of accounts whose role an administrator has changed, or that one has disabled, until ctx
// ends: within two seconds, in every process that runs it. Postgres knows these accounts, so nothing is lost when the
// process that made the change dies, or while Redis is down: then each process forgets its own copies, and the sessions
// end in Redis when it is back. report is called with the first of several faults.
func (s *Store) EndRevoked(ctx context.Context, sessions *Sessions, report func(error)) error {
	ended := map[int64]time.Time{} // user -> the change before which all sessions have ended
	failed, pause := false, func(time.Duration) time.Duration { return revokeEvery }
	s.revoking.Run(ctx, revokeLimit, pause, func(look context.Context) {
		err := s.endRevoked(look, sessions, ended)
		if err != nil && !failed && ctx.Err() == nil {
			report(err)
		}
		failed = err != nil
	})
	return nil
}

// endRevoked looks once. Each change is handled once: a later one of the password raises the generation too, and spares
// a session.
func (s *Store) endRevoked(ctx context.Context, sessions *Sessions, ended map[int64]time.Time) (failed error) {
	rows, _ := s.db.Query(ctx, `
		select id, generation, revoked_at from users where revoked_at > now() - make_interval(secs => $1)`, sessions.manager.Lifetime.Seconds())
	type revoked struct {
		ID, Generation int64
		At             time.Time
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[revoked])
	if err != nil {
		return fault(err, "read the revoked accounts")
	}
	for _, u := range all {
		if ended[u.ID].Equal(u.At) {
			continue
		}
		if err := sessions.EndAll(ctx, u.ID, u.Generation, ""); err != nil {
			sessions.copies.endOf(u.ID)
			failed = fmt.Errorf("end the sessions of a revoked account: %w", err)
			continue
		}
		ended[u.ID] = u.At
	}
	return failed
}

// endOf ends the sessions of a user in this process alone.
func (c *copies) endOf(userID int64) {
	var tokens []string
	for token, e := range c.entries.All() {
		if _, session, err := decodeRecord(e.record); err == nil && session.UserID == userID {
			tokens = append(tokens, token)
		}
	}
	for _, token := range tokens {
		c.ended(token)
	}
}
