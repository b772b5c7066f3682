package web

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"miaosha/goods"
	paths "miaosha/seckill/address"
	"miaosha/user"
)

// form is what a route takes, and what it may answer when it takes it.
type form struct {
	route   string // "METHOD pattern", as in the route tree
	weight  int    // how often it is asked, beside the others
	who     who    // whose session it needs
	thing   thing  // what {id} names
	fields  []field
	missing bool // the body may be missing
	sum     bool // it takes the answer to a captcha
	raw     bool // the body is read whatever its content type is
	// before are the refusals that come before the form is read.
	before []string
	// answers are those to a request without a mistake. Each route may also answer busy.
	answers []string
	query   func(g *generator, r *request) string
	renew   bool // the request may end the buyer's session
	// learn reads a successful answer.
	learn func(g *generator, r *request, a answer)
}

type who int

const (
	anyone who = iota
	aBuyer
	anAdmin
)

type thing int

const (
	nothing thing = iota
	aSale
	anItem // goods, or a plan: its id is a number, like that of a sale
	anOrder
	aPayment
	aUser
)

// field is a field of a body. value returns a value that the route understands.
type field struct {
	name  string
	value func(g *generator, r *request) any
}

// Answers that several routes share.
var (
	closedSale = []string{"403 not_started", "409 paused", "410 ended", "410 sold_out"}
	limited    = []string{"429 too_many"}
)

func answers(lists ...[]string) []string { return slices.Concat(lists...) }

