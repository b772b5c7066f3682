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

// Namespace is a schema and Redis keys for one run alone, both named by the run's number. A
// connection holds an advisory lock on the number while the run lives. A namespace whose number is
// not locked belongs to a dead run, and the next run removes it.
type Namespace struct {
	Number int64 // also the id of the sale of the strategy shop, far above the ids of any real sale
	Schema string
	Admin  *pgx.Conn // holds the lock; its statements are not counted
	role   string    // of the program that is judged; "" for strategies of ours
	print  string    // what belongs to its judge, see witness.sql
	Redis  redis.UniversalClient
}

const (
	firstNumber    = 7_000_000_000_000
	numbers        = 1_000_000_000_000
	KeyLife        = time.Hour // a limit, in case the removal fails
	CleanupTimeout = time.Minute
)

const Tables = `
	create table item (
		stock     int not null,
		version   int not null default 0,
		starts_at timestamptz not null default now() - interval '1 minute',
		ends_at   timestamptz not null default now() + interval '1 hour'
	);
	create table units (id int primary key, owner bigint);
	create table orders (id bigint generated always as identity primary key, user_id bigint not null);
	create index orders_of_a_user on orders (user_id)`

// OpenNamespace removes the namespaces of dead runs and creates a new one with these tables.
func OpenNamespace(ctx context.Context, s Stores, tables string) (n *Namespace, err error) {
	n = &Namespace{Number: firstNumber + rand.Int64N(numbers), Redis: s.Redis}
	n.Schema = schemaOf(n.Number)
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
	cfg.RuntimeParams["search_path"] = n.Schema
	cfg.RuntimeParams["client_min_messages"] = "warning"
	if n.Admin, err = pgx.ConnectConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("the lab's database: %w", err)
	}
	// A program's role makes its own schema. On a machine so busy that this takes as long as one statement of a program
	// may, the guard of the place ends it.
	err = n.create(ctx, tables)
	for tries := 1; tries < 3 && IsEnded(err); tries++ {
		err = n.create(ctx, tables)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create a schema for the lab: %w", err), n.Close(ctx))
	}
	return n, nil
}

func (n *Namespace) create(ctx context.Context, tables string) error {
	if err := n.sweep(ctx); err != nil {
		return err
	}
	if _, err := n.Admin.Exec(ctx, `select pg_advisory_lock($1)`, n.Number); err != nil {
		return err
	}
	if n.role != "" {
		if _, err := n.Admin.Exec(ctx, `create schema `+n.Schema); err != nil {
			return err
		}
		return n.openWitness(ctx)
	}
	_, err := n.Admin.PgConn().Exec(ctx, `create schema `+n.Schema+`;`+tables).ReadAll() // as one transaction
	return err
}

// IsEnded reports whether another connection ended the statement.
func IsEnded(err error) bool {
	pg := new(pgconn.PgError)
	return errors.As(err, &pg) && pg.Code == "57014"
}

// errDatabaseURL does not show the URL, which may contain a password.
var errDatabaseURL = errors.New("the lab's database: not a postgres:// address")

// PoolConfig returns the configuration of a pool of at most conns connections to the namespace.
func (n *Namespace) PoolConfig(s Stores, conns int) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(s.DatabaseURL)
	if err != nil {
		return nil, errDatabaseURL
	}
	cfg.MaxConns = int32(conns)
	cfg.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	cfg.ConnConfig.RuntimeParams["application_name"] = n.Schema
	cfg.ConnConfig.RuntimeParams["search_path"] = n.Schema
	return cfg, nil
}

