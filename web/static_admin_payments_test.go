package web_test

import (
	"testing"

	"github.com/google/uuid"

	"miaosha/seckill/sandbox/sandboxtest"
)

// The staff sees which refunds the provider refuses and what to do: one is asked for again and made, and one is returned by hand.
func TestARefusedRefundInTheBackOffice(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	sale := s.knownSale(t, "--title", "T", "--stock", "1", "--start=-1m", "--end", "2h")
	buyer := visit(t, root, s.URL, "zh-CN")
	buyer.isLoggedIn(s.user(t).Token)
	buyer.goTo("/sale.html?id=" + sale)
	buyer.clicks("buy")
	buyer.solves(s, sale)
	buyer.sees(view("ordered"))
	db := s.connect(t)
	refused := func(provider string) (id string) {
		t.Helper()
		id = uuid.Must(uuid.NewV7()).String()
		if _, err := db.Exec(t.Context(), `
			insert into payments (id, order_id, amount, status, provider, provider_ref, asked_at, ask_at, tries, why)
			select $1::uuid, id, price, 'refund_due', $3, 'wx-4200001234' || right($1::uuid::text, 4), now() - interval '1 minute', null, 1, '商户账户余额不足 / no balance'
			from   orders where sale_id = $2::bigint`, id, sale, provider); err != nil {
			t.Fatal(err)
		}
		return id
	}
	again, byHand := refused("cashier"), refused("cashier")
	row := func(id string) string { return `[data-payment="` + id + `"]` }
	v := visit(t, root, s.URL, "en-GB")
	v.isLoggedIn(s.keeper(t))
	v.goTo("/admin.html#payments")
	v.until("both are refused", `['`+again+`', '`+byHand+`'].every((id) => document.querySelector('[data-payment="' + id + '"][data-refused="true"]')?.textContent.includes('refused by the provider'))`)
	v.evaluates(`document.querySelector('` + row(byHand) + ` [data-test="returned"]').click(), ''`)
	v.sees(test("returned-yes"))
	v.until("it says what comes first", `document.querySelector('form.sheet').textContent.includes('no balance). Confirm first, then send the money')`)
	v.fills("returned-note", "bank 1")
	v.clicks("returned-yes")
	v.until("it is gone", `document.querySelector('`+row(byHand)+`') === null`)
	v.evaluates(`document.querySelector('` + row(again) + ` [data-test="retry"]').click(), ''`)
	v.shows("payments-note", "The provider will be asked within a few seconds.")
	sandboxtest.Until(t, "the provider makes the refund", func() (made bool) {
		err := db.QueryRow(t.Context(), `select count(*) = 2 from payments where id = any($1::uuid[]) and status = 'refunded'`, []string{again, byHand}).Scan(&made)
		return err == nil && made
	})

	// The page of the order has the provider asked about a payment that was closed, and whose money may have come.
	var order string
	if err := db.QueryRow(t.Context(), `
		insert into payments (id, order_id, amount, status, provider, ask_at) select gen_random_uuid(), id, price, 'closed', 'cashier', null
		from   orders where sale_id = $1::bigint returning order_id::text`, sale).Scan(&order); err != nil {
		t.Fatal(err)
	}
	v.goTo("/admin.html#orders/" + order)
	v.clicks("cancel")
	v.clicks("cancel-yes")
	v.sees(`[data-test="order-file"][data-status="cancelled"]`)
	v.clicks("ask-again")
	v.shows("asked", "The provider will be asked within a few seconds.")
	v.until("it is closed no more", `document.querySelector('[data-test="ask-again"]') === null`)
	v.hasNoErrors()
}
