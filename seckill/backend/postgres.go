package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// schemaLock is the advisory lock under which a schema is applied.
const schemaLock = 0x6d69616f_73686121

var (
	errNotPostgres = errors.New("not a postgres:// address")
	errExecMode    = errors.New("default_query_exec_mode in it has to be one that knows the types of the arguments, such as cache_describe")
	keyValue       = regexp.MustCompile(`^\s*[a-z_]+\s*=`) // libpq's other form
)

func (s *Stores) openPools(ctx context.Context, url, schema string, of Config, log *slog.Logger) (err error) {
	if err := prepare(ctx, url, schema); err != nil {
		return err
	}
	// A shop has a connection of each pool before the first buyer comes. A command needs few, and most commands one.
	ready := int32(1)
	if of.Command {
		ready = 0
	}
	// A settle transaction gives up early and is tried again. The others wait as long as a user
	// would.
	for _, pool := range []struct {
		to              **pgxpool.Pool
		size            int32
		statement, lock time.Duration
		planner         map[string]string
	}{
		{&s.Settle, of.Pools.Settle, settleLimit, 500 * time.Millisecond, byIndex},
		{&s.Pay, of.Pools.Pay, 5 * time.Second, 3 * time.Second, nil},
		{&s.Users, of.Pools.Users, 5 * time.Second, 3 * time.Second, nil},
		{&s.Staff, of.Pools.Staff, 5 * time.Second, 3 * time.Second, nil},
		{&s.Web, of.Pools.Web, 5 * time.Second, 3 * time.Second, planEachTime},
	} {
		cfg, err := poolConfig(url, pool.size, pool.statement, pool.lock, pool.planner)
		if err != nil {
			return err
		}
		cfg.MinConns = ready
		poolForPrimary(cfg)
		if *pool.to, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
			return err
		}
		if !of.Command {
			if err := provePool(ctx, *pool.to); err != nil {
				return hidden(err, url)
			}
		}
	}
	if !of.Command {
		if err := checkRights(ctx, s.Settle); err != nil {
			return err
		}
		warnOfLimits(ctx, s.Settle, log)
		warnOfConnections(ctx, s.Settle, of.Pools, log)
	}
	return nil
}

// provePool makes a transaction as the shop will: behind a pooler a connection that sends nothing with it proves little.
func provePool(ctx context.Context, db *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return tx.QueryRow(ctx, `select $1::integer`, 1).Scan(new(int)) })
	if refused := refusal(err); refused != nil {
		return refused
	}
	if err != nil {
		return fmt.Errorf("make a transaction: %s", cause(err))
	}
	return nil
}

// settleLimit is the time of a settle transaction, the same as in package seckill.
const settleLimit = 1500 * time.Millisecond

// warnOfLimits logs each limit of a settle transaction that is not in force. A pooler may drop what the shop sends with a
// connection, so the limits must be those of its role.
func warnOfLimits(ctx context.Context, db *pgxpool.Pool, log *slog.Logger) {
	for name, most := range map[string]time.Duration{"lock_timeout": settleLimit - 1, "statement_timeout": time.Minute, "idle_in_transaction_session_timeout": time.Minute} {
		var ms int64
		err := db.QueryRow(ctx, `select setting::bigint from pg_settings where name = $1`, name).Scan(&ms)
		if inForce := time.Duration(ms) * time.Millisecond; err != nil {
			log.Warn("Postgres does not tell whether a limit is in force", "limit", name, "err", err)
		} else if inForce == 0 || inForce > most {
			log.Warn("a limit that the shop sends with its connections is not in force, as behind a pooler: set it for the shop's role (deploy/README.md, Behind PgBouncer)",
				"limit", name, "in_force", inForce, "at_most", most)
		}
	}
}

// The settings of the planner. A rush begins with tables that are small or empty and ends with full
// ones, before Postgres counts their rows again. A plan from the beginning that reads a whole
// table, and is kept, gets slower with each order. So settling finds every row by index, and all
// other queries are planned each time, for the size of the table at that moment.
var (
	byIndex      = map[string]string{"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off"}
	planEachTime = map[string]string{"plan_cache_mode": "force_custom_plan"}
)

func poolConfig(url string, size int32, statement, lock time.Duration, planner map[string]string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", errNotPostgres, whyNotPostgres(err))
	}
	cfg.MaxConns = size
	cfg.ConnConfig.ConnectTimeout = 2 * time.Second // to each host of the URL
	cfg.PingTimeout = 300 * time.Millisecond        // of a connection that was idle for a second
	params := cfg.ConnConfig.RuntimeParams
	params["application_name"] = "miaosha"
	params["statement_timeout"] = strconv.FormatInt(statement.Milliseconds(), 10)
	params["lock_timeout"] = strconv.FormatInt(lock.Milliseconds(), 10)
	params["idle_in_transaction_session_timeout"] = "10000"
	maps.Copy(params, planner)
	return cfg, nil
}

