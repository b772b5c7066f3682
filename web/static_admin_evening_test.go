package web_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"miaosha/order"
	"miaosha/seckill/sandbox/sandboxtest"
)

// The evening of TestAWholeEvening in the browser: a shopkeeper makes a sale, runs it while 500 programs buy, pay and cancel, and
// looks after its orders, on the pages alone. The pages show what the buyers were told, every action is in the log, and the audit
// finds nothing.
func TestAWholeEveningInTheBrowser(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	shop := openShop(t, "MIAOSHA_RATE=off", "MIAOSHA_IP_RATE=off")
	shop.staff("13900001111", "admin", "")
	v := visit(t, root, shop.URL, "en-GB")
	v.goTo("/login.html?next=/admin.html")
	v.types("phone", "13900001111")
	v.types("password", staffPassword+"\r")

	v.clicks("new-sale")
	v.fills("new-title", "Teapot")
	v.fills("new-price", "9.9")
	v.fills("new-stock", "100")
	v.fills("new-start_at", time.Now().Add(-time.Minute).Format("2006-01-02T15:04:05"))
	v.clicks("make-draft")
	v.sees(`[data-test="sale"][data-phase="draft"]`)
	id := strings.TrimPrefix(v.evaluates("location.hash"), "#sales/")
	// acts clicks the button of an action, confirms it, and waits until the page says that gate and pages have followed.
	acts := func(action, state string) {
		t.Helper()
		v.clicks(action)
		v.clicks("confirm")
		v.sees(chromedp.CSS(`[data-state="` + state + `"] [data-gate="ready"]`))
	}
	addsUnits := func(delta, total string) {
		t.Helper()
		v.fills("units-delta", delta)
		v.sends("units-form")
		v.shows("sale-total", total)
	}
	acts("publish", "published")
	v.shows("gate", "Ready: Redis has 100 units, and pages and caches are up to date.")

	bots := shop.bots(id)
	bots.rush()
	acts("pause", "paused")
	addsUnits("20", "120")
	acts("resume", "published")
	bots.Wait()
	bots.buyAll(t, 120)
	v.shows("sale-pending", "120")

	// A third of the buyers pay and a third cancel, while the shopkeeper pauses again.
	orders := map[string]string{} // the status of each
	pay := func(b *sandboxtest.Buyer) {
		orders[b.OrderID] = "paid"
		bots.Go(func() {
			if r := b.Pay(bots.deadline, b.OrderID); r.Code != "ok" {
				t.Errorf("pay: %d %s", r.Status, r.Raw)
			}
		})
	}
	cancel := func(b *sandboxtest.Buyer) {
		orders[b.OrderID] = "cancelled"
		bots.Go(func() {
			if r := b.Cancel(bots.deadline, b.OrderID); r.Code != "ok" {
				t.Errorf("cancel: %d %s", r.Status, r.Raw)
			}
		})
	}
	for _, b := range bots.buyers {
		if b.OrderID == "" {
			continue
		}
		switch len(orders) % 3 {
		case 0:
			pay(b)
		case 1:
			cancel(b)
		default:
			orders[b.OrderID] = "pending"
		}
	}
	acts("pause", "paused")
	bots.Wait()
	v.shows("sale-left", "40")
	v.shows("sale-pending", "40")
	v.shows("sale-paid", "40")

	// The other buyers wait in front of the paused sale, and buy the cancelled units and ten more.
	waiting := bots.buyers[slices.IndexFunc(bots.buyers, func(b *sandboxtest.Buyer) bool { return b.OrderID == "" })]
	if r := waiting.AskPath(); r.Code != "paused" {
		t.Errorf("a buyer at the paused sale: %d %s", r.Status, r.Raw)
	}
	bots.rush()
	addsUnits("10", "130")
	acts("resume", "published")
	bots.Wait()
	bots.buyAll(t, 170)
	for _, b := range bots.buyers {
		if b.OrderID != "" && orders[b.OrderID] == "" {
			pay(b)
		}
	}
	bots.Wait()
	if len(orders) != 170 {
		t.Errorf("there are %d orders, want 170: 130 for the units, and 40 that were cancelled", len(orders))
	}
	v.shows("sale-left", "0")
	v.shows("sale-pending", "40")
	v.shows("sale-paid", "90")
	v.clicks("close")
	v.clicks("confirm")
	v.sees(`[data-test="sale"][data-phase="closed"]`)

	v.clicks("section-orders")
	v.enters(`[name="sale"]`, id, "")
	v.clicks("search")
	v.becomes("the address", "location.hash", "#orders?sale="+id)
	for shown := 50; shown < len(orders); shown += 50 {
		v.until(fmt.Sprint(shown, " orders are there"), fmt.Sprintf(`document.querySelectorAll('[data-order]').length === %d`, shown))
		v.clicks("more")
	}
	v.until("all orders are there", `document.querySelectorAll('[data-order]').length > 0 && !document.querySelector('[data-test="more"]')`)
	listed := map[string]string{}
	for _, row := range strings.Fields(v.evaluates(`[...document.querySelectorAll('[data-order]')].map((r) => r.dataset.order + '=' + r.dataset.status).join(' ')`)) {
		order, status, _ := strings.Cut(row, "=")
		listed[order] = status
	}
	if diff := cmp.Diff(orders, listed); diff != "" {
		t.Errorf("the orders of the page (-buyers +page):\n%s", diff)
	}
	rows, err := csv.NewReader(bytes.NewReader(v.downloads("orders-csv", "orders.csv"))).ReadAll()
	if err != nil || len(rows) != len(orders)+1 {
		t.Fatalf("the file has %d rows, want one for each of %d orders and a header: %v", len(rows), len(orders), err)
	}
	filed := map[string]string{}
	for _, row := range rows[1:] {
		filed[row[0]] = row[4]
		if id, err := uuid.Parse(row[0]); err != nil || row[15] != "\t"+order.Number(id) || !strings.HasPrefix(row[8], "\t1") || (row[4] == "paid") != (row[18] == "9.90") {
			t.Errorf("the file has the row %q", row)
		}
	}
	if diff := cmp.Diff(orders, filed); diff != "" {
		t.Errorf("the orders of the file (-buyers +file):\n%s", diff)
	}

	v.do("open a paid order", click(chromedp.CSS(`[data-order][data-status="paid"] a`)))
	history := func(text string) {
		t.Helper()
		v.becomes("the order's history", `[...document.querySelectorAll('[data-test="order-file"] td')].map((e) => e.innerText).filter((s) => s.includes('→')).join(', ')`, text)
	}
	history("New → To pay, To pay → Paid")
	v.clicks("refund")
	v.clicks("refund-yes")
	history("New → To pay, To pay → Paid, Paid → Refunded")
	v.do("go to the sale's orders", click(chromedp.CSS(`[data-test="order-file"] a[href="#orders?sale=`+id+`"]`)))
	v.sees(`[data-order]`)
	v.chooses("status", "paid")
	v.clicks("search")
	v.becomes("the address", "location.hash", "#orders?sale="+id+"&status=paid")
	v.becomes("the statuses in the list", `[...new Set([...document.querySelectorAll('[data-order]')].map((e) => e.dataset.status))].join()`, "paid")
	for n := 1; n <= 10; n++ {
		v.do("mark an order", click(chromedp.CSS(`[data-order] input:not(:checked)`)))
		v.shows("refund-marked", fmt.Sprintf("Refund %d selected", n))
	}
	lock := shop.connect() // another transaction keeps the sale's row for a while: the page waits, and leaves no order out
	if _, err := lock.Exec(t.Context(), `begin; select from sales where id = `+id+` for no key update`); err != nil {
		t.Fatal(err)
	}
	v.clicks("refund-marked")
	v.clicks("refunds-yes")
	v.becomes("the reason to wait", `document.querySelector('[data-test="refunds"] + [role="alert"]')?.innerText ?? ''`, "The shop is busy. Please try again in a moment.")
	if _, err := lock.Exec(t.Context(), `commit`); err != nil {
		t.Fatal(err)
	}
	v.shows("refunds", "10 refunded, 0 refused.")

	v.clicks("section-sales")
	v.do("open the sale", click(chromedp.CSS(`[data-sale="`+id+`"] a`)))
	v.shows("sale-paid", "79")
	v.shows("sale-pending", "40")
	v.shows("sale-left", "11")

	// The log has the newest action first.
	logs := func(field, value, actions string) {
		t.Helper()
		v.clicks("section-sales") // from a filtered log, the filters of the whole one would replace those that are seen already
		v.sees(chromedp.CSS(`[data-sale="` + id + `"]`))
		v.clicks("section-log")
		v.sees(test("log"))
		v.chooses(field, value)
		v.do("filter the log", click(".filters button"))
		v.becomes("the log of "+value, `[...document.querySelectorAll('[data-test="log"] tbody tr')].map((r) => r.dataset.action).join(' ')`, actions)
	}
	logs("subject", "sale "+id, "sale.close sale.resume sale.units sale.pause sale.resume sale.units sale.pause sale.publish sale.create")
	logs("action", "order", strings.TrimSpace(strings.Repeat("order.refund ", 11))) // the file of orders is an action of the staff
	v.hasNoErrors()
	shop.checkAudit()
}

// downloads clicks a link to a file and returns what the browser has saved under its name.
func (v *visitor) downloads(link, name string) (content []byte) {
	v.t.Helper()
	folder := v.t.TempDir()
	v.do("choose a folder", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
			Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: folder, BrowserContextID: chromedp.FromContext(ctx).BrowserContextID})
		return err
	}))
	v.clicks(link)
	sandboxtest.Until(v.t, name+" is there", func() (there bool) {
		var err error
		content, err = os.ReadFile(filepath.Join(folder, name))
		return err == nil // the file has another name until it is whole
	})
	return content
}
