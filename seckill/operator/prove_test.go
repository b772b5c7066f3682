package operator

import (
	"cmp"
	"context"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"miaosha/seckill/backend"
	"miaosha/seckill/sandbox"
	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/user"
)

// openStores opens a shop's stores on a Redis, with the sessions at another one, or there too.
func openStores(t *testing.T, database, redisURL string, sessionURL ...string) (*backend.Stores, *user.Sessions, error) {
	t.Helper()
	schema, err := os.ReadFile("../../schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	s, err := backend.Open(t.Context(), backend.Config{DatabaseURL: database, RedisURL: redisURL, SessionRedisURL: strings.Join(sessionURL, ","), Secret: strings.Repeat("s", 32),
		Pools: backend.Pools{Settle: 1, Web: 1, Pay: 1, Users: 1, Staff: 1, Redis: 4}}, string(schema), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	t.Cleanup(s.Close)
	sessions, err := user.NewSessions(s.Sessions, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sessions.Close() })
	return s, sessions, nil
}

// The documented user of Redis is accepted. Without any one of its commands, or of the kinds of keys, and in each state in which
// Redis takes no writes, the shop is refused in one line that names what is missing. The list of the commands is that of
// deploy/README.md, of which TestLeastPrivilege shows that it is what a shop uses.
func TestARedisThatCannotDoWhatTheShopNeedsIsRefused(t *testing.T) {
	t.Parallel()
	if sandboxtest.Kind() == sandbox.Embedded {
		t.Skip("the embedded Redis has no ACL")
	}
	_, _, acl := rights(t)
	root, at := startRedis(t)
	must := func(args ...string) {
		t.Helper()
		words := make([]any, len(args))
		for i, a := range args {
			words[i] = a
		}
		if err := root.Do(t.Context(), words...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	words := strings.Fields(acl)
	must(words...)
	at.User = url.UserPassword("shop", "change-me-redis")
	stores, sessions, err := openStores(t, sandboxtest.DatabaseURL(t), at.String())
	if err != nil {
		t.Fatal(err)
	}
	keys := root.DBSize(t.Context()).Val()
	if err := proveAll(t, stores, sessions); err != nil {
		t.Fatalf("the documented user: %v", err)
	}
	for _, key := range root.Keys(t.Context(), "*").Val() {
		if ttl := root.TTL(t.Context(), key).Val(); ttl < 0 {
			t.Errorf("the key %s is left, without an end", key)
		}
	}
	if n := root.DBSize(t.Context()).Val(); n > keys+4 { // ready, twice; what the live view writes
		t.Errorf("%d keys are left: %v", n, root.Keys(t.Context(), "*").Val())
	}
	refused := func(name string, wants ...string) {
		t.Helper()
		err := proveAll(t, stores, sessions)
		if err == nil {
			t.Errorf("%s: accepted", name)
			return
		}
		for _, want := range append(wants, "--redis-url (REDIS_URL): ") {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
		if strings.ContainsAny(err.Error(), "\r\n") || strings.Contains(err.Error(), "change-me") {
			t.Errorf("%s: more than one line, or a password: %q", name, err)
		}
	}
	for _, w := range words {
		command, allowed := strings.CutPrefix(w, "+")
		if !allowed || command == "info" { // without INFO the policy and the role of Redis are not known, and no more
			continue
		}
		must("ACL", "SETUSER", "shop", "-"+command)
		// Of a command of a transaction, or one with a part, the server names what it can.
		refused("without "+command, strings.ToUpper(strings.ReplaceAll(command, "|", " ")), "deploy/README.md")
		must("ACL", "SETUSER", "shop", "+"+command)
	}
	kinds := []string{"ms:{*", "ms:session:*", "ms:sessions:*", "ms:origins:*", "ms:otp:*", "ms:known:*", "ms:bans*", "ms:limit:*", "ms:processes", "ms:beats", "ms:asks", "ms:answers:*", "ms:secrets"}
	for i, kind := range kinds {
		others := slices.Delete(slices.Clone(kinds), i, i+1)
		must(append([]string{"ACL", "SETUSER", "shop", "resetkeys"}, prefixed("~", others)...)...)
		refused("without the keys "+kind, "may not use all keys ms:*")
	}
	must(append([]string{"ACL", "SETUSER", "shop", "resetkeys"}, prefixed("~", kinds)...)...)
	if err := proveAll(t, stores, sessions); err != nil {
		t.Errorf("with every kind of keys: %v", err)
	}
	for _, state := range []struct {
		name, want string
		begin, end []string
	}{
		{"full", "this Redis is full (OOM)", []string{"CONFIG", "SET", "maxmemory", "1"}, []string{"CONFIG", "SET", "maxmemory", "0"}},
		{"without its replicas", "too few replicas", []string{"CONFIG", "SET", "min-replicas-to-write", "1"}, []string{"CONFIG", "SET", "min-replicas-to-write", "0"}},
		{"a replica", "read-only replica", []string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"}},
	} {
		must(state.begin...)
		refused(state.name, state.want)
		must(state.end...)
	}
	if err := proveAll(t, stores, sessions); err != nil {
		t.Errorf("well again: %v", err)
	}
	// A replica that takes writes would lose them.
	must("CONFIG", "SET", "replica-read-only", "no")
	must("REPLICAOF", "127.0.0.1", "1")
	if _, _, err := openStores(t, sandboxtest.DatabaseURL(t), at.String()); err == nil || !strings.Contains(err.Error(), "this Redis is a replica") {
		t.Errorf("a replica that takes writes: %v", err)
	}
}

func prefixed(with string, words []string) []string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = with + w
	}
	return all
}

// A Redis that is too old, or whose commands have other names, knows a command of the shop by none.
func TestARedisWithoutACommandIsRefusedByItsName(t *testing.T) {
	t.Parallel()
	database := sandboxtest.DatabaseURL(t)
	for _, command := range []string{"GETDEL", "XDEL", "EVALSHA", "PEXPIREAT", "XRANGE", "HSCAN", "MGET", "SETNX"} {
		at := sandboxtest.StartRedis(t, "--rename-command", command, "")
		stores, sessions, err := openStores(t, database, "redis://"+at)
		if err != nil {
			t.Fatal(err)
		}
		err = proveAll(t, stores, sessions)
		if command == "SETNX" {
			if err != nil {
				t.Errorf("without %s, which the shop does not use: %v", command, err)
			}
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), "--redis-url (REDIS_URL): this Redis does not know "+command) || !strings.Contains(err.Error(), "Redis 6.2 or newer") {
			t.Errorf("without %s: %v", command, err)
		}
	}
}

// The Redis of the sessions has to do what they need, and no more.
func TestARedisOfTheSessionsIsProvedToo(t *testing.T) {
	t.Parallel()
	database, rdb := sandboxtest.DatabaseURL(t), sandboxtest.RedisURL(t)
	for command, want := range map[string]string{"HGETALL": "--session-redis-url (SESSION_REDIS_URL): this Redis does not know HGETALL", "XADD": ""} {
		stores, sessions, err := openStores(t, database, rdb, "redis://"+sandboxtest.StartRedis(t, "--rename-command", command, ""))
		if err != nil {
			t.Fatal(err)
		}
		if err := proveAll(t, stores, sessions); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("without %s: %v, want %q", command, err, want)
		}
	}
}

