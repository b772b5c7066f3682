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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/seckill/sandbox"
)

// template is the database that holds the schema. The tests' databases are copies of it.
const template = "miaosha_template"

var databases atomic.Int64

// DatabaseURL returns the URL of a new database that holds /schema.sql. The end of the test drops
// it, with its connections.
func DatabaseURL(t testing.TB) string {
	t.Helper()
	s := servers(t)
	name := fmt.Sprintf("test_%d", databases.Add(1))
	execute(t, "create database "+name+" template "+template)
	t.Cleanup(func() { execute(t, "drop database "+name+" with (force)") })
	return onDatabase(s.DatabaseURL, name)
}

// DB returns a pool of at most 16 connections to such a database. The end of the test closes it,
// and waits for connections that are still in use.
func DB(t testing.TB) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(DatabaseURL(t))
	if err != nil {
		t.Fatalf("parse the database URL: %v", err)
	}
	config.MaxConns = 16
	ctx, cancel := context.WithTimeout(context.Background(), Hang)
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
	ctx, cancel := context.WithTimeout(context.Background(), Hang) // the test's own context has ended at cleanup
	defer cancel()
	if _, err := shared.admin.Exec(ctx, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// makeTemplate creates the template on a server and applies the schema to it.
func makeTemplate(ctx context.Context, dsn string) error {
	schema, err := readSchema()
	if err != nil {
		return err
	}
	for _, step := range []struct{ dsn, sql string }{{dsn, "create database " + template},
		{onDatabase(dsn, template), string(schema)}} {
		conn, err := pgx.Connect(ctx, step.dsn)
		if err != nil {
			return err
		}
		_, err = conn.PgConn().Exec(ctx, step.sql).ReadAll()
		if err = errors.Join(err, conn.Close(ctx)); err != nil { // Postgres copies no database that has connections
			return fmt.Errorf("apply schema.sql: %w", err)
		}
	}
	return nil
}

// readSchema reads the schema.sql beside go.mod, in a folder above the package under test.
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

// onDatabase returns dsn with the name of another database.
func onDatabase(dsn, name string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		panic(err) // the sandbox made it
	}
	u.Path = "/" + name
	return u.String()
}

// Spare returns how the tests' programs run a Postgres of their own, beside the one that the tests share.
func Spare(t testing.TB) sandbox.Spare {
	t.Helper()
	s := servers(t)
	ctx, cancel := context.WithTimeout(context.Background(), Hang)
	defer cancel()
	spare, err := sandbox.FindSpare(ctx, sandbox.Config{DataDir: s.DataDir, Postgres: true,
		PostgresBin: os.Getenv("MIAOSHA_POSTGRES_BIN")})
	if err != nil {
		t.Fatal(err)
	}
	spare.Cache = "" // the folder of s ends with the test, and what is kept is for the next one
	return spare
}
