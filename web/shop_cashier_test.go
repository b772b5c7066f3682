package web_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"miaosha/order"
	"miaosha/seckill/sandbox/sandboxtest"
)

// notify sends the shop a notice that is signed with key.
func (shop testShop) notify(key, body string, at time.Time) sandboxtest.Reply {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(timestamp + "." + body))
	return shop.call("POST", "/api/payments/notify", "", body, "X-Timestamp", timestamp, "X-Signature", hex.EncodeToString(mac.Sum(nil)))
}

func TestNoticesAreTheProvidersAlone(t *testing.T) {
	t.Parallel()
	shop := sharedShop(t)
	sale := shop.sale("--stock", "10", "--image", "goods/teaset.svg")
	tokens := shop.tokens(3)
	mine, late, cancelled := shop.order(sale, tokens[0]), shop.order(sale, tokens[1]), shop.order(sale, tokens[2])
	atCashier := shop.call("POST", "/api/orders/"+cancelled+"/pay", tokens[2], "").Purchase().PaymentID
	if r := shop.call("POST", "/api/orders/"+cancelled+"/cancel", tokens[2], ""); r.Code != "ok" {
		t.Fatal(outcome(r))
	}
	if r := shop.call("POST", "/api/cashier/"+atCashier, tokens[2], `{"action":"confirm"}`); string(r.Data) != `{"status":"refund_due"}` {
		t.Errorf("after the cancel at the cashier: %d %s", r.Status, r.Raw)
	}
	body := func(order string, amount int, ref string) string {
		if ref != "" {
			ref += " of " + mine // others pay in this shop, too
		}
		return fmt.Sprintf(`{"order_id":%q,"amount":%d,"provider_ref":%q}`, order, amount, ref)
	}
	now := time.Now()
	for name, c := range map[string]struct {
		reply sandboxtest.Reply
		code  string
	}{
		"forged":       {shop.notify("another key", body(mine, 990, "r1"), now), "forbidden"},
		"old":          {shop.notify(notifySecret, body(mine, 990, "r1"), now.Add(-time.Hour)), "forbidden"},
		"of tomorrow":  {shop.notify(notifySecret, body(mine, 990, "r1"), now.Add(time.Hour)), "forbidden"},
		"wrong amount": {shop.notify(notifySecret, body(mine, 1, "r1"), now), "bad_request"},
		"no order":     {shop.notify(notifySecret, body(uuid.NewString(), 990, "r1"), now), "not_found"},
		"no reference": {shop.notify(notifySecret, body(mine, 990, ""), now), "bad_request"},
	} {
		if c.reply.Code != c.code {
			t.Errorf("%s: %d %s, want %s", name, c.reply.Status, c.reply.Raw, c.code)
		}
	}
	if s := shop.status(mine, tokens[0]); s != "pending" {
		t.Errorf("the order is %s after refused notices", s)
	}
	for range 2 {
		if r := shop.notify(notifySecret, body(mine, 990, "r1"), now); string(r.Data) != `{"status":"captured"}` {
			t.Errorf("notice: %d %s", r.Status, r.Raw)
		}
	}
	if r := shop.notify(notifySecret, body(late, 990, "r1"), now); r.Code != "wrong_status" {
		t.Errorf("another order under the same reference: %d %s", r.Status, r.Raw)
	}
	payment := shop.call("POST", "/api/orders/"+late+"/pay", tokens[1], "").Purchase().PaymentID
	db := shop.connect()
	if _, err := db.Exec(t.Context(), `update orders set expires_at = clock_timestamp() where id = $1`, late); err != nil {
		t.Fatal(err)
	}
	sandboxtest.Until(t, "the order has expired", func() bool { return shop.status(late, tokens[1]) == "cancelled" })
	if r := shop.notify(notifySecret, body(late, 990, "r2"), time.Now()); string(r.Data) != `{"status":"refund_due"}` {
		t.Errorf("late notice: %d %s", r.Status, r.Raw)
	}
	if r := shop.call("POST", "/api/cashier/"+payment, tokens[1], `{"action":"confirm"}`); r.Code != "wrong_status" {
		t.Errorf("late at the cashier, which has closed: %d %s", r.Status, r.Raw)
	}
	// The cashier returns its own play money, and never calls the provider's money returned.
	var all string
	sandboxtest.Until(t, "the cashier's money is returned, and the provider's is tried", func() bool {
		err := db.QueryRow(t.Context(), `select string_agg(provider || ' ' || status || ' ' || why, ', ' order by provider, status) from payments where order_id = any($1)`,
			[]string{mine, late, cancelled}).Scan(&all)
		if err != nil {
			t.Fatal(err)
		}
		return all == "cashier open , cashier refunded , provider captured , provider refund_due without --provider-url its money is returned by hand"
	})
	// The order of each says what became of its money.
	for id, want := range map[string]struct{ token, payments string }{
		mine: {tokens[0], "captured 990"}, late: {tokens[1], "open 990, refund_due 990"}, cancelled: {tokens[2], "refunded 990"}} {
		type order struct {
			Image    string
			Payments []struct {
				ID, Status string
				Amount     int
				CreatedAt  time.Time `json:"created_at"`
				UpdatedAt  time.Time `json:"updated_at"`
			}
		}
		var list []order
		var one order
		shop.call("GET", "/api/orders", want.token, "").Read(t, &list)
		shop.call("GET", "/api/orders/"+id, want.token, "").Read(t, &one)
		if diff := cmp.Diff(list, []order{one}); diff != "" {
			t.Errorf("the order in the list (-) and by itself (+):\n%s", diff)
		}
		var payments []string
		for _, p := range one.Payments {
			payments = append(payments, fmt.Sprint(p.Status, " ", p.Amount))
			if p.ID == "" || p.CreatedAt.IsZero() || p.UpdatedAt.Before(p.CreatedAt) {
				t.Errorf("a payment is %+v", p)
			}
		}
		if got := strings.Join(payments, ", "); got != want.payments || !strings.HasSuffix(one.Image, "/goods/teaset.svg") {
			t.Errorf("an order has the payments %q and the image %q, want %q and the goods' image", got, one.Image, want.payments)
		}
	}
	var due uuid.UUID // it stays due without this, and the audit of the shop that the tests share would call it late
	if err := db.QueryRow(t.Context(), `select id from payments where order_id = $1 and status = 'refund_due'`, late).Scan(&due); err != nil {
		t.Fatal(err)
	}
	if err := order.New(db, order.Config{}).ReturnByHand(t.Context(), due, nil, "by transfer"); err != nil {
		t.Errorf("return the provider's money by hand: %v", err)
	}
}

