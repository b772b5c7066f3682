package web_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/web"
)

// accessMatrix lists every route of the shop, with the status and code that each kind of caller receives. The tests call them in
// this order.
var accessMatrix = func() (all []accessRow) {
	for _, c := range web.Cases() {
		all = append(all, accessRow{c.Route, c.Body, c.Want})
	}
	return all
}()

type accessRow struct {
	route string
	body  string    // a valid one, "" if the route takes none
	want  [5]string // in the order of callers
}

const (
	anonymous = iota
	other
	viewer
	admin
	owner
)

var callers = [5]string{"anonymous", "other", "viewer", "admin", "owner"} // the owner last, since the owner's calls change the order

// allowedCaller returns a caller whom a route allows: the owner, or else the administrator.
func allowedCaller(want [5]string) int {
	if want[owner] == "403 forbidden" && want[admin] != "403 forbidden" {
		return admin
	}
	return owner
}

// unknownTicket has the form of a ticket.
const unknownTicket = "direct:00000000-0000-4000-8000-000000000000"

// matrixShop is a shop whose owner has an order with an open payment, and a hidden address.
type matrixShop struct {
	testShop
	sale, order, payment, path string
	person                     string // a user who calls nothing
	tokens                     [5]string
}

func openMatrixShop(t *testing.T, env ...string) matrixShop {
	t.Helper()
	shop := matrixShop{testShop: openShop(t, append([]string{"MIAOSHA_RATE=off"}, env...)...)}
	shop.sale = shop.testShop.sale("--stock", "50")
	buyers := shop.testShop.tokens(3)
	shop.tokens[other], shop.tokens[owner] = buyers[0], buyers[1]
	const phone, viewerPhone = "13900001111", "13900002222"
	shop.tokens[admin], shop.tokens[viewer] = shop.staff(phone, "admin", ""), shop.staff(viewerPhone, "viewer", phone)
	var me struct {
		UserID int64 `json:"user_id"`
	}
	shop.ask("GET", "/api/me", buyers[2], "").Read(t, &me)
	shop.person = strconv.FormatInt(me.UserID, 10)
	shop.path = shop.insist("/api/sales/"+shop.sale+"/path", buyers[1], "").Purchase().Path
	if r := shop.insist("/api/sales/"+shop.sale+"/buy/"+shop.path, buyers[1], ""); r.Status != 202 {
		t.Fatalf("buy: %d %s", r.Status, r.Raw)
	}
	sandboxtest.Until(t, "the owner has an order", func() bool {
		result := shop.ask("GET", "/api/sales/"+shop.sale+"/result", buyers[1], "").Purchase()
		shop.order = result.OrderID
		return result.State == "ordered"
	})
	shop.payment = shop.insist("/api/orders/"+shop.order+"/pay", buyers[1], "").Purchase().PaymentID
	return shop
}

// at returns the method of a route and its path with the owner's ids, or with id if that is not "".
func (shop matrixShop) at(route, id string) (method, path string) {
	method, path, _ = strings.Cut(route, " ")
	if id == "" {
		switch {
		case strings.HasPrefix(path, "/api/sales/"), strings.HasPrefix(path, "/api/admin/sales/"):
			id = shop.sale
		case strings.HasPrefix(path, "/api/admin/goods/"), strings.HasPrefix(path, "/api/admin/plans/"):
			id = "1" // the only one
		case strings.HasPrefix(path, "/api/orders/"), strings.HasPrefix(path, "/api/admin/orders/"):
			id = shop.order
		case strings.HasPrefix(path, "/api/admin/users/"):
			id = shop.person
		case strings.HasPrefix(path, "/api/cashier/"), strings.HasPrefix(path, "/api/admin/payments/"):
			id = shop.payment
		}
	}
	return method, strings.NewReplacer("{id}", id, "{path}", shop.path, "{ticket}", unknownTicket, "{session}", strings.Repeat("A", 16), "/*", "/").Replace(path)
}

// fill returns the body of a route for one caller.
func (shop matrixShop) fill(body string, caller int) string {
	return strings.NewReplacer("{phone}", "1381111000"+strconv.Itoa(caller), "{order}", shop.order).Replace(body)
}

// outcome returns the status and the code of a reply.
func outcome(r sandboxtest.Reply) string {
	return strings.TrimSpace(strconv.Itoa(r.Status) + " " + r.Code)
}

func TestTableHasEveryRoute(t *testing.T) {
	t.Parallel()
	there, err := web.Routes()
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, row := range accessMatrix {
		listed = append(listed, row.route)
	}
	for _, r := range there {
		if !slices.Contains(listed, r) {
			t.Errorf("%s is not in the access matrix", r)
		}
	}
	for _, r := range listed {
		if !slices.Contains(there, r) {
			t.Errorf("the access matrix has %s, which is no route of the shop", r)
		}
	}
}

