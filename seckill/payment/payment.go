// Package payment speaks to a payment provider outside the shop, over HTTPS, with signed requests and signed
// notices. deploy/README.md#payments describes what such a provider, or an adapter in front of one, answers.
// What the shop needs of any provider is order.Provider; the play-money cashier is another one.
package payment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"miaosha/order"
)

// Config has the settings of the provider.
type Config struct {
	Name         string        `name:"provider-name" env:"MIAOSHA_PROVIDER_NAME" default:"provider" help:"Name under which the provider's payments are stored. It alone refunds them, so another provider needs another name."`
	URL          string        `name:"provider-url" env:"MIAOSHA_PROVIDER_URL" placeholder:"URL" help:"Where the shop creates, queries and refunds payments: https, or http on this machine. Without it the provider's money is returned by hand."`
	Secret       string        `name:"provider-secret" env:"MIAOSHA_PROVIDER_SECRET" help:"Key with which the shop signs its requests to the provider: at least 32 bytes."`
	NotifySecret string        `name:"notify-secret" env:"MIAOSHA_NOTIFY_SECRET" help:"Key with which the payment provider signs its notices: at least 32 bytes."`
	Timeout      time.Duration `name:"provider-timeout" env:"MIAOSHA_PROVIDER_TIMEOUT" default:"2s" help:"How long the provider has for an answer: 100ms to 2.5s."`
}

// keyBytes is how long a key is at least: that of the shop's requests, and that of the provider's notices.
const keyBytes = 32

