package backend_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"miaosha/seckill/backend"
	"miaosha/seckill/sandbox/sandboxtest"
)

// ten makes a database of version 10 of a new one.
const ten = `drop index orders_pending, payments_waiting;
	create index orders_pending_expiry on orders (expires_at) where status = 'pending';
	update schema_version set version = 10;`

// While an upgrade builds an index, purchases are written: even while it waits for a transaction that has written, and with what an
// interrupted build has left.
func TestAnUpgradeBuildsIndexesBesidePurchases(t *testing.T) {
	at, rdb := emptyDatabase(t), sandboxtest.RedisURL(t)
	look := connect(t, at)
	const order = `insert into orders (id, user_id, sale_id, ticket, title, price, expires_at) values (gen_random_uuid(), $1, 1, $1::bigint::text, 'x', 1, now())`
	if _, err := look.PgConn().Exec(t.Context(), schema(t)+ten+`create index orders_pending on orders (sale_id, expires_at) where status = 'pending';
		update pg_index set indisvalid = false where indexrelid = 'orders_pending'::regclass`).ReadAll(); err != nil {
		t.Fatal(err)
	}
	buyer, err := connect(t, at).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer buyer.Rollback(context.WithoutCancel(t.Context()))
	if _, err := buyer.Exec(t.Context(), order, 1); err != nil {
		t.Fatal(err)
	}
	upgraded := make(chan error, 2)
	for range 2 {
		go func() {
			s, err := open(t, backend.Config{DatabaseURL: at, RedisURL: rdb, Secret: secret})
			if err == nil {
				s.Close()
			}
			upgraded <- err
		}()
	}
	sandboxtest.Until(t, "the upgrade waits for the purchase", func() bool {
		return number(t, look, `select count(*) from pg_stat_activity where datname = current_database() and pg_blocking_pids(pid) <> '{}'`) > 0
	})
	do(t, look, `set lock_timeout = '10s'`)
	if _, err := look.Exec(t.Context(), order, 2); err != nil {
		t.Errorf("a purchase beside the upgrade: %v", err)
	}
	if err := buyer.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := <-upgraded; err != nil {
			t.Error(err)
		}
	}
	if n := number(t, look, `select count(*) from pg_index where indisvalid and indexrelid in (to_regclass('orders_pending'), to_regclass('payments_waiting'))`); n != 2 {
		t.Errorf("%d of the two new indexes are there", n)
	}
	if n := number(t, look, `select count(*) from pg_class where relname = 'orders_pending_expiry'`); n != 0 {
		t.Error("the old index is there")
	}
}

// An index that another process builds looks like one that an interrupted build has left: it is not valid. An upgrade leaves it alone
// as long as that process has the lock.
func TestAnUpgradeWaitsForOneThatBuildsIndexes(t *testing.T) {
	at, rdb := emptyDatabase(t), sandboxtest.RedisURL(t)
	look := connect(t, at)
	if _, err := look.PgConn().Exec(t.Context(), schema(t)+ten+`create index orders_pending on orders (sale_id, expires_at) where status = 'pending';
		update pg_index set indisvalid = false where indexrelid = 'orders_pending'::regclass`).ReadAll(); err != nil {
		t.Fatal(err)
	}
	const built = `select to_regclass('orders_pending')::oid::integer`
	before := number(t, look, built)
	if n := number(t, look, `select count(pg_advisory_lock(x'6d69616f69647873'::bigint))`); n != 1 {
		t.Fatal("no lock")
	}
	var log sandboxtest.SyncBuffer
	upgraded := make(chan error, 1)
	go func() {
		s, err := backend.Open(t.Context(), backend.Config{DatabaseURL: at, RedisURL: rdb, Secret: secret, Pools: usual}, schema(t), slog.New(slog.NewTextHandler(&log, nil)))
		if err == nil {
			s.Close()
		}
		upgraded <- err
	}()
	sandboxtest.Until(t, "the upgrade waits, or has ended", func() bool {
		return len(upgraded) > 0 || strings.Contains(log.String(), "waits for another process, which builds its indexes")
	})
	if n := number(t, look, built); n != before || len(upgraded) > 0 {
		t.Fatalf("the index was %d, and is %d", before, n)
	}
	do(t, look, `update pg_index set indisvalid = true where indexrelid = 'orders_pending'::regclass`)
	do(t, look, `select pg_advisory_unlock_all()`)
	if err := <-upgraded; err != nil {
		t.Error(err)
	}
	if n := number(t, look, built); n != before {
		t.Error("the upgrade has built the index of the other process again")
	}
}
