package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

// namespace is a schema and Redis keys for one run alone, both named by the run's number. A
// connection holds an advisory lock on the number while the run lives. A namespace whose number is
// not locked belongs to a dead run, and the next run removes it.
type namespace struct {
	number int64 // also the id of the sale of the strategy shop, far above the ids of any real sale
	schema string
	admin  *pgx.Conn // holds the lock; its statements are not counted
	role   string    // of the program that is judged; "" for strategies of ours
	print  string    // what belongs to its judge, see program_witness.sql
	rdb    redis.UniversalClient
}

const (
	firstNumber    = 7_000_000_000_000
	numbers        = 1_000_000_000_000
	keyLife        = time.Hour // a limit, in case the removal fails
	cleanupTimeout = time.Minute
)

const tables = `
	create table item (
		stock     int not null,
		version   int not null default 0,
		starts_at timestamptz not null default now() - interval '1 minute',
		ends_at   timestamptz not null default now() + interval '1 hour'
	);
	create table units (id int primary key, owner bigint);
	create table orders (id bigint generated always as identity primary key, user_id bigint not null);
	create index orders_of_a_user on orders (user_id)`

// openNamespace removes the namespaces of dead runs and creates a new one with these tables.
func openNamespace(ctx context.Context, s Stores, tables string) (n *namespace, err error) {
	n = &namespace{number: firstNumber + rand.Int64N(numbers), rdb: s.Redis}
	n.schema = schemaOf(n.number)
	cfg, err := pgx.ParseConfig(s.DatabaseURL)
	if err == nil && s.JudgeURL != "" {
		n.role = cfg.User
		cfg, err = pgx.ParseConfig(s.JudgeURL)
	}
	if err != nil {
		return nil, errDatabaseURL
	}
	cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite // as the shop: of several hosts the primary
	cfg.RuntimeParams["application_name"] = "miaosha lab"
	cfg.RuntimeParams["search_path"] = n.schema
	cfg.RuntimeParams["client_min_messages"] = "warning"
	if n.admin, err = pgx.ConnectConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("the lab's database: %w", err)
	}
	// A program's role makes its own schema. On a machine so busy that this takes as long as one statement of a program may, the
	// guard of the place ends it.
	err = n.create(ctx, tables)
	for tries := 1; tries < 3 && isEnded(err); tries++ {
		err = n.create(ctx, tables)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create a schema for the lab: %w", err), n.close(ctx))
	}
	return n, nil
}

func (n *namespace) create(ctx context.Context, tables string) error {
	if err := n.sweep(ctx); err != nil {
		return err
	}
	if _, err := n.admin.Exec(ctx, `select pg_advisory_lock($1)`, n.number); err != nil {
		return err
	}
	if n.role != "" {
		if _, err := n.admin.Exec(ctx, `create schema `+n.schema); err != nil {
			return err
		}
		return n.openWitness(ctx)
	}
	_, err := n.admin.PgConn().Exec(ctx, `create schema `+n.schema+`;`+tables).ReadAll() // as one transaction
	return err
}

// isEnded reports whether another connection ended the statement.
func isEnded(err error) bool {
	pg := new(pgconn.PgError)
	return errors.As(err, &pg) && pg.Code == "57014"
}

// errDatabaseURL does not show the URL, which may contain a password.
var errDatabaseURL = errors.New("the lab's database: not a postgres:// address")

// poolConfig returns the configuration of a pool of at most conns connections to the namespace.
func (n *namespace) poolConfig(s Stores, conns int) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(s.DatabaseURL)
	if err != nil {
		return nil, errDatabaseURL
	}
	cfg.MaxConns = int32(conns)
	cfg.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	cfg.ConnConfig.RuntimeParams["application_name"] = n.schema
	cfg.ConnConfig.RuntimeParams["search_path"] = n.schema
	return cfg, nil
}

// connectAll opens all connections of a pool.
func connectAll(ctx context.Context, pool *pgxpool.Pool) error {
	for range pool.Config().MaxConns {
		c, err := pool.Acquire(ctx)
		if err != nil {
			return fmt.Errorf("connect to Postgres: %w", err)
		}
		defer c.Release()
	}
	return nil
}

const (
	redisConns   = 64
	redisTimeout = 10 * time.Second // long, since a crowd queues; the shop's engine has shorter limits of its own
)

