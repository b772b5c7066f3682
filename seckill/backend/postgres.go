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
	// A settle transaction gives up early and is tried again. The others wait as long as a user
	// would.
	if s.Settle, err = openPool(ctx, url, 8, 1500*time.Millisecond, 500*time.Millisecond, byIndex); err != nil {
		return err
	}
	if s.Pay, err = openPool(ctx, url, 8, 5*time.Second, 3*time.Second, nil); err != nil {
		return err
	}
	if s.Users, err = openPool(ctx, url, 8, 5*time.Second, 3*time.Second, nil); err != nil {
		return err
	}
	s.Web, err = openPool(ctx, url, 10, 5*time.Second, 3*time.Second, planEachTime)
	return err
}

// The settings of the planner. A rush begins with tables that are small or empty and ends with full
// ones, before Postgres counts their rows again. A plan from the beginning that reads a whole
// table, and is kept, gets slower with each order. So settling finds every row by index, and all
// other queries are planned each time, for the size of the table at that moment.
var (
	byIndex      = map[string]string{"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off"}
	planEachTime = map[string]string{"plan_cache_mode": "force_custom_plan"}
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

// prepare makes sure that the database has the schema. It returns an error of one line if the
// database cannot be used.
func prepare(ctx context.Context, url, schema string) error {
	cfg, err := pgx.ParseConfig(url)
	// The parser takes an unknown form, such as mysql://host/db?a=b, for a setting, and connects to
	// the local server.
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

// SchemaVersion returns the version that the text of a schema sets.
func SchemaVersion(schema string) (int, error) {
	m := versionLine.FindStringSubmatch(schema)
	if m == nil {
		return 0, errors.New("schema.sql sets no schema_version")
	}
	return strconv.Atoi(m[1])
}

// applySchema upgrades an older database to this program's schema, one process at a time, in one
// transaction. It only reads a database that has the schema, so a role without DDL is enough. It
// refuses a newer database.
func applySchema(ctx context.Context, conn *pgx.Conn, schema string) error {
	ours, err := SchemaVersion(schema)
	if err != nil {
		return err
	}
	theirs, err := currentVersion(ctx, conn)
	if err != nil {
		return fmt.Errorf("read the schema's version: %w", err)
	}
	if theirs < ours {
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock($1)`, int64(schemaLock)); err != nil {
				return err
			}
			// While this process waited, another may have applied this schema, or a newer program a
			// newer one.
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

// currentVersion returns the version of the database's schema, 0 for none. It first checks whether
// the table exists: an error would end the transaction in which it may be called. It checks in the
// catalogue, because to_regclass may return what was true before that transaction began.
func currentVersion(ctx context.Context, conn *pgx.Conn) (int, error) {
	rows, _ := conn.Query(ctx, `
		select exists (select from pg_tables where tablename = 'schema_version' and schemaname = any(current_schemas(false)))`)
	exists, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
	if err != nil || !exists {
		return 0, err
	}
	rows, _ = conn.Query(ctx, `select coalesce(max(version), 0) from schema_version`)
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
}
