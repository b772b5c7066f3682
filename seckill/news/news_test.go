package news

import (
	"testing"

	"miaosha/order"
)

// A result is news for the streams of its buyer in its sale alone. One that has not looked yet is not told again, and one that has
// stopped is forgotten.
func TestNewsIsForItsBuyer(t *testing.T) {
	var s Subscribers
	const sale, user = 7, 1
	mine, stop := s.Add(order.Buyer{SaleID: sale, UserID: user})
	other, stopOther := s.Add(order.Buyer{SaleID: sale, UserID: user + 1})
	elsewhere, stopElsewhere := s.Add(order.Buyer{SaleID: sale + 1, UserID: user})
	results := []order.Result{{UserID: user}}
	for i, want := range []int{1, 0} {
		if told := s.Publish(sale, results); told != want {
			t.Errorf("publication %d told %d streams, want %d", i+1, told, want)
		}
	}
	if len(mine) != 1 || len(other) != 0 || len(elsewhere) != 0 {
		t.Errorf("%d, %d and %d pieces of news, want one for the buyer alone", len(mine), len(other), len(elsewhere))
	}
	stop()
	stopOther()
	stopElsewhere()
	if told := s.Publish(sale, results); told != 0 || len(s.byBuyer) != 0 {
		t.Errorf("%d streams were told after their end, and %d are remembered", told, len(s.byBuyer))
	}
}