// A notice with any mistake is refused, is logged once and changes nothing. A right notice that comes
// several times is one capture.
func TestARefusedNoticeIsWrittenDown(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_RATE=off", "MIAOSHA_LOG_FORMAT=text")
	me := shop.tokens(1)[0]
	mine := shop.order(shop.sale(), me)
	db := shop.connect()
	payments := func() (all string) {
		t.Helper()
		err := db.QueryRow(t.Context(), `select coalesce(string_agg(provider_ref || ' ' || status || ' ' || amount, ', ' order by id), '') from payments`).Scan(&all)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}

	timestampIn := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).Unix(), 10) }
	sign := func(timestamp, body string) string {
		mac := hmac.New(sha256.New, []byte(notifySecret))
		mac.Write([]byte(timestamp + "." + body))
		return hex.EncodeToString(mac.Sum(nil))
	}
	send := func(timestamp, signature, body string) sandboxtest.Reply {
		return shop.call("POST", "/api/payments/notify", "", body, "X-Timestamp", timestamp, "X-Signature", signature)
	}
	body := func(order string, amount int, ref string) string {
		return fmt.Sprintf(`{"order_id":%q,"amount":%d,"provider_ref":%q}`, order, amount, ref)
	}
	// refused checks the code of a refusal, and that there is one new line in the log.
	refused := func(name, code string, r sandboxtest.Reply, lines int) {
		t.Helper()
		if r.Code != code {
			t.Errorf("%s: %d %s, want %s", name, r.Status, r.Raw, code)
		}
		count := func() int { return strings.Count(shop.Log.String(), `msg="a payment notice is refused"`) }
		sandboxtest.Until(t, name+" is logged", func() bool { return count() > lines })
		if n := count() - lines; n != 1 {
			t.Errorf("%s: %d new lines in the log, want one", name, n)
		}
	}
	good, now := body(mine, 990, "ref-1"), timestampIn(0)
	flipped := []byte(sign(now, good))
	flipped[10] ^= 1
	raw := []struct{ name, code, timestamp, signature, body string }{
		{"a signature of another body", "forbidden", now, sign(now, good), body(mine, 991, "ref-1")},
		{"a signature of another time", "forbidden", timestampIn(time.Second), sign(now, good), good},
		{"one bit flipped", "forbidden", now, string(flipped), good},
		{"in capitals", "forbidden", now, strings.ToUpper(sign(now, good)), good},
		{"half a signature", "forbidden", now, sign(now, good)[:32], good},
		{"no signature", "forbidden", now, "", good},
		{"no time", "forbidden", "", sign("", good), good},
		{"a time that is no number", "forbidden", "now", sign("now", good), good},
		{"a time with a fraction", "forbidden", now + ".0", sign(now+".0", good), good},
		{"a time beyond int64", "forbidden", "99999999999999999999", sign("99999999999999999999", good), good},
		{"the last time of int64", "forbidden", "9223372036854775807", sign("9223372036854775807", good), good},
		{"more than five minutes old", "forbidden", timestampIn(-302 * time.Second), "", good},
		{"an hour ahead", "forbidden", timestampIn(time.Hour), "", good},
		{"less than the price", "bad_request", now, "", body(mine, 1, "ref-1")},
		{"more than the price", "bad_request", now, "", body(mine, 991, "ref-1")},
		{"a negative amount", "bad_request", now, "", body(mine, -990, "ref-1")},
		{"an amount beyond int64", "bad_request", now, "", `{"order_id":"` + mine + `","amount":99999999999999999999,"provider_ref":"ref-1"}`},
		{"an amount with a fraction", "bad_request", now, "", `{"order_id":"` + mine + `","amount":990.5,"provider_ref":"ref-1"}`},
		{"no such order", "not_found", now, "", body(uuid.NewString(), 990, "ref-1")},
		{"no order at all", "bad_request", now, "", body("1", 990, "ref-1")},
		{"no reference", "bad_request", now, "", body(mine, 990, "")},
		{"a long reference", "bad_request", now, "", body(mine, 990, strings.Repeat("r", 129))},
		{"with an amount twice", "bad_request", now, "", `{"order_id":"` + mine + `","amount":990,"provider_ref":"ref-1","amount":990}`},
		{"no JSON", "bad_request", now, "", "ref-1"},
	}
	for i, c := range raw {
		signature := c.signature
		if signature == "" && c.name != "no signature" {
			signature = sign(c.timestamp, c.body)
		}
		refused(c.name, c.code, send(c.timestamp, signature, c.body), i)
	}
	if s, p := shop.status(mine, me), payments(); s != "pending" || p != "" {
		t.Fatalf("after refused notices the order is %s, with payments %q", s, p)
	}

	// The provider's notice comes a little late, and a stranger replays it: one capture, one answer.
	late := timestampIn(-4 * time.Minute)
	for range 5 {
		if r := send(late, sign(late, good), good); string(r.Data) != `{"status":"captured"}` {
			t.Errorf("the provider's notice: %d %s", r.Status, r.Raw)
		}
	}
	refused("replayed an hour later", "forbidden", send(timestampIn(-time.Hour), sign(timestampIn(-time.Hour), good), good), len(raw))
	if s, p := shop.status(mine, me), payments(); s != "paid" || p != "ref-1 captured 990" {
		t.Errorf("the order is %s, with payments %q; want it paid by one capture", s, p)
	}
	shop.checkAudit()
}

