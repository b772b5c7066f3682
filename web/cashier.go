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

// noticeLife bounds the difference between a notice's timestamp and now. It stops a stranger who
// replays an old notice.
const noticeLife = 5 * time.Minute

// notice is a payment provider's message about a capture. The amount is in fen.
type notice struct {
	OrderID     string `json:"order_id"`
	Amount      int64  `json:"amount"`
	ProviderRef string `json:"provider_ref"` // the provider's id of the capture, 1 to 128 bytes
}

// validate returns the id of the order, or a fieldError.
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

// signNotice returns hex(HMAC-SHA-256(key, timestamp + "." + body)). The timestamp is in seconds since
// 1970.
func signNotice(key []byte, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// errNoticeTime is a notice that the key has signed, for another time.
var errNoticeTime = fmt.Errorf("%w: its timestamp is too far from now", errForbidden)

// verifyNotice returns errForbidden if the signature is wrong, and errNoticeTime if the timestamp is more
// than noticeLife from all the clocks. One clock that is right is enough: payments must work while Redis's
// clock, or this machine's, is wrong.
func verifyNotice(key []byte, timestamp, signature string, body []byte, clocks ...time.Time) error {
	if !hmac.Equal([]byte(signNotice(key, timestamp, body)), []byte(signature)) {
		return fmt.Errorf("%w: wrong signature", errForbidden)
	}
	at, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || !slices.ContainsFunc(clocks, func(now time.Time) bool { return now.Sub(time.Unix(at, 0)).Abs() <= noticeLife }) {
		return fmt.Errorf("%w: %q", errNoticeTime, timestamp)
	}
	return nil
}

// cashier is the sandbox's payment provider. It takes no money. Like an outside provider it sends the
// shop a signed notice of each capture over HTTP.
type cashier struct {
	url    string
	key    []byte
	now    func() time.Time // the shop's clock; this machine's may be wrong
	client http.Client
}

func newCashier(self string, key []byte, now func() time.Time) *cashier {
	// The shop is on this machine, and its certificate is for another name. The notice's signature
	// protects it.
	t := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 32}
	return &cashier{url: self + "/api/payments/notify", key: key, now: now, client: http.Client{Transport: t, Timeout: 10 * time.Second}}
}

// confirm captures the payment and returns the data of the shop's answer. The reference is the
// payment's id, so a second confirm is the same capture. A payment that was declined is
// order.ErrWrongStatus.
func (c *cashier) confirm(ctx context.Context, p order.Payment) ([]byte, error) {
	if p.Status == "declined" {
		return nil, order.ErrWrongStatus
	}
	raw, err := json.Marshal(notice{OrderID: p.OrderID.String(), Amount: p.Amount, ProviderRef: "sandbox-" + p.ID.String()})
	if err != nil {
		return nil, fmt.Errorf("make a notice: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("make a notice: %w", err)
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
			return nil, context.DeadlineExceeded // writeError answers busy: try again
		}
		return nil, errors.Join(err, fmt.Errorf("notify the shop: the answer is %s %s", resp.Status, out.Code))
	}
	return out.Data, nil
}
