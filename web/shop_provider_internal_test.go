package web

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/payment"
	"miaosha/seckill/purpose"
	"miaosha/seckill/sandbox/sandboxtest"
)

// third is a provider that no other code knows. Its notices are forms, with a signature of its own.
type third struct {
	key      []byte
	paid     map[uuid.UUID]string // the captures that it reports when it is asked
	refunded []uuid.UUID
}

func (*third) Name() string     { return "third" }
func (*third) CanBeAsked() bool { return true }
func (*third) Notifies() bool   { return true }

func (p *third) CheckKeys(shop []byte) error {
	if hmac.Equal(p.key, shop) {
		return errors.New("third: its key is the shop's own")
	}
	return nil
}

func (*third) Create(_ context.Context, p order.Payment) (string, error) {
	return "https://third.example/" + p.ID.String(), nil
}

func (p *third) Query(_ context.Context, of order.Payment) (order.Found, error) {
	if ref, ok := p.paid[of.ID]; ok {
		return order.Found{Status: order.FoundCaptured, Ref: ref, Amount: of.Amount}, nil
	}
	return order.Found{Status: order.FoundOpen}, nil
}

func (p *third) Refund(_ context.Context, of order.Payment, _ uuid.UUID) error {
	p.refunded = append(p.refunded, of.ID)
	return nil
}

func (p *third) sign(at string, body []byte) string {
	mac := hmac.New(sha256.New, p.key)
	fmt.Fprintf(mac, "%s\n%s", at, body)
	return hex.EncodeToString(mac.Sum(nil))
}

func (p *third) Verify(header map[string][]string, body []byte, clocks ...time.Time) error {
	h := http.Header(header)
	if !hmac.Equal([]byte(h.Get("Third-Sign")), []byte(p.sign(h.Get("Third-Time"), body))) {
		return order.ErrSignature
	}
	at, err := strconv.ParseInt(h.Get("Third-Time"), 10, 64)
	near := func(now time.Time) bool { return now.Sub(time.Unix(at, 0)).Abs() < time.Minute }
	if err != nil || !slices.ContainsFunc(clocks, near) {
		return order.ErrTime
	}
	return nil
}

func (*third) Read(body []byte) ([]byte, error) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	fen, err := strconv.ParseInt(form.Get("fen"), 10, 64)
	if err != nil {
		return nil, err
	}
	return json.Marshal(payment.Notice{PaymentID: form.Get("payment"), OrderID: form.Get("order"), Amount: fen, Ref: form.Get("trade")})
}