// forms has one form for each route. TestEveryRouteHasAForm compares it with the route tree.
var forms = []form{
	{route: "GET /*", weight: 40, answers: []string{"200", "304"}, query: noQuery},
	{route: "HEAD /*", weight: 10, answers: []string{"200", "304"}},
	{route: "GET /api/sales", weight: 60, answers: []string{"200 ok", "304"}, query: slotQuery},
	{route: "HEAD /api/sales", weight: 10, answers: []string{"200", "304"}, query: slotQuery},
	{route: "GET /api/sales/{id}", weight: 60, thing: aSale, answers: []string{"200 ok"}},
	{route: "HEAD /api/sales/{id}", weight: 10, thing: aSale, answers: []string{"200"}},
	{route: "GET /api/slots", weight: 20, answers: []string{"200 ok"}},
	{route: "POST /api/otp", weight: 10, answers: answers([]string{"200 ok", "403 wrong_captcha", "403 stale_captcha"}, limited), learn: learnCode,
		fields: []field{{"phone", somePhone}, {"captcha", sum}}},
	{route: "POST /api/register", weight: 1, renew: true, answers: answers([]string{"200 ok", "403 wrong_captcha", "403 stale_captcha", "403 stale_captcha", "403 wrong_code", "409 phone_taken"}, limited),
		fields: []field{{"phone", codePhone}, {"code", code}, {"password", password}, {"nickname", nickname}, {"captcha", sum}}},
	{route: "POST /api/login", weight: 1, renew: true, answers: answers([]string{"200 ok", "401 wrong_password", "403 wrong_captcha", "403 stale_captcha"}, limited),
		fields: []field{{"phone", accountPhone}, {"password", password}, {"captcha", sum}}},
	{route: "GET /api/login/captcha", weight: 10, answers: answers([]string{"200", "200 ok"}, limited), query: captchaQuery, learn: learnSum},
	{route: "GET /api/practice", weight: 5, before: limited, answers: []string{"200", "200 ok"}, query: captchaQuery},
	{route: "POST /api/practice", weight: 5, before: limited, answers: []string{"200 ok"}, fields: []field{{"captcha", sum}}},
	{route: "POST /api/logout", weight: 5, who: aBuyer, renew: true, answers: []string{"200 ok"}},
	{route: "GET /api/me", weight: 40, who: aBuyer, before: limited, answers: []string{"200 ok"}},
	{route: "POST /api/password", weight: 1, who: aBuyer, renew: true, before: limited, answers: []string{"200 ok", "401 wrong_password"},
		fields: []field{{"old", password}, {"new", password}}},
	{route: "POST /api/password/reset", weight: 1, renew: true, answers: answers([]string{"200 ok", "403 wrong_captcha", "403 wrong_code", "403 forbidden", "404 no_account"}, limited),
		fields: []field{{"phone", codePhone}, {"code", code}, {"password", password}, {"captcha", sum}}},
	{route: "GET /api/sales/{id}/captcha", weight: 30, who: aBuyer, thing: aSale, before: limited, answers: []string{"200", "200 ok", "410 ended", "409 paused"},
		query: captchaQuery, learn: learnSum},
	{route: "GET /api/sales/{id}/result", weight: 150, who: aBuyer, thing: aSale, before: limited, answers: []string{"200 ok"}, learn: learnOrder},
	{route: "HEAD /api/sales/{id}/result", weight: 10, who: aBuyer, thing: aSale, before: []string{"429"}, answers: []string{"200"}},
	{route: "GET /api/sales/{id}/events", weight: 20, who: aBuyer, thing: aSale, before: limited, answers: answers([]string{"200"}, limited)},
	{route: "POST /api/sales/{id}/path", weight: 60, who: aBuyer, thing: aSale, before: limited, missing: true, sum: true,
		answers: answers([]string{"200 ok", "403 wrong_captcha", "403 stale_captcha"}, closedSale), learn: learnPath,
		fields: []field{{"captcha", sum}}},
	{route: "POST /api/sales/{id}/buy/{path}", weight: 150, who: aBuyer, thing: aSale, before: []string{"403 bad_path"},
		answers: answers([]string{"202 ok"}, closedSale, limited), learn: learnOrder},
	{route: "GET /api/orders", weight: 40, who: aBuyer, before: limited, answers: []string{"200 ok"}, learn: learnOrders},
	{route: "GET /api/orders/{id}", weight: 40, who: aBuyer, thing: anOrder, before: limited, answers: []string{"200 ok"}},
	{route: "GET /api/orders/{id}/ticket", weight: 3, who: aBuyer, thing: anOrder, before: limited, answers: []string{"404 not_found"}},
	{route: "POST /api/orders/{id}/pay", weight: 40, who: aBuyer, thing: anOrder, before: limited, answers: []string{"200 ok", "409 declined", "409 wrong_status"}, learn: learnPayment},
	{route: "POST /api/cashier/{id}", weight: 20, who: aBuyer, thing: aPayment, before: limited, answers: []string{"200 ok", "409 wrong_status"},
		fields: []field{{"action", func(g *generator, _ *request) any { return pick(g, "confirm", "decline") }}}},
	{route: "POST /api/orders/{id}/cancel", weight: 30, who: aBuyer, thing: anOrder, before: limited, answers: []string{"200 ok", "409 wrong_status"}},
	{route: "POST /api/payments/notify", weight: 20, raw: true, answers: []string{"200 ok", "409 wrong_status"},
		fields: []field{{"order_id", noticeOrder}, {"amount", func(*generator, *request) any { return fuzzPrice }}, {"provider_ref", reference}}},
	{route: "GET /api/admin/users", weight: 3, who: anAdmin, before: limited, answers: []string{"200 ok"}},
	{route: "GET /api/admin/users/{id}", weight: 3, who: anAdmin, thing: aUser, before: limited, answers: []string{"200 ok"}},
	{route: "POST /api/admin/users/{id}/role", weight: 3, who: anAdmin, thing: aUser, before: limited, answers: []string{"200 ok"},
		fields: []field{{"role", func(g *generator, _ *request) any { return "buyer" }}}},
	// Not by an administrator: it would end the sessions of all other requests.
	{route: "POST /api/admin/users/{id}/disable", weight: 3, who: aBuyer, thing: aUser, before: []string{"403 forbidden", "429 too_many"}, answers: []string{"403 forbidden"}},
	{route: "POST /api/admin/users/{id}/enable", weight: 3, who: anAdmin, thing: aUser, before: limited, answers: []string{"200 ok"}},
	{route: "GET /api/account/sessions", weight: 5, who: aBuyer, before: limited, answers: []string{"200 ok"}},
	{route: "POST /api/account/sessions/{session}/end", weight: 3, who: aBuyer, before: limited, answers: []string{"404 not_found"}},
	{route: "POST /api/account/nickname", weight: 3, who: aBuyer, before: limited, answers: []string{"200 ok"}, fields: []field{{"nickname", nickname}}},
	{route: "POST /api/account/phone", weight: 1, who: aBuyer, before: limited, answers: []string{"401 wrong_password", "403 wrong_captcha"},
		fields: []field{{"phone", somePhone}, {"code", code}, {"password", fixed("a wrong password")}, {"captcha", sum}}},
	{route: "GET /api/account/address", weight: 5, who: aBuyer, before: limited, answers: []string{"200 ok"}},
	{route: "POST /api/account/address", weight: 10, who: aBuyer, before: limited, answers: []string{"200 ok"}, fields: addressFields},
	{route: "POST /api/account/address/erase", weight: 3, who: aBuyer, before: limited, answers: []string{"200 ok"}},
	{route: "POST /api/orders/{id}/address", weight: 10, who: aBuyer, thing: anOrder, before: limited, answers: []string{"200 ok", "409 wrong_status"}, fields: addressFields},
	{route: "GET /api/admin/orders", weight: 5, who: anAdmin, before: limited, answers: []string{"200 ok"}, query: ordersQuery},
	{route: "GET /api/admin/orders.csv", weight: 3, who: anAdmin, before: limited, answers: []string{"200"}, query: ordersQuery},
	{route: "GET /api/admin/orders/{id}", weight: 5, who: anAdmin, thing: anOrder, before: limited, answers: []string{"200 ok"}},
	{route: "POST /api/admin/orders/{id}/refund", weight: 5, who: anAdmin, thing: anOrder, before: limited, answers: []string{"200 ok", "409 wrong_status"}},
	{route: "POST /api/admin/orders/{id}/confirm", weight: 5, who: anAdmin, thing: anOrder, before: limited, answers: []string{"200 ok", "409 wrong_status"},
		fields: []field{{"reference", func(g *generator, _ *request) any { return fmt.Sprintf("bank-%d", g.Uint64()) }}}},
	{route: "POST /api/admin/orders/{id}/cancel", weight: 5, who: anAdmin, thing: anOrder, before: limited, answers: []string{"200 ok", "409 wrong_status"}},
	{route: "POST /api/admin/orders/{id}/extend", weight: 5, who: anAdmin, thing: anOrder, before: limited, answers: []string{"200 ok", "409 wrong_status"},
		fields: []field{{"minutes", upTo(maxExtension)}}},
	{route: "POST /api/admin/orders/{id}/ship", weight: 5, who: anAdmin, thing: anOrder, before: limited, answers: []string{"200 ok", "409 wrong_status"},
		fields: []field{{"carrier", nickname}, {"tracking", func(g *generator, _ *request) any { return pick(g, "SF1234567890", "顺丰 1-1", "YT.1，") }}}},
	{route: "POST /api/admin/refunds", weight: 3, who: anAdmin, before: limited, answers: []string{"200 ok"},
		fields: []field{{"orders", func(g *generator, _ *request) any { return []any{g.uuid(), g.uuid()} }}}},
	{route: "GET /api/admin/payments", weight: 3, who: anAdmin, before: limited, answers: []string{"200 ok"},
		query: func(g *generator, _ *request) string {
			return pick(g, "", "status=open", "status=refund_due&cursor="+g.uuid())
		}},
	{route: "POST /api/admin/payments/{id}/retry", weight: 3, who: anAdmin, thing: aPayment, before: limited, answers: []string{"200 ok", "409 wrong_status"}},
	{route: "POST /api/admin/payments/{id}/returned", weight: 3, who: anAdmin, thing: aPayment, before: limited, answers: []string{"409 wrong_status"},
		fields: []field{{"note", nickname}}},
	{route: "GET /api/admin/log", weight: 3, who: anAdmin, before: limited, answers: []string{"200 ok"}},
	{route: "GET /api/admin/log.csv", weight: 3, who: anAdmin, before: limited, answers: []string{"200"}},
	{route: "GET /api/admin/live", weight: 3, who: anAdmin, before: limited, answers: answers([]string{"200"}, limited), query: noQuery},
	{route: "POST /api/admin/live/link", weight: 3, who: anAdmin, before: limited, answers: []string{"200 ok"},
		fields: []field{{"hours", func(*generator, *request) any { return 1 }}}},
	{route: "GET /api/live", weight: 3, before: []string{"403 bad_link", "429 too_many"}, answers: []string{"403 bad_link"}, query: noQuery},
	{route: "GET /pictures/{name}", weight: 3, answers: []string{"404 not_found"}},
	{route: "HEAD /pictures/{name}", weight: 3, answers: []string{"404"}},
	{route: "GET /api/admin/sales", weight: 3, who: anAdmin, before: limited, answers: []string{"200 ok"}},
	{route: "GET /api/admin/sales/{id}", weight: 3, thing: aSale, who: anAdmin, before: limited, answers: []string{"200 ok"}},
	{route: "POST /api/admin/sales", weight: 3, who: anAdmin, before: limited, answers: []string{"200 ok"}, fields: append([]field{{"title", nickname}, {"state", fixed(goods.Draft)}}, terms...)},
	{route: "POST /api/admin/sales/{id}", weight: 3, thing: aSale, who: anAdmin, before: limited, answers: []string{"409 wrong_status"}, fields: terms},
	{route: "POST /api/admin/sales/{id}/units", weight: 3, thing: aSale, who: anAdmin, before: limited, answers: []string{"200 ok", "409 wrong_status"}, fields: []field{{"delta", upTo(2)}}},
	{route: "POST /api/admin/sales/{id}/plans", weight: 3, thing: aSale, who: anAdmin, before: limited, answers: []string{"200 ok"},
		fields: []field{{"action", func(g *generator, _ *request) any { return pick(g, "publish", "pause", "resume", "close") }}, {"at", fixed("2099-01-01T00:00:00Z")}}},
	{route: "POST /api/admin/plans/{id}/cancel", weight: 3, thing: anItem, who: anAdmin, before: limited, answers: []string{"200 ok", "404 not_found", "409 wrong_status"}},
	{route: "GET /api/admin/goods", weight: 3, who: anAdmin, before: limited, answers: []string{"200 ok"}},
	{route: "POST /api/admin/goods", weight: 3, who: anAdmin, before: limited, answers: []string{"200 ok"}, fields: []field{{"title", nickname}, {"detail", nickname}, {"list_price", upTo(1000)}}},
	{route: "GET /api/admin/goods/{id}", weight: 3, thing: anItem, who: anAdmin, before: limited, answers: []string{"200 ok", "404 not_found"}},
	{route: "POST /api/admin/goods/{id}", weight: 3, thing: anItem, who: anAdmin, before: limited, answers: []string{"200 ok", "404 not_found"}, fields: []field{{"title", nickname}}},
	// Not by an administrator: the price and the window are those of all other requests, and a picture is no JSON.
	{route: "POST /api/admin/sales/{id}/price", weight: 1, thing: aSale, who: aBuyer, before: []string{"403 forbidden", "429 too_many"}, answers: []string{"403 forbidden"}, fields: []field{{"price", upTo(9)}}},
	{route: "POST /api/admin/sales/{id}/window", weight: 1, thing: aSale, who: aBuyer, before: []string{"403 forbidden", "429 too_many"}, answers: []string{"403 forbidden"}, fields: []field{{"start_at", fixed("2099-01-01T00:00:00Z")}, {"end_at", fixed("2099-01-02T00:00:00Z")}}},
	{route: "POST /api/admin/pictures", weight: 1, who: aBuyer, before: []string{"403 forbidden", "429 too_many"}, answers: []string{"403 forbidden"}},
	{route: "GET /api/admin/tickets/{ticket}", weight: 3, who: anAdmin, before: limited, answers: []string{"404 not_found"}},
	{route: "POST /api/admin/sales/{id}/publish", weight: 3, who: anAdmin, thing: aSale, before: limited, answers: []string{"409 wrong_status"}},
	{route: "POST /api/admin/sales/{id}/pause", weight: 3, who: anAdmin, thing: aSale, before: limited, answers: []string{"200 ok", "409 wrong_status"}},
	{route: "POST /api/admin/sales/{id}/resume", weight: 9, who: anAdmin, thing: aSale, before: limited, answers: []string{"200 ok", "409 wrong_status"}},
	// Not by an administrator: it would end the sale for all other requests.
	{route: "POST /api/admin/sales/{id}/close", weight: 3, who: aBuyer, thing: aSale, before: []string{"403 forbidden", "429 too_many"}, answers: []string{"403 forbidden"}},
	{route: "GET /api/lab", weight: 3, who: anAdmin, answers: []string{"200 ok"}},
	{route: "POST /api/lab/race", weight: 3, who: anAdmin, before: limited, answers: []string{"200 ok", "409 stopped"},
		fields: []field{{"strategy", strategy}, {"seed", seed}}},
	{route: "POST /api/lab/try", weight: 3, who: anAdmin, before: limited, answers: []string{"200 ok", "409 stopped"},
		fields: []field{{"experiment", func(*generator, *request) any { return "cache" }}, {"seed", seed}}},
	{route: "POST /api/lab/without", weight: 2, who: anAdmin, before: limited, answers: []string{"200 ok", "409 stopped"},
		fields: []field{{"without", func(*generator, *request) any { return "sweeper" }}}},
	// In a sandbox alone.
	{route: "POST /api/sandbox/login", weight: 1, raw: true, before: []string{"404 not_found"}, answers: []string{"404 not_found"}},
	{route: "POST /api/sandbox/bots", weight: 1, raw: true, before: []string{"404 not_found"}, answers: []string{"404 not_found"}},
	{route: "GET /api/sandbox/bots", weight: 1, raw: true, before: []string{"404 not_found"}, answers: []string{"404 not_found"}},
	{route: "POST /api/sandbox/teach", weight: 1, raw: true, before: []string{"404 not_found"}, answers: []string{"404 not_found"}},
	{route: "GET /api/lab/programs", weight: 1, raw: true, before: []string{"404 not_found"}, answers: []string{"404 not_found"}},
	{route: "POST /api/lab/mine", weight: 1, raw: true, before: []string{"404 not_found"}, answers: []string{"404 not_found"}},
	{route: "GET /api/lab/exercises", weight: 1, raw: true, before: []string{"404 not_found"}, answers: []string{"404 not_found"}},
	{route: "POST /api/lab/exercises/{name}", weight: 1, raw: true, before: []string{"404 not_found"}, answers: []string{"404 not_found"}},
	{route: "GET /api/sandbox/teach", weight: 1, raw: true, before: []string{"404 not_found"}, answers: []string{"404 not_found"}},
	{route: "GET /api/sandbox/classes", weight: 1, raw: true, before: []string{"404 not_found"}, answers: []string{"404 not_found"}},
	{route: "POST /api/sandbox/classes", weight: 1, raw: true, before: []string{"404 not_found"}, answers: []string{"404 not_found"}},
	{route: "GET /api/sandbox/classes/{code}", weight: 1, raw: true, before: []string{"404 not_found"}, answers: []string{"404 not_found"}},
	{route: "POST /api/sandbox/classes/{code}/run", weight: 1, raw: true, before: []string{"404 not_found"}, answers: []string{"404 not_found"}},
	{route: "POST /api/sandbox/classes/{code}/remove", weight: 1, raw: true, before: []string{"404 not_found"}, answers: []string{"404 not_found"}},
	{route: "POST /api/sandbox/classes/{code}/lock", weight: 1, raw: true, before: []string{"404 not_found"}, answers: []string{"404 not_found"}},
	{route: "POST /api/sandbox/classes/{code}/close", weight: 1, raw: true, before: []string{"404 not_found"}, answers: []string{"404 not_found"}},
	{route: "GET /api/sandbox/classes/{code}/results.csv", weight: 1, raw: true, before: []string{"404 not_found"}, answers: []string{"404 not_found"}},
	{route: "GET /api/sandbox/classes/{code}/results.json", weight: 1, raw: true, before: []string{"404 not_found"}, answers: []string{"404 not_found"}},
	{route: "GET /api/sandbox/class", weight: 1, raw: true, before: []string{"404 not_found"}, answers: []string{"404 not_found"}},
	{route: "POST /api/sandbox/class", weight: 1, raw: true, before: []string{"404 not_found"}, answers: []string{"404 not_found"}},
	{route: "POST /api/lab/run", weight: 3, who: anAdmin, before: limited, answers: []string{"202 ok"},
		fields: []field{{"strategies", func(g *generator, r *request) any { return []any{strategy(g, r)} }}, {"buyers", upTo(20)}, {"stock", upTo(20)},
			{"double_clicks", upTo(100)}, {"seed", seed}, {"seconds", upTo(20)}, {"faults", func(*generator, *request) any { return []any{} }}}},
	{route: "GET /api/lab/source", weight: 2, who: anAdmin, answers: []string{"200 ok", "404 not_found"}, query: sourceQuery},
	{route: "GET /api/lab/run", weight: 3, who: anAdmin, answers: []string{"200 ok"}},
	{route: "POST /api/lab/run/stop", weight: 3, who: anAdmin, answers: []string{"200 ok"}},
}

