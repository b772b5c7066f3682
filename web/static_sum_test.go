package web_test

import (
	"fmt"
	"strings"
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
)

// A sum on the screen learns what becomes of its sale: while no one can buy, the panel says why, and the sum comes back
// with what was typed when the sale goes on, or a new one when it has become too old. A refusal that came first does
// the same.
func TestASumLearnsWhatBecomesOfItsSale(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	sale := s.knownSale(t, "--title", "T", "--stock", "3")
	v := visit(t, root, s.URL, "zh-CN")
	v.isLoggedIn(s.user(t).Token)
	v.goTo("/sale.html?id=" + sale)
	v.sees(view("open"))
	v.clicks("buy")
	v.sees(test("captcha-img"))
	answer := v.sum(s, sale, "session")
	v.types("captcha-input", answer[:1])
	typed := `document.querySelector('[data-test="captcha-input"]').value`
	staff := func(args ...string) { sandboxtest.MustCommand(t, s.env, append([]string{"sale"}, args...)...) }

	staff("pause", sale)
	v.sees(view("paused"))
	if text := v.reads(view("paused")); !strings.Contains(text, "店铺暂停了这场秒杀") || v.evaluates(`String(`+visible+`('[data-test="captcha-input"]'))`) != "null" {
		t.Errorf("a paused sale with a sum shows %q", text)
	}
	staff("resume", sale)
	v.sees(view("captcha"))
	v.becomes("what was typed", typed, answer[:1])
	v.becomes("the focus", `document.activeElement.dataset.test`, "captcha-input")

	// A refusal comes before the page has read the sale: reads of the sale stand still.
	v.evaluates(`window.ask = fetch, window.fetch = (url, ...more) => String(url).endsWith('/api/sales/` + sale + `') ? new Promise(() => {}) : ask(url, ...more), ''`)
	v.until("no read is under way", `fetch('/api/sales/`+sale+`/result').then((r) => r.ok)`)
	staff("pause", sale)
	v.types("captcha-input", answer[1:]+"\r")
	v.sees(view("paused"))
	v.until("no note says it twice", `document.querySelector('[data-test="note"]') === null`)
	staff("resume", sale)
	v.evaluates(`window.fetch = ask, document.dispatchEvent(new Event('visibilitychange')), ''`)
	v.sees(view("captcha"))
	v.becomes("what was typed", typed, answer)

	// A minute later the sum is too old.
	v.evaluates(`const passed = performance.now.bind(performance); performance.now = () => passed() + 61e3; ''`)
	staff("pause", sale)
	v.sees(view("paused"))
	staff("resume", sale)
	v.sees(view("captcha") + " " + test("note"))
	if note := v.reads(view("captcha") + " " + test("note")); note != "刚才那道题已过一分钟，请答这道新题。" {
		t.Errorf("after a pause of a minute: %q", note)
	}
	v.until("there is a new sum", typed+` === '' && document.querySelector('[data-test="captcha-img"]') !== null`)
	v.clicks("captcha-kind")
	v.until("a note goes when another sum is asked for", `document.querySelector('[data-test="note"]') === null`)
	v.sees(test("captcha-words"))
	v.solves(s, sale)
	v.sees(view("ordered"))

	w := visit(t, root, s.URL, "en-GB")
	w.isLoggedIn(s.user(t).Token)
	w.goTo("/sale.html?id=" + sale)
	w.clicks("buy")
	w.sees(test("captcha-img"))
	staff("close", sale)
	w.sees(view("ended"))
	w.until("no sum is seen", visible+`('[data-test="captcha-input"]') === null`)
	v.hasNoErrors()
	w.hasNoErrors()
}