// Strangers who send forged notices write at most a line a second, with their count. The provider's own
// refused notices are logged meanwhile, also if its clock is wrong.
func TestForgedNoticesAreLoggedWithARate(t *testing.T) {
	t.Parallel()
	const forged, old = 500, 15
	shop := openShop(t, "MIAOSHA_LOG_FORMAT=json", "MIAOSHA_OPS_ADDR=127.0.0.1:0")
	began := time.Now()
	for i := range forged {
		if r := shop.call("POST", "/api/payments/notify", "", "{}", "X-Timestamp", "1", "X-Signature", "x"); r.Code != "forbidden" {
			t.Fatalf("a forged notice: %s", outcome(r))
		}
		if i == forged/2 {
			if r := shop.notify(notifySecret, `{"order_id":"1","amount":77,"provider_ref":"r"}`, time.Now()); r.Code != "bad_request" {
				t.Errorf("the provider's notice: %s", outcome(r))
			}
			for range old {
				if r := shop.notify(notifySecret, "{}", time.Now().Add(-time.Hour)); r.Code != "forbidden" {
					t.Errorf("the provider's old notice: %s", outcome(r))
				}
			}
		}
	}
	counts, sent := regexp.MustCompile(`wrong signature","since_last_line":(\d+)`), forged
	sandboxtest.Until(t, "each forged notice is counted once", func() bool {
		shop.call("POST", "/api/payments/notify", "", "{}", "X-Timestamp", "1", "X-Signature", "x") // the next line has the count of those before
		sent++
		sum := 0
		for _, m := range counts.FindAllStringSubmatch(shop.Log.String(), -1) {
			n, _ := strconv.Atoi(m[1])
			sum += n
		}
		return sum == sent
	})
	took := time.Since(began)
	sandboxtest.Until(t, "the provider's refused notice is logged", func() bool {
		return strings.Contains(shop.Log.String(), `"amount":77`)
	})
	log := shop.Log.String()
	lines := strings.Count(log, `wrong signature`)
	if most := 21 + int(took/time.Second); lines < 20 || lines > most { //timing: the longer it took, the more lines may be there: one a second
		t.Errorf("%d forged notices in %v wrote %d lines, want 20 to %d", sent, took, lines, most)
	}
	if n := strings.Count(log, `is too far from now`); n != old {
		t.Errorf("%d notices of a provider whose clock is wrong are in %d lines", old, n)
	}
	if n := strings.Count(log, `"amount":77`); n != 1 {
		t.Errorf("the provider's refused notice is in %d lines, want one", n)
	}
	metrics := string(sandboxtest.Call("GET", shop.opsURL()+"/metrics", "", "").Raw)
	for result, want := range map[string]int{"forged": sent, "untimely": old, "refused": 1, "captured": 0} {
		if line := fmt.Sprintf("miaosha_payment_notices_total{result=%q} %d\n", result, want); !strings.Contains(metrics, line) {
			t.Errorf("the metrics have no line %s", line)
		}
	}
}