// Values of the fields.

func upTo(n int) func(*generator, *request) any {
	return func(g *generator, _ *request) any { return 1 + g.IntN(n) }
}

func fixed(value any) func(*generator, *request) any {
	return func(*generator, *request) any { return value }
}

// terms are the fields of a sale's terms.
var terms = []field{{"price", upTo(1000)}, {"stock", upTo(1000)}, {"start_at", fixed("2099-01-01T00:00:00Z")}, {"end_at", fixed("2099-01-02T00:00:00Z")}}

func seed(g *generator, _ *request) any     { return g.Uint64() }
func strategy(g *generator, _ *request) any { return pick(g, "guard", "mutex", "read-then-write") }

func somePhone(g *generator, _ *request) any { return fmt.Sprintf("131%08d", g.IntN(5000)) }

// codePhone returns a phone of the worker that has a code, if there is one.
func codePhone(g *generator, r *request) any {
	if c := pickOf(g, g.worker.codes); c != nil && g.IntN(4) > 0 {
		r.code = c
		r.cookies = append(r.cookies, c.cookie)
		return c.phone
	}
	return somePhone(g, r)
}

func code(g *generator, r *request) any {
	if r.code != nil && g.IntN(4) > 0 {
		return r.code.code
	}
	return fmt.Sprintf("%06d", g.IntN(1_000_000))
}

