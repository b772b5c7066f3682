package payment_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"miaosha/order"
	"miaosha/seckill/payment"
	"miaosha/seckill/sandbox/sandboxtest"
)

const secret = "the shop signs with these 32 bytes"

func TestValidate(t *testing.T) {
	good := payment.Config{Name: "provider", URL: "https://pay.example/v1", Secret: secret, Timeout: time.Second}
	for want, change := range map[string]func(*payment.Config){
		"":                                    func(*payment.Config) {},
		"--provider-name":                     func(c *payment.Config) { c.Name = "cashier" },
		"--provider-name (MIAOSHA_PROVIDER":   func(c *payment.Config) { c.Name = "hand" },
		"--provider-name (MIAOSHA_PROVIDER_N": func(c *payment.Config) { c.Name = "We Chat" },
		"--provider-timeout":                  func(c *payment.Config) { c.Timeout = 0 },
		"--provider-timeout (MIAOSHA_PROVIDE": func(c *payment.Config) { c.Timeout = time.Minute },
		"--provider-url":                      func(c *payment.Config) { c.URL = "http://pay.example" },
		"--provider-url (MIAOSHA_PROVIDER_UR": func(c *payment.Config) { c.URL = "pay.example" },
		"--notify-secret":                     func(c *payment.Config) { c.NotifySecret = secret[:31] },
		"--provider-secret":                   func(c *payment.Config) { c.Secret = "short" },
		"--provider-secret (MIAOSHA_PROVIDER": func(c *payment.Config) { c.URL = "" },
		"--provider-secret (MIAOSHA_PROVIDER_SECRET): 31 bytes are too short": func(c *payment.Config) { c.Secret = secret[:31] },
		"--provider-secret (MIAOSHA_PROVIDER_SECRET): required with":          func(c *payment.Config) { c.Secret = "" },
	} {
		c := good
		change(&c)
		if err := c.Validate(); want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
	here := good
	here.URL = "http://127.0.0.1:9000/pay"
	if err := here.Validate(); err != nil {
		t.Errorf("http on this machine: %v", err)
	}
}

// Each answer of a provider becomes what the shop knows. All but a plain yes or no leaves it unknown.
func TestRemote(t *testing.T) {
	p := order.Payment{ID: uuid.New(), OrderID: uuid.New(), Amount: 990, ProviderRef: "r1", PayUntil: time.Unix(1_800_000_000, 0)}
	captured := uuid.New() // of which the refund is a second capture
	var answer string
	var status int
	var sent map[string]any
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost {
			t.Errorf("%s %v", r.Method, err)
		}
		if err := payment.Verify(r.Header, []byte(secret), body, time.Now()); err != nil {
			t.Errorf("the shop's request: %v", err)
		}
		sent = nil
		if err := json.Unmarshal(body, &sent); err != nil {
			t.Error(err)
		}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		io.WriteString(w, strings.NewReplacer("ID", p.ID.String(), "AS", captured.String()).Replace(answer))
	}))
	defer server.Close()
	remote := payment.New(payment.Config{Name: "provider", URL: server.URL + "/pay?key=1", Secret: secret, Timeout: sandboxtest.Hang})

	create := func() (string, error) { return remote.Create(t.Context(), p) }
	query := func() (string, error) {
		f, err := remote.Query(t.Context(), p)
		return strings.TrimSpace(f.Status + " " + f.Ref + " " + f.Why), err
	}
	refund := func() (string, error) { return "", remote.Refund(t.Context(), p, captured) }
	var refused order.RefusedError
	for _, c := range []struct {
		do      func() (string, error)
		status  int
		answer  string
		want    string
		fails   bool
		refuses string
	}{
		{create, 200, `{"payment_id":"ID","status":"open","pay_url":"https://pay.example/1"}`, "https://pay.example/1", false, ""},
		{create, 200, `{"payment_id":"ID","status":"declined","why":"no"}`, "", true, "no"},
		{create, 200, `{"payment_id":"ID","status":"open","pay_url":"javascript:alert(1)"}`, "", true, ""},
		{create, 200, `{"payment_id":"ID","status":"open","pay_url":"/local"}`, "", true, ""},
		{create, 200, `{"payment_id":"ID","status":"captured"}`, "", true, ""},
		{query, 200, `{"payment_id":"ID","status":"captured","provider_ref":"r1","amount":990}`, "captured r1", false, ""},
		{query, 200, `{"payment_id":"ID","status":"captured","amount":990}`, "", true, ""},
		{query, 200, `{"payment_id":"ID","status":"open"}`, "open", false, ""},
		{query, 200, `{"payment_id":"ID","status":"declined","why":"no money"}`, "declined  no money", false, ""},
		{query, 200, `{"payment_id":"ID","status":"unknown"}`, "unknown", false, ""},
		{query, 200, `{"payment_id":"ID","status":"CAPTURED"}`, "", true, ""},
		{query, 200, `{"payment_id":"another","status":"captured","provider_ref":"r1"}`, "", true, ""},
		{query, 404, `{"payment_id":"ID","status":"unknown"}`, "", true, ""},
		{query, 200, strings.Repeat(" ", 1<<20) + `{"payment_id":"ID","status":"unknown"}`, "", true, ""},
		{refund, 200, `{"payment_id":"AS","status":"refunded"}`, "", false, ""},
		{refund, 200, `{"payment_id":"AS","status":"refused","why":"no \u0000balance"}`, "", true, "no balance"},
		{refund, 200, `{"payment_id":"ID","status":"refunded"}`, "", true, ""},
		{refund, 200, `{"payment_id":"AS","status":"pending"}`, "", true, ""},
		{refund, 200, `{}`, "", true, ""},
		{refund, 200, ``, "", true, ""},
		{refund, 500, `{"payment_id":"AS","status":"refunded"}`, "", true, ""},
		{refund, 302, `{"payment_id":"AS","status":"refunded"}`, "", true, ""},
	} {
		answer, status = c.answer, c.status
		got, err := c.do()
		if got != c.want || (err != nil) != c.fails || errors.As(err, &refused) != (c.refuses != "") || c.refuses != "" && refused.Why != c.refuses {
			t.Errorf("%d %.80s: %q, %v; want %q", c.status, c.answer, got, err, c.want)
		}
	}
	want := map[string]any{"action": "refund", "refund_id": p.ID.String(), "payment_id": captured.String(), "order_id": p.OrderID.String(),
		"amount": 990.0, "provider_ref": "r1"}
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Error(diff)
	}
	status, answer = 200, `{"payment_id":"ID","status":"open","pay_url":"https://pay.example/1"}`
	create()
	want = map[string]any{"action": "create", "payment_id": p.ID.String(), "order_id": p.OrderID.String(), "amount": 990.0,
		"expires_at": "2027-01-15T08:00:00Z", "return_path": "/order.html?id=" + p.OrderID.String()}
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Error(diff)
	}
	server.Close()
	if _, err := query(); err == nil || strings.Contains(err.Error(), "key=1") {
		t.Errorf("an outage: %v; want an error without the address", err)
	}
}

