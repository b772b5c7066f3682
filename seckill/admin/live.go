package admin

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// ShareLive logs that a link to the live view was made, and returns when it expires. The link itself is kept nowhere.
func (s *Store) ShareLive(ctx context.Context, by By, expires time.Time) (time.Time, error) {
	a := &action{name: "live.link", subject: "live view", after: map[string]time.Time{"expires_at": expires},
		result: &expires}
	err := s.act(ctx, by, a, func(pgx.Tx) error { return nil })
	return expires, err
}