// accountPhone returns the phone of the buyer, who has a password, or one of a few without an account:
// each try costs a hash.
func accountPhone(g *generator, r *request) any {
	if g.IntN(4) > 0 {
		return r.buyer.phone
	}
	return fmt.Sprintf("1320000000%d", g.IntN(8))
}

func password(g *generator, _ *request) any {
	return pick(g, fuzzPassword, fuzzPassword, fuzzPassword, "another password", "口令口令口令口令", strings.Repeat("长", user.PasswordMax))
}

func nickname(g *generator, _ *request) any {
	return pick(g, "n", "小秒", "<b>bold</b>", "O'Brien", strings.Repeat("长", 32), "🛒", "a\"b\\c")
}

// sum returns the answer to the buyer's captcha of the sale, or of the log-in, which is valid for one try.
func sum(_ *generator, r *request) any {
	answer := r.buyer.sums[r.sale]
	delete(r.buyer.sums, r.sale)
	return answer
}

func reference(g *generator, _ *request) any {
	return pick(g, fmt.Sprintf("ref-%d", g.IntN(200)), fmt.Sprintf("ref-%d", g.Uint64()), "支付宝", strings.Repeat("r", 128))
}

// noticeOrder returns an order of any buyer of the worker.
func noticeOrder(g *generator, r *request) any {
	if o := pickOf(g, r.buyer.orders); o != "" {
		return o
	}
	r.also("404 not_found")
	return g.uuid()
}

