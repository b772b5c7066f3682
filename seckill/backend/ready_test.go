package backend_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"miaosha/seckill/backend"
	"miaosha/seckill/sandbox/sandboxtest"
)

// A store that answers and takes no writes is not ready, and says why.
func TestAStoreThatTakesNoWritesIsNotReady(t *testing.T) {
	at, rdb := emptyDatabase(t), sandboxtest.StartRedis(t)
	root := redis.NewClient(&redis.Options{Addr: rdb})
	defer root.Close()
	s, err := open(t, backend.Config{DatabaseURL: at, RedisURL: "redis://" + rdb, Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	is := func(what string, ask func(context.Context) error, want string) {
		t.Helper()
		got := ""
		if !sandboxtest.Poll(func() bool { got = fmt.Sprint(ask(t.Context())); return got == want }) {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	do := func(args ...any) {
		t.Helper()
		if err := root.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	is("Redis", s.RedisReady, "<nil>")
	do("config", "set", "maxmemory", "1")
	is("a full Redis", s.RedisReady, "full")
	do("config", "set", "maxmemory", "0")
	do("replicaof", "127.0.0.1", "1")
	is("a replica", s.RedisReady, "read-only")
	do("replicaof", "no", "one")
	do("acl", "setuser", "default", "-set")
	is("without a right", s.RedisReady, "no rights")
	do("acl", "setuser", "default", "+set")
	is("Redis again", s.RedisReady, "<nil>")

	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	conn := connect(t, sandboxtest.DatabaseURL(t))
	turn := func(how string) {
		t.Helper()
		do := func(sql string) {
			t.Helper()
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		do(`alter database ` + name + ` set default_transaction_read_only = ` + how)
		do(`select pg_terminate_backend(pid) from pg_stat_activity where datname = '` + name + `'`)
	}
	is("Postgres", s.PostgresReady, "<nil>")
	turn("on")
	is("a Postgres that turned read-only", s.PostgresReady, "read-only")
	turn("off")
	is("Postgres again", s.PostgresReady, "<nil>")
}