// parsePostgres parses the URL of a Postgres.
func parsePostgres(url string) (*pgx.ConnConfig, error) {
	// The parser takes an unknown form, such as mysql://host/db?a=b, for a setting, and connects to
	// the local server.
	if why := malformed(url, "postgres", "postgresql"); why != "" && !keyValue.MatchString(url) {
		return nil, fmt.Errorf("%w: %s", errNotPostgres, why)
	}
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", errNotPostgres, whyNotPostgres(err))
	}
	if mode := cfg.DefaultQueryExecMode; mode == pgx.QueryExecModeExec || mode == pgx.QueryExecModeSimpleProtocol {
		return nil, errExecMode
	}
	return cfg, nil
}

// refusal returns an error of one line if Postgres has refused a connection, and nil if it did not reply.
func refusal(err error) error {
	pg := new(pgconn.PgError)
	switch {
	case !errors.As(err, &pg):
		return nil
	case pg.Code == "28P01" || pg.Code == "28000":
		return fmt.Errorf("the user or the password in it is refused by Postgres (%s)", pg.Message)
	case strings.Contains(pg.Message, "unsupported startup parameter"):
		return fmt.Errorf("a pooler in front of Postgres refuses what the shop sends with a connection (%s): set ignore_startup_parameters as deploy/pgbouncer.ini has it (deploy/README.md, Behind PgBouncer)", pg.Message)
	case strings.Contains(pg.Message, "statement pooling"):
		return fmt.Errorf("a pooler in front of Postgres allows no transactions (%s): set pool_mode = transaction (deploy/README.md, Behind PgBouncer)", pg.Message)
	}
	if lost := lostStatement(err); lost != nil {
		return lost
	}
	return fmt.Errorf("the connection is refused by Postgres: %s", pg.Message)
}

// lostStatement returns an error with the way out if a prepared statement is missing, or is there twice.
func lostStatement(err error) error {
	if pg := new(pgconn.PgError); errors.As(err, &pg) && (pg.Code == "26000" || pg.Code == "42P05") {
		return fmt.Errorf("a pooler in front of Postgres shares connections, so prepared statements are lost (%s): add ?default_query_exec_mode=cache_describe to it (deploy/README.md, Behind PgBouncer)", pg.Message)
	}
	return nil
}

// prepare makes sure that the database has the schema. It returns an error of one line if the
// database cannot be used.
func prepare(ctx context.Context, url, schema string) error {
	cfg, err := parsePostgres(url)
	if err != nil {
		return err
	}
	cfg.ConnectTimeout = 5 * time.Second
	forPrimary(cfg)
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		if refused := refusal(err); refused != nil {
			return hidden(refused, url)
		}
		if errors.Is(err, pgconn.ErrReadOnlyConnection) {
			return fmt.Errorf("no Postgres in it takes writes (%s): one that answers is a standby or read-only", servers(cfg))
		}
		return hidden(fmt.Errorf("can't reach Postgres at %s: %s%s", servers(cfg), cause(err), postgresHint(err)), url)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err = checkServer(ctx, conn); err == nil && schema != "" {
		err = applySchema(ctx, conn, schema)
	}
	if lost := lostStatement(err); lost != nil {
		return lost
	}
	return err
}

// oldestPostgres is the oldest server_version_num that the shop runs on.
const oldestPostgres = 140000

// checkServer refuses a Postgres that is too old, and a database that cannot hold every text.
func checkServer(ctx context.Context, conn *pgx.Conn) error {
	var number, version, encoding string
	err := conn.QueryRow(ctx, `
		select current_setting('server_version_num'), current_setting('server_version'), current_setting('server_encoding')`).Scan(&number, &version, &encoding)
	if err != nil {
		return fmt.Errorf("read the version of Postgres: %w", err)
	}
	if n, err := strconv.Atoi(number); err != nil || n < oldestPostgres {
		return fmt.Errorf("this Postgres is version %s: the shop needs %d or newer", version, oldestPostgres/10000)
	}
	if encoding != "UTF8" {
		return fmt.Errorf("this database is encoded in %s, which cannot hold every name: create one with encoding 'UTF8' template template0, and restore into it", encoding)
	}
	return nil
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
		if pg := new(pgconn.PgError); errors.As(err, &pg) && (pg.Code == "42501" || pg.Code == "3F000") {
			return fmt.Errorf("apply the schema: %w: apply schema.sql as the owner of the database, and grant the role what it needs (deploy/README.md, With no more rights than it needs)", err)
		}
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