// The matrix refuses the callers whom the rows let in nowhere.
func TestTheMatrixRefusesAsTheRowsDo(t *testing.T) {
	t.Parallel()
	const noSession, forbidden, none = "401 not_logged_in", "403 forbidden", "404 not_found"
	refused := map[string]map[int]string{
		"anyone": {}, "a link": {}, "the provider": {}, "user": {anonymous: noSession},
		"owner": {anonymous: noSession, other: none, viewer: none, admin: none},
		"staff": {anonymous: noSession, other: forbidden, owner: forbidden},
		"admin": {anonymous: noSession, other: forbidden, viewer: forbidden, owner: forbidden},
		"lab":   {anonymous: noSession, other: forbidden, viewer: forbidden, owner: forbidden},
		// of a sandbox alone, which this shop is not
		"anyone, in a sandbox; admin, where other machines reach it": {},
		"admin, in a sandbox at this machine":                        {},
	}
	for _, row := range accessMatrix {
		who, inSandbox := strings.CutSuffix(web.WhoMay(row.route), ", in a sandbox")
		inSandbox = inSandbox || strings.Contains(who, ", in a sandbox")
		want, known := refused[who]
		if !known {
			t.Errorf("%s: who is %q?", row.route, who)
		}
		for caller, got := range row.want {
			expected, is := want[caller]
			if inSandbox {
				expected, is = none, true
			}
			if is && got != expected && !(strings.HasPrefix(row.route, "HEAD ") && strings.HasPrefix(expected, got)) { // HEAD has no code
				t.Errorf("%s is for %s, and answers %s with %s, want %s", row.route, who, callers[caller], got, expected)
			}
			if !is && (got == noSession || got == forbidden && who != "the provider") {
				t.Errorf("%s is for %s, and refuses %s with %s", row.route, who, callers[caller], got)
			}
		}
	}
}

// Below /api/admin no route is open to a buyer, and a viewer changes nothing.
func TestStaffRoutesAreClosed(t *testing.T) {
	t.Parallel()
	changes := 0
	for _, row := range accessMatrix {
		if !strings.Contains(row.route, " /api/admin/") {
			continue
		}
		for caller, want := range map[int]string{anonymous: "401 not_logged_in", other: "403 forbidden", owner: "403 forbidden"} {
			if row.want[caller] != want {
				t.Errorf("%s answers %s with %s, want %s", row.route, callers[caller], row.want[caller], want)
			}
		}
		if strings.HasPrefix(row.route, "POST ") {
			changes++
			if row.want[viewer] != "403 forbidden" {
				t.Errorf("%s answers a viewer with %s", row.route, row.want[viewer])
			}
		}
	}
	if changes < 15 {
		t.Errorf("%d routes of the staff change something, want 15 or more", changes)
	}
}

// Every caller receives the answer of the access matrix at every route, over HTTP and HTTPS, with all
// headers.
func TestEveryRouteForEveryCaller(t *testing.T) {
	t.Parallel()
	cert, key := pair(t)
	for name, env := range map[string][]string{"http": nil, "https": {"MIAOSHA_TLS_CERT=" + cert, "MIAOSHA_TLS_KEY=" + key}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shop := openMatrixShop(t, env...)
			db := shop.connect()
			lines := func() (n int) { // of the log, by an administrator or a viewer
				t.Helper()
				if err := db.QueryRow(t.Context(), `select count(*) from admin_log where by_user is not null`).Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			for _, row := range accessMatrix {
				for caller, want := range row.want {
					had := lines()
					method, path := shop.at(row.route, "")
					var r sandboxtest.Reply
					sandboxtest.Until(t, row.route+" is answered", func() bool {
						r = shop.ask(method, path, shop.tokens[caller], shop.fill(row.body, caller))
						return r.Status != 503 // HEAD has no code
					})
					what := row.route + " by " + callers[caller]
					if outcome(r) != want {
						t.Errorf("%s: %s, want %s", what, outcome(r), want)
					}
					acts := strings.HasPrefix(row.route, "POST /api/admin/") || strings.HasPrefix(row.route, "POST /api/lab/") || strings.HasSuffix(row.route, ".csv")
					acts = acts && row.route != "POST /api/admin/refunds" // it answers for each order; this one was refunded before
					if got, acted := lines()-had, acts && r.Status < 300; got > 1 || (got == 1) != acted {
						t.Errorf("%s, answered %s, has %d lines in the log of the staff", what, outcome(r), got)
					}
					theirs := caller != owner && (caller != viewer && caller != admin || !strings.HasPrefix(path, "/api/admin/"))
					if theirs && row.route != "POST /api/payments/notify" && strings.Contains(string(r.Raw), shop.order) {
						t.Errorf("%s shows the owner's order: %s", what, r.Raw)
					}
					shop.checkHeaders(what, path, r)
				}
			}
			for _, page := range []string{"/sale.html", "/login.html", "/orders.html", "/order.html", "/pay.html", "/nothing", "/api/nothing"} {
				shop.checkHeaders(page, page, shop.ask("GET", page, "", ""))
			}
			home := shop.ask("GET", "/", "", "", "Accept-Encoding", "identity")
			for _, part := range strings.Split(string(home.Raw), `"`) {
				if strings.HasPrefix(part, "/static/") {
					shop.checkHeaders(part, part, shop.ask("GET", part, "", ""))
				}
			}
			r := shop.ask("GET", "/", "", "", "Accept-Encoding", "identity", "If-None-Match", home.Header.Get("ETag"))
			if shop.checkHeaders("not modified", "/", r); r.Status != 304 {
				t.Errorf("/ again: %d", r.Status)
			}
		})
	}
}

