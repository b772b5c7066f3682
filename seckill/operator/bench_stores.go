package operator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"miaosha/seckill/sandbox"
)

// ownStores returns an Env whose stores are for this command alone: the servers of a temporary sandbox or, with
// --database-url, a new database on that server. The Redis is always one of the temporary sandbox, because a Redis has
// no databases that are sure to be unused. The caller must call remove after the last use; it also works after the end
// of ctx. What a killed command has left is removed by the next one.
func (env Env) ownStores(ctx context.Context) (own Env, remove func() error, err error) {
	cfg := env.Backend.Sandbox()
	cfg.Log, cfg.Redis = env.Log, true
	folder, err := sandbox.NewTemporary(ctx, cfg)
	if err != nil {
		return env, nil, err
	}
	remove = func() error { return folder.Remove(ctx) }
	own = env
	own.Backend.DataDir, own.Backend.Secret = folder.DataDir, ""
	own.Backend.RedisURL, own.Backend.SessionRedisURL, own.Backend.ReadDatabaseURL = "", "", ""
	own.Backend.SandboxRuns = "both"
	if env.Backend.Sandboxed() {
		return own, remove, nil
	}
	own.Backend.SandboxRuns = "redis"
	db, err := createDatabase(ctx, env.Backend.DatabaseURL)
	if err != nil {
		return env, nil, errors.Join(fmt.Errorf("--database-url (DATABASE_URL): %w", err), remove())
	}
	own.Backend.DatabaseURL, own.Backend.Secret = db.url, rand.Text()+rand.Text()
	return own, func() error { return errors.Join(db.drop(ctx), folder.Remove(ctx)) }, nil
}

// ownDatabase is a database for one command. It has a comment that says so, and a connection of the command while the
// command lives: without that, the next command drops it.
type ownDatabase struct {
	url, name string
	server    *pgx.ConnConfig // of the database around it
	alive     *pgx.Conn
}

const (
	ownDatabasePrefix  = "miaosha_bench_"
	ownDatabaseComment = "Of one run of miaosha bench. The next run drops it if the run has ended."
	ownDatabaseLimit   = 30 * time.Second // to create or drop it
)

// createDatabase creates a database on the server of at, and drops those of commands that were killed.
func createDatabase(ctx context.Context, at string) (db *ownDatabase, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ownDatabaseLimit)
	defer cancel()
	db = &ownDatabase{name: ownDatabasePrefix + strings.ToLower(rand.Text())}
	if db.server, err = pgx.ParseConfig(at); err != nil {
		return nil, errors.New("not a postgres:// address") // the error of pgx may show the password
	}
	// as the shop: of several hosts the primary
	db.server.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	db.url = at + " dbname=" + db.name // the last one counts
	if u, err := url.Parse(at); err == nil && strings.HasPrefix(u.Scheme, "postgres") {
		query := u.Query()
		query.Del("dbname") // it would count, and not the path
		query.Del("database")
		u.Path, u.RawQuery = "/"+db.name, query.Encode()
		db.url = u.String()
	}
	admin, err := pgx.ConnectConfig(ctx, db.server)
	if err != nil {
		return nil, err
	}
	defer admin.Close(ctx)
	if err := dropDeadDatabases(ctx, admin); err != nil {
		return nil, err
	}
	_, err = admin.Exec(ctx, `create database `+db.name)
	if failed, ok := errors.AsType[*pgconn.PgError](err); ok && failed.Code == "42501" { // insufficient_privilege
		return nil, fmt.Errorf(
			"bench needs a database of its own, which the user %s may not create (alter role %[1]s createdb); or load a running shop with --url",
			pgx.Identifier{db.server.User}.Sanitize())
	}
	if err != nil {
		return nil, fmt.Errorf("create a database for bench: %w", err)
	}
	own := db.server.Copy()
	own.Database = db.name
	if db.alive, err = pgx.ConnectConfig(ctx, own); err == nil {
		_, err = admin.Exec(ctx, `comment on database `+db.name+` is '`+ownDatabaseComment+`'`)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("use a database for bench: %w", err), db.drop(ctx))
	}
	return db, nil
}

// dropDeadDatabases drops the databases of commands that were killed. Postgres itself refuses to drop one with
// connections.
func dropDeadDatabases(ctx context.Context, admin *pgx.Conn) error {
	rows, _ := admin.Query(ctx, `
		select datname from pg_database d
		where  starts_with(datname, $1) and shobj_description(d.oid, 'pg_database') = $2 and pg_has_role(datdba, 'member')
		and    not exists (select from pg_stat_activity a where a.datid = d.oid)`, ownDatabasePrefix, ownDatabaseComment)
	dead, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("look for the databases of former runs: %w", err)
	}
	for _, name := range dead {
		_, err := admin.Exec(ctx, `drop database if exists `+pgx.Identifier{name}.Sanitize())
		if failed, ok := errors.AsType[*pgconn.PgError](err); err != nil && !(ok && failed.Code == "55006") {
			// object_in_use
			return fmt.Errorf("drop the database of a former run: %w", err)
		}
	}
	return nil
}

// drop drops the database, even after the end of ctx.
func (db *ownDatabase) drop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ownDatabaseLimit)
	defer cancel()
	admin, err := pgx.ConnectConfig(ctx, db.server)
	if err == nil {
		defer admin.Close(ctx)
		_, err = admin.Exec(ctx, `drop database if exists `+db.name+` with (force)`)
	}
	if db.alive != nil {
		db.alive.Close(ctx)
	}
	if err != nil {
		return fmt.Errorf("drop the database %s of this run: %w", db.name, err)
	}
	return nil
}