var addressFields = []field{{"name", nickname}, {"phone", somePhone}, {"address", nickname}}

// Queries.

func noQuery(g *generator, _ *request) string { return pick(g, "", "", "id=1", "next=%2Forders.html") }

func slotQuery(g *generator, _ *request) string {
	if g.IntN(2) == 0 {
		return ""
	}
	slots := goods.Slots(time.Now().UTC())
	return "slot=" + url.QueryEscape(slots[g.IntN(len(slots))].StartAt.Format(time.RFC3339))
}

func ordersQuery(g *generator, _ *request) string {
	return pick(g, "", "q=13100000001", "q="+g.uuid(), "q=1:2-3:4", "sale=1", "sale=1&status=paid", "status=refunded", "from=2026-01-01T00:00:00Z&to=2036-01-01T00:00:00Z",
		"cursor="+g.uuid(), "q=%25&status=pending")
}

func captchaQuery(g *generator, _ *request) string {
	return pick(g, "", "", "", "kind=picture", "kind=words")
}

func sourceQuery(g *generator, _ *request) string {
	return pick(g, "experiment=late-payment", "strategy=read-then-write", "experiment=none", "")
}

// What the generator learns from answers.

func learnCode(g *generator, r *request, a answer) {
	sent := r.sent["phone"]
	for _, c := range a.header["Set-Cookie"] {
		if cookie, _, ok := strings.Cut(c, ";"); ok && sent != nil {
			g.worker.codes = lastOf(append(g.worker.codes, &sentCode{fmt.Sprint(sent), g.world.console.code(fmt.Sprint(sent)), cookie}), 8)
		}
	}
}

