package web

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"miaosha/order"
)

// noticeLife is how far a notice's timestamp may be from now: an old one that somebody caught can't be sent again.
const noticeLife = 5 * time.Minute

// notice is what a payment provider tells of a capture. Amount in fen.
type notice struct {
	OrderID     string `json:"order_id"`
	Amount      int64  `json:"amount"`
	ProviderRef string `json:"provider_ref"` // the provider's own name for the capture, 1 to 128 bytes
}

func (n notice) validate() (order uuid.UUID, err error) {
	if order, err = uuid.Parse(n.OrderID); err != nil {
		return order, fieldError{field: "order_id"}
	}
	if n.Amount < 0 {
		return order, fieldError{field: "amount"}
	}
	if n.ProviderRef == "" || len(n.ProviderRef) > 128 {
		return order, fieldError{field: "provider_ref"}
	}
	return order, nil
}

// signNotice is hex(HMAC-SHA-256(key, timestamp + "." + body)), the timestamp in seconds since 1970.
func signNotice(key []byte, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// verifyNotice gives errForbidden for a notice that is not the provider's, or not of the minutes around now by
// any of the clocks: paying must go on though Redis's, which is the shop's, is wrong, or this machine's.
func verifyNotice(key []byte, timestamp, signature string, body []byte, clocks ...time.Time) error {
	if !hmac.Equal([]byte(signNotice(key, timestamp, body)), []byte(signature)) {
		return fmt.Errorf("%w: wrong signature", errForbidden)
	}
	at, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || !slices.ContainsFunc(clocks, func(now time.Time) bool { return now.Sub(time.Unix(at, 0)).Abs() <= noticeLife }) {
		return fmt.Errorf("%w: timestamp %q is not of now", errForbidden, timestamp)
	}
	return nil
}

// cashier is the sandbox's payment provider. It takes no money, and knows the shop only as an outside one would: it
// tells it of a capture over HTTP, with a signature.
type cashier struct {
	url    string
	key    []byte
	now    func() time.Time // the shop's clock, which is right where this machine's may not be
	client http.Client
}

func newCashier(self string, key []byte, now func() time.Time) *cashier {
	// The shop's own address is on this machine and its certificate is for another name; the signature is what counts.
	t := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 32}
	return &cashier{url: self + "/api/payments/notify", key: key, now: now, client: http.Client{Transport: t, Timeout: 10 * time.Second}}
}

// confirm captures the payment and gives what the shop answered: its data. The payment's id is the reference, so
// confirming twice is one capture.
func (c *cashier) confirm(ctx context.Context, p order.Payment) ([]byte, error) {
	raw, err := json.Marshal(notice{OrderID: p.OrderID.String(), Amount: p.Amount, ProviderRef: "sandbox-" + p.ID.String()})
	if err != nil {
		return nil, fmt.Errorf("write a notice: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("write a notice: %w", err)
	}
	now := strconv.FormatInt(c.now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Timestamp", now)
	req.Header.Set("X-Signature", signNotice(c.key, now, raw))
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("notify the shop: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return nil, fmt.Errorf("notify the shop: %w", err)
	}
	var out struct {
		Code string          `json:"code"`
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(answer, &out); err != nil || resp.StatusCode != 200 {
		if resp.StatusCode == http.StatusServiceUnavailable {
			return nil, context.DeadlineExceeded // the shop is away: try again
		}
		return nil, errors.Join(err, fmt.Errorf("notify the shop: it answered %s %s", resp.Status, out.Code))
	}
	return out.Data, nil
}
