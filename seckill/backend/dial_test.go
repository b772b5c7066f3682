package backend

import (
	"errors"
	"syscall"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// However long Redis was away, the first call after it is back finds it, and each call before says why it failed.
func TestRedisIsFoundAtOnceWhenItIsBack(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	rdb, err := openRedis(t.Context(), "redis://"+m.Addr(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	m.Close()
	for range 200 {
		if err := rdb.Ping(t.Context()).Err(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("while Redis is away: %v", err)
		}
	}
	if err := m.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Errorf("when Redis is back: %v", err)
	}
}