// learnSum keeps the answer to a captcha. That of the log-in is kept as that of a sale 0.
func learnSum(_ *generator, r *request, a answer) {
	if sum := a.header.Get("X-Captcha-Answer"); sum != "" {
		r.buyer.sums[r.sale] = sum
	}
}

func learnPath(_ *generator, r *request, a answer) {
	var at struct{ Path string }
	if json.Unmarshal(a.data, &at) == nil {
		r.buyer.paths[r.sale] = at.Path
	}
}

func learnOrder(g *generator, r *request, a answer) {
	var st struct {
		OrderID string `json:"order_id"`
	}
	if json.Unmarshal(a.data, &st) == nil && st.OrderID != "" {
		r.buyer.addOrder(st.OrderID)
	}
}

func learnOrders(g *generator, r *request, a answer) {
	var list []struct{ ID string }
	if json.Unmarshal(a.data, &list) == nil {
		for _, o := range list {
			r.buyer.addOrder(o.ID)
		}
	}
}

func learnPayment(g *generator, r *request, a answer) {
	var p struct {
		PaymentID string `json:"payment_id"`
	}
	if json.Unmarshal(a.data, &p) == nil {
		r.buyer.payments = lastOf(append(r.buyer.payments, p.PaymentID), 8)
	}
}