// For another user's order and for a missing one the answer is the same, byte for byte.
func TestForeignAndMissingAreTheSame(t *testing.T) {
	t.Parallel()
	shop := openMatrixShop(t)
	seen := 0
	for _, row := range accessMatrix {
		if row.want[other] != "404 not_found" || row.want[owner] == row.want[other] {
			continue
		}
		seen++
		whole := func(caller int, id string) string {
			method, path := shop.at(row.route, id)
			r := shop.ask(method, path, shop.tokens[caller], row.body)
			r.Header.Del("Date")
			return fmt.Sprint(r.Status, r.Header, string(r.Raw))
		}
		foreign := whole(other, "")
		for name, got := range map[string]string{"missing": whole(other, uuid.NewString()), "no id": whole(other, "1"),
			"foreign to the administrator": whole(admin, ""), "missing for the owner": whole(owner, uuid.NewString())} {
			if got != foreign {
				t.Errorf("%s: foreign and %s differ:\n%s\n%s", row.route, name, foreign, got)
			}
		}
	}
	if seen != 5 {
		t.Errorf("%d routes lead to a user's own things, want 5", seen)
	}
}

func TestOtherMethodsAreRefused(t *testing.T) {
	t.Parallel()
	shop := openMatrixShop(t)
	answers := map[string][]string{} // path -> methods
	for _, row := range accessMatrix {
		method, path := shop.at(row.route, "")
		if answers[path] = append(answers[path], method); method == "GET" {
			answers[path] = append(answers[path], "HEAD")
		}
	}
	for path, methods := range answers {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"} {
			if slices.Contains(methods, method) || strings.HasSuffix(path, "/events") && method == "HEAD" {
				continue
			}
			r := shop.ask(method, path, shop.tokens[owner], "")
			if r.Status != 405 || r.Header.Get("Allow") == "" {
				t.Errorf("%s %s: %s, Allow %q", method, path, outcome(r), r.Header.Get("Allow"))
			}
			shop.checkHeaders(method+" "+path, path, r)
		}
	}
}

func TestReadingChangesNothing(t *testing.T) {
	t.Parallel()
	shop := openMatrixShop(t)
	was := shop.state(t)
	for _, row := range accessMatrix {
		method, path := shop.at(row.route, "")
		for _, method := range []string{method, "GET", "HEAD"} { // also GET on a route that changes something
			if method == "POST" {
				continue
			}
			for _, token := range shop.tokens {
				shop.ask(method, path, token, "")
				shop.ask(method, path+"?action=confirm&_method=POST&token="+token, token, "", "X-HTTP-Method-Override", "POST")
			}
		}
	}
	if now := shop.state(t); !maps.Equal(now, was) {
		t.Errorf("reading has changed something: %v, was %v", now, was)
	}
}

// state returns everything that the shop stores, but the notes of files that the staff has taken: each table, each session and the tickets, one line each.
func (shop matrixShop) state(t *testing.T) map[string]string {
	t.Helper()
	db := shop.connect()
	is := map[string]string{}
	for _, table := range []string{"users", "goods", "sales", "orders", "order_events", "payments", "ticket_results",
		"(select * from admin_log where action <> 'staff.file')", "addresses", "deliveries", "sale_plans", "pictures"} {
		var sum string
		if err := db.QueryRow(t.Context(), `
			select count(*) || ' ' || coalesce(md5(string_agg(t::text, ',' order by t::text)), '') from `+table+` t`).Scan(&sum); err != nil {
			t.Fatal(err)
		}
		is[table] = sum
	}
	rdb := shop.redis()
	keys, err := rdb.Keys(t.Context(), "ms:session*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		kind, err := rdb.Type(t.Context(), key).Result()
		switch {
		case err != nil:
			t.Fatal(err)
		case kind == "string":
			is[key] = rdb.Get(t.Context(), key).Val()
		default:
			is[key] = fmt.Sprint(rdb.ZRangeWithScores(t.Context(), key, 0, -1).Val())
		}
	}
	if len(keys) < 3 {
		t.Fatalf("%d sessions in Redis: %v", len(keys), keys)
	}
	is["tickets"] = fmt.Sprint(rdb.HGetAll(t.Context(), "ms:{"+shop.sale+"}:tickets").Val())
	return is
}
