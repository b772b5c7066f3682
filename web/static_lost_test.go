package web_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
)

// lost is how a file of a page is lost, by what comes in its place.
var lost = map[string]func(w http.ResponseWriter, r *http.Request){
	"a broken connection": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	"404": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(404)
		fmt.Fprint(w, `{"code":"not_found","msg":"Not found"}`)
	},
	"503": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
	"the page of a portal": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>Wi-Fi</title><p>Log in to the Wi-Fi")
	},
	"another script": func(w http.ResponseWriter, _ *http.Request) { // as one in a syntax that the browser does not know
		w.Header().Set("Content-Type", "text/javascript")
		fmt.Fprint(w, "const 1 = <p>;")
	},
	"a script that throws": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		fmt.Fprint(w, "throw new TypeError('it is newer than this browser')")
	},
}

// loses makes the release answer each request for a file whose path matches in one way of lost.
func (o *release) loses(path *regexp.Regexp, how string) {
	o.answers(func(w http.ResponseWriter, r *http.Request) bool {
		if !path.MatchString(r.URL.Path) {
			return false
		}
		lost[how](w, r)
		return true
	})
}

// theWords is an expression: the words about a page that did not start are seen, in both languages and with the link, and no skeleton.
const theWords = `((words) => {
	const seen = (e) => [...e.getClientRects()].some((r) => r.width * r.height > 0) && getComputedStyle(e).visibility === 'visible';
	return seen(words) && words.innerText.includes('页面没有完整打开') && words.innerText.includes('请重新加载') && words.innerText.includes('Chrome 或 Edge 92') &&
		words.innerText.includes('This page did not load completely') && words.innerText.includes('reload the page') && words.innerText.includes('Chrome or Edge 92') &&
		seen(document.getElementById('reload')) && ![...document.querySelectorAll('.ghost')].some(seen);
})(document.getElementById('lost'))`

// theNote is an expression: the page goes on, and the note about a part of it is seen in one language, with the link.
func theNote(zh bool) string {
	has, not := "What is open still works", "已经打开的部分还能用"
	if zh {
		has, not = not, has
	}
	return `document.getElementById('main') !== null && ((note) => getComputedStyle(note).visibility === 'visible' && note.innerText.includes('` + has + `') &&
		!note.innerText.includes('` + not + `') && note.querySelector('#reload').getClientRects().length > 0)(document.getElementById('lost'))`
}

// A page whose script does not come, or does not run, says so at once, and opens when it is loaded again. Here each script of the list
// and one of each other page is lost in turn, in each way in turn. What is not needed for the page leaves it with a note, or as it is.
func TestAPageThatLosesAScriptSaysSo(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	o := anotherRelease(t, s.URL, "0123456789abcdef")
	sale := s.knownSale(t, "--title", "壶", "--stock", "1")
	v := visit(t, root, o.URL, "zh-CN")
	v.keepsNoFiles()
	named := regexp.MustCompile(`(?:href|src)="/static/[0-9a-f]{16}/([^"]+\.js)"`)
	ways := []string{"a broken connection", "404", "503", "the page of a portal", "another script", "a script that throws"}
	opened := 0
	loses := func(page, file string) {
		t.Helper()
		how := ways[opened%len(ways)]
		opened++
		o.loses(regexp.MustCompile(`^/static/[0-9a-f]+/`+regexp.QuoteMeta(file)+`$`), how)
		v.goTo(page)
		want := theWords
		switch {
		case file == "early.js":
			want = settled + ` && !document.documentElement.dataset.lost`
		case strings.HasPrefix(file, "sandbox/"):
			want = theNote(true)
		case file == "note.js": // of the list, only what a sandbox adds to it says notes
			want = theNote(true)
		}
		v.until(page+" says that it lost "+file+" to "+how, want)
	}
	for _, file := range named.FindAllStringSubmatch(string(sandboxtest.Call("GET", o.URL+"/", "", "", "Accept-Encoding", "identity", "Accept-Language", "zh-CN").Raw), -1) {
		loses("/", file[1])
	}
	for _, page := range pagesOf(sale, "") {
		loses(page, []string{"shell.js", "api.js", "lib/preact.js"}[opened%3])
	}
	loses("/sale.html?id="+sale, "sale.js")
	v.shoots("lost-page")
	o.answers(nil)
	v.do("reload", click("#reload"))
	v.until("the page is there", settled)
	if left := v.evaluates(`String(document.getElementById('lost'))`); left != "null" {
		t.Errorf("the words are still there: %s", left)
	}
}