// A sum that is solved before the start goes while its sale is moved to a later time, and comes back with what was
// typed; an answer that waits for the start waits for the new one.
func TestASumLearnsThatItsSaleIsMoved(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	sale := s.knownSale(t, "--title", "T", "--stock", "3", "--start", "1h", "--end", "2h")
	v := visit(t, root, s.URL, "en-GB")
	v.isLoggedIn(s.user(t).Token)
	v.goTo("/sale.html?id=" + sale)
	v.sees(view("waiting"))
	// The page reads that the sale opens in so many ms.
	v.evaluates(`window.startsIn = 3600e3, window.asked = [], (ask => { window.fetch = async (url, ...more) => {
		asked.push(String(url));
		const reply = await ask(url, ...more);
		if (!String(url).endsWith('/api/sales/` + sale + `')) return reply;
		const body = await reply.json();
		body.data.start_at = new Date(Date.parse(body.data.server_time) + window.startsIn).toISOString();
		return new Response(JSON.stringify(body), { headers: reply.headers });
	}; })(fetch), ''`)
	moves := func(ms string) {
		v.evaluates(`window.startsIn = ` + ms + `, ''`)
		v.hides(false) // and so it reads again
	}
	moves("25e3")
	v.clicks("prepare")
	v.sees(test("captcha-img"))
	answer := v.sum(s, sale, "session")
	v.types("captcha-input", answer[:1])
	moves("3600e3")
	v.sees(view("waiting"))
	moves("25e3")
	v.sees(view("captcha"))
	v.becomes("what was typed", `document.querySelector('[data-test="captcha-input"]').value`, answer[:1])
	v.types("captcha-input", answer[1:]+"\r")
	v.sees(view("ready"))
	moves("3600e3")
	v.sees(view("waiting"))
	moves("25e3")
	v.sees(view("ready"))
	v.becomes("what was asked", `asked.filter((url) => url.endsWith('/path')).join()`, "")
	moves("3600e3")
	v.sees(view("waiting"))
	v.evaluates(`const passed = performance.now.bind(performance); performance.now = () => passed() + 61e3; window.startsIn -= 61e3, ''`)
	moves("25e3")
	v.sees(view("captcha") + " " + test("note"))
	v.hasNoErrors()
}

// The view of each step, in each state of a sale, with the time to its start, for a visitor who is logged in and one
// who is not.
func TestViewsOfAPurchase(t *testing.T) {
	t.Parallel()
	s := sharedSandbox(t)
	v := visit(t, chromium(t), s.URL, "en-GB")
	v.goTo("/sale.html?id=" + s.knownSale(t, "--title", "T", "--stock", "1", "--start", "1h", "--end", "2h"))
	v.sees(view("waiting"))
	v.evaluates(`import([...document.querySelectorAll('link[rel="modulepreload"]')].find((l) => l.href.includes('/purchase')).href).then((module) => { window.purchase = module; return ''; })`)
	states := []string{"open", "sold_out", "paused", "ended", "soon", "upcoming"} // soon: in twenty seconds
	for _, row := range []struct {
		what  string // of the state, in JavaScript
		views string // of the six states
	}{
		{`step: 'idle'`, "open sold_out paused ended waiting waiting"},
		{`step: 'idle', user: null`, "login sold_out paused ended waiting waiting"},
		{`step: 'idle', user: undefined`, "loading sold_out paused ended waiting waiting"},
		{`step: 'idle', known: false`, "loading sold_out paused ended waiting waiting"},
		{`step: 'idle', heldUntil: 2e12`, "sold_out sold_out paused ended waiting waiting"},
		{`step: 'captcha'`, "captcha captcha paused ended captcha waiting"},
		{`step: 'captcha', captcha: 'blob:', sending: true`, "captcha captcha paused ended captcha waiting"},
		{`step: 'ready'`, "ready ready paused ended ready waiting"},
		{`step: 'queue', result: { state: 'queued' }`, "queue queue queue queue queue queue"},
		{`step: 'idle', result: { state: 'closed' }`, "closed closed closed closed closed closed"},
		{`step: 'idle', result: { state: 'invalid' }`, "invalid invalid invalid invalid invalid invalid"},
		{`step: 'idle', result: { state: 'sold_out' }`, "open sold_out paused ended waiting waiting"},
		{`step: 'idle', order: { status: 'pending' }`, "ordered ordered ordered ordered ordered ordered"},
		{`step: 'captcha', order: { status: 'paid' }`, "paid paid paid paid paid paid"},
		{`step: 'captcha', wait: { code: 'busy', during: 'buy', until: 0 }`, "busy busy busy busy busy busy"},
		{`step: 'idle', wait: { code: 'busy', during: 'load', until: 0 }`, "busy sold_out paused ended waiting waiting"},
	} {
		var got []string
		for _, state := range states {
			sale := fmt.Sprintf(`{ state: %q, left: 1 }`, state)
			if state == "soon" || state == "upcoming" {
				sale = fmt.Sprintf(`{ state: 'upcoming', left: 1, start_at: new Date(1e12 + %d).toISOString() }`, map[string]int{"soon": 20_000, "upcoming": 600_000}[state])
			}
			got = append(got, v.evaluates(`purchase.viewOf({ user: { user_id: 1 }, known: true, order: null, result: null, wait: null, heldUntil: 0, sale: `+sale+`, `+row.what+` }, 1e12)`))
		}
		if views := strings.Join(got, " "); views != row.views {
			t.Errorf("%s: %s, want %s", row.what, views, row.views)
		}
	}
}
