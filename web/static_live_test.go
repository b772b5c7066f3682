package web_test

import (
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// An administrator watches a rush: at its end the page shows what Postgres has. A hidden tab reads nothing, and the one that is
// shown again catches up. The page for guests shows the same.
func TestLiveViewShowsARush(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := openShop(t, "MIAOSHA_RATE=off", "MIAOSHA_IP_RATE=off")
	sale := sandboxtest.Sale(t, s.env, 30)
	v := visit(t, root, s.URL, "en-GB")
	v.emulates(390, 844, "prefers-color-scheme", "light")
	v.isLoggedIn(s.staff("13900001111", "admin", ""))
	draft := strings.TrimSpace(sandboxtest.MustCommand(t, s.env, "sale", "draft", "--title", "Later", "--stock", "7"))
	v.goTo("/admin.html#live/" + draft)
	v.sees(test("not-tracked"))
	sandboxtest.MustCommand(t, s.env, "sale", "publish", draft)
	v.shows("live-left", "7")
	v.until("the charts of a sale that was opened early go on", `Number(document.querySelector('.charts').dataset.points) > 1`)
	v.goTo("/admin.html#live/" + sale)
	v.shows("live-left", "30")

	buyers := s.Buyers(t, 40, sale)
	var crowd sync.WaitGroup
	for _, b := range buyers {
		crowd.Go(func() { b.Buy(time.Now().Add(sandboxtest.Hang)) })
	}
	crowd.Wait()
	v.shows("live-left", "0")
	v.shows("live-sold", "30")
	v.until("the totals are those of the rush", `(() => {
		const text = (name) => document.querySelector('[data-test="live-' + name + '"]').parentNode.innerText;
		return text('tickets').includes('30 in total') && text('orders').includes('30 in total') && text('sold').includes('30 not paid yet');
	})()`)
	if list := sandboxtest.MustCommand(t, s.env, "sale", "list", "--json"); !regexp.MustCompile(`"id": ` + sale + `,[^}]*"left": 0,\s*"pending": 30,`).MatchString(list) {
		t.Errorf("in Postgres there is %s", list)
	}
	v.evaluates(`document.querySelector('.charts').scrollIntoView(), ''`) // they are drawn when they are seen
	v.until("the charts are drawn", `document.querySelectorAll('[data-test="live"] .uplot canvas').length === 4`)
	if text := v.reads(test("answers")); !strings.Contains(text, "Buy · accepted") {
		t.Errorf("the answers are %q", text)
	}
	v.until("it is no wider than the phone", `document.documentElement.scrollWidth <= 390`)

	v.clicks("share")
	link := v.reads(test("link"))
	v.hides(true)
	v.sees(test("live-state") + `[data-state="paused"]`)
	for _, b := range buyers {
		if won := b.AskResult().Purchase(); won.State == "ordered" {
			b.Cancel(time.Now().Add(sandboxtest.Hang), won.OrderID)
			break
		}
	}
	guest := visit(t, root, s.URL, "zh-CN")
	guest.goTo(strings.TrimPrefix(link, s.URL))
	guest.shows("live-left", "1") // so the shop has told everyone who listens
	if left := v.reads(test("live-left")); left != "0" {
		t.Errorf("the hidden tab shows %s", left)
	}
	v.hides(false)
	v.shows("live-left", "1")
	if text := guest.reads(test("processes")); !strings.Contains(text, "1 个进程") {
		t.Errorf("a guest sees %q", text)
	}
	guest.hides(true)
	guest.sees(test("live-state") + `[data-state="paused"]`)
	guest.evaluates(`window.asked = fetch, window.fetch = async () => new Response('{"code":"busy"}', { status: 503 }), ''`)
	guest.hides(false)
	guest.sees(test("live-state") + `[data-state="full"]`)
	if text := guest.reads(test("live-state")); text != "暂时没有空位，正在重试" {
		t.Errorf("a guest without a place reads %q", text)
	}
	guest.evaluates(`window.fetch = asked, ''`)
	guest.goTo("/live.html#wrong")
	guest.sees(test("live-state") + `[data-state="bad_link"]`)
	v.hasNoErrors()
	guest.hasNoErrors()
	stranger := visit(t, root, s.URL, "zh-CN") // a page without a link asks for nothing, and the console has no 403
	stranger.goTo("/live.html")
	stranger.sees(test("live-state") + `[data-state="bad_link"]`)
	stranger.hasAnEmptyConsole()
}