// Without its style sheets a page works, and says that they are missing. Where no script comes, and none fails either, the words come by
// themselves; where nothing at all comes they are seen at once.
func TestAPageWithoutItsStyles(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	o := anotherRelease(t, s.URL, "0123456789abcdef")
	v := visit(t, root, o.URL, "en-GB")
	v.keepsNoFiles()
	// A style sheet and a script of an extension of the browser are blocked, before and after the page has started.
	foreign := `Promise.all([['link', { rel: 'stylesheet', href: '/theirs.css' }], ['script', { src: '/theirs.js' }]].map(([tag, file]) => new Promise((done) => {
		document.documentElement.append(Object.assign(document.createElement(tag), file, { onerror: done, onload: done }));
	})))`
	v.before(`addEventListener('DOMContentLoaded', () => { window.theirs = ` + foreign + `; })`)
	v.goTo("/missing-before")
	v.until("the page has started with the files of someone else", settled+` && window.theirs.then(() => true)`)
	if lost := v.evaluates(`(async () => { await ` + foreign + `; return String(document.documentElement.dataset.lost); })()`); lost != "undefined" {
		t.Errorf("without files that are not the shop's it has lost a %s", lost)
	}
	v = visit(t, root, o.URL, "en-GB")
	v.keepsNoFiles()
	for _, sheet := range []string{`/app\.css$`, `/list\.css$`, `\.css$`} {
		for _, how := range []string{"404", "a broken connection", "the page of a portal"} {
			o.loses(regexp.MustCompile(sheet), how)
			v.goTo("/")
			v.until("the page works without "+sheet+", lost to "+how, settled+` && getComputedStyle(document.getElementById('lost')).visibility === 'visible' &&
				document.getElementById('lost').innerText.includes('What is open still works')`)
		}
	}
	for _, how := range []string{"404", "a broken connection", "the page of a portal"} {
		o.loses(regexp.MustCompile(`^/static/`), how)
		v.goTo("/")
		v.until("the words are seen without any file, lost to "+how, theWords)
	}

	for _, file := range []string{`\.js$`, `/index\.js$`} {
		o.answers(func(w http.ResponseWriter, r *http.Request) bool { // a script of which nothing comes, and which does not fail
			empty := regexp.MustCompile(file).MatchString(r.URL.Path)
			if empty {
				w.Header().Set("Content-Type", "text/javascript")
			}
			return empty
		})
		v.goTo("/")
		v.until("the words come by themselves when nothing comes of "+file, `document.getAnimations().length > 0 &&
			(document.getAnimations().forEach((animation) => animation.finish()), true) && `+theWords)
	}
}

// The last process of the old release ends while its pages are open. What a page loads later is not there: it says so in the language of
// the page, and keeps what was typed. The part that was asked for is no eternal loading.
func TestAnUpgradeWhilePagesAreOpen(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	o := anotherRelease(t, s.URL, "0123456789abcdef")
	sale := s.knownSale(t, "--title", "升级时的茶具", "--stock", "1")
	v := visit(t, root, o.URL, "zh-CN")
	v.keepsNoFiles()
	for i, row := range []struct{ page, before, then, shows string }{
		{"/login.html", `(phone => { phone.value = '13811112222'; phone.dispatchEvent(new Event('input', { bubbles: true })); return true; })(document.querySelector('[data-test="phone"]'))`,
			`document.querySelector('[data-test="lang"]').click()`, `document.querySelector('[data-test="phone"]').value === '13811112222'`},
		{"/", "", `document.querySelector('[data-test="lang"]').click()`, "true"},
		{"/admin.html", "", `document.querySelector('[data-test="section-orders"]').click()`, `document.getElementById('main').innerText.includes('加载失败')`},
		{"/admin.html", "", `document.querySelector('[data-test="section-live"]').click()`, `document.getElementById('main').innerText.includes('加载失败')`},
		{"/admin.html?charts#live", `(charts => charts && (charts.scrollIntoView(), true))(document.querySelector('.charts'))`, "", "true"},
		{"/lab.html?bench#bench", "", `location.hash = 'strategies'`, `document.querySelector('[data-test="source"]') !== null`},
		{"/sale.html?id=" + sale, "", `document.querySelector('[data-test="lang"]').click()`, "true"},
	} {
		if i == 1 {
			v.isLoggedIn(s.keeper(t))
		}
		lost := ""
		if row.then == "" { // the charts are drawn when they are seen
			lost, row.then = `/uplot/`, "''"
			o.loses(regexp.MustCompile(lost), "404")
		} else {
			o.answers(nil)
		}
		v.goTo(row.page)
		v.until(row.page+" has started", settled)
		if row.before != "" {
			v.until("something is typed", row.before)
		}
		if lost == "" {
			o.loses(regexp.MustCompile(`^/static/`), "404")
		}
		v.evaluates(row.then + `, ''`)
		v.until(fmt.Sprintf("row %d: %s says that a part was lost", i, row.page), theNote(true))
		v.until(fmt.Sprintf("row %d: %s goes on", i, row.page), row.shows)
		v.until("it is not loading", settled)
		v.shoots(fmt.Sprintf("lost-part-%d", i))
		v.do("dismiss the note", click("#dismiss"))
		v.until("the note is gone, and the page has the focus", `document.getElementById('lost') === null && document.activeElement.id === 'main'`)
		if row.page == "/lab.html?bench#bench" {
			o.answers(nil)
			v.evaluates(`location.hash = 'strategies/for-update', ''`)
			v.sees(test("about"))
			v.clicks("lang")
			v.until("the language has changed", `document.documentElement.lang === 'en'`)
			v.clicks("lang")
			v.until("the language has changed back", `document.documentElement.lang === 'zh-CN'`)
		}
	}
}

// A page of the old release asks the new one for what it no longer has, or sends what it no longer takes: the page says it in words, and
// none of it loads for ever.
func TestAPageSpeaksWithANewerRelease(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	o := anotherRelease(t, s.URL, "0123456789abcdef")
	sale := s.knownSale(t, "--title", "新版的茶具", "--stock", "1")
	v := visit(t, root, o.URL, "zh-CN")
	v.isLoggedIn(s.keeper(t))
	for answer, status := range map[string]int{
		`{"code":"not_found","msg":"页面不存在"}`:      404,
		`{"code":"upgrade_first","msg":"请先刷新页面"}`: 409,
	} {
		o.answers(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == "/api/me" {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprint(w, answer)
			return true
		})
		for _, page := range append(pagesOf(sale, "0192f0c1-2345-7890-abcd-0123456789ab"), "/admin.html?1#orders", "/admin.html?2#users", "/admin.html?3#log", "/admin.html?4#goods") {
			v.goTo(page)
			v.until(fmt.Sprintf("%s says something, after %d %s", page, status, answer), settled+` && document.getElementById('main').innerText.trim().length > 1`)
		}
	}
}