// All calls of the shop are ones that a Cluster allows.
func TestAClusterIsProved(t *testing.T) {
	t.Parallel()
	at := sandboxtest.StartRedis(t, "--cluster-enabled", "yes")
	root := redis.NewClient(&redis.Options{Addr: at})
	defer root.Close()
	if err := root.Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	sandboxtest.Until(t, "the Cluster is up", func() bool { return root.Set(t.Context(), "k", "", time.Minute).Err() == nil })
	stores, sessions, err := openStores(t, sandboxtest.DatabaseURL(t), "redis://"+at+",redis://"+at, sandboxtest.RedisURL(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := proveAll(t, stores, sessions); err != nil {
		t.Error(err)
	}
	if err := stores.RedisReady(t.Context()); err != nil {
		t.Error(err)
	}
}

// A Redis that answers late is asked again.
func TestASlowRedisIsNotRefused(t *testing.T) {
	t.Parallel()
	proxy, through := sandboxtest.ProxyTo(t, sandboxtest.RedisURL(t))
	stores, sessions, err := openStores(t, sandboxtest.DatabaseURL(t), through)
	if err != nil {
		t.Fatal(err)
	}
	proxy.Swallow(":1\r\n", 4) // the client asks a second time unasked
	if err := Prove(context.Background(), stores, sessions, true); err != nil || proxy.Lost() == 0 {
		t.Errorf("%v, with %d lost replies", err, proxy.Lost())
	}
}

// proveAll proves as a start does.
func proveAll(t *testing.T, stores *backend.Stores, sessions *user.Sessions) error {
	return cmp.Or(ProvePast(t.Context(), stores), Prove(t.Context(), stores, sessions, true))
}
