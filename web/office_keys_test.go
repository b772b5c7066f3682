package web_test

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/web"
)

// lossy stands before a shop as a proxy that hangs up when the shop has answered. It returns its URL.
func lossy(t *testing.T, shop string) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		out, err := http.NewRequest(r.Method, shop+r.URL.Path, r.Body)
		if err == nil {
			out.Header = r.Header
			var answer *http.Response
			if answer, err = http.DefaultClient.Do(out); err == nil {
				_, err = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
		}
		if err != nil {
			t.Error(err)
		}
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// allThatStaffChange is all that the staff can change, as one text.
const allThatStaffChange = `
	select string_agg(line, E'\n' order by line) from (
	       select 'goods ' || g::text as line from goods g
	       union all select format('sale %s %s %s %s %s %s %s', id, state, price, total, stock, starts_at, ends_at) from sales
	       union all select 'plan ' || p::text from sale_plans p
	       union all select 'picture ' || name from pictures
	       union all select format('order %s %s %s', id, status, expires_at) from orders
	       union all select format('payment %s %s %s', id, amount, case provider when 'hand' then status end) from payments
	       union all select 'delivery ' || d::text from deliveries d
	       union all select format('user %s %s %s %s', id, role, disabled_at, generation) from users
	       union all select 'log ' || l::text from admin_log l where action <> 'staff.login') as lines`

// Each change of the staff whose answer is lost is asked for again with its key, in another session and at another
// process: it is done once, and the second answer is a success. Another request with the key is refused, and does
// nothing.
func TestALostAnswerOfAChangeOfTheStaff(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_RATE=off", "MIAOSHA_IP_RATE=off")
	other, db, drop := shop.another(), shop.connect(), lossy(t, shop.URL)
	admin := shop.staff("13900001111", "admin", "")
	again := other.login("13900001111", staffPassword)
	colleague := shop.staff("13900002222", "admin", "13900001111")
	state := func() (text string) {
		if err := db.QueryRow(t.Context(), allThatStaffChange).Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
	terms := fmt.Sprintf(`"price":5,"stock":9,"start_at":%q,"end_at":%q`, in(time.Hour), in(2*time.Hour))
	var pixels bytes.Buffer
	if err := png.Encode(&pixels, image.NewGray(image.Rect(0, 0, 2, 2))); err != nil {
		t.Fatal(err)
	}
	open := shop.sale()
	buyers := shop.Buyers(t, 8, open)
	orders := make([]string, len(buyers))
	for i, b := range buyers {
		orders[i] = b.Order(t)
		if i < 3 {
			if r := b.Pay(time.Now().Add(sandboxtest.Hang), orders[i]); r.Status != 200 {
				t.Fatalf("pay: %d %s", r.Status, r.Raw)
			}
		}
	}
	id := func(path, body string) string { // of what the colleague makes
		var made struct{ ID int64 }
		shop.insist("/api/admin/"+path, colleague, body).Read(t, &made)
		return fmt.Sprint(made.ID)
	}
	draft := id("sales", `{"title":"茶","state":"draft",`+terms+`}`)
	item := id("goods", `{"title":"壶"}`)
	var shown struct{ Plans []struct{ ID int64 } }
	shop.insist("/api/admin/sales/"+draft+"/plans", colleague, fmt.Sprintf(`{"action":"close","at":%q}`, in(time.Hour))).Read(t, &shown)
	shop.insist("/api/admin/orders/"+orders[6]+"/confirm", colleague, `{"reference":"m1"}`)
	shop.insist("/api/admin/orders/"+orders[6]+"/refund", colleague, "")
	var pay struct {
		ID string `json:"payment_id"`
	}
	shop.insist("/api/orders/"+orders[7]+"/pay", buyers[7].Token, "").Read(t, &pay)
	byHand := ""
	if err := db.QueryRow(t.Context(), `select id::text from payments where provider_ref = 'm1'`).Scan(&byHand); err != nil {
		t.Fatal(err)
	}
	buyer := fmt.Sprint(buyers[5].ID)

	var tried []string
	for _, c := range []struct{ route, path, body string }{
		{"sales", "sales", `{"title":"杯","state":"draft",` + terms + `}`},
		{"goods", "goods", `{"title":"盘"}`},
		{"pictures", "pictures", pixels.String()},
		{"live/link", "live/link", `{"hours":4}`},
		{"sales/{id}/units", "sales/" + open + "/units", `{"delta":10}`},
		{"sales/{id}/window", "sales/" + open + "/window", ""},
		{"sales/{id}", "sales/" + draft, `{` + strings.Replace(terms, "9", "8", 1) + `}`},
		{"sales/{id}/price", "sales/" + draft + "/price", `{"price":7}`},
		{"sales/{id}/plans", "sales/" + draft + "/plans", fmt.Sprintf(`{"action":"publish","at":%q}`, in(time.Hour))},
		{"plans/{id}/cancel", fmt.Sprintf("plans/%d/cancel", shown.Plans[0].ID), ""},
		{"sales/{id}/publish", "sales/" + draft + "/publish", ""},
		{"sales/{id}/pause", "sales/" + draft + "/pause", ""},
		{"sales/{id}/resume", "sales/" + draft + "/resume", ""},
		{"sales/{id}/close", "sales/" + draft + "/close", ""},
		{"goods/{id}", "goods/" + item, `{"title":"大壶"}`},
		{"orders/{id}/refund", "orders/" + orders[0] + "/refund", ""},
		{"orders/{id}/ship", "orders/" + orders[1] + "/ship", `{"carrier":"SF","tracking":"1"}`},
		{"refunds", "refunds", fmt.Sprintf(`{"orders":[%q,%q]}`, orders[1], orders[2])},
		{"orders/{id}/cancel", "orders/" + orders[3] + "/cancel", ""},
		{"orders/{id}/extend", "orders/" + orders[4] + "/extend", `{"minutes":10}`},
		{"orders/{id}/confirm", "orders/" + orders[4] + "/confirm", `{"reference":"m2"}`},
		{"payments/{id}/returned", "payments/" + byHand + "/returned", `{"note":"by transfer"}`},
		{"payments/{id}/retry", "payments/" + pay.ID + "/retry", ""},
		{"users/{id}/role", "users/" + buyer + "/role", `{"role":"viewer"}`},
		{"users/{id}/disable", "users/" + buyer + "/disable", ""},
		{"users/{id}/enable", "users/" + buyer + "/enable", ""},
	} {
		tried = append(tried, "POST /api/admin/"+c.route)
		path, key := "/api/admin/"+c.path, uuid.NewString()
		if c.route == "sales/{id}/window" {
			var now struct {
				StartAt string `json:"start_at"`
			}
			shop.call("GET", "/api/admin/sales/"+open, admin, "").Read(t, &now)
			c.body = fmt.Sprintf(`{"start_at":%q,"end_at":%q}`, now.StartAt, in(3*time.Hour))
		}
		before, done := state(), ""
		// The shop may be too busy for it the first time.
		sandboxtest.Until(t, "the first "+c.route+" is done", func() bool {
			if r := sandboxtest.Call("POST", drop+path, admin, c.body, "Idempotency-Key", key); r.Status != 0 {
				t.Fatalf("%s: the answer came: %s", path, r.Raw)
			}
			done = state()
			return done != before
		})
		if r := other.insist(path, again, c.body, "Idempotency-Key", key); r.Status != 200 || strings.Contains(string(r.Raw), "wrong_status") {
			t.Errorf("%s again: %d %s", path, r.Status, r.Raw)
		}
		if now := state(); now != done {
			t.Errorf("%s was done once:\n%s\nand again:\n%s", path, done, now)
		}
		if r := other.insist("/api/admin/live/link", again, `{"hours":9}`, "Idempotency-Key", key); r.Status != 409 || r.Code != "done_otherwise" {
			t.Errorf("%s, and something else with its key: %d %s", path, r.Status, r.Raw)
		}
		if now := state(); now != done {
			t.Errorf("something else was done with the key of %s:\n%s", path, now)
		}
	}
	routes, err := web.Routes()
	if err != nil {
		t.Fatal(err)
	}
	for _, route := range routes {
		if strings.HasPrefix(route, "POST /api/admin/") && !slices.Contains(tried, route) {
			t.Errorf("%s was not tried", route)
		}
	}

	// The refunds of a sale are answered as the first time: none of them is paid any more.
	var all [2]string
	key := uuid.NewString()
	for i := range all {
		sandboxtest.Until(t, "all of the sale is refunded", func() bool {
			all[i] = string(shop.insist("/api/admin/refunds", admin, `{"sale":`+open+`}`, "Idempotency-Key", key).Raw)
			return !strings.Contains(all[i], `"next"`)
		})
	}
	if all[0] != all[1] || !strings.Contains(all[0], orders[4]) {
		t.Errorf("the refunds of a sale are\n%s\nand again\n%s", all[0], all[1])
	}

	// A repetition of those of a large sale refunds no more than one request does.
	if _, err := db.Exec(t.Context(), fmt.Sprintf(`
		update sales set total = total + 101 where id = %[1]s;
		update sales set stock = stock - 101 where id = %[1]s;
		insert into orders (id, user_id, sale_id, ticket, title, price, expires_at)
		select gen_random_uuid(), 1000000 + n, %[1]s, 'large' || n, 'x', 1, now() + interval '1 hour' from generate_series(1, 101) n;
		update orders set status = 'paid', paid_at = now() where sale_id = %[1]s`, draft)); err != nil {
		t.Fatal(err)
	}
	key = uuid.NewString()
	var last string
	sandboxtest.Until(t, "a hundred orders are refunded and said again", func() bool {
		former := last
		last = string(shop.insist("/api/admin/refunds", admin, `{"sale":`+draft+`}`, "Idempotency-Key", key).Raw)
		return last == former || !strings.Contains(last, `"next"`)
	})
	var left int
	if err := db.QueryRow(t.Context(), `select count(*) from orders where sale_id = $1 and status = 'paid'`, draft).Scan(&left); err != nil || left != 1 {
		t.Errorf("%d orders of a large sale are left, %v; the last answer was %s", left, err, last)
	}

	// Ten requests with one key at two processes at once.
	key = uuid.NewString()
	var crowd sync.WaitGroup
	answers := make([]sandboxtest.Reply, 10)
	for i := range answers {
		at, token := shop, admin
		if i%2 == 1 {
			at, token = other, again
		}
		crowd.Go(func() {
			answers[i] = at.ask("POST", "/api/admin/goods", token, `{"title":"盅"}`, "Idempotency-Key", key)
		})
	}
	crowd.Wait()
	now := string(shop.insist("/api/admin/goods", admin, `{"title":"盅"}`, "Idempotency-Key", key).Raw)
	for _, r := range answers {
		if r.Code != "busy" && string(r.Raw) != now {
			t.Errorf("of ten requests at once: %s and %s", now, r.Raw)
		}
	}
	var made int
	if err := db.QueryRow(t.Context(), `select count(*) from goods where title = '盅'`).Scan(&made); err != nil || made != 1 {
		t.Errorf("ten requests have made %d items, %v", made, err)
	}

	// A key is a user's own, and has to be a UUID.
	key = uuid.NewString()
	var mine, theirs struct{ ID int64 }
	shop.insist("/api/admin/goods", admin, `{"title":"碗"}`, "Idempotency-Key", key).Read(t, &mine)
	shop.insist("/api/admin/goods", colleague, `{"title":"碗"}`, "Idempotency-Key", key).Read(t, &theirs)
	if mine.ID == theirs.ID {
		t.Error("a colleague with the same key receives another's answer")
	}
	for _, bad := range []string{"", "1", key + "0", strings.ReplaceAll(key, "-", ""), uuid.Nil.String()} {
		if r := shop.insist("/api/admin/goods", admin, `{"title":"碗"}`, "Idempotency-Key", bad); r.Status != 400 || !strings.Contains(string(r.Raw), "Idempotency-Key") {
			t.Errorf("the key %q: %d %s", bad, r.Status, r.Raw)
		}
	}
}
