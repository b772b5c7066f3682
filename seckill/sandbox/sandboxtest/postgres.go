package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// template is the database that holds the schema and from which the others are made.
const template = "miaosha_template"

// stepLimit bounds a single step on the servers.
const stepLimit = 30 * time.Second

var databases atomic.Int64

// DatabaseURL returns the URL of a fresh database that holds /schema.sql. It is dropped when the test ends, whoever is
// still connected.
func DatabaseURL(t testing.TB) string {
	t.Helper()
	s := servers(t)
	one.template.Do(func() { one.schema = makeTemplate(s.DatabaseURL) })
	if one.schema != nil {
		t.Fatalf("apply schema.sql: %v", one.schema)
	}
	name := fmt.Sprintf("test_%d", databases.Add(1))
	execute(t, "create database "+name+" template "+template)
	t.Cleanup(func() { execute(t, "drop database "+name+" with (force)") })
	return onDatabase(s.DatabaseURL, name)
}

// DB returns a pool of at most 16 connections on such a database. It is closed when the test ends, and then waits for
// connections that are still in use.
func DB(t testing.TB) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(DatabaseURL(t))
	if err != nil {
		t.Fatalf("parse the database URL: %v", err)
	}
	config.MaxConns = 16
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		t.Fatalf("open the test's database: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// execute runs one statement on the server.
func execute(t testing.TB, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit) // the test's own context has ended at cleanup
	defer cancel()
	if _, err := one.admin.Exec(ctx, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// makeTemplate creates the template and applies the schema to it.
func makeTemplate(dsn string) error {
	schema, err := readSchema()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	if _, err := one.admin.Exec(ctx, "create database "+template); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, onDatabase(dsn, template))
	if err != nil {
		return err
	}
	defer conn.Close(ctx) // while somebody is connected nothing is made from it
	_, err = conn.PgConn().Exec(ctx, string(schema)).ReadAll()
	return err
}

// readSchema reads the schema.sql beside go.mod, above the folder of the package under test.
func readSchema() ([]byte, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return os.ReadFile(filepath.Join(dir, "schema.sql"))
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil, errors.New("there is no go.mod above the working folder")
		}
		dir = parent
	}
}

// onDatabase returns dsn with another database.
func onDatabase(dsn, name string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		panic(err) // the sandbox made it
	}
	u.Path = "/" + name
	return u.String()
}
