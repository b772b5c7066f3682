package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/seckill/audit"
)

// schemaLock is the advisory lock under which a schema is applied.
const schemaLock = 0x6d69616f_73686121

var (
	errNotPostgres = errors.New("not a postgres:// address")
	errExecMode    = errors.New(
		"default_query_exec_mode in it has to be one that knows the types of the arguments, such as cache_describe")
	keyValue = regexp.MustCompile(`^\s*[a-z_]+\s*=`) // libpq's other form
)

func (s *Stores) openPools(ctx context.Context, url, schema string, of Config, log *slog.Logger) (err error) {
	conn, err := connectPostgres(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if s.usual, err = unusual(ctx, conn); err != nil {
		return cmp.Or(pooled(err), fmt.Errorf("read the settings of its role: %w", err))
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
		maps.Copy(cfg.ConnConfig.RuntimeParams, s.usual)
		poolForPrimary(cfg)
		s.guard.watch(cfg)
		if *pool.to, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
			return err
		}
		if !of.Command {
			if err := provePool(ctx, *pool.to); err != nil {
				return hidden(err, url)
			}
		}
	}
	if schema != "" { // only now: a database that the shop cannot use gets no table
		if err = checkRole(ctx, conn); err == nil {
			err = applySchema(ctx, conn, s.Settle, schema, of, log)
		}
		if err != nil {
			return cmp.Or(pooled(err), err)
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

// provePool makes a transaction as the shop will: behind a pooler a connection that sends nothing with it proves
// little.
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

// warnOfLimits logs each limit of a settle transaction that is not in force. A pooler may drop what the shop sends with
// a connection, so the limits must be those of its role.
func warnOfLimits(ctx context.Context, db *pgxpool.Pool, log *slog.Logger) {
	for name, most := range map[string]time.Duration{"lock_timeout": settleLimit - 1, "statement_timeout": time.Minute,
		"idle_in_transaction_session_timeout": time.Minute} {
		var ms int64
		err := db.QueryRow(ctx, `select setting::bigint from pg_settings where name = $1`, name).Scan(&ms)
		if inForce := time.Duration(ms) * time.Millisecond; err != nil {
			log.Warn("Postgres does not tell whether a limit is in force", "limit", name, "err", err)
		} else if inForce == 0 || inForce > most {
			log.Warn(
				"a limit that the shop sends with its connections is not in force, as behind a pooler: set it for the shop's role (deploy/README.md, Behind PgBouncer)",
				"limit", name, "in_force", inForce, "at_most", most)
		}
	}
	if changed, err := unusual(ctx, db); err != nil {
		log.Warn("Postgres does not tell what is set for the shop's role", "err", err)
	} else if len(changed) > 0 {
		log.Warn(
			"settings of the shop's role or database change what its statements do, and a pooler drops what the shop sends with its connections: alter role and alter database reset them (deploy/README.md, Settings of the role)",
			"settings", slices.Sorted(maps.Keys(changed)))
	}
}

// The settings under which the shop's statements mean what they say, whatever is set for its role, its database or its
// server. A pooler passes alwaysSent on. It may refuse a connection with one of sentIfChanged, so these are sent only
// where another value is in force. client_min_messages is among them because of the warning that failover.go reads.
var (
	alwaysSent = map[string]string{"client_encoding": "UTF8", "datestyle": "ISO, MDY",
		"standard_conforming_strings": "on", "timezone": "UTC"}
	sentIfChanged = map[string]string{"client_min_messages": "notice",
		"default_transaction_isolation": "read committed", "exit_on_error": "off", "idle_session_timeout": "0",
		"IntervalStyle": "postgres", "quote_all_identifiers": "off", "transaction_timeout": "0"}
)

// unusual returns those of sentIfChanged that have another value in force, with their usual ones.
func unusual(ctx context.Context, db interface {
	Query(context.Context, string, ...any) (pgx.Rows, error)
}) (map[string]string, error) {
	rows, _ := db.Query(ctx, `select name, setting from pg_settings where name = any($1)`, slices.Collect(maps.Keys(sentIfChanged)))
	var name, setting string
	usual := map[string]string{}
	_, err := pgx.ForEachRow(rows, []any{&name, &setting}, func() error {
		if setting != sentIfChanged[name] {
			usual[name] = sentIfChanged[name]
		}
		return nil
	})
	return usual, err
}

// checkRole returns an error if the role or the database has a setting under which the shop would be another one: its
// triggers off, or a search_path that leads past its tables, beside which it would open an empty shop.
func checkRole(ctx context.Context, conn *pgx.Conn) error {
	var triggers, elsewhere string
	err := conn.QueryRow(ctx, `
		select current_setting('session_replication_role'),
		       coalesce((select string_agg(schemaname::text, ', ' order by schemaname) from pg_tables where tablename = 'ticket_results'
		                 having not bool_or(schemaname = any (current_schemas(false)))
		                 and    (select source from pg_settings where name = 'search_path') <> 'default'), '')`).Scan(&triggers, &elsewhere)
	if err != nil {
		return fmt.Errorf("read the settings of its role: %w", err)
	}
	if triggers == "replica" {
		return errors.New(
			"session_replication_role is replica for this role or database, so that no trigger of the shop fires: alter role or alter database ... reset session_replication_role")
	}
	asked := conn.Config().RuntimeParams
	if elsewhere != "" && asked["search_path"] == "" && !strings.Contains(asked["options"], "search_path") {
		return fmt.Errorf(
			"the search_path of this role or database leads past the shop's tables, which are in the schema %s: alter role or alter database ... reset search_path, or add search_path=%[1]s to the address",
			elsewhere)
	}
	return nil
}

// The settings of the planner. A rush begins with tables that are small or empty and ends with full
// ones, before Postgres counts their rows again. A plan from the beginning that reads a whole
// table, and is kept, gets slower with each order. So settling finds every row by index, and all
// other queries are planned each time, for the size of the table at that moment.
var (
	byIndex = map[string]string{"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off",
		"enable_hashjoin": "off", "enable_mergejoin": "off"}
	planEachTime = map[string]string{"plan_cache_mode": "force_custom_plan"}
)

func poolConfig(
	url string, size int32, statement, lock time.Duration, planner map[string]string,
) (*pgxpool.Config, error) {
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
	maps.Copy(params, alwaysSent)
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
	maps.Copy(cfg.RuntimeParams, alwaysSent)
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
		return fmt.Errorf(
			"a pooler in front of Postgres refuses what the shop sends with a connection (%s): set ignore_startup_parameters as deploy/pgbouncer.ini has it (deploy/README.md, Behind PgBouncer)",
			pg.Message)
	}
	if lost := pooled(err); lost != nil {
		return lost
	}
	return fmt.Errorf("the connection is refused by Postgres: %s", pg.Message)
}

// pooled returns an error with the way out if a pooler in front of Postgres does not do what the shop needs, and nil
// otherwise.
func pooled(err error) error {
	pg := new(pgconn.PgError)
	switch {
	case !errors.As(err, &pg):
		return nil
	case pg.Code == "26000" || pg.Code == "42P05":
		return fmt.Errorf(
			"a pooler in front of Postgres shares connections, so prepared statements are lost (%s): add ?default_query_exec_mode=cache_describe to it (deploy/README.md, Behind PgBouncer)",
			pg.Message)
	case strings.Contains(pg.Message, "statement pooling"):
		return fmt.Errorf(
			"a pooler in front of Postgres allows no transactions (%s): set pool_mode = transaction (deploy/README.md, Behind PgBouncer)",
			pg.Message)
	}
	return nil
}

// connectPostgres returns a connection to a database that may have the shop's schema. Its errors are of one line.
func connectPostgres(ctx context.Context, url string) (*pgx.Conn, error) {
	cfg, err := parsePostgres(url)
	if err != nil {
		return nil, err
	}
	cfg.ConnectTimeout = 5 * time.Second
	for _, limit := range []string{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"} {
		cfg.RuntimeParams[limit] = "0" // a schema may take a while; the limits of the role are for its other statements
	}
	forPrimary(cfg)
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		if refused := refusal(err); refused != nil {
			return nil, hidden(refused, url)
		}
		if errors.Is(err, pgconn.ErrReadOnlyConnection) {
			return nil, fmt.Errorf("no Postgres in it takes writes (%s): one that answers is a standby or read-only",
				servers(cfg))
		}
		return nil, hidden(fmt.Errorf("can't reach Postgres at %s: %s%s", servers(cfg), cause(err), postgresHint(err)),
			url)
	}
	if err := checkServer(ctx, conn); err != nil {
		conn.Close(context.WithoutCancel(ctx))
		return nil, cmp.Or(pooled(err), err)
	}
	return conn, nil
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
		return fmt.Errorf(
			"this database is encoded in %s, which cannot hold every name: create one with encoding 'UTF8' template template0, and restore into it",
			encoding)
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

// applySchema upgrades an older database to this program's schema, one process at a time, in one transaction. It only
// reads a database that is as the schema makes it, so a role without DDL is enough. It refuses a newer database, and
// one that lacks a table or a column: its restore has not finished, and a table that is made empty here would hide
// that.
//
// What else a restore has left out the start of a shop mends, if the role may, by applying the schema again: rights,
// triggers that are off, functions, indexes and sequences. It names the rest with the statement that mends it, and
// refuses a database without a key. Commands compare nothing, but for an audit, which only reads.
//
// look is for queries beside conn, while that waits.
func applySchema(
	ctx context.Context, conn *pgx.Conn, look *pgxpool.Pool, schema string, cfg Config, log *slog.Logger,
) error {
	ours, err := SchemaVersion(schema)
	if err != nil {
		return err
	}
	theirs, err := currentVersion(ctx, conn)
	if err != nil {
		return fmt.Errorf("read the schema's version: %w", lackOfRights(err))
	}
	if theirs == 0 {
		if err := refuseElsewhere(ctx, conn); err != nil {
			return err
		}
	}
	only := cfg.ReadOnly && !cfg.Sandboxed() // the sandbox's database may be new
	switch {
	case only && theirs == 0:
		return errors.New("the database has no shop: name another one, or start the shop, which makes it")
	case only && theirs < ours:
		return fmt.Errorf(
			"the database has schema version %d, this program needs %d: start the shop, or apply schema.sql, before an audit",
			theirs, ours)
	case theirs < ours:
		stop := sayWhoIsWaitedFor(ctx, conn, look, log)
		if theirs > 0 {
			err = buildIndexes(ctx, conn, look, schema, theirs, log)
		}
		if err == nil {
			theirs, err = upgrade(ctx, conn, schema, ours)
		}
		stop()
		if err != nil {
			return fmt.Errorf("apply the schema: %w", lackOfRights(err))
		}
	}
	if theirs > ours {
		return fmt.Errorf("the database has schema version %d, this program knows %d: use a newer miaosha", theirs,
			ours)
	}
	if cfg.Command && !cfg.ReadOnly {
		return nil
	}
	differences, err := compare(ctx, conn, log)
	if err != nil {
		return fmt.Errorf("compare the schema: %w", lackOfRights(err))
	}
	if err := refuseLost(differences); err != nil || only {
		return err
	}
	if slices.ContainsFunc(differences, func(d audit.Difference) bool { return d.Mended }) {
		if err := mend(ctx, conn, schema, ours); err != nil {
			log.Warn("cannot apply the schema again, which would mend what differs from it", "err", err)
		}
		before := differences
		if differences, err = compare(ctx, conn, log); err != nil {
			return fmt.Errorf("compare the schema: %w", err)
		}
		for _, d := range before {
			if !slices.Contains(differences, d) {
				log.Warn("the database was not as schema.sql makes it, and is again", "mended", d.What)
			}
		}
	}
	for _, d := range differences {
		if d.Key {
			return fmt.Errorf("%s, as after a restore that went on after an error: %s", d.What, d.WayOut)
		}
		log.Warn("the database is not as schema.sql makes it", "what", d.What, "way_out", d.WayOut)
	}
	return nil
}

// upgrade applies the schema to an older database, and returns the version that the database has then. While this
// process waited, another may have applied this schema, or a newer program a newer one. It tries again until it has the
// locks, however long someone reads a table.
func upgrade(ctx context.Context, conn *pgx.Conn, schema string, ours int) (theirs int, err error) {
	for n := 1; ; n++ {
		wait := ddlWait
		if n%10 == 0 {
			wait = ddlLongWait
		}
		theirs, err = tryUpgrade(ctx, conn, schema, ours, wait)
		if !isLockTimeout(err) {
			return theirs, err
		}
		select {
		case <-ctx.Done():
			return 0, err
		case <-time.After(ddlPause):
		}
	}
}

// Whoever wants to read a table waits behind an upgrade that wants to lock it. So a lock is waited for briefly, and the
// others go on between two tries. A few tries are longer than deadlock_timeout, a second: an autovacuum ends only for
// these.
const (
	ddlWait     = 250 * time.Millisecond
	ddlLongWait = 2 * time.Second
	ddlPause    = time.Second
)

func isLockTimeout(err error) bool {
	pg := new(pgconn.PgError)
	return errors.As(err, &pg) && pg.Code == "55P03"
}

// sayWhoIsWaitedFor logs, until stop is called, the transactions that keep conn waiting: each time that they are
// others.
func sayWhoIsWaitedFor(ctx context.Context, conn *pgx.Conn, look *pgxpool.Pool, log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	looking.Go(func() {
		for said := ""; ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(ddlWait / 4):
			}
			var who string // the start of a transaction is null for a role that may not see it
			err := look.QueryRow(ctx, `
				select coalesce(string_agg(format('process %s (%s)%s', pid, application_name, ', since ' || date_trunc('second', xact_start)), '; ' order by pid), '')
				from   pg_stat_activity
				where  pid = any(pg_blocking_pids($1::integer))`, conn.PgConn().PID()).Scan(&who)
			if err == nil && who != "" && who != said {
				log.Warn("the upgrade of the schema waits for another transaction; the shops beside it go on",
					"waits_for", who)
				said = who
			}
		}
	})
	return func() { cancel(); looking.Wait() }
}

