package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"miaosha/order"
	"miaosha/seckill/payment"

	"miaosha/seckill/sandbox/sandboxtest"
)

// A notice is accepted only with the one signature of its body, its time and the key, and only for some
// minutes.
func FuzzNotice(f *testing.F) {
	key, now := []byte("notify-notify-notify-notify"), time.Unix(1_800_000_000, 0)
	body := []byte(`{"order_id":"0b2c4b48-6a4e-4b2a-9d9f-8f0a4e1f7c11","amount":990,"provider_ref":"r1"}`)
	sign := func(timestamp string, body []byte) string {
		mac := hmac.New(sha256.New, key)
		mac.Write(slices.Concat([]byte(timestamp), []byte("."), body))
		return hex.EncodeToString(mac.Sum(nil))
	}
	right := sign("1800000000", body)
	for _, signature := range []string{right, strings.ToUpper(right), right[:63], right + "0", "", " " + right, sign("1800000000", nil), sign("180000000", append([]byte("0"), body...))} {
		f.Add("1800000000", signature, body, false)
	}
	for _, timestamp := range []string{"1800000300", "1800000301", "1799999700", "1799999699", "0", "-1", "", "x", "1800000000.0", "1.8e9", "+1800000000",
		"9223372036854775807", "-9223372036854775808", "9223372036854775808", "1800000000.", "18000000001", " 1800000000"} {
		f.Add(timestamp, "", body, true)
	}
	f.Add("1800000000", "", []byte(`{"order_id":"x","amount":-1,"provider_ref":""}`), true)
	slowest := sandboxtest.Slowest(f)
	f.Fuzz(func(t *testing.T, timestamp, signature string, body []byte, signed bool) {
		defer slowest(timestamp, signature, body, signed)()
		if signed {
			signature = sign(timestamp, body)
		}
		err := payment.Verify(http.Header{"X-Timestamp": {timestamp}, "X-Signature": {signature}}, key, body, now)
		at, bad := strconv.ParseInt(timestamp, 10, 64)
		good := signature == sign(timestamp, body) && bad == nil && at >= now.Unix()-300 && at <= now.Unix()+300
		if good != (err == nil) || err != nil && !errors.Is(err, order.ErrSignature) && !errors.Is(err, order.ErrTime) {
			t.Errorf("%q %q %q: %v, want good: %t", timestamp, signature, body, err, good)
		}
		// The shop decodes only signed notices, but no body may do harm.
		var in payment.Notice
		if decode(body, &in) == nil {
			c, err := readNotice(in)
			if err == nil && c.OrderID == uuid.Nil && !strings.Contains(in.OrderID, "0000") {
				t.Errorf("%q: the order %q is accepted", body, in.OrderID)
			}
			if err == nil && (c.Amount < 0 || (c.Ref == "") == (in.Declined == "")) {
				t.Errorf("%q: %+v is accepted", body, in)
			}
		}
	})
}
