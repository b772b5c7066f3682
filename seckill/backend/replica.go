package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"miaosha/seckill/rounds"
)

const (
	replicaConns = 4                      // the catalogue's cache reads each entry once a second
	markEvery    = 250 * time.Millisecond // between two looks at the primary's position
	lookLimit    = time.Second            // of a look at one server
	leastLag     = 2 * markEvery          // a shorter --read-max-lag would refuse a standby that is up to date
)

// Replica reads at a standby of the shop's Postgres (读写分离). A connection of its Pool is acquired only if the server
// behind it shows all that the primary had committed at some time within the last --read-max-lag. The age is measured
// by positions in the log and by this process' clock alone, so an idle primary and a wrong clock do no harm.
//
// Run must be running. Until its first look at the primary, no connection is acquired.
type Replica struct {
	Pool *pgxpool.Pool

	primary *pgxpool.Pool
	maxLag  time.Duration
	log     *slog.Logger
	usable  atomic.Bool // at the last look
	looks   *rounds.Rounds
	now     func() time.Time

	mu    sync.Mutex
	marks []mark // of the last maxLag, oldest first
}

// position says which server replied and how far its log is: on a primary, flushed; on a standby, replayed.
type position struct {
	System   int64 // the cluster's system identifier, which its standbys share
	Database string
	Standby  bool
	Started  time.Time // with System it tells one server from another
	Log      int64
}

// mark is a position that the primary had reached at a time.
type mark struct {
	position
	at time.Time
}

func readPosition(ctx context.Context, db interface {
	Query(context.Context, string, ...any) (pgx.Rows, error)
}) (position, error) {
	rows, _ := db.Query(ctx, `
		select (select system_identifier from pg_control_system()) as system, current_database()::text as database,
		       pg_is_in_recovery() as standby, pg_postmaster_start_time() as started,
		       (case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_flush_lsn() end - '0/0')::bigint as log`)
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[position])
}

// openReplica returns a Replica of the primary that s has opened. A standby that does not reply is no error: the shop
// starts without it, and uses it when it does.
func (s *Stores) openReplica(ctx context.Context, url string, maxLag time.Duration, log *slog.Logger) error {
	conn, err := parsePostgres(url)
	if err != nil {
		return err
	}
	r := &Replica{primary: s.Web, maxLag: maxLag, log: log, looks: rounds.New(), now: time.Now}
	pool, err := poolConfig(url, replicaConns, time.Second, time.Second, planEachTime)
	if err != nil {
		return err
	}
	maps.Copy(pool.ConnConfig.RuntimeParams, s.usual) // its settings are those of the primary
	pool.MinConns, pool.PrepareConn = 1, r.acquire
	if r.Pool, err = pgxpool.NewWithConfig(ctx, pool); err != nil {
		return err
	}
	s.Replica = r
	if err := r.look(ctx); err != nil {
		return fmt.Errorf("ask the primary for its position: %w", err)
	}
	conn.ConnectTimeout = 2 * time.Second
	replica, err := pgx.ConnectConfig(ctx, conn)
	if err == nil {
		defer replica.Close(context.WithoutCancel(ctx))
		var at position
		if at, err = readPosition(ctx, replica); err == nil {
			if err = r.same(at); err == nil {
				err = r.proveReads(ctx, replica)
			}
			return err
		}
	}
	if pg := new(pgconn.PgError); errors.As(err, &pg) && strings.Contains("28 3D 42", pg.Code[:2]) {
		// no other is a wrong URL
		return hidden(refusal(err), url)
	}
	log.Warn("--read-database-url does not reply: lists and details are read at the primary until it does", "servers",
		servers(conn), "cause", hide(cause(err)+postgresHint(err), url))
	return nil
}

// proveReads returns an error if the role may not read what the shop reads there, or if a pooler refuses the
// connections of the pool.
func (r *Replica) proveReads(ctx context.Context, conn *pgx.Conn) error {
	var table, role string
	err := conn.QueryRow(ctx, `
		select name, quote_ident(current_user) from unnest('{goods, sales}'::text[]) as name
		where  not has_table_privilege(to_regclass(name), 'select')
		limit  1`).Scan(&table, &role) // a table that is not there yet is no lack of a right
	switch {
	case err == nil:
		return fmt.Errorf(`the role %s lacks select on %s: run "grant select on goods, sales to %s" as the owner of the database`, role, table, role)
	case !errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("read the rights of the role: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	pooled, err := r.Pool.Acquire(ctx) // one that is behind is no error
	if err == nil {
		pooled.Release()
	}
	return refusal(err)
}

// acquire is a pgxpool.Config.PrepareConn.
func (r *Replica) acquire(ctx context.Context, conn *pgx.Conn) (keep bool, err error) {
	at, err := readPosition(ctx, conn)
	if err != nil {
		return false, err
	}
	return true, r.check(at)
}

// check returns an error if a server must not be read.
func (r *Replica) check(at position) error {
	if err := r.same(at); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.marks {
		if r.now().Sub(m.at) <= r.maxLag && m.Log <= at.Log {
			return nil
		}
	}
	return fmt.Errorf("it is more than %v behind the primary", r.maxLag)
}

// same returns an error if a server is neither a standby of the primary nor the primary itself.
func (r *Replica) same(at position) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.marks) == 0 {
		return errors.New("the primary does not tell its position")
	}
	switch primary := r.marks[len(r.marks)-1]; {
	case at.System != primary.System:
		return fmt.Errorf("it is no standby of --database-url: its system identifier is %d, that of the primary %d",
			at.System, primary.System)
	case at.Database != primary.Database:
		return fmt.Errorf("it is the database %s, --database-url is %s", at.Database, primary.Database)
	case !at.Standby && !at.Started.Equal(primary.Started):
		return errors.New("it takes writes and is not the primary: a promoted standby shows what it has itself")
	}
	return nil
}

// Run looks at both servers until ctx ends.
func (r *Replica) Run(ctx context.Context) error {
	r.looks.Run(ctx, 2*lookLimit, rounds.Every(markEvery), func(ctx context.Context) {
		err := r.look(ctx)
		if err == nil {
			err = r.probe(ctx)
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			return
		}
		switch was := r.usable.Swap(err == nil); {
		case err == nil && !was:
			r.log.Info("lists and details are read at --read-database-url")
		case err != nil && was:
			r.log.Warn("lists and details are read at the primary, not at --read-database-url", "err", err)
		}
	})
	return nil
}

// look marks the primary's position. What it had committed before the look is in the log up to there.
func (r *Replica) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	began := r.now()
	at, err := readPosition(ctx, r.primary)
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.marks) > 0 && r.now().Sub(r.marks[0].at) > r.maxLag {
		r.marks = r.marks[1:]
	}
	if err != nil {
		return err
	}
	r.marks = append(r.marks, mark{at, began})
	return nil
}

func (r *Replica) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	conn, err := r.Pool.Acquire(ctx)
	if err == nil {
		conn.Release()
	}
	return err
}

// Collectors returns the metric of the replica.
func (r *Replica) Collectors() []prometheus.Collector {
	return []prometheus.Collector{prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "miaosha_read_replica_used",
		Help: "1 if lists and details are read at --read-database-url, " +
			"0 if at the primary, because the standby is down or too far behind."},
		func() float64 {
			if r.usable.Load() {
				return 1
			}
			return 0
		})}
}
