package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"miaosha/order"
	"miaosha/seckill/payment"
)

// cashier is the play-money payment provider. It takes no money. Like an outside provider it sends the
// shop a signed notice of each capture over HTTP.
type cashier struct {
	url    string
	key    []byte
	now    func() time.Time // the shop's clock; this machine's may be wrong
	log    *slog.Logger
	client http.Client
}

var _ order.Provider = (*cashier)(nil)

func newCashier(self string, key []byte, now func() time.Time, log *slog.Logger) *cashier {
	// The shop is on this machine, and its certificate is for another name. The notice's signature
	// protects it.
	t := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 32,
		IdleConnTimeout: 5 * time.Second}
	return &cashier{url: self + noticePath, key: key, now: now, log: log,
		client: http.Client{Transport: t, Timeout: 10 * time.Second}}
}

func (c *cashier) Name() string { return order.Cashier }

// Create returns the address of the cashier's page.
func (c *cashier) Create(_ context.Context, p order.Payment) (string, error) {
	return "/pay.html?payment=" + p.ID.String() + "&order=" + p.OrderID.String(), nil
}

// Query finds nothing: the cashier keeps no books beside the shop's.
func (c *cashier) Query(context.Context, order.Payment) (order.Found, error) {
	return order.Found{Status: order.FoundUnknown}, nil
}

// Refund only logs: the cashier took no money.
func (c *cashier) Refund(_ context.Context, p order.Payment, _ uuid.UUID) error {
	c.log.Info("refund of play money", "payment", p.ID, "order", p.OrderID, "amount", p.Amount)
	return nil
}

// Verify is that of an outside provider, with the key that the shop makes for its cashier.
func (c *cashier) Verify(header map[string][]string, body []byte, clocks ...time.Time) error {
	return payment.Verify(header, c.key, body, clocks...)
}

// Read returns a notice as it is.
func (c *cashier) Read(body []byte) ([]byte, error) { return body, nil }

// confirm captures the payment and returns the data of the shop's answer. The reference is the
// payment's id, so a second confirm is the same capture. A payment that was declined or closed, or whose order's
// time to pay is over, is order.ErrWrongStatus: the cashier then takes nothing, so that nothing has to
// go back. A confirm that is under way at that moment may still be late, and its money is returned.
func (c *cashier) confirm(ctx context.Context, p order.Payment) ([]byte, error) {
	if p.Status == "declined" || p.Status == "closed" || p.Status == "open" && !c.now().Before(p.PayUntil) {
		return nil, order.ErrWrongStatus
	}
	raw, err := json.Marshal(payment.Notice{PaymentID: p.ID.String(), OrderID: p.OrderID.String(), Amount: p.Amount,
		Ref: "sandbox-" + p.ID.String()})
	if err != nil {
		return nil, fmt.Errorf("make a notice: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("make a notice: %w", err)
	}
	payment.SignRequest(req, c.key, c.now(), raw)
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

// noticePath is where a provider sends its notices, and the cashier, too.
const noticePath = "/api/payments/notify"
