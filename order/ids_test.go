package order_test

import (
	"slices"
	"testing"
	"time"
)

// Order ids need no number for each machine: those of three batches, each placed by 200 buyers, all differ, stand in the order of their
// batches, and begin with the time at which they were made.
func TestOrderIDsDifferAndAreInTheOrderOfTime(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 600)
	before := time.Now().Truncate(time.Millisecond)
	var ids []string
	for batch := range int64(3) {
		users := make([]int64, 200)
		for i := range users {
			users[i] = batch*200 + int64(i) + 1
		}
		for _, r := range s.place(t, sale, tickets(users...)...) {
			ids = append(ids, r.OrderID.String())
			if sec, nsec := r.OrderID.Time().UnixTime(); time.Unix(sec, nsec).Before(before) || time.Unix(sec, nsec).After(time.Now()) {
				t.Errorf("the id %s is of %v", r.OrderID, time.Unix(sec, nsec))
			}
		}
	}
	t.Logf("the first id is %s, the last %s", ids[0], ids[len(ids)-1])
	for batch := range 2 {
		if last, next := slices.Max(ids[batch*200:batch*200+200]), slices.Min(ids[batch*200+200:batch*200+400]); last >= next {
			t.Errorf("%s is of batch %d, and %s of the next", last, batch, next)
		}
	}
	slices.Sort(ids)
	if all := slices.Compact(ids); len(all) != 600 {
		t.Errorf("%d different ids, want 600", len(all))
	}
}