func tryUpgrade(
	ctx context.Context, conn *pgx.Conn, schema string, ours int, wait time.Duration,
) (theirs int, err error) {
	// It has to see what it has waited for.
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock($1)`, int64(schemaLock)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, fmt.Sprintf(`set local lock_timeout = %d`, wait.Milliseconds())); err != nil {
			// of each later lock
			return err
		}
		if theirs, err = currentVersion(ctx, conn); err != nil || theirs >= ours {
			return err
		}
		if err := refuseHalf(ctx, tx, theirs); err != nil {
			return err
		}
		theirs = ours
		_, err := tx.Conn().PgConn().Exec(ctx, schema).ReadAll()
		return err
	})
	return theirs, err
}

// firstTables are the tables that a shop of each version has.
var firstTables = []string{"users", "goods", "sales", "orders", "ticket_results", "payments", "order_events"}

// refuseHalf returns an error for a database that has a part of the tables of its version: the restore that made them
// has not finished, and the schema would make the others empty. A table without a version may also belong to another
// program.
func refuseHalf(ctx context.Context, tx pgx.Tx, version int) error {
	rows, _ := tx.Query(ctx, `select tablename::text from pg_tables where schemaname = any(current_schemas(false))`)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	needed := firstTables
	if version == 0 {
		needed = audit.Tables()
	}
	var there, missing []string
	for _, table := range needed {
		if slices.Contains(all, table) {
			there = append(there, table)
		} else {
			missing = append(missing, table)
		}
	}
	if len(missing) == 0 || version == 0 && (len(there) == 0 || slices.Equal(there, []string{"schema_version"})) {
		return nil
	}
	return fmt.Errorf(
		"the database has the tables %s, but not %s: restore the dump again into an empty database, or name another database",
		strings.Join(there, ", "), strings.Join(missing, ", "))
}

// refuseElsewhere returns an error for a role that finds no shop because it looks into the wrong schema: a dump does
// not carry the search_path that the database or the role had. A second shop, in a schema that is named, is no such
// case.
func refuseElsewhere(ctx context.Context, conn *pgx.Conn) error {
	rows, _ := conn.Query(ctx, `
		select quote_ident(n.nspname)
		from   pg_class c join pg_namespace n on n.oid = c.relnamespace
		where  c.relname = 'schema_version' and n.nspname !~ '^lab_[0-9]+$' and not n.nspname = any(current_schemas(false))
		and    exists (select from pg_class s where s.relnamespace = n.oid and s.relname = 'gate_epoch')
		and    exists (select from pg_settings where name = 'search_path' and source = 'default')
		order  by 1`)
	schemas, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("look for a shop in other schemas: %w", err)
	}
	if len(schemas) > 0 {
		return fmt.Errorf(
			"the database has a shop in the schema %s, and this role does not look there: add ?search_path=%[1]s to the address, or public for a new shop beside it",
			schemas[0])
	}
	return nil
}

// mend applies the schema again to a database that has its version, under the locks of an upgrade. It waits two seconds
// for each: a shop beside it may be selling.
func mend(ctx context.Context, conn *pgx.Conn, schema string, ours int) error {
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf(`set local lock_timeout = %d`, ddlLongWait.Milliseconds())); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock($1)`, int64(schemaLock)); err != nil {
			return err
		}
		if theirs, err := currentVersion(ctx, conn); err != nil || theirs != ours { // a newer program was faster
			return err
		}
		if _, err := tx.Exec(ctx, `lock table sales in access exclusive mode; lock table orders in exclusive mode`); err != nil {
			return err
		}
		_, err := tx.Conn().PgConn().Exec(ctx, schema).ReadAll()
		return err
	})
}

