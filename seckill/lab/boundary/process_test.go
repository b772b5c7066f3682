package boundary

import "testing"

// An order is late if four times as many buyers as units had come before its buyer.
func TestLateOrdersAreCounted(t *testing.T) {
	t.Parallel()
	r := &run{}
	for user := range int64(9) {
		r.positions.Store(100+user, user+1)
	}
	if n := r.late([]int64{100, 107, 108, 999}, 2); n != 1 {
		t.Errorf("%d orders of the places 1, 8 and 9 are late for 2 units, want 1", n)
	}
}
