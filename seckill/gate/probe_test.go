package gate_test

import (
	"testing"

	"miaosha/seckill/gate"
	"miaosha/seckill/sandbox/sandboxtest"
)

// A probe finds nothing wrong with a good Redis, however often, and leaves nothing there. TestARedisThatCannotDoWhatTheShopNeedsIsRefused
// has those that are not good.
func TestAProbeLeavesNothing(t *testing.T) {
	t.Parallel()
	rdb := sandboxtest.Redis(t)
	for range 2 {
		if err := gate.Probe(t.Context(), rdb); err != nil {
			t.Fatal(err)
		}
	}
	if keys := rdb.Keys(t.Context(), "*").Val(); len(keys) != 0 {
		t.Errorf("the keys %v are left", keys)
	}
}
