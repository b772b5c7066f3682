package web_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/web"
)

// known are the values of a buyer that no one sees whole but the buyer and an administrator.
var known = map[string]string{
	"phone": "13811112222", "name": "欧阳婉儿", "contact phone": "010-77776666", "digits of it": "77776666", "address": "北京市海淀区中关村大街 17 号 3 单元 501",
	"tracking number": "SF9876543210", "reference of a transfer": "BANK-OUYANG-5501", "reference of a late one": "BANK-OUYANG-5502", "note": "returned to Ouyang at the counter",
}

// shows returns the names of the values that an answer shows, in its body or its headers.
func shows(r sandboxtest.Reply) (names []string) {
	all := string(r.Raw) + fmt.Sprint(r.Header)
	for name, value := range known {
		if strings.Contains(all, value) || strings.Contains(all, url.QueryEscape(value)) || strings.Contains(all, url.PathEscape(value)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// knownShop has a buyer with three orders: one is shipped, one was paid by a transfer, and one by a transfer that came too
// late and went back.
func knownShop(t *testing.T) (shop testShop, tokens map[string]string, things []string) {
	t.Helper()
	shop = openShop(t, "MIAOSHA_RATE=off", "MIAOSHA_IP_RATE=off", "MIAOSHA_OPS_ADDR=127.0.0.1:0")
	tokens = map[string]string{"anonymous": "", "other": shop.tokens(1)[0], "owner": shop.account(known["phone"])}
	tokens["admin"] = shop.staff("13900001111", "admin", "")
	tokens["viewer"] = shop.staff("13900002222", "viewer", "13900001111")
	do := func(by, path, body string) sandboxtest.Reply {
		t.Helper()
		r := shop.insist(path, tokens[by], body)
		if r.Code != "ok" {
			t.Fatalf("%s: %d %s", path, r.Status, r.Raw)
		}
		return r
	}
	do("owner", "/api/account/address", fmt.Sprintf(`{"name":%q,"phone":%q,"address":%q}`, known["name"], known["contact phone"], known["address"]))
	var orders []string
	for range 3 {
		sale := shop.sale()
		orders = append(orders, shop.order(sale, tokens["owner"]))
		things = append(things, sale)
	}
	payment := do("owner", "/api/orders/"+orders[0]+"/pay", "").Purchase().PaymentID
	do("owner", "/api/cashier/"+payment, `{"action":"confirm"}`)
	do("admin", "/api/admin/orders/"+orders[0]+"/ship", fmt.Sprintf(`{"carrier":"SF","tracking":%q}`, known["tracking number"]))
	do("admin", "/api/admin/orders/"+orders[1]+"/confirm", fmt.Sprintf(`{"reference":%q}`, known["reference of a transfer"]))
	do("admin", "/api/admin/orders/"+orders[2]+"/cancel", "")
	do("admin", "/api/admin/orders/"+orders[2]+"/confirm", fmt.Sprintf(`{"reference":%q}`, known["reference of a late one"]))
	var file struct {
		UserID   int64 `json:"user_id"`
		Payments []struct{ ID string }
	}
	shop.call("GET", "/api/admin/orders/"+orders[2], tokens["admin"], "").Read(t, &file)
	late := file.Payments[0].ID
	if r := shop.call("GET", "/api/admin/payments", tokens["admin"], ""); !slices.Contains(shows(r), "reference of a late one") {
		t.Errorf("an administrator does not see the refund that is due: %s", r.Raw)
	}
	if r := shop.call("GET", "/api/admin/payments", tokens["viewer"], ""); len(shows(r)) > 0 || !strings.Contains(string(r.Raw), late) {
		t.Errorf("a viewer sees of the refund that is due %v: %s", shows(r), r.Raw)
	}
	do("admin", "/api/admin/payments/"+late+"/returned", fmt.Sprintf(`{"note":%q}`, known["note"]))
	things = append(append(things, orders...), fmt.Sprint(file.UserID), payment, late)
	return shop, tokens, things
}

// Every route answers every caller, in every form, about everything of a buyer. What is whole is seen by the buyer and by an
// administrator alone: not by a viewer, another buyer or a visitor, and not in the shop's metrics.
func TestNoOneElseSeesAWholeValue(t *testing.T) {
	t.Parallel()
	shop, tokens, things := knownShop(t)
	routes, err := web.Routes()
	if err != nil {
		t.Fatal(err)
	}
	queries := []string{"lang=en&q=" + known["phone"], "raw=true", "raw=true&q=" + known["reference of a transfer"], "status=cancelled&sale=" + things[2]}
	seen := map[string]bool{}
	asked := 0
	look := func(caller, method, path string) {
		var r sandboxtest.Reply
		sandboxtest.Until(t, path+" is answered", func() bool {
			r = shop.answer(method, path, tokens[caller])
			return r.Code != "too_many"
		})
		asked++
		for _, name := range shows(r) {
			if caller != "admin" && caller != "owner" {
				t.Errorf("%s %s shows the %s a whole %s: %s", method, path, caller, name, r.Raw)
			}
			if caller == "admin" && strings.HasPrefix(path, "/api/admin/") {
				seen[name] = true
			}
		}
	}
	for _, route := range routes {
		method, pattern, _ := strings.Cut(route, " ")
		if method == http.MethodHead || strings.HasSuffix(pattern, "/logout") {
			continue
		}
		paths := []string{strings.NewReplacer("/*", "/", "{name}", "n", "{session}", "s", "{code}", "ACDEF", "{ticket}", unknownTicket, "{path}", "p", "{id}", things[3]).Replace(pattern)}
		if method == http.MethodGet && strings.ContainsAny(pattern, "{") {
			for _, thing := range things {
				paths = append(paths, strings.NewReplacer("{id}", thing, "{ticket}", thing).Replace(pattern))
			}
		}
		for caller := range tokens {
			if method != http.MethodGet && caller != "viewer" && caller != "other" {
				continue // it would change what is looked for
			}
			for _, path := range paths {
				look(caller, method, path)
			}
			if method == http.MethodGet && !strings.Contains(pattern, "{") && strings.HasPrefix(pattern, "/api/admin/") && (caller == "viewer" || caller == "admin") {
				for _, query := range queries {
					look(caller, method, pattern+"?"+query)
				}
			}
		}
	}
	for name := range known {
		if !seen[name] {
			t.Errorf("no route shows an administrator the %s, so nothing was tried", name)
		}
	}
	// Redis has the phone alone, as the name of its limits and codes.
	if r := (sandboxtest.Reply{Raw: shop.inRedis()}); !slices.Equal(shows(r), []string{"phone"}) {
		t.Errorf("Redis has a whole %v", shows(r))
	}
	if r := sandboxtest.Call("GET", shop.opsURL()+"/metrics", "", ""); r.Status != 200 || len(shows(r)) > 0 {
		t.Errorf("the metrics: %d, with a whole %v", r.Status, shows(r))
	}
	t.Logf("%d answers", asked)
}

// answer makes a request and returns its answer, and the first event of a stream.
func (shop testShop) answer(method, path, token string) sandboxtest.Reply {
	r := shop.call(method, path, token, "")
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		return r
	}
	ctx, end := context.WithCancel(shop.t.Context())
	defer end()
	req, err := http.NewRequestWithContext(ctx, method, shop.URL+path, nil)
	if err != nil {
		shop.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		shop.t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan() && !strings.HasPrefix(string(r.Raw), "data: "); {
		r.Raw = slices.Clone(lines.Bytes())
	}
	return r
}

// inRedis returns all that is in the shop's Redis as text.
func (shop testShop) inRedis() (all []byte) {
	shop.t.Helper()
	rdb, ctx := shop.redis(), shop.t.Context()
	keys, err := rdb.Keys(ctx, "*").Result()
	if err != nil || len(keys) < 10 {
		shop.t.Fatalf("%d keys in Redis, %v", len(keys), err)
	}
	for _, key := range keys {
		var is any
		switch kind := rdb.Type(ctx, key).Val(); kind {
		case "string":
			is = rdb.Get(ctx, key).Val()
		case "hash":
			is = rdb.HGetAll(ctx, key).Val()
		case "zset":
			is = rdb.ZRangeWithScores(ctx, key, 0, -1).Val()
		case "set":
			is = rdb.SMembers(ctx, key).Val()
		case "list":
			is = rdb.LRange(ctx, key, 0, -1).Val()
		case "stream":
			is = rdb.XRange(ctx, key, "-", "+").Val()
		case "none": // it has ended meanwhile
		default:
			shop.t.Fatalf("%s is a %s", key, kind)
		}
		all = fmt.Append(all, key, " ", is, "\n")
	}
	return all
}

// A viewer finds an order by a whole phone or reference, thirty times in a day over all routes and processes. All other searches
// go on, and an administrator's. The log has a line of each, and of each file that was taken.
func TestSearchesOfAViewerAreCounted(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_RATE=off", "MIAOSHA_IP_RATE=off")
	second := shop.another()
	keeper := shop.staff("13900001111", "admin", "")
	viewer := shop.staff("13900002222", "viewer", "13900001111")
	order := shop.order(shop.sale(), shop.account(known["phone"]))
	const searches = 30
	places := []string{"/api/admin/orders?q=", "/api/admin/users?q=", "/api/admin/orders.csv?q="}
	for n := range searches {
		process := shop
		if n%2 == 1 {
			process = second
		}
		var r sandboxtest.Reply
		sandboxtest.Until(t, "the search is answered", func() bool { // files have a limit of their own
			r = process.call("GET", places[n%len(places)]+fmt.Sprint(13811112222+n), viewer, "")
			return r.Code != "too_many"
		})
		if r.Status != 200 {
			t.Errorf("search %d: %s %s", n, outcome(r), r.Raw)
		}
	}
	for _, place := range places {
		r := second.call("GET", place+"13811119999", viewer, "", "Accept-Language", "zh")
		if outcome(r) != "429 too_many_searches" || !strings.Contains(string(r.Raw), "24 小时内最多按手机号或支付流水号查找 30 次") || r.RetryAfter().Hours() < 23 {
			t.Errorf("one more at %s: %s %s, in %v", place, outcome(r), r.Raw, r.RetryAfter())
		}
		if r := shop.call("GET", place+known["phone"], viewer, ""); r.Status != 200 || !strings.Contains(string(r.Raw), "138****2222") {
			t.Errorf("the first search again at %s: %s %s", place, outcome(r), r.Raw)
		}
	}
	for _, free := range []string{"/api/admin/orders?q=" + order, "/api/admin/orders?sale=1", "/api/admin/users?q=7", "/api/admin/users?q=n", "/api/admin/users?q=%2313811112222"} {
		if r := shop.call("GET", free, viewer, ""); r.Status != 200 {
			t.Errorf("%s: %s %s", free, outcome(r), r.Raw)
		}
	}
	for _, place := range places {
		if r := shop.call("GET", place+"13811112222", keeper, ""); r.Status != 200 {
			t.Errorf("an administrator at %s: %s %s", place, outcome(r), r.Raw)
		}
	}
	lines := string(shop.call("GET", "/api/admin/log.csv?action=staff&raw=true", keeper, "").Raw)
	for text, want := range map[string]int{",staff.search,": searches, ",staff.file,orders.csv,": searches/3 + 2, ",staff.file,log.csv,": 1,
		`""values"": ""whole""`: 2, "138****2222": 3, known["phone"]: 0} {
		if got := strings.Count(lines, text); got != want {
			t.Errorf("the log has %s %d times, want %d:\n%s", text, got, want, lines)
		}
	}
	if _, err := shop.connect().Exec(t.Context(), `
		insert into archives (file, of_table, rows, sha256, oldest, newest) values ('a', 'admin_log', 1, repeat('0', 64), '2025-01-01 00:00Z', '2025-02-01 00:00Z')`); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]bool{"": true, "&from=2025-01-31T00:00:00Z": true, "&from=2025-02-02T00:00:00Z": false, "&to=2025-01-01T00:00:00Z": false, "&to=2025-01-02T00:00:00Z": true} {
		file := strings.TrimSpace(string(shop.call("GET", "/api/admin/log.csv?raw=true"+query, keeper, "").Raw))
		if last := file[strings.LastIndex(file, "\n")+1:]; strings.HasPrefix(last, ",2025-02-01T") != want || want && !strings.Contains(last, "miaosha archive") {
			t.Errorf("the last line of the file%s is %q, that of what is archived: %t", query, last, want)
		}
	}
}
