package backend

import (
	"errors"
	"syscall"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// However long a Redis was away, the first call after it is back finds it; and a call meanwhile tells why it failed.
func TestARedisThatIsBackIsFoundAtOnce(t *testing.T) {
	m := miniredis.RunT(t)
	rdb, err := openRedis(t.Context(), "redis://"+m.Addr(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	m.Close()
	for range 200 {
		if err := rdb.Ping(t.Context()).Err(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("while it is away: %v", err)
		}
	}
	if err := m.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Errorf("when it is back: %v", err)
	}
}