// A provider that is added by this file alone opens payments, is asked about them, sends its notices and returns its money.
// None of the three providers of a shop signs for another.
func TestAThirdProviderIsOneFile(t *testing.T) {
	t.Parallel()
	const price = 990
	db := sandboxtest.DB(t)
	orders, secret := order.New(db, order.Config{PayWithin: time.Hour}), []byte("the shop's own secret of 32 bytes")
	added := &third{key: []byte("third"), paid: map[uuid.UUID]string{}}
	const notifySecret = "notify-notify-notify-notify-notify"
	remote := payment.New(payment.Config{Name: "provider", NotifySecret: notifySecret})
	open := func(cfg Config, d Deps) (*payments, error) {
		d.Orders, d.Secret = orders, secret
		s, err := newPayments(&desk{log: slog.New(slog.DiscardHandler)}, cfg, d, "")
		s.now = time.Now
		return s, err
	}
	s, err := open(Config{Cashier: "sandbox"}, Deps{Outside: []Outside{remote, added}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{order.Cashier, "third"}, s.asked); diff != "" {
		t.Errorf("the shop asks %s", diff)
	}

	ids := make([]uuid.UUID, 4) // the orders of the users 1 to 4
	sale, err := goods.New(db).Sell(t.Context(), goods.Item{Title: "kettle"},
		goods.Terms{Price: price, Total: len(ids), StartsAt: time.Now().Add(-time.Minute), EndsAt: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
		locked, err := goods.Lock(t.Context(), tx, sale)
		if err != nil {
			return err
		}
		var tickets []order.Ticket
		for i := range ids {
			tickets = append(tickets, order.Ticket{ID: fmt.Sprint("t", i), UserID: int64(i + 1)})
		}
		results, err := orders.Place(t.Context(), tx, locked, tickets)
		for _, r := range results {
			ids[r.UserID-1] = r.OrderID
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	opened := make([]order.Payment, len(ids))
	for i, p := range append(slices.Clone(s.providers), order.Provider(added)) { // the cashier, the remote, the third twice
		if opened[i], _, err = orders.Start(t.Context(), p, int64(i+1), ids[i]); err != nil {
			t.Fatal(err)
		}
	}

	shops := func(key []byte) func(*http.Request, []byte, time.Time) {
		return func(r *http.Request, body []byte, at time.Time) { payment.SignRequest(r, key, at, body) }
	}
	signers := []func(*http.Request, []byte, time.Time){shops(purpose.CashierNotice.Key(secret)), shops([]byte(notifySecret)),
		func(r *http.Request, body []byte, at time.Time) {
			r.Header.Set("Third-Time", strconv.FormatInt(at.Unix(), 10))
			r.Header.Set("Third-Sign", added.sign(r.Header.Get("Third-Time"), body))
		}}
	forms := func(p order.Payment, ref string) (json, form string) {
		return fmt.Sprintf(`{"payment_id":%q,"order_id":%q,"amount":%d,"provider_ref":%q}`, p.ID, p.OrderID, p.Amount, ref),
			url.Values{"payment": {p.ID.String()}, "order": {p.OrderID.String()}, "fen": {strconv.FormatInt(p.Amount, 10)}, "trade": {ref}}.Encode()
	}
	send := func(s *payments, sign func(*http.Request, []byte, time.Time), body string, at time.Time) string {
		r, w := httptest.NewRequest("POST", noticePath, strings.NewReader(body)), httptest.NewRecorder()
		sign(r, []byte(body), at)
		if err := s.paymentNotice(w, r); err != nil {
			return "refused: " + strings.ReplaceAll(err.Error(), "\n", ": ")
		}
		return w.Body.String()
	}
	body, form := forms(opened[2], "r2")
	for name, got := range map[string]string{
		"of the third, signed by the remote": send(s, signers[1], form, time.Now()),
		"with another key":                   send(s, shops([]byte("another")), body, time.Now()),
		"without a key":                      send(s, shops(nil), body, time.Now()),
		"of the third, with a wrong amount":  send(s, signers[2], strings.Replace(form, "fen=990", "fen=x", 1), time.Now()),
	} {
		if !strings.HasPrefix(got, "refused: ") {
			t.Errorf("%s: %s", name, got)
		}
	}
	for i := range signers {
		body, form := forms(opened[i], fmt.Sprint("r", i))
		if i == 2 {
			body = form
		}
		if got := send(s, signers[i], body, time.Now()); !strings.Contains(got, `"captured"`) {
			t.Errorf("provider %d: %s", i, got)
		}
	}
	for i, name := range []string{"cashier", "provider", "third"} { // each names the payment of the next one
		body, form := forms(opened[(i+1)%3], "of another")
		if i == 2 {
			body = form
		}
		untimely := send(s, signers[i], body, time.Now().Add(time.Hour))
		if !strings.HasPrefix(untimely, "refused: forbidden: "+order.ErrTime.Error()) {
			t.Errorf("%s in an hour: %s", name, untimely)
		}
		if got := send(s, signers[i], body, time.Now()); !strings.Contains(got, `"refund_due"`) {
			t.Errorf("%s reports a payment of another: %s", name, got)
		}
	}
	added.paid[opened[3].ID] = "r3" // its notice is lost
	if _, err := db.Exec(t.Context(), `update payments set ask_at = now() where id = $1`, opened[3].ID); err != nil {
		t.Fatal(err)
	}
	for _, p := range s.providers {
		if _, err := orders.AskOpen(t.Context(), p); err != nil {
			t.Error(err)
		}
	}
	for _, id := range ids {
		if err := orders.Refund(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	for _, p := range s.providers {
		orders.DrainRefunds(t.Context(), p) // the remote has no address, and refuses
	}
	rows, _ := db.Query(t.Context(), `
		select o.user_id || ' ' || p.provider || ' ' || p.status || ' ' || p.provider_ref
		from   payments p join orders o on o.id = p.order_id
		where  p.provider_ref is not null
		order  by o.user_id, p.provider_ref`)
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	want := []string{"1 third refunded of another", "1 cashier refunded r0", "2 cashier refunded of another", "2 provider refund_due r1",
		"3 provider refund_due of another", "3 third refunded r2", "4 third refunded r3"}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v: %s", err, cmp.Diff(want, got))
	}
	if len(added.refunded) != 3 {
		t.Errorf("the third returned the money of %v", added.refunded)
	}

	// What a start refuses, and what the cashier has in the sandbox.
	for want, outside := range map[string][]Outside{"have the name third": {added, added}, "the shop's own": {&third{key: secret}}} {
		if _, err := open(Config{Cashier: "off"}, Deps{Outside: outside}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for cashier, d := range map[bool]Deps{true: {Sandbox: true, Outside: []Outside{remote}}, false: {Outside: []Outside{remote}}} {
		s, err := open(Config{Cashier: "auto"}, d)
		if err != nil || (s.cashier != nil) != cashier || (s.recordedAs(remote) == order.Cashier) != cashier {
			t.Errorf("in the sandbox, %t: %v, recorded as %s", cashier, err, s.recordedAs(remote))
		}
	}
}
