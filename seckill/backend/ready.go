package backend

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const readyLife = time.Minute

// PostgresReady returns nil if Postgres takes writes, and every pool has a connection to it. Else the text of the error
// is the reason in one or two words, as of RedisReady.
func (s *Stores) PostgresReady(ctx context.Context) error {
	for _, pool := range []*pgxpool.Pool{s.Settle, s.Pay, s.Users, s.Staff} {
		if pool.Stat().TotalConns() == 0 { // one that is busy has some
			conn, err := pool.Acquire(ctx)
			if err != nil {
				return reason(err)
			}
			conn.Release()
		}
	}
	var readOnly bool
	if err := s.Web.QueryRow(ctx, `select current_setting('transaction_read_only')::boolean`).Scan(&readOnly); err != nil {
		return reason(err)
	}
	if readOnly {
		return errors.New("read-only")
	}
	return nil
}

// RedisReady returns nil if Redis takes writes.
func (s *Stores) RedisReady(ctx context.Context) error {
	return reason(s.Redis.Set(ctx, readyKey, "", readyLife).Err())
}

// SessionsReady is RedisReady for the Redis of the sessions, with its answer to a write.
func SessionsReady(err error) error { return reason(err) }

// reason returns an error with nothing of a store's text in it, nil for nil.
func reason(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, pgconn.ErrReadOnlyConnection) {
		return errors.New("read-only")
	}
	if pg := new(pgconn.PgError); errors.As(err, &pg) {
		switch {
		case pg.Code == "25006":
			return errors.New("read-only")
		case pg.Code == "53300":
			return errors.New("no connections left")
		case strings.HasPrefix(pg.Code, "28"), pg.Code == "42501":
			return errors.New("no rights")
		case pg.Code == "26000", pg.Code == "42P05", pg.Code == "08P01":
			return errors.New("behind a pooler with other settings")
		}
	}
	for prefix, why := range map[string]string{"READONLY": "read-only", "OOM ": "full", "MISCONF": "cannot save",
		"NOREPLICAS": "too few replicas", "LOADING": "loading",
		"NOPERM": "no rights", "NOAUTH": "no rights", "WRONGPASS": "no rights", "CLUSTERDOWN": "Cluster down"} {
		if strings.Contains(err.Error(), prefix) {
			return errors.New(why)
		}
	}
	return errors.New("away")
}
