package web_test

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// A buyer of the sandbox follows the ticket of an order from its page, to which the lab leads, on a phone, and an administrator by its order's id, on a
// desktop. Another buyer's order shows nothing.
func TestATicketIsFollowed(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := openSandboxShop(t, "MIAOSHA_CAPTCHA=off")
	sale, order := s.sale(t, "--title", "Tea"), ""
	for _, c := range []struct {
		name, phone, language, color string
		width                        int64
	}{{"phone-zh-dark", "13800000000", "zh-CN", "dark", 320}, {"desktop-en-light", "13900000000", "en-GB", "light", 1280}} {
		v := visit(t, root, s.URL, c.language)
		v.emulates(c.width, 900, "prefers-color-scheme", c.color)
		v.goTo("/login.html?next=/admin.html")
		v.types("phone", c.phone)
		v.types("password", "miaosha-demo\r")
		v.sees(`[data-test="not-staff"], [data-test="section-log"]`)
		if order == "" {
			v.do("buy", chromedp.Evaluate[chromedp.Void](`(async () => {
				const ask = async (path, method) => (await (await fetch('/api/sales/`+sale+`' + path, { method })).json()).data;
				await ask('/buy/' + (await ask('/path', 'POST')).path, 'POST');
				let result;
				do {
					await new Promise((next) => setTimeout(next, 200)); // as a page does: more often is refused
					result = await ask('/result');
				} while (result.state !== 'ordered');
				location.href = '/lab.html';
			})()`))
			v.sees(test("lesson")) // else the lessons move the link away under the click
			v.clicks("to-own")
			v.do("open the order", click(chromedp.CSS(`[data-test="order"] a`)))
			v.clicks("follow-ticket")
			v.sees(`[data-test="steps"]`)
			order = v.reads(`.ticket .rows div:nth-child(4) code`)
		} else {
			v.goTo("/admin.html#ticket=" + order)
		}
		v.sees(`[data-test="steps"] [data-step="told"]`)
		v.until("each step is there in its order", `[...document.querySelectorAll('[data-step]')].map(s => s.dataset.step).join(' ') ===
			'address click batch granted journaled queued ordered settled acknowledged told'`)
		v.until("every text has its values", `!/[{}]|undefined|NaN/.test(document.querySelector('[data-test="steps"]').innerText)`)
		v.do("open the code", click(chromedp.CSS(`[data-step="granted"] summary`)))
		v.until("the line that decides is marked", `document.querySelector('[data-step="granted"] [open] .decides').textContent.includes('reserve(')`)
		v.fits(c.width)
		v.shoots("ticket-" + c.name)
		v.hasNoErrors()
	}
	stranger := visit(t, root, s.URL, "en-GB")
	stranger.goTo("/login.html?next=/admin.html")
	stranger.registers("13811112222", "n")
	stranger.sees(test("not-staff"))
	stranger.goTo("/admin.html#ticket=" + order)
	stranger.until("nothing is shown", `document.querySelector('.ticket .blank') && !document.querySelector('[data-step]')`)
}
