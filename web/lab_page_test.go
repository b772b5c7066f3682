package web_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// looksAt gives a visitor a window, and an operating system that wants little motion if still.
func (v *visitor) looksAt(width, height int64, still bool) {
	v.t.Helper()
	motion := "no-preference"
	if still {
		motion = "reduce"
	}
	v.do("look", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600})
		if err == nil {
			_, err = cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: motion}}})
		}
		return err
	}))
}

func (v *visitor) isQuiet() {
	v.t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.faults) > 0 {
		v.t.Errorf("the console says: %v", v.faults)
	}
}

// What the lab is for: a student makes it oversell, sees by how much, reads the lines that did it, and sees the way that
// does not.
func TestLabOversellsOnThePageAndTheGuardDoesNot(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	l := openLab(t)
	v := visit(t, root, l.URL, "en-GB")
	v.looksAt(1280, 900, false)
	v.goTo("/")
	v.clicks("to-lab") // a sandbox's pages lead there
	v.sees(test("lesson"))
	v.clicks("part-bench")
	v.clicks("bench-run") // read-then-write and guard: that is what the bench begins with
	v.sees(test("run") + `[data-state="done"]`)

	naive := test("result-read-then-write")
	v.sees(naive + `[data-right="no"]`)
	if text := v.reads(naive); !strings.Contains(text, "oversold by ") || !strings.Contains(text, "✗") {
		t.Errorf("read-then-write: %q", text)
	}
	v.until("the figure is above zero, and red as well", `(() => {
		const cell = document.querySelector('[data-test="result-read-then-write"] .bad');
		const [red, green, blue] = getComputedStyle(cell).color.match(/\d+/g).map(Number);
		return Number(cell.innerText.replace(/\D/g, '')) > 0 && red > 150 && green < 100 && blue < 100;
	})()`)
	guard := test("result-guard")
	v.sees(guard + `[data-right="yes"]`)
	if text := v.reads(guard); !strings.Contains(text, "exact") || strings.Contains(text, "✗") {
		t.Errorf("guard: %q", text)
	}

	v.goTo("/lab.html#ways/read-then-write")
	v.sees(test("source"))
	if text := v.reads(test("source") + " figcaption"); !strings.Contains(text, "strategy_read_then_write.go") || !strings.Contains(text, "These lines decide") {
		t.Errorf("over the source stands %q", text)
	}
	v.until("the marked lines hold the read and the write", `(() => {
		const lines = [...document.querySelectorAll('[data-test="source"] .decides mark')].map((m) => m.textContent).join('\n');
		return /select/i.test(lines) && /update/i.test(lines);
	})()`)
	v.isQuiet()
}

// A run can be stopped, and says that it was.
func TestLabRunIsStoppedOnThePage(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	l := openLab(t)
	v := visit(t, root, l.URL, "en-GB")
	v.goTo("/lab.html#bench")
	v.clicks("way-read-then-write")
	v.clicks("way-guard")
	v.clicks("way-for-update")
	v.clicks("fault-slow-postgres")
	v.clicks("bench-run")
	v.clicks("stop")
	v.sees(test("run") + `[data-state="failed"] ` + test("run-note"))
	if note := v.reads(test("run-note")); note != "Stopped" {
		t.Errorf("a run that was stopped says %q", note)
	}
	v.sees(test("bench-run") + `:not([disabled])`)
	v.isQuiet()
}