// ConnectAll opens all connections of a pool.
func ConnectAll(ctx context.Context, pool *pgxpool.Pool) error {
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

// OpenRedis returns a second client for the server of s.Redis. It copies how to reach it and
// the credentials only: the other options belong to that client.
func OpenRedis(s Stores) (redis.UniversalClient, error) {
	own := redis.UniversalOptions{ContextTimeoutEnabled: true, PoolSize: redisConns, MaxRetries: 1,
		ReadTimeout: redisTimeout, WriteTimeout: redisTimeout, PoolTimeout: redisTimeout}
	switch c := s.Redis.(type) {
	case *redis.Client:
		o := c.Options()
		own.Addrs, own.Username, own.Password = []string{o.Addr}, o.Username, o.Password
		own.DB, own.TLSConfig = o.DB, o.TLSConfig
		own.Dialer = o.Dialer // behind sentinels it alone knows the server
	case *redis.ClusterClient:
		o := c.Options()
		own.Addrs, own.Username, own.Password = o.Addrs, o.Username, o.Password
		own.TLSConfig, own.IsClusterMode = o.TLSConfig, true
	default:
		return nil, fmt.Errorf("the lab's Redis: a client of type %T", c)
	}
	return redis.NewUniversalClient(&own), nil
}

// Close removes the namespace, even if ctx has ended.
func (n *Namespace) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), CleanupTimeout)
	defer cancel()
	if n.Admin.IsClosed() { // pgx closes it after a cancelled statement
		// Postgres may still be working on that statement; it frees the lock when it is done.
		again, err := pgx.ConnectConfig(ctx, n.Admin.Config())
		if err == nil {
			n.Admin = again
			_, err = n.Admin.Exec(ctx, `select pg_advisory_lock($1)`, n.Number)
		}
		if err != nil {
			return fmt.Errorf("remove a namespace of the lab: %w", err)
		}
	}
	return errors.Join(n.remove(ctx, n.Number), n.Admin.Close(ctx))
}

// sweep removes the namespaces of dead runs.
func (n *Namespace) sweep(ctx context.Context) error {
	rows, _ := n.Admin.Query(ctx, `select substr(nspname, 5)::bigint from pg_namespace where nspname ~ '^lab_7[0-9]{12}$'`)
	numbers, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return err
	}
	for _, number := range numbers {
		var dead bool
		if err = n.Admin.QueryRow(ctx, `select pg_try_advisory_lock($1)`, number).Scan(&dead); err != nil {
			return err
		}
		if !dead {
			continue
		}
		err := n.remove(ctx, number)
		if _, unlockErr := n.Admin.Exec(ctx, `select pg_advisory_unlock($1)`, number); err != nil || unlockErr != nil {
			return errors.Join(err, unlockErr)
		}
	}
	return nil
}

func (n *Namespace) remove(ctx context.Context, number int64) error {
	outside, err := n.removeRole(ctx, number)
	if outside && err == nil {
		err = n.removeKeys(ctx, number)
	}
	for _, key := range keysOf(number) {
		err = errors.Join(err, n.Redis.Del(ctx, key).Err())
	}
	if err == nil { // the schema goes last: sweep finds dead runs by it
		_, err = n.Admin.Exec(ctx, `drop schema if exists `+schemaOf(number)+` cascade`)
		if err == nil && n.role != "" {
			_, err = n.Admin.Exec(ctx, `drop schema if exists judge cascade`)
		}
	}
	if err != nil {
		return fmt.Errorf("remove a namespace of the lab: %w", err)
	}
	return nil
}

func schemaOf(number int64) string { return "lab_" + strconv.FormatInt(number, 10) }

// Key returns the name of a key of the run. The hash tag lets one script use several keys.
func (n *Namespace) Key(name string) string { return keyOf(n.Number, name) }

func keyOf(number int64, name string) string { return fmt.Sprintf("ms:lab:{%d}:%s", number, name) }

// GateOf returns the name of the gate's key that the shop's engine uses for its sale.
func GateOf(number int64) string { return fmt.Sprintf("ms:{%d}:gate", number) }

// keysOf returns every key that a strategy or message queue uses, and those that the shop's engine uses for its sale.
func keysOf(number int64) (keys []string) {
	for _, name := range []string{"stock", "buyers", "tokens", "lock", "fence", "prepared", "lot", "messages",
		"dead_letters"} {
		keys = append(keys, keyOf(number, name))
	}
	for _, name := range []string{"tickets", "journal2", "paths", "waiting", "waiting_until", "wasted",
		"refusing", "dead"} {
		keys = append(keys, fmt.Sprintf("ms:{%d}:%s", number, name))
	}
	return append(keys, GateOf(number))
}