// compare returns what differs from the schema. It does not wait long for a table that another transaction has locked,
// and finds nothing then: an upgrade or a repair by hand may be under way.
func compare(ctx context.Context, conn *pgx.Conn, log *slog.Logger) (found []audit.Difference, err error) {
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `set local lock_timeout = '2s'`); err != nil {
			return err
		}
		found, err = audit.Differences(ctx, tx)
		return err
	})
	if isLockTimeout(err) {
		log.Warn("the database is not compared with schema.sql: another transaction has locked a table", "err", err)
		return nil, nil
	}
	return found, err
}

// refuseLost returns an error that names the tables and columns that are missing.
func refuseLost(differences []audit.Difference) error {
	var lost []string
	for _, d := range differences {
		if d.Lost {
			lost = append(lost, d.What)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	return fmt.Errorf(
		"%s: the restore of this database has not finished; restore the dump again into an empty database, and look for its first error",
		strings.Join(lost, ", "))
}

// lackOfRights adds the way out to an error of a role that lacks rights. A restore without rights (-x) has lost them.
func lackOfRights(err error) error {
	if pg := new(pgconn.PgError); errors.As(err, &pg) && (pg.Code == "42501" || pg.Code == "3F000") {
		return fmt.Errorf(
			"%w: as the database's owner, apply schema.sql and give the role its rights again (deploy/README.md, With no more rights than it needs)",
			err)
	}
	return err
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