var name = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// Validate returns an error that names the setting.
func (c Config) Validate() error {
	if !name.MatchString(c.Name) || c.Name == order.Cashier || c.Name == order.Hand {
		return fmt.Errorf(
			"--provider-name (MIAOSHA_PROVIDER_NAME): %q is not a name such as wechat-pay; %s is the play-money one, and %s the staff",
			c.Name, order.Cashier, order.Hand)
	}
	if c.Timeout < 100*time.Millisecond || c.Timeout > 2500*time.Millisecond {
		return fmt.Errorf("--provider-timeout (MIAOSHA_PROVIDER_TIMEOUT): %v is not between 100ms and 2.5s", c.Timeout)
	}
	if n := len(c.NotifySecret); n > 0 && n < keyBytes {
		return fmt.Errorf(
			"--notify-secret (MIAOSHA_NOTIFY_SECRET): %d bytes are too short, at least %d: whoever guesses it pays without money",
			n, keyBytes)
	}
	if n := len(c.Secret); n > 0 && n < keyBytes {
		return fmt.Errorf("--provider-secret (MIAOSHA_PROVIDER_SECRET): %d bytes are too short, at least %d", n,
			keyBytes)
	}
	if c.URL == "" {
		if c.Secret != "" {
			return errors.New("--provider-secret (MIAOSHA_PROVIDER_SECRET): it needs --provider-url")
		}
		return nil
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Fragment != "" || u.Scheme != "https" &&
		(u.Scheme != "http" || !local(u.Hostname())) {
		return errors.New(
			"--provider-url (MIAOSHA_PROVIDER_URL): an address such as https://pay.example/miaosha; http only on this machine")
	}
	if c.Secret == "" {
		return fmt.Errorf(
			"--provider-secret (MIAOSHA_PROVIDER_SECRET): required with --provider-url, at least %d bytes", keyBytes)
	}
	return nil
}

func local(host string) bool { return host == "localhost" || host == "127.0.0.1" || host == "::1" }

// Remote is the provider at Config.URL. Without a URL it only sends notices: it has no address for buyers, knows
// of no payment, and makes no refund. It is safe for concurrent use.
type Remote struct {
	cfg    Config
	client http.Client
}

var _ order.Provider = (*Remote)(nil)

// New returns the provider of cfg, which is valid.
func New(cfg Config) *Remote {
	return &Remote{cfg: cfg, client: http.Client{
		Timeout: cfg.Timeout,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 16,
			IdleConnTimeout: 30 * time.Second, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Name is the name of the settings.
func (r *Remote) Name() string { return r.cfg.Name }

// CanBeAsked reports whether the shop has the provider's address.
func (r *Remote) CanBeAsked() bool { return r.cfg.URL != "" }

// Notifies reports whether the shop has the key of the provider's notices.
func (r *Remote) Notifies() bool { return r.cfg.NotifySecret != "" }

// CheckKeys returns an error if a key is missing, or has two purposes. shop is the shop's own.
func (r *Remote) CheckKeys(shop []byte) error {
	switch key := r.cfg.NotifySecret; {
	case key == "" && r.CanBeAsked():
		return errors.New(
			"--notify-secret (MIAOSHA_NOTIFY_SECRET): with --provider-url the provider's notices need its key")
	case key == "":
		return nil
	case key == r.cfg.Secret:
		return errors.New(
			"--notify-secret (MIAOSHA_NOTIFY_SECRET): it is the key of --provider-secret; with one key a request of the shop could come back as a notice")
	case key == string(shop):
		return errors.New(
			"--notify-secret (MIAOSHA_NOTIFY_SECRET): it is the shop's own --secret, with which the provider could sign whatever the shop signs")
	}
	return nil
}

// Verify is Verify with the key of the provider's notices. Without that key no notice is the provider's.
func (r *Remote) Verify(header map[string][]string, body []byte, clocks ...time.Time) error {
	if !r.Notifies() {
		return order.ErrSignature
	}
	return Verify(header, []byte(r.cfg.NotifySecret), body, clocks...)
}

// Read returns a notice as it is.
func (r *Remote) Read(body []byte) ([]byte, error) { return body, nil }

// request is what the shop sends. The payment's id is the idempotency key of create and query, that of the refund of a
// refund.
type request struct {
	Action     string `json:"action"` // create, query, refund
	PaymentID  string `json:"payment_id"`
	OrderID    string `json:"order_id"`
	Amount     int64  `json:"amount"`                 // fen
	ExpiresAt  string `json:"expires_at,omitempty"`   // of create: money that comes later is returned
	ReturnPath string `json:"return_path,omitempty"`  // of create: the shop's page for the buyer who comes back
	RefundID   string `json:"refund_id,omitempty"`    // of refund: another id than the payment's for its second capture
	Ref        string `json:"provider_ref,omitempty"` // of refund: the capture
}

// answer is what the provider sends back, with status 200.
type answer struct {
	PaymentID string `json:"payment_id"`
	// create: open, declined; query: open, declined, captured, unknown; refund: refunded, refused
	Status string `json:"status"`
	PayURL string `json:"pay_url"`
	Ref    string `json:"provider_ref"`
	Amount int64  `json:"amount"`
	Why    string `json:"why"`
}

// Create registers a payment at the provider.
func (r *Remote) Create(ctx context.Context, p order.Payment) (string, error) {
	if !r.CanBeAsked() {
		return "", nil
	}
	a, err := r.ask(ctx, p, request{Action: "create", ExpiresAt: p.PayUntil.UTC().Format(time.RFC3339),
		ReturnPath: "/order.html?id=" + p.OrderID.String()})
	switch {
	case err != nil:
		return "", err
	case a.Status == "declined":
		return "", order.RefusedError{Why: a.Why}
	case a.Status != "open":
		return "", unexpected(a)
	}
	// The buyer's browser goes there, so it must not be a script.
	if u, err := url.Parse(a.PayURL); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return "", fmt.Errorf("the provider's pay_url is %q", a.PayURL)
	}
	return a.PayURL, nil
}

// Query asks what became of a payment.
func (r *Remote) Query(ctx context.Context, p order.Payment) (order.Found, error) {
	if !r.CanBeAsked() {
		return order.Found{Status: order.FoundUnknown}, nil
	}
	a, err := r.ask(ctx, p, request{Action: "query"})
	if err != nil {
		return order.Found{}, err
	}
	switch a.Status {
	case order.FoundOpen, order.FoundDeclined, order.FoundUnknown:
	case order.FoundCaptured:
		if a.Ref == "" || len(a.Ref) > MaxRef {
			return order.Found{}, errors.New("the provider's capture has no reference of 1 to 128 bytes")
		}
	default:
		return order.Found{}, unexpected(a)
	}
	return order.Found{Status: a.Status, Ref: a.Ref, Amount: a.Amount, Why: a.Why}, nil
}

// Refund returns the money of a capture. Without the provider's address it refuses: the staff returns it.
func (r *Remote) Refund(ctx context.Context, p order.Payment, captured uuid.UUID) error {
	if !r.CanBeAsked() {
		return order.RefusedError{Why: "without --provider-url its money is returned by hand"}
	}
	refund := request{Action: "refund", RefundID: p.ID.String(), Ref: p.ProviderRef}
	p.ID = captured
	a, err := r.ask(ctx, p, refund)
	switch {
	case err != nil:
		return err
	case a.Status == "refused":
		return order.RefusedError{Why: a.Why}
	case a.Status != "refunded":
		return unexpected(a)
	}
	return nil
}

func unexpected(a answer) error { return fmt.Errorf("the provider answers with status %q", a.Status) }

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 16 << 10

// ask sends a signed request about p and returns the answer. Any status but 200, also of a redirect, is an error.
func (r *Remote) ask(ctx context.Context, p order.Payment, q request) (a answer, err error) {
	q.PaymentID, q.OrderID, q.Amount = p.ID.String(), p.OrderID.String(), p.Amount
	body, err := json.Marshal(q)
	if err != nil {
		return a, fmt.Errorf("encode a request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return a, fmt.Errorf("make a request: %w", err)
	}
	SignRequest(req, []byte(r.cfg.Secret), time.Now(), body)
	resp, err := r.client.Do(req)
	if err != nil {
		if failed := new(url.Error); errors.As(err, &failed) {
			err = failed.Err // without the address, which may have a password
		}
		return a, fmt.Errorf("%s: %w", q.Action, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return a, fmt.Errorf("%s: read the answer: %w", q.Action, err)
	}
	if resp.StatusCode != http.StatusOK {
		return a, fmt.Errorf("%s: the provider answers %s", q.Action, strconv.Itoa(resp.StatusCode))
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return a, fmt.Errorf("%s: %w", q.Action, err)
	}
	a.Why = strings.ReplaceAll(a.Why, "\x00", "") // which Postgres cannot store
	if a.PaymentID != q.PaymentID {
		return a, fmt.Errorf("%s: the provider answers about payment %q", q.Action, a.PaymentID)
	}
	return a, nil
}
