package web

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"miaosha/seckill/payment"
	"miaosha/seckill/purpose"
)

// A link ends with its time, and one that has the key of another purpose is none.
func TestALinkToTheLiveViewEnds(t *testing.T) {
	t.Parallel()
	secret, now := make([]byte, 32), time.Unix(1_800_000_000, 0)
	s := &liveView{key: purpose.LiveView.Key(secret)}
	link := s.newLink(now.Add(time.Hour))
	if !s.goodLink(link, now) || !s.goodLink(link, now.Add(time.Hour-time.Second)) || s.goodLink(link, now.Add(time.Hour)) {
		t.Error("a link is not good until its end")
	}
	for _, p := range purpose.All {
		other := &liveView{key: p.Key(secret)}
		if good := s.goodLink(other.newLink(now.Add(time.Hour)), now); good != (p == purpose.LiveView) {
			t.Errorf("a link with the key of %s is good: %v", p.Name, good)
		}
	}
}

// One key for two purposes stops the start.
func TestAKeyOfTheProviderHasOnePurpose(t *testing.T) {
	t.Parallel()
	one, other := strings.Repeat("1", 32), strings.Repeat("2", 32)
	for name, keys := range map[string]struct{ provider, secret string }{"": {other, "the shop's"}, "--provider-secret": {one, "the shop's"}, "own --secret": {other, one}} {
		_, err := New(Config{Rate: "off", IPRate: "off", TimeZone: "UTC", Cashier: "off"},
			Deps{Secret: []byte(keys.secret), Outside: []Outside{payment.New(payment.Config{Name: "provider", URL: "https://pay.example", Secret: keys.provider, NotifySecret: one})}}, "")
		if (err == nil) != (name == "") || err != nil && !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A notice that is signed with the key of another purpose is forged, and so is one of five minutes ago.
func TestANoticeHasTheKeyOfTheCashier(t *testing.T) {
	t.Parallel()
	secret, now, body := make([]byte, 32), time.Unix(1_800_000_000, 0), []byte(`{}`)
	for _, p := range purpose.All {
		r := httptest.NewRequest("POST", "/api/payments/notify", bytes.NewReader(body))
		payment.SignRequest(r, p.Key(secret), now, body)
		if err := payment.Verify(r.Header, purpose.CashierNotice.Key(secret), body, now); (err == nil) != (p == purpose.CashierNotice) {
			t.Errorf("a notice with the key of %s: %v", p.Name, err)
		}
		if err := payment.Verify(r.Header, p.Key(secret), body, now.Add(purpose.CashierNotice.Life+time.Second)); err == nil {
			t.Error("a notice is good after its life")
		}
	}
}