// path returns the path of the form's route with ids of the buyer.
func (f *form) path(g *generator, r *request) string {
	_, path, _ := strings.Cut(f.route, " ")
	id := ""
	switch f.thing {
	case aSale, anItem:
		r.sale = pick(g, g.world.sales...)
		if known := slices.DeleteFunc(slices.Sorted(maps.Keys(r.buyer.sums)), func(sale int64) bool { return sale == 0 }); f.sum && len(known) > 0 && g.IntN(2) == 0 {
			r.sale = pick(g, known...)
		}
		id = strconv.FormatInt(r.sale, 10)
	case anOrder:
		of := r.buyer
		if f.who == anAdmin { // of any buyer
			of = pick(g, g.worker.buyers...)
		}
		id = pickOf(g, of.orders)
	case aPayment:
		id = pickOf(g, r.buyer.payments)
	case aUser: // enabled, with the role buyer
		id = strconv.FormatInt(pick(g, g.worker.buyers...).id, 10)
	}
	if id == "" && f.thing != nothing {
		id = g.uuid()
		r.want = slices.Concat(f.before, []string{"404 not_found"})
	}
	address := r.buyer.paths[r.sale]
	if address == "" || g.IntN(4) == 0 {
		address = paths.New(g.world.s.Secret).Sign(r.buyer.id, r.sale, r.buyer.token, time.Now().Add(time.Minute))
	}
	return strings.NewReplacer("{id}", id, "{path}", address, "{ticket}", "direct:00000000-0000-4000-8000-000000000000", "{session}", strings.Repeat("A", 16), "/*", pick(g, g.world.pages...)).Replace(path)
}

func (g *generator) uuid() string {
	id, err := uuid.NewRandomFromReader(g)
	if err != nil {
		panic(err) // impossible: the generator always reads
	}
	return id.String()
}