// Without the key of its notices no notice is the provider's, not even one that is signed with an empty key.
func TestRemoteWithoutAKey(t *testing.T) {
	now, body := time.Now(), []byte(`{}`)
	r := httptest.NewRequest("POST", "/api/payments/notify", nil)
	payment.SignRequest(r, nil, now, body)
	remote := payment.New(payment.Config{Name: "provider"})
	if err := remote.Verify(r.Header, body, now); !errors.Is(err, order.ErrSignature) {
		t.Errorf("signed with an empty key: %v", err)
	}
}

// A provider without an address has the buyers' money and cannot be asked.
func TestRemoteWithoutAnAddress(t *testing.T) {
	remote, p := payment.New(payment.Config{Name: "provider"}), order.Payment{ID: uuid.New()}
	if url, err := remote.Create(t.Context(), p); url != "" || err != nil {
		t.Errorf("create: %q, %v", url, err)
	}
	if found, err := remote.Query(t.Context(), p); found.Status != order.FoundUnknown || err != nil {
		t.Errorf("query: %+v, %v", found, err)
	}
	if err := remote.Refund(t.Context(), p, p.ID); !errors.As(err, &order.RefusedError{}) { // no call is out: the staff may return it
		t.Errorf("refund: %v, want a refusal", err)
	}
}
