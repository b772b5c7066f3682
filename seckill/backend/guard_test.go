package backend_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/backend"
	"miaosha/seckill/sandbox/sandboxtest"
)

// What looks at new connections of every pool may refuse them, and after Refuse no statement begins.
func TestTheGuardStandsBeforeEveryPool(t *testing.T) {
	s, err := open(t, backend.Config{DatabaseURL: sandboxtest.DatabaseURL(t), RedisURL: sandboxtest.RedisURL(t), Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	older := errors.New("an older incarnation")
	s.OnConnect(func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, `select 1`); err != nil {
			t.Error(err)
		}
		return older
	})
	for name, db := range pools(s) {
		db.Reset()
		if _, err := db.Exec(t.Context(), `select 1`); !errors.Is(err, older) {
			t.Errorf("a new connection of the pool %s: %v", name, err)
		}
	}
	s.OnConnect(func(context.Context, *pgx.Conn) error { return nil })
	for name, db := range pools(s) {
		if _, err := db.Exec(t.Context(), `select 1`); err != nil {
			t.Errorf("the pool %s: %v", name, err)
		}
	}
	s.Refuse(older)
	for name, db := range pools(s) {
		if _, err := db.Exec(t.Context(), `select 1`); !errors.Is(err, older) {
			t.Errorf("after Refuse, the pool %s: %v", name, err)
		}
	}
	if s.Redis.Ping(t.Context()).Err() == nil {
		t.Error("after Refuse, Redis replies")
	}
}
