package backend

import (
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestTheSchemaIsAppliedOnceHoweverManyBeginAtOnce(t *testing.T) {
	at := sandboxtest.DatabaseURL(t)
	conn, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), `drop schema public cascade; create schema public`); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	// A statement that can't run twice: who comes later has to see that it is done.
	schema := string(text) + "\ncreate table applied (); insert into users (phone) values ('13800000000');"
	var processes sync.WaitGroup
	for range 5 {
		processes.Go(func() {
			if err := prepare(t.Context(), at, schema); err != nil {
				t.Error(err)
			}
		})
	}
	processes.Wait()
	var n int
	if err := conn.QueryRow(t.Context(), `select count(*) from users, schema_version`).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d rows, %v; want 1", n, err)
	}
}
