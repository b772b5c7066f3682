package web_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

// Whatever a notice has wrong, it is refused, written down once, and moves nothing; and what was told truly is one capture
// however often it is told again.
func TestARefusedNoticeIsWrittenDown(t *testing.T) {
	t.Parallel()
	h := openHouse(t, "MIAOSHA_RATE=off", "MIAOSHA_LOG_FORMAT=text")
	me := h.buyers(1)[0]
	mine := h.order(h.sale(), me)
	db, err := pgx.Connect(t.Context(), strings.TrimPrefix(h.env[0], "DATABASE_URL="))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	payments := func() (all string) {
		t.Helper()
		err := db.QueryRow(t.Context(), `select coalesce(string_agg(provider_ref || ' ' || status || ' ' || amount, ', ' order by id), '') from payments`).Scan(&all)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}

	stamp := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).Unix(), 10) }
	sign := func(stamp, body string) string {
		mac := hmac.New(sha256.New, []byte(notifySecret))
		mac.Write([]byte(stamp + "." + body))
		return hex.EncodeToString(mac.Sum(nil))
	}
	send := func(stamp, signature, body string) sandboxtest.Reply {
		return h.call("POST", "/api/payments/notify", "", body, "X-Timestamp", stamp, "X-Signature", signature)
	}
	body := func(order string, amount int, ref string) string {
		return fmt.Sprintf(`{"order_id":%q,"amount":%d,"provider_ref":%q}`, order, amount, ref)
	}
	// refused sends and wants a code, a line in the log, and nothing done.
	refused := func(name, code string, r sandboxtest.Reply, lines int) {
		t.Helper()
		if r.Code != code {
			t.Errorf("%s: %d %s, want %s", name, r.Status, r.Raw, code)
		}
		count := func() int { return strings.Count(h.Log.String(), `msg="a payment notice is refused"`) }
		for until := time.Now().Add(sandboxtest.Within(5 * time.Second)); count() <= lines && time.Now().Before(until); time.Sleep(time.Millisecond) {
		}
		if n := count() - lines; n != 1 {
			t.Errorf("%s: %d lines are written, want one", name, n)
		}
	}
	good, now := body(mine, 990, "ref-1"), stamp(0)
	flipped := []byte(sign(now, good))
	flipped[10] ^= 1
	raw := []struct{ name, code, stamp, signature, body string }{
		{"another body under the signature", "forbidden", now, sign(now, good), body(mine, 991, "ref-1")},
		{"another time under the signature", "forbidden", stamp(time.Second), sign(now, good), good},
		{"one bit flipped", "forbidden", now, string(flipped), good},
		{"in capitals", "forbidden", now, strings.ToUpper(sign(now, good)), good},
		{"half a signature", "forbidden", now, sign(now, good)[:32], good},
		{"no signature", "forbidden", now, "", good},
		{"no time", "forbidden", "", sign("", good), good},
		{"no number for a time", "forbidden", "now", sign("now", good), good},
		{"a time with a fraction", "forbidden", now + ".0", sign(now+".0", good), good},
		{"a time beyond all numbers", "forbidden", "99999999999999999999", sign("99999999999999999999", good), good},
		{"a time at the end of all numbers", "forbidden", "9223372036854775807", sign("9223372036854775807", good), good},
		{"five minutes old", "forbidden", stamp(-302 * time.Second), "", good},
		{"five minutes ahead", "forbidden", stamp(310 * time.Second), "", good},
		{"less than the price", "bad_request", now, "", body(mine, 1, "ref-1")},
		{"more than the price", "bad_request", now, "", body(mine, 991, "ref-1")},
		{"less than nothing", "bad_request", now, "", body(mine, -990, "ref-1")},
		{"an amount beyond all numbers", "bad_request", now, "", `{"order_id":"` + mine + `","amount":99999999999999999999,"provider_ref":"ref-1"}`},
		{"an amount with a fraction", "bad_request", now, "", `{"order_id":"` + mine + `","amount":990.5,"provider_ref":"ref-1"}`},
		{"no such order", "not_found", now, "", body(uuid.NewString(), 990, "ref-1")},
		{"no order at all", "bad_request", now, "", body("1", 990, "ref-1")},
		{"no reference", "bad_request", now, "", body(mine, 990, "")},
		{"a long reference", "bad_request", now, "", body(mine, 990, strings.Repeat("r", 129))},
		{"a status of its own", "bad_request", now, "", `{"order_id":"` + mine + `","amount":990,"provider_ref":"ref-1","status":"captured"}`},
		{"no JSON", "bad_request", now, "", "ref-1"},
	}
	for i, c := range raw {
		signature := c.signature
		if signature == "" && c.name != "no signature" {
			signature = sign(c.stamp, c.body)
		}
		refused(c.name, c.code, send(c.stamp, signature, c.body), i)
	}
	if s, p := h.status(mine, me), payments(); s != "pending" || p != "" {
		t.Fatalf("after refused notices the order is %s, with payments %q", s, p)
	}

	// The provider's own, a little late, and then caught and sent again: one capture, one answer.
	late := stamp(-290 * time.Second)
	for range 5 {
		if r := send(late, sign(late, good), good); string(r.Data) != `{"status":"captured"}` {
			t.Errorf("the provider's notice: %d %s", r.Status, r.Raw)
		}
	}
	refused("caught, and sent again an hour later", "forbidden", send(stamp(-time.Hour), sign(stamp(-time.Hour), good), good), len(raw))
	if s, p := h.status(mine, me), payments(); s != "paid" || p != "ref-1 captured 990" {
		t.Errorf("the order is %s, with payments %q; want it paid by one capture", s, p)
	}
	if out := sandboxtest.MustCommand(t, h.env, "audit"); !strings.Contains(out, "holds") {
		t.Error(out)
	}
}