// openRedis returns a second client for the server of s.Redis. It copies how to reach it and
// the credentials only: the other options belong to that client.
func openRedis(s Stores) (redis.UniversalClient, error) {
	own := redis.UniversalOptions{ContextTimeoutEnabled: true, PoolSize: redisConns, MaxRetries: 1,
		ReadTimeout: redisTimeout, WriteTimeout: redisTimeout, PoolTimeout: redisTimeout}
	switch c := s.Redis.(type) {
	case *redis.Client:
		o := c.Options()
		own.Addrs, own.Username, own.Password, own.DB, own.TLSConfig = []string{o.Addr}, o.Username, o.Password, o.DB, o.TLSConfig
		own.Dialer = o.Dialer // behind sentinels it alone knows the server
	case *redis.ClusterClient:
		o := c.Options()
		own.Addrs, own.Username, own.Password, own.TLSConfig, own.IsClusterMode = o.Addrs, o.Username, o.Password, o.TLSConfig, true
	default:
		return nil, fmt.Errorf("the lab's Redis: a client of type %T", c)
	}
	return redis.NewUniversalClient(&own), nil
}

// close removes the namespace, even if ctx has ended.
func (n *namespace) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	if n.admin.IsClosed() { // pgx closes it after a cancelled statement
		// Postgres may still be working on that statement; it frees the lock when it is done.
		again, err := pgx.ConnectConfig(ctx, n.admin.Config())
		if err == nil {
			n.admin = again
			_, err = n.admin.Exec(ctx, `select pg_advisory_lock($1)`, n.number)
		}
		if err != nil {
			return fmt.Errorf("remove a namespace of the lab: %w", err)
		}
	}
	return errors.Join(n.remove(ctx, n.number), n.admin.Close(ctx))
}

// sweep removes the namespaces of dead runs.
func (n *namespace) sweep(ctx context.Context) error {
	rows, _ := n.admin.Query(ctx, `select substr(nspname, 5)::bigint from pg_namespace where nspname ~ '^lab_7[0-9]{12}$'`)
	numbers, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return err
	}
	for _, number := range numbers {
		var dead bool
		if err = n.admin.QueryRow(ctx, `select pg_try_advisory_lock($1)`, number).Scan(&dead); err != nil {
			return err
		}
		if !dead {
			continue
		}
		err := n.remove(ctx, number)
		if _, unlockErr := n.admin.Exec(ctx, `select pg_advisory_unlock($1)`, number); err != nil || unlockErr != nil {
			return errors.Join(err, unlockErr)
		}
	}
	return nil
}

func (n *namespace) remove(ctx context.Context, number int64) error {
	outside, err := n.removeRole(ctx, number)
	if outside && err == nil {
		err = n.removeKeys(ctx, number)
	}
	for _, key := range keysOf(number) {
		err = errors.Join(err, n.rdb.Del(ctx, key).Err())
	}
	if err == nil { // the schema goes last: sweep finds dead runs by it
		_, err = n.admin.Exec(ctx, `drop schema if exists `+schemaOf(number)+` cascade`)
		if err == nil && n.role != "" {
			_, err = n.admin.Exec(ctx, `drop schema if exists judge cascade`)
		}
	}
	if err != nil {
		return fmt.Errorf("remove a namespace of the lab: %w", err)
	}
	return nil
}

func schemaOf(number int64) string { return "lab_" + strconv.FormatInt(number, 10) }

// key returns the name of a key of the run. The hash tag lets one script use several keys.
func (n *namespace) key(name string) string { return keyOf(n.number, name) }

func keyOf(number int64, name string) string { return fmt.Sprintf("ms:lab:{%d}:%s", number, name) }

// gateOf returns the name of the gate's key that the shop's engine uses for its sale.
func gateOf(number int64) string { return fmt.Sprintf("ms:{%d}:gate", number) }

// keysOf returns every key that a strategy or message queue uses, and those that the shop's engine uses for its sale.
func keysOf(number int64) (keys []string) {
	for _, name := range []string{"stock", "buyers", "tokens", "lock", "fence", "prepared", "lot", "messages", "dead_letters"} {
		keys = append(keys, keyOf(number, name))
	}
	for _, name := range []string{"tickets", "journal2", "paths", "waiting", "waiting_until", "wasted", "refusing", "dead"} {
		keys = append(keys, fmt.Sprintf("ms:{%d}:%s", number, name))
	}
	return append(keys, gateOf(number))
}