// A race is recorded and gone through step by step, by buttons and by keys. It does not play by itself for who wants
// little motion, and does for others.
func TestLabRaceIsPlayed(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	l := openLab(t)
	v := visit(t, root, l.URL, "zh-CN")
	v.looksAt(390, 844, true)
	v.goTo("/lab.html#race/read-then-write")
	v.clicks("race-go")
	v.sees(test("race-play") + `[aria-pressed="false"]`)
	v.until("one step is there", `document.querySelectorAll('[data-state="runs"], [data-state="done"]').length === 1`)
	v.clicks("race-next")
	v.until("there is more of it", `document.querySelectorAll('[data-test="player"] [data-state]').length > 4
		&& document.querySelector('[data-test="race-back"]').disabled === false`)
	v.until("the end is not told yet", `document.querySelector('[data-test="race-end"]') === null`)
	v.tabsTo("race-play")
	v.do("to the end", chromedp.Evaluate[chromedp.Void](`document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'End', bubbles: true, cancelable: true }))`))
	v.sees(test("race-end") + `[data-right="no"]`)
	if end := v.reads(test("race-end")); !strings.Contains(end, "1 件货，2 个订单") {
		t.Errorf("the race ends with %q", end)
	}
	v.until("both buyers are told yes", `(() => {
		const told = [...document.querySelectorAll('[data-kind="answer"]')];
		return told.length === 2 && new Set(told.map((li) => li.dataset.buyer)).size === 2 && told.every((li) => /yes/.test(li.innerText));
	})()`)
	v.isQuiet()

	lively := visit(t, root, l.URL, "en-GB")
	lively.looksAt(1280, 900, false)
	lively.goTo("/lab.html#race/guard")
	lively.clicks("race-go")
	lively.sees(test("race-play") + `[aria-pressed="true"]`)
	lively.until("it goes on by itself", `document.querySelector('[data-test="race-back"]')?.disabled === false`)
	lively.clicks("race-play")
	lively.sees(test("race-play") + `[aria-pressed="false"]`)
	lively.isQuiet()
}

// Every lesson is there in both languages, fits a small phone, and has a question; where a run must tell, it does, and the
// page says which choice was right.
func TestLabLessons(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	l := openLab(t)
	tells := map[int]int{1: 2, 5: 1, 9: 1, 10: 1, 11: 1, 12: 2} // the choice that any run must show to be right
	for _, lang := range []string{"zh-CN", "en-GB"} {
		v := visit(t, root, l.URL, lang)
		v.looksAt(360, 740, true)
		for n := 1; n <= 12; n++ {
			v.goTo(fmt.Sprintf("/lab.html#%d", n))
			lesson := fmt.Sprintf(`[data-test="lesson"][data-lesson="%d"] `, n)
			v.sees(chromedp.CSS(lesson + `[data-test="choice-1"]`))
			v.until("the page fits", `document.documentElement.scrollWidth <= 360`)
			v.until("no word is missing", `!/\b(lesson|lab|way|try|figure|run|result|verdict)\.[\w-]+\b/.test(document.querySelector('main').innerText)`)
			right, must := tells[n]
			if !must || lang == "zh-CN" {
				continue
			}
			v.do("guess", chromedp.Click(chromedp.CSS(lesson+`[data-test="choice-0"] input`)))
			v.clicks("lesson-run")
			v.sees(chromedp.CSS(fmt.Sprintf(`[data-test="lesson-answer"][data-right="%d"]`, right)))
			if told := v.reads(chromedp.CSS(fmt.Sprintf(`[data-test="choice-%d"][data-right="yes"]`, right))); !strings.Contains(told, "what the run shows") {
				t.Errorf("lesson %d: the right choice says %q", n, told)
			}
			if told := v.reads(chromedp.CSS(`[data-test="choice-0"][data-right="no"]`)); !strings.Contains(told, "Your guess") {
				t.Errorf("lesson %d: the guess says %q", n, told)
			}
			v.until("the page fits", `document.documentElement.scrollWidth <= 360`)
			v.until("no word is missing", `!/\b(lesson|lab|way|try|figure|run|result|verdict)\.[\w-]+\b/.test(document.querySelector('main').innerText)`)
		}
		v.isQuiet()
	}
}

// A shop that has no lab for the visitor is understood, whichever way it says so.
func TestLabSaysWhomItIsFor(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	l := openLab(t)
	shop, err := url.Parse(l.URL)
	if err != nil {
		t.Fatal(err)
	}
	pages := httputil.NewSingleHostReverseProxy(shop)
	for _, status := range []int{401, 403, 404} {
		closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/api/lab") {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				fmt.Fprint(w, `{"code":"forbidden","msg":""}`)
				return
			}
			pages.ServeHTTP(w, r)
		}))
		t.Cleanup(closed.Close)
		v := visit(t, root, closed.URL, "en-GB")
		v.goTo("/lab.html")
		v.sees(test("lab-closed"))
		if text := v.reads(test("lab-closed")); !strings.Contains(text, "The lab is for the sandbox and administrators") {
			t.Errorf("%d: %q", status, text)
		}
		v.isQuiet()
	}
}
