package payment

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"miaosha/order"
	"miaosha/seckill/purpose"
)

// Notice is a provider's message: it has captured a payment, or declined it.
type Notice struct {
	PaymentID string `json:"payment_id,omitempty"` // may be left out of a capture: then it is the order's open payment
	OrderID   string `json:"order_id"`
	Amount    int64  `json:"amount"`                 // fen
	Ref       string `json:"provider_ref,omitempty"` // the provider's id of the capture, 1 to 128 bytes
	Declined  string `json:"declined,omitempty"`     // the reason; "" for a capture
	// a word that a provider may add; one that is no success is no capture
	Status any `json:"status,omitempty"`
}

// MaxRef bounds the length of a reference, in bytes.
const MaxRef = 128

// noticeLife bounds the difference between a message's timestamp and now. It stops a stranger who sends an old
// message again.
var noticeLife = purpose.CashierNotice.Life

// Sign returns hex(HMAC-SHA-256(key, timestamp + "." + body)). The timestamp is in seconds since 1970.
func Sign(key []byte, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// SignRequest sets the headers of a signed JSON request.
func SignRequest(req *http.Request, key []byte, now time.Time, body []byte) {
	timestamp := strconv.FormatInt(now.Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Timestamp", timestamp)
	req.Header.Set("X-Signature", Sign(key, timestamp, body))
}

// Verify returns order.ErrSignature if key has not signed the request, and order.ErrTime if its timestamp is more than
// five minutes from all the clocks. One clock that is right is enough: payments must work while Redis's clock, or this
// machine's, is wrong.
func Verify(h http.Header, key, body []byte, clocks ...time.Time) error {
	timestamp := h.Get("X-Timestamp")
	if !hmac.Equal([]byte(Sign(key, timestamp, body)), []byte(h.Get("X-Signature"))) {
		return order.ErrSignature
	}
	at, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || !slices.ContainsFunc(clocks, func(now time.Time) bool {
		return now.Sub(time.Unix(at, 0)).Abs() <= noticeLife
	}) {
		return fmt.Errorf("%w: %q", order.ErrTime, timestamp)
	}
	return nil
}
