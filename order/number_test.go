package order_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/uuid"

	"miaosha/order"
)

// A number finds its order and no other one that the same process has made, however it was typed.
func TestNumbersFindTheirOrders(t *testing.T) {
	t.Parallel()
	var ids []uuid.UUID
	for range 1000 {
		ids = append(ids, uuid.Must(uuid.NewV7()))
	}
	for i, id := range ids {
		number := order.Number(id)
		for _, typed := range []string{number, strings.ToLower(number), strings.ReplaceAll(number, "-", ""), strings.ReplaceAll(number, "0", "o"), strings.ReplaceAll(number, "1", "l")} {
			first, last, ok := order.OfNumber(typed)
			if !ok || bytes.Compare(id[:], first[:]) < 0 || bytes.Compare(id[:], last[:]) > 0 {
				t.Fatalf("%s is not found by %q: %v to %v, %v", id, typed, first, last, ok)
			}
			if i > 0 && bytes.Compare(ids[i-1][:], first[:]) >= 0 {
				t.Fatalf("%q finds the order before it, too: %v", typed, ids[i-1])
			}
		}
	}
	if got := order.Number(uuid.MustParse("019aa1b2-c3d4-7abc-8000-000000000001")); got != "06DA-GPAC-7MYW" && len(got) != 14 {
		t.Errorf("the number is %s", got)
	}
	random := uuid.New()
	if got := order.Number(random); got != random.String() {
		t.Errorf("the number of an id without a time is %s, want the id", got)
	}
	for _, no := range []string{"", "13811112222", "06DA-GPAC-7MY", "06DA-GPAC-7MYU", "06DA-GPAC-7MY*", random.String(), strings.Repeat("-", 99)} {
		if _, _, ok := order.OfNumber(no); ok {
			t.Errorf("%q is a number", no)
		}
	}
}
