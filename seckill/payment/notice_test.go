package payment_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"miaosha/order"
	"miaosha/seckill/payment"
)

// A notice is valid for five minutes to each side of a clock, and one right clock of several is enough.
func TestVerifyHasAWindowOfFiveMinutes(t *testing.T) {
	t.Parallel()
	key, body, at := []byte("notify-notify-notify-notify"), []byte(`{"amount":990}`), time.Unix(1_800_000_000, 0)
	r, err := http.NewRequest("POST", "/api/payments/notify", nil)
	if err != nil {
		t.Fatal(err)
	}
	payment.SignRequest(r, key, at, body)
	for ahead, want := range map[time.Duration]error{
		0: nil, 300 * time.Second: nil, -300 * time.Second: nil, 301 * time.Second: order.ErrTime, -301 * time.Second: order.ErrTime,
	} {
		if err := payment.Verify(r.Header, key, body, at.Add(ahead)); !errors.Is(err, want) {
			t.Errorf("a clock that is %v ahead: %v, want %v", ahead, err, want)
		}
		if err := payment.Verify(r.Header, key, body, at.Add(ahead), at); err != nil {
			t.Errorf("a clock that is %v ahead, and a right one: %v", ahead, err)
		}
	}
	if err := payment.Verify(r.Header, key, body); !errors.Is(err, order.ErrTime) {
		t.Errorf("without a clock: %v, want ErrTime", err)
	}
}
