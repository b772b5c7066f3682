package backend

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// schemaLock is the advisory lock under which a schema is applied.
const schemaLock = 0x6d69616f_73686121

var (
	errNotPostgres = errors.New("not a postgres:// address")
	anyScheme      = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)
)

func (s *Stores) openPools(ctx context.Context, url, schema string) (err error) {
	if err := prepare(ctx, url, schema); err != nil {
		return err
	}
	// A settle transaction gives up early and is tried again; the others wait as long as a person would.
	if s.Settle, err = openPool(ctx, url, 8, 1500*time.Millisecond, 500*time.Millisecond, byIndex); err != nil {
		return err
	}
	if s.Pay, err = openPool(ctx, url, 8, 5*time.Second, 3*time.Second, nil); err != nil {
		return err
	}
	if s.Users, err = openPool(ctx, url, 8, 5*time.Second, 3*time.Second, nil); err != nil {
		return err
	}
	s.Web, err = openPool(ctx, url, 10, 5*time.Second, 3*time.Second, anew)
	return err
}

// A rush begins with tables that are small or empty, and ends with them full, before Postgres counts their rows anew. A plan
// made at the beginning that reads a whole table, and is kept, gets slower with each order. So what settles looks
// everything up by index, row by row; and what the others ask is planned each time, by the table's size of that moment.
var (
	byIndex = map[string]string{"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off"}
	anew    = map[string]string{"plan_cache_mode": "force_custom_plan"}
)

func openPool(ctx context.Context, url string, size int32, statement, lock time.Duration, planner map[string]string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errNotPostgres
	}
	cfg.MaxConns, cfg.MinConns = size, 1
	cfg.ConnConfig.ConnectTimeout = 2 * time.Second
	params := cfg.ConnConfig.RuntimeParams
	params["application_name"] = "miaosha"
	params["statement_timeout"] = strconv.FormatInt(statement.Milliseconds(), 10)
	params["lock_timeout"] = strconv.FormatInt(lock.Milliseconds(), 10)
	params["idle_in_transaction_session_timeout"] = "10000"
	maps.Copy(params, planner)
	return pgxpool.NewWithConfig(ctx, cfg)
}

// prepare says in one line why the database can't be used, or makes sure that it has the schema.
func prepare(ctx context.Context, url, schema string) error {
	cfg, err := pgx.ParseConfig(url)
	// The parser takes what it doesn't know, such as mysql://host/db?a=b, for a setting and the local server as meant.
	if scheme := anyScheme.FindString(url); err != nil || scheme != "" && scheme != "postgres://" && scheme != "postgresql://" {
		return errNotPostgres
	}
	cfg.ConnectTimeout = 5 * time.Second
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		pg := new(pgconn.PgError)
		switch {
		case errors.As(err, &pg) && (pg.Code == "28P01" || pg.Code == "28000"):
			return fmt.Errorf("the user or the password in it is refused by Postgres (%s)", pg.Message)
		case errors.As(err, &pg):
			return fmt.Errorf("the connection is refused by Postgres: %s", pg.Message)
		}
		return fmt.Errorf("can't reach Postgres at %s:%d", cfg.Host, cfg.Port)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if schema == "" {
		return nil
	}
	return applySchema(ctx, conn, schema)
}

var versionLine = regexp.MustCompile(`(?m)insert into schema_version \(version\) values \((\d+)\)`)

// SchemaVersion reads the version that a schema's text sets.
func SchemaVersion(schema string) (int, error) {
	m := versionLine.FindStringSubmatch(schema)
	if m == nil {
		return 0, errors.New("schema.sql sets no schema_version")
	}
	return strconv.Atoi(m[1])
}

// applySchema brings an older database to this program's schema, one process at a time, in one transaction. A database
// that is there already is only read, so that a role without DDL will do. A newer one is refused.
func applySchema(ctx context.Context, conn *pgx.Conn, schema string) error {
	ours, err := SchemaVersion(schema)
	if err != nil {
		return err
	}
	theirs, err := currentVersion(ctx, conn)
	if err != nil {
		return err
	}
	if theirs < ours {
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock($1)`, int64(schemaLock)); err != nil {
				return err
			}
			// While we waited another may have applied it, or a newer program a newer one.
			if theirs, err = currentVersion(ctx, conn); err != nil || theirs >= ours {
				return err
			}
			theirs = ours
			_, err := tx.Conn().PgConn().Exec(ctx, schema).ReadAll()
			return err
		})
		if err != nil {
			return fmt.Errorf("apply the schema: %w", err)
		}
	}
	if theirs > ours {
		return fmt.Errorf("the database has schema version %d, this program knows %d: use a newer miaosha", theirs, ours)
	}
	return nil
}

// currentVersion is 0 for a database without our schema. It asks whether the table is there, for an error would end the
// transaction it may be called in, and asks the catalogue's table: to_regclass may remember what was before that began.
func currentVersion(ctx context.Context, conn *pgx.Conn) (version int, err error) {
	var there bool
	err = conn.QueryRow(ctx, `
		select exists (select from pg_tables where tablename = 'schema_version' and schemaname = any(current_schemas(false)))`).
		Scan(&there)
	if err == nil && there {
		err = conn.QueryRow(ctx, `select coalesce(max(version), 0) from schema_version`).Scan(&version)
	}
	if err != nil {
		return 0, fmt.Errorf("read the schema's version: %w", err)
	}
	return version, nil
}
