package user

import (
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
)

// A probe finds nothing wrong with a good Redis, however often, and leaves nothing there.
func TestAProbeLeavesNothing(t *testing.T) {
	url := sandboxtest.RedisURL(t)
	rdb := client(t, url)
	s, _ := newSessions(t, url)
	for range 2 {
		if err := Probe(t.Context(), rdb); err != nil {
			t.Fatal(err)
		}
		if err := s.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if keys := rdb.Keys(t.Context(), "*").Val(); len(keys) != 0 {
		t.Errorf("the keys %v are left", keys)
	}
	if err := s.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}
