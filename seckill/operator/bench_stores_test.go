package operator

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox/sandboxtest"
)

// everything returns the number of rows of each table, and the keys in Redis, of the stores of an environment.
func everything(t *testing.T, env []string) (all []string) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), setting(env, "DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	rows, _ := db.Query(t.Context(), `
		select tablename || (xpath('/row/c/text()', query_to_xml('select count(*) as c from ' || quote_ident(tablename), false, true, '')))[1]::text
		from   pg_tables where schemaname = 'public'`)
	if all, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		t.Fatal(err)
	}
	opts, err := redis.ParseURL(setting(env, "REDIS_URL"))
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	keys, err := rdb.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	// What the running shop's processes say of themselves comes and goes each second.
	all = append(all, slices.DeleteFunc(keys, func(key string) bool { return strings.HasPrefix(key, "ms:{live}:") })...)
	slices.Sort(all)
	return all
}

func setting(env []string, name string) string {
	i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	return strings.TrimPrefix(env[i], name+"=")
}

// startBench starts a run that goes on until it is ended, and returns when buyers arrive.
func startBench(t *testing.T, env []string) *exec.Cmd {
	t.Helper()
	said := &sandboxtest.SyncBuffer{}
	cmd := exec.Command(sandboxtest.Binary(t), "bench", "--shape", "open", "--rate", "2", "--seconds", "60", "-n", "120")
	cmd.Env, cmd.Stderr, cmd.Stdout = env, said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	sandboxtest.Until(t, "buyers arrive", func() bool { return strings.Contains(said.String(), "offered") })
	return cmd
}

// end ends a run with a signal and returns its exit code.
func end(cmd *exec.Cmd, sig os.Signal) int {
	cmd.Process.Signal(sig)
	cmd.Wait()
	return cmd.ProcessState.ExitCode()
}

// However a run ends, the database and the folder that it has made are gone, after a kill with the next run. A database that only
// has such a name stays. Not parallel: no other run may have a database meanwhile.
func TestBenchRemovesItsStores(t *testing.T) {
	env := sandboxtest.Stores(t)
	db, err := pgx.Connect(t.Context(), setting(env, "DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close(context.Background()) })
	const foreign = ownDatabasePrefix + "of_the_operator"
	if _, err := db.Exec(t.Context(), `create database `+foreign); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Exec(context.Background(), `drop database `+foreign) })
	data := filepath.Join(setting(env, "HOME"), ".cache", "miaosha")
	left := func() (all []string) {
		rows, _ := db.Query(t.Context(), `select datname from pg_database where datname like 'miaosha\_bench\_%' and datname <> $1`, foreign)
		all, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		folders, _ := filepath.Glob(filepath.Join(data, "temporary-*"))
		return append(all, folders...)
	}
	if code := end(startBench(t, env), syscall.SIGKILL); code != -1 {
		t.Fatalf("a killed run ended with %d", code)
	}
	if n := len(left()); n != 2 {
		t.Fatalf("a killed run left %v, want a database and a folder", left())
	}
	sandboxtest.Until(t, "the shop of the killed run ends", func() bool {
		var n int
		if err := db.QueryRow(t.Context(), `select count(*) from pg_stat_activity where datname like 'miaosha\_bench\_%'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
	one, other := startBench(t, env), startBench(t, env)
	if n := len(left()); n != 4 {
		t.Errorf("during two runs there are %v, want two databases and two folders", left())
	}
	for sig, cmd := range map[os.Signal]*exec.Cmd{syscall.SIGINT: one, syscall.SIGTERM: other} {
		if code, said := end(cmd, sig), fmt.Sprint(cmd.Stderr); code != 1 || !strings.Contains(said, "its Postgres, Redis and data are removed; nothing is left behind") {
			t.Errorf("after %v: exit %d %s", sig, code, said)
		}
	}
	if len(left()) > 0 {
		t.Errorf("after both: %v", left())
	}
	for args, want := range map[string]int{"--shape polls -n 5 --stock 1 --seconds 1": 1, "-n 5 --seconds 1": 0} {
		_, errs, code := sandboxtest.Command(t, env, append([]string{"bench"}, strings.Fields(args)...)...)
		if code != want || len(left()) > 0 {
			t.Errorf("after %s: exit %d, left %v: %s", args, code, left(), errs)
		}
	}
	var n int
	if err := db.QueryRow(t.Context(), `select count(*) from pg_database where datname = $1`, foreign).Scan(&n); err != nil || n != 1 {
		t.Errorf("the operator's database %s is gone: %v", foreign, err)
	}
}

// The shop of a run uses the new database, wherever the operator's address names a database. Not parallel: see above.
func TestTheDatabaseOfARunReplacesTheOperators(t *testing.T) {
	at := setting(sandboxtest.Stores(t), "DATABASE_URL")
	cfg, err := pgx.ParseConfig(at)
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]string{"path": at, "dbname": at + "&dbname=" + cfg.Database, "database": at + "&database=" + cfg.Database,
		"words": fmt.Sprintf("host=%s port=%d user=%s password=%s dbname=%s sslmode=disable", cfg.Host, cfg.Port, cfg.User, cfg.Password, cfg.Database)} {
		db, err := createDatabase(t.Context(), at)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		own, err := pgx.ParseConfig(db.url)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if own.Database != db.name || own.Host != cfg.Host || own.User != cfg.User {
			t.Errorf("%s: the shop opens %s at %s, want %s", name, own.Database, own.Host, db.name)
		}
		if err := db.drop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A user who may not create databases is told so, and what to do.
func TestBenchNeedsTheRightToCreateADatabase(t *testing.T) {
	t.Parallel()
	env := sandboxtest.Stores(t)
	at := setting(env, "DATABASE_URL")
	db, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	if _, err := db.Exec(t.Context(), `create role poor login password 'poor'`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		db, err := pgx.Connect(context.Background(), at)
		if err == nil {
			_, err = db.Exec(context.Background(), `drop role poor`)
			db.Close(context.Background())
		}
		if err != nil {
			t.Error(err)
		}
	})
	cfg := db.Config()
	env[0] = fmt.Sprintf("DATABASE_URL=postgres://poor:poor@%s:%d/%s?sslmode=disable", cfg.Host, cfg.Port, cfg.Database)
	out, errs, code := sandboxtest.Command(t, env, "bench", "-n", "5", "--seconds", "1")
	if code != 1 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "DATABASE_URL") || !strings.Contains(errs, `alter role "poor" createdb`) {
		t.Errorf("exit %d, stdout %s\nstderr: %s", code, out, errs)
	}
}
