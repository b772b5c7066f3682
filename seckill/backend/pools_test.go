package backend_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/backend"
	"miaosha/seckill/sandbox/sandboxtest"
)

func TestAPoolHasAConnection(t *testing.T) {
	t.Parallel()
	for setting, spoil := range map[string]func(*backend.Pools){
		"--pool-settle (MIAOSHA_POOL_SETTLE)": func(p *backend.Pools) { p.Settle = 0 },
		"--pool-web (MIAOSHA_POOL_WEB)":       func(p *backend.Pools) { p.Web = 0 },
		"--pool-pay (MIAOSHA_POOL_PAY)":       func(p *backend.Pools) { p.Pay = 0 },
		"--pool-users (MIAOSHA_POOL_USERS)":   func(p *backend.Pools) { p.Users = 0 },
		"--pool-staff (MIAOSHA_POOL_STAFF)":   func(p *backend.Pools) { p.Staff = 0 },
		"--redis-pool (MIAOSHA_REDIS_POOL)":   func(p *backend.Pools) { p.Redis = 0 },
	} {
		cfg := backend.Config{Pools: usual}
		spoil(&cfg.Pools)
		if err := cfg.Validate(); fmt.Sprint(err) != setting+": 0 connections, at least 1" {
			t.Errorf("%s of 0: %v", setting, err)
		}
	}
}

func TestPoolsAreAsLargeAsTheirSettings(t *testing.T) {
	t.Parallel()
	s, err := backend.Open(t.Context(), backend.Config{DatabaseURL: sandboxtest.DatabaseURL(t), RedisURL: sandboxtest.RedisURL(t), Secret: secret,
		Pools: backend.Pools{Settle: 2, Web: 3, Pay: 4, Users: 5, Staff: 7, Redis: 6}}, schema(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got := backend.Pools{Settle: s.Settle.Config().MaxConns, Web: s.Web.Config().MaxConns, Pay: s.Pay.Config().MaxConns,
		Users: s.Users.Config().MaxConns, Staff: s.Staff.Config().MaxConns, Redis: s.Redis.(*redis.Client).Options().PoolSize}
	if want := (backend.Pools{Settle: 2, Web: 3, Pay: 4, Users: 5, Staff: 7, Redis: 6}); got != want {
		t.Errorf("opened %+v, want %+v", got, want)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s.Collectors()...)
	if err := testutil.GatherAndCompare(registry, strings.NewReader(`
		# HELP miaosha_postgres_pool_connections_max Connections that a pool opens at most.
		# TYPE miaosha_postgres_pool_connections_max gauge
		miaosha_postgres_pool_connections_max{pool="pay"} 4
		miaosha_postgres_pool_connections_max{pool="settle"} 2
		miaosha_postgres_pool_connections_max{pool="staff"} 7
		miaosha_postgres_pool_connections_max{pool="users"} 5
		miaosha_postgres_pool_connections_max{pool="web"} 3
	`), "miaosha_postgres_pool_connections_max"); err != nil {
		t.Error(err)
	}
}

// Only more connections than Postgres accepts are warned of. Behind a pooler they are not Postgres' own.
func TestMoreConnectionsThanPostgresAcceptsAreSaid(t *testing.T) {
	t.Parallel()
	at, rdb := sandboxtest.DatabaseURL(t), sandboxtest.RedisURL(t)
	accepts := number(t, connect(t, at), `select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int`)
	warned := func(at string, settle int) bool {
		t.Helper()
		var log sandboxtest.SyncBuffer
		cfg := backend.Config{DatabaseURL: at, RedisURL: rdb, Secret: secret, Pools: usual}
		cfg.Pools.Settle = int32(settle)
		s, err := backend.Open(t.Context(), cfg, schema(t), slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		return strings.Contains(log.String(), fmt.Sprintf("pools=%d accepts=%d", settle+30, accepts))
	}
	if warned(at, accepts-30) {
		t.Error("a warning of as many connections as Postgres accepts")
	}
	if !warned(at, accepts-29) {
		t.Error("no warning of one connection more than Postgres accepts")
	}
	if warned(withoutParameters(t, at), accepts-29) {
		t.Error("a warning behind a pooler")
	}
}