// A provider that adds fields to its notices, of whatever names and values, goes on being understood. What the shop
// reads is checked as before: each field once, with its own name and type.
func TestNoticesMayHaveMoreFields(t *testing.T) {
	t.Parallel()
	shop := sharedShop(t)
	sale := shop.sale("--stock", "10")
	order := shop.order(sale, shop.tokens(1)[0])
	more := `"currency":"CNY","fee2":1.5,"Amount":1,"providerRef":"x","meta":{"amount":1,"list":[{"a":[null]}]},"":null,"declined":"","a\u0000":"\u0000"`
	notice := func(fields string) sandboxtest.Reply { return shop.notify(notifySecret, "{"+fields+"}", time.Now()) }
	good := fmt.Sprintf(`"order_id":%q,"amount":990,"provider_ref":%[1]q`, order)
	for name, fields := range map[string]string{
		"no amount":           fmt.Sprintf(`"order_id":%q,"provider_ref":%[1]q,`, order) + more,
		"no reference":        fmt.Sprintf(`"order_id":%q,"amount":990,`, order) + more,
		"no order":            `"amount":990,"provider_ref":"r",` + more,
		"an amount as text":   fmt.Sprintf(`"order_id":%q,"amount":"990","provider_ref":%[1]q,`, order) + more,
		"an amount twice":     good + `,"amount":990,` + more,
		"a nested reference":  fmt.Sprintf(`"order_id":%q,"amount":990,"provider_ref":{"x":1},`, order) + more,
		"another status":      good + `,"status":"failed",` + more,
		"text that is no end": good + `,` + more + `}{`,
	} {
		if r := notice(fields); r.Code != "bad_request" {
			t.Errorf("%s: %s %s", name, outcome(r), r.Raw)
		}
	}
	if r := notice(good + `,` + more + `,"padding":"` + strings.Repeat("x", 4<<10) + `"`); r.Code != "too_large" {
		t.Errorf("a large one: %s", outcome(r))
	}
	if r := shop.notify("another key", "{"+good+","+more+"}", time.Now()); r.Code != "forbidden" {
		t.Errorf("a forged one: %s", outcome(r))
	}
	for range 2 {
		if r := notice(more + "," + good); string(r.Data) != `{"status":"captured"}` {
			t.Errorf("with more fields: %s %s", outcome(r), r.Raw)
		}
	}
}

