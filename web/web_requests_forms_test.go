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
