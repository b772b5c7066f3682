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
	s := sharedSandbox(t)
	sale, order := s.knownSale(t, "--title", "Tea", "--stock", "5"), ""
	for _, c := range []struct {
		name, token, language, color string
		width                        int64
	}{{"phone-zh-dark", s.user(t).Token, "zh-CN", "dark", 320}, {"desktop-en-light", s.keeper(t), "en-GB", "light", 1280}} {
		v := visit(t, root, s.URL, c.language)
		v.emulates(c.width, 900, "prefers-color-scheme", c.color)
		v.isLoggedIn(c.token)
		if order == "" {
			v.goTo("/sale.html?id=" + sale)
			v.clicks("buy")
			v.solves(s, sale)
			v.sees(view("ordered"))
			v.goTo("/lab.html")
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
			'sum_drawn sum_solved address click batch granted journaled queued ordered settled acknowledged told'`)
		v.until("every text has its values", `!/[{}]|undefined|NaN/.test(document.querySelector('[data-test="steps"]').innerText)`)
		v.do("open the code", click(chromedp.CSS(`[data-step="granted"] summary`)))
		v.until("the line that decides is marked", `document.querySelector('[data-step="granted"] [open] .decides').textContent.includes('reserve(')`)
		v.fits(c.width)
		v.shoots("ticket-" + c.name)
		v.hasNoErrors()
	}
	stranger := visit(t, root, s.URL, "en-GB")
	stranger.isLoggedIn(s.user(t).Token)
	stranger.goTo("/admin.html")
	stranger.sees(test("not-staff"))
	stranger.goTo("/admin.html#ticket=" + order)
	stranger.until("nothing is shown", `document.querySelector('.ticket .blank') && !document.querySelector('[data-step]')`)
}