// A Postgres that is ten minutes behind takes the orders of a shop and their payments, whose time to pay is five minutes.
func TestAPostgresThatIsBehindSellsOrdersThatCanBePaid(t *testing.T) {
	t.Parallel()
	at, rdb := sandboxtest.DatabaseURL(t), sandboxtest.RedisURL(t)
	conn, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), `
		create function public.clock_timestamp() returns timestamptz language sql volatile as $$ select pg_catalog.clock_timestamp() - interval '10 minutes' $$;
		create function public.statement_timestamp() returns timestamptz language sql stable as $$ select pg_catalog.statement_timestamp() - interval '10 minutes' $$`); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("options", "-csearch_path=public,pg_catalog")
	u.RawQuery = q.Encode()
	shop := openShop(t, "DATABASE_URL="+u.String(), "REDIS_URL="+rdb, "MIAOSHA_PAY_WITHIN=5m", "MIAOSHA_OPS_ADDR=127.0.0.1:0")
	me := shop.tokens(1)[0]
	order := shop.order(shop.sale(), me)
	var o struct {
		ExpiresAt time.Time `json:"expires_at"`
	}
	shop.call("GET", "/api/orders/"+order, me, "").Read(t, &o)
	if left := time.Until(o.ExpiresAt); left < 4*time.Minute || left > 5*time.Minute+2*time.Second {
		t.Errorf("the page has %v to pay, want about five minutes", left)
	}
	p := shop.call("POST", "/api/orders/"+order+"/pay", me, "").Purchase().PaymentID
	if r := shop.call("POST", "/api/cashier/"+p, me, `{"action":"confirm"}`); string(r.Data) != `{"status":"captured"}` {
		t.Errorf("pay: %d %s", r.Status, r.Raw)
	}
	if !strings.Contains(shop.Log.String(), "the clocks of this process and its stores differ") {
		t.Errorf("no line of the clocks in %s", shop.Log)
	}
	if r := sandboxtest.Call("GET", shop.opsURL()+"/metrics", "", ""); !strings.Contains(string(r.Raw), `miaosha_clock_ahead_seconds{store="postgres"} -`) {
		t.Error("no gauge of the clock")
	}
}
