package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"
)

// OpenRole creates a log-in role that is named as the schema, lets it own the tables there, and returns the URL with
// which it logs in. It has at most that many connections.
func (n *Namespace) OpenRole(ctx context.Context, databaseURL string, connections int) (string, error) {
	password := rand.Text()
	roleURL, err := urlOf(databaseURL, n.Schema, password)
	if err != nil {
		return "", err
	}
	// The lab's role is a member of the new one, so that it may hand it the tables, and see and end its connections.
	for _, sql := range []string{
		fmt.Sprintf(`create role %s login password '%s' connection limit %d role current_user`, n.Schema, password, connections),
		fmt.Sprintf(`alter role %s set search_path = %[1]s`, n.Schema),
		fmt.Sprintf(`grant usage, create on schema %s to %[1]s`, n.Schema),
		`alter table item owner to ` + n.Schema, `alter table units owner to ` + n.Schema, `alter table orders owner to ` + n.Schema,
	} {
		if _, err := n.Admin.Exec(ctx, sql); err != nil {
			pg := new(pgconn.PgError)
			if errors.As(err, &pg) && pg.Code == "42501" {
				return "", fmt.Errorf(
					"create a role for the run: %s. The role of the lab's database needs the right to create roles (alter role ... createrole)",
					pg.Message)
			}
			return "", fmt.Errorf("create a role for the run: %w", err)
		}
	}
	return roleURL, nil
}

// urlOf returns a database URL with another user, and without the parameters that only our driver knows.
func urlOf(databaseURL, user, password string) (string, error) {
	u, err := url.Parse(databaseURL)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", errDatabaseURL
	}
	u.User = url.UserPassword(user, password)
	q := u.Query()
	for name := range q {
		if strings.HasPrefix(name, "pool_") || strings.HasSuffix(name, "_cache_capacity") ||
			name == "default_query_exec_mode" ||
			name == "search_path" || name == "user" || name == "password" {
			q.Del(name)
		}
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// removeRole ends the connections of a run's role, and removes the role with all that it owns. It reports false if the
// run has none.
func (n *Namespace) removeRole(ctx context.Context, number int64) (found bool, err error) {
	role := schemaOf(number)
	if err := n.Admin.QueryRow(ctx, `select exists (select from pg_roles where rolname = $1)`, role).Scan(&found); err != nil || !found {
		return false, err
	}
	if _, err := n.Admin.Exec(ctx, `select pg_terminate_backend(pid) from pg_stat_activity where usename = $1`, role); err != nil {
		return true, err
	}
	for _, sql := range []string{`drop owned by ` + role + ` cascade`, `drop role ` + role} {
		if _, err := n.Admin.Exec(ctx, sql); err != nil {
			return true, err
		}
	}
	return true, nil
}

// removeKeys removes all keys of a run. An outside shop chooses their names.
func (n *Namespace) removeKeys(ctx context.Context, number int64) error {
	server := redis.Cmdable(n.Redis)
	if cluster, ok := n.Redis.(*redis.ClusterClient); ok { // the hash tag puts all of them on one server
		master, err := cluster.MasterForKey(ctx, keyOf(number, ""))
		if err != nil {
			return err
		}
		server = master
	}
	var keys []string
	all := server.Scan(ctx, 0, keyOf(number, "*"), 1000).Iterator()
	for all.Next(ctx) {
		keys = append(keys, all.Val())
	}
	if err := all.Err(); err != nil || len(keys) == 0 {
		return err
	}
	return n.Redis.Del(ctx, keys...).Err()
}
