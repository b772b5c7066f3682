package web_test

import (
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"miaosha/seckill/sandbox/sandboxtest"
)

// translator is a browser's translator, as a script.
func translator(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("testdata/translator.js")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Whatever a page draws next, its texts are those of a page that is not translated, in the same order, each once, and nothing throws.
func TestATranslatedPageGoesOn(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	v := visit(t, root, s.URL, "en-GB")
	v.goTo("/no-such-page")
	v.until("the script has run", `document.querySelector('main:not([aria-busy])') !== null`)
	got := v.evaluates(translator(t) + `;(async () => {
		const library = document.querySelector('link[href$="/app.css"]').getAttribute('href').replace('app.css', 'lib/preact.js');
		const { html, render, useState } = await import(library);
		const [page, twin] = [document.createElement('main'), document.createElement('main')];
		document.getElementById('app').append(page);
		const seed = { n: 1 };
		const random = (n) => (seed.n = seed.n * 48271 % 2147483647) % n;
		const piece = (depth, seen = random(9)) => (seen < 3 || depth > 2 ? 'text ' + random(4) + ' ' : seen === 3 ? '' + random(4) : seen === 4 ? false : seen === 5 ? null
			: { tag: 'bipq'[random(4)], key: random(3) ? undefined : random(3), no: random(5) === 0, children: Array.from({ length: random(5) }, () => piece(depth + 1)) });
		const draw = (p) => (p?.tag ? html` + "`<${p.tag} translate=${p.no ? 'no' : undefined}>${p.children.map(draw)}</${p.tag}>`" + ` : p);
		for (const way of ['', 'inside', 'first', 'last']) {
			for (let run = 0; run < 40; run++) {
				const set = [];
				const Part = ({ n }) => {
					const [pieces, setPieces] = useState([]);
					set[n] = setPieces;
					return pieces.map(draw);
				};
				const Page = ({ n }) => {
					const [pieces, setPieces] = useState([]);
					set[n] = setPieces;
					return html` + "`<div><${Part} n=${n + 2} /></div>${pieces.map(draw)}<div>text<${Part} n=${n + 4} /></div>`" + `;
				};
				render(null, page);
				render(null, twin);
				page.textContent = '';
				render(html` + "`<${Page} n=${0} />`" + `, page);
				render(html` + "`<${Page} n=${1} />`" + `, twin);
				const stop = translatePage(page, way);
				const steps = [];
				for (let i = 0; i < 12; i++) {
					const pieces = Array.from({ length: random(6) }, () => piece(0));
					const part = 2 * random(3);
					steps.push(part + JSON.stringify(pieces));
					[0, 1].forEach((n) => set[part + n](pieces));
					if (random(4)) await new Promise((done) => setTimeout(done)); // the translator comes between, or not
				}
				await new Promise((done) => setTimeout(done));
				const shape = (e) => e.outerHTML.replace(/<\/?font>|[[\]]/g, '');
				if (shape(page) !== shape(twin)) return way + ' ' + steps.join('\n') + '\n' + page.outerHTML + '\n want \n' + twin.outerHTML;
				if (/text/.test(twin.textContent) && !page.querySelector('[translate="no"], font')) return way + ' is not translated: ' + page.outerHTML;
				stop();
			}
		}
		render(null, page);
		let tick;
		const Clock = () => {
			const [n, setN] = useState(0);
			tick = setN;
			return html` + "`<b>second ${n} of it<i>and more</i></b>`" + `;
		};
		render(html` + "`<section><p>what stays</p><${Clock} /></section>`" + `, page);
		translatePage(page);
		getSelection().selectAllChildren(page.querySelector('p'));
		const changes = new MutationObserver(() => {});
		changes.observe(page.querySelector('p'), { childList: true, subtree: true, characterData: true });
		for (let n = 1; n < 4; n++) {
			tick(n);
			await new Promise((done) => setTimeout(done));
			if (page.textContent !== '[what stays][second ' + n + ' of it][and more]') return 'after ' + n + ' seconds: ' + page.outerHTML;
		}
		if (changes.takeRecords().length || String(getSelection()) !== '[what stays]') return 'what stays was made new, selected is ' + getSelection();
		return 'as the twin';
	})()`)
	if got != "as the twin" {
		t.Error(got)
	}
	v.hasNoErrors()
}

// translates lets the browser translate each page that comes.
func (v *visitor) translates() {
	v.t.Helper()
	v.before(translator(v.t) + `addEventListener('DOMContentLoaded', () => translatePage(document.body))`)
}

// words are all words of a part of a page without the marks of the translator; each number is a #.
func words(selector chromedp.CSS) string {
	return `document.querySelector(` + quoted(selector) + `).innerText.replace(/[[\]]/g, '').replace(/\s+/g, ' ').replace(/\d+/g, '#').replace(/ /g, '')`
}

// readsAs waits until a translated page has the words of a page that is not.
func (v *visitor) readsAs(twin *visitor, selector chromedp.CSS) {
	v.t.Helper()
	var is, want string
	if !sandboxtest.Poll(func() bool {
		is, want = v.evaluates(words(selector)), twin.evaluates(words(selector))
		return is == want
	}) {
		v.fails("the translated %s reads\n%s\nwant\n%s", selector, is, want)
	}
	if marks := v.evaluates(`document.querySelector(` + quoted(selector) + `).innerText`); !strings.Contains(marks, "[") || strings.Contains(marks, "[[") {
		v.fails("%s is not translated, or twice: %s", selector, marks)
	}
}

// Every page that a browser translates shows the same as one that it does not translate, also after all its words have changed.
func TestTranslatedPagesShowTheSame(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := openSandboxShop(t, "MIAOSHA_RATE=off", "MIAOSHA_IP_RATE=off") // its lists show what no other test changes between two looks
	p := s.person(t, "卫蒋韩")
	var both []*visitor
	compare := func(path, ready string) {
		t.Helper()
		translated, plain := both[0], both[1]
		for _, v := range both {
			v.loads(path)
			v.has(ready)
			v.until("its data is there", `document.querySelector('main [aria-busy="true"], main p.blank[role="status"]') === null`)
		}
		translated.readsAs(plain, "body")
		for _, language := range []string{"zh", "en"} {
			for _, v := range both {
				v.clicks("lang")
			}
			for _, v := range both { // two pages that have not changed yet read the same, too
				v.sees(chromedp.CSS(`html[lang^="` + language + `"] [data-test="lang"]:not([lang^="` + language + `"])`))
			}
			translated.readsAs(plain, "body")
		}
	}
	opens := func(token string) {
		t.Helper()
		v := visit(t, root, s.URL, "en-GB")
		v.isLoggedIn(token)
		both = []*visitor{v, v.tab("en-GB")}
		v.translates()
	}
	opens(p.token)
	for path, ready := range p.personalPages() {
		compare(path, ready)
	}
	for _, v := range both {
		v.hasNoErrors()
	}
	opens(s.keeper(t))
	for _, section := range []string{"sales/" + p.sale, "orders/" + p.order, "payments", "goods", "users", "ticket", "live", "log"} {
		compare("/admin.html#"+section, `data-test="section-sales"`)
	}
	compare("/teach.html", `data-test="lesson"`)
	compare("/class.html", `<h1`)
	for _, v := range both {
		v.hasNoErrors()
	}
}

// A buyer whose browser translates sees the countdown run, buys and pays.
func TestATranslatedPurchase(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	sale := s.sale(t, "--start", "30m", "--stock", "1", "--title", "茶壶")
	buyer, late := visit(t, root, s.URL, "zh-CN"), visit(t, root, s.URL, "zh-CN")
	buyer.isLoggedIn(s.user(t).Token)
	late.isLoggedIn(s.user(t).Token)
	plain, latePlain := buyer.tab("zh-CN"), late.tab("zh-CN")
	all := []*visitor{buyer, plain, late, latePlain}
	buyer.translates()
	late.translates()
	for _, v := range all {
		v.goTo("/sale.html?id=" + sale)
		v.sees(view("waiting"))
	}
	buyer.readsAs(plain, test("view"))
	buyer.until("the countdown runs", `(async () => {
		const time = () => document.querySelector('[data-test="countdown"]').innerText;
		const was = time();
		while (time() === was) await new Promise((done) => setTimeout(done, 50));
		return /^\d\d:\d\d:\d\d$/.test(time());
	})()`)
	s.opens(t, sale, "2s", all...)
	for _, v := range all {
		v.sees(view("open"))
	}
	buyer.readsAs(plain, "main")
	buyer.clicks("buy")
	buyer.sees(test("captcha-img"))
	buyer.failsASum()
	buyer.becomes("the note", `document.querySelector('[data-test="note"]').innerText.replace(/[[\]]/g, '')`, "答案不对，或题目已失效：每道题只能答一次，一分钟内有效。已换一道新题，请重试。")
	buyer.solves(s, sale)
	buyer.sees(view("ordered"))
	plain.sees(view("ordered"))
	buyer.readsAs(plain, "main")
	for _, v := range []*visitor{late, latePlain} {
		v.sees(view("sold_out"))
	}
	late.readsAs(latePlain, test("view"))
	buyer.becomes("the units", `document.querySelector('[data-test="left"]').innerText`, "0")
	buyer.clicks("pay-now")
	buyer.clicks("pay-confirm")
	buyer.sees(test("order-status") + `[data-status="paid"]`)
	plain.goTo(strings.TrimPrefix(buyer.evaluates("location.href"), s.URL))
	plain.sees(test("payment") + `[data-status="captured"]`)
	buyer.sees(test("payment") + `[data-status="captured"]`)
	buyer.readsAs(plain, "main")
	for _, v := range all {
		v.hasNoErrors()
	}
}
