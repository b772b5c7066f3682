package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// place is where one run works: a schema and Redis keys that nobody else uses, both named by the run's number. The number is
// locked by a connection for as long as the run lives, so that others can tell what a dead one left and remove it.
type place struct {
	number int64 // also the id of the sale of the way shop: no shop has sold so much that its ids come near
	schema string
	admin  *pgx.Conn // has the lock; for what is not counted
	rdb    redis.UniversalClient
}

const (
	firstNumber = 7_000_000_000_000
	numbers     = 1_000_000_000_000
	keyLife     = time.Hour // should the removal fail
	tidyLimit   = 15 * time.Second
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

// openPlace removes what dead runs left, and makes a place.
func openPlace(ctx context.Context, s Stores, schema string) (p *place, err error) {
	p = &place{number: firstNumber + rand.Int64N(numbers), rdb: s.Redis}
	p.schema = schemaOf(p.number)
	cfg, err := pgx.ParseConfig(s.DatabaseURL)
	if err != nil {
		return nil, errors.New("the lab's database: not a postgres:// address")
	}
	cfg.RuntimeParams["application_name"] = "miaosha lab"
	cfg.RuntimeParams["search_path"] = p.schema
	cfg.RuntimeParams["client_min_messages"] = "warning"
	if p.admin, err = pgx.ConnectConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("the lab's database: %w", err)
	}
	if err = p.sweep(ctx); err == nil {
		if _, err = p.admin.Exec(ctx, `select pg_advisory_lock($1)`, p.number); err == nil {
			if _, err = p.admin.Exec(ctx, `create schema `+p.schema); err == nil {
				_, err = p.admin.PgConn().Exec(ctx, schema).ReadAll()
			}
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a schema for the lab: %w", err), p.close(ctx))
	}
	return p, nil
}

const (
	redisConns    = 64
	redisPatience = 10 * time.Second // a crowd waits; the shop's own limits are shorter and in its engine
)

// openRedis connects once more to where a client is connected. It takes of its options no more than it needs: the rest belongs
// to that client.
func openRedis(s Stores) (redis.UniversalClient, error) {
	own := redis.UniversalOptions{ContextTimeoutEnabled: true, PoolSize: redisConns, MaxRetries: 1,
		ReadTimeout: redisPatience, WriteTimeout: redisPatience, PoolTimeout: redisPatience}
	switch c := s.Redis.(type) {
	case *redis.Client:
		o := c.Options()
		own.Addrs, own.Username, own.Password, own.DB, own.TLSConfig = []string{o.Addr}, o.Username, o.Password, o.DB, o.TLSConfig
	case *redis.ClusterClient:
		o := c.Options()
		own.Addrs, own.Username, own.Password, own.TLSConfig, own.IsClusterMode = o.Addrs, o.Username, o.Password, o.TLSConfig, true
	default:
		return nil, fmt.Errorf("the lab's Redis: a client of type %T", c)
	}
	return redis.NewUniversalClient(&own), nil
}

// close removes the place, whatever became of ctx.
func (p *place) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyLimit)
	defer cancel()
	if p.admin.IsClosed() { // as it is after a statement that was broken off
		// What Postgres had begun for it may go on still: the lock is free when that has ended.
		again, err := pgx.ConnectConfig(ctx, p.admin.Config())
		if err == nil {
			p.admin = again
			_, err = p.admin.Exec(ctx, `select pg_advisory_lock($1)`, p.number)
		}
		if err != nil {
			return fmt.Errorf("remove what the lab has left: %w", err)
		}
	}
	return errors.Join(p.remove(ctx, p.number), p.admin.Close(ctx))
}

// sweep removes the places whose runs have ended without doing it.
func (p *place) sweep(ctx context.Context) error {
	rows, err := p.admin.Query(ctx, `select substr(nspname, 5)::bigint from pg_namespace where nspname ~ '^lab_7[0-9]{12}$'`)
	if err != nil {
		return err
	}
	left, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	for _, number := range left {
		var dead bool
		if err = p.admin.QueryRow(ctx, `select pg_try_advisory_lock($1)`, number).Scan(&dead); err != nil {
			return err
		}
		if dead {
			err = p.remove(ctx, number)
			if _, e := p.admin.Exec(ctx, `select pg_advisory_unlock($1)`, number); err != nil || e != nil {
				return errors.Join(err, e)
			}
		}
	}
	return err
}

func (p *place) remove(ctx context.Context, number int64) error {
	var err error
	for _, key := range keysOf(number) {
		err = errors.Join(err, p.rdb.Del(ctx, key).Err())
	}
	if err == nil { // last, for it is what tells that there is something to remove
		_, err = p.admin.Exec(ctx, `drop schema if exists `+schemaOf(number)+` cascade`)
	}
	if err != nil {
		return fmt.Errorf("remove what the lab has left: %w", err)
	}
	return nil
}

func schemaOf(number int64) string { return "lab_" + strconv.FormatInt(number, 10) }

// key names a key of the run; with its hash tag, so that a script may touch all of them.
func (p *place) key(name string) string { return keyOf(p.number, name) }

func keyOf(number int64, name string) string { return fmt.Sprintf("ms:lab:{%d}:%s", number, name) }

// gateOf names the gate that the shop's engine has for its sale.
func gateOf(number int64) string { return fmt.Sprintf("ms:{%d}:gate", number) }

// keysOf lists every key that any way uses: its own, and those that the shop's engine makes for its sale.
func keysOf(number int64) (keys []string) {
	for _, name := range []string{"stock", "buyers", "lock"} {
		keys = append(keys, keyOf(number, name))
	}
	for _, name := range []string{"tickets", "journal", "paths", "dead"} {
		keys = append(keys, fmt.Sprintf("ms:{%d}:%s", number, name))
	}
	return append(keys, gateOf(number))
}
