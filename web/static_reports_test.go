package web_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"miaosha/seckill/bench"
	"miaosha/seckill/sandbox/sandboxtest"
)

// The pages that bench and lab write are read like the shop's: in both languages, on the smallest phone, without a server. Their
// text is dark on light or light on dark, and a switch changes the language.
func TestReportsFitAPhoneInBothLanguages(t *testing.T) {
	t.Parallel()
	root, dir := chromium(t), t.TempDir()
	lab := filepath.Join(dir, "lab.html")
	_, errs, code := sandboxtest.Command(t, sandboxtest.Stores(t), "lab", "--strategies", "read-then-write,guard-unique", "--buyers", "40", "--stock", "5", "--html", lab)
	if code != 0 {
		t.Fatalf("exit %d %s", code, errs)
	}
	latency := bench.Latency{Count: 2, P99: 9000, Max: 9000, Curve: []bench.Point{{Percent: 50, Millis: 0.1}, {Percent: 90, Millis: 9000}}}
	turn := bench.Turn{Name: "capacity", Seconds: 10, Conns: 128, Counts: bench.Counts{Offered: 150000, Accepted: 150000}, Sold: 150000, Committed: 15000,
		RefusedBy: map[string]int64{"not_started": 1000, "sold_out": 2000, "too_many": 300}, Accept: latency,
		Samples: []bench.Sample{{At: 1, Sold: 9}, {At: 2, Sold: 15000}, {At: 3, Sold: 15000}}}
	orders, rungs := 150000, []bench.Rung{{Name: "none: Postgres decides"}, {Name: "sold-out mark: all"}}
	ladder := bench.Ladder{At: time.Now(), Rungs: rungs}
	for i := range rungs {
		ladder.Add(i, bench.Round{Turn: turn, Audit: bench.Audit{Clean: true}})
	}
	report := bench.Report{At: time.Now(), Shape: "ramp", Buyers: 150000, Stock: 150000, Turns: []bench.Turn{turn}, Orders: &orders, Audit: &bench.Audit{Clean: true},
		URL: "http://127.0.0.1:8080"}
	report.Command = "miaosha bench --shape ramp --html " + strings.Repeat("/a-long-folder", 9)
	for name, write := range map[string]func(*os.File) error{"bench": func(f *os.File) error { return report.HTML(f) }, "ladder": func(f *os.File) error { return ladder.HTML(f) }} {
		f, err := os.Create(filepath.Join(dir, name+".html"))
		if err == nil {
			err = write(f)
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	v := visit(t, root, "file://"+dir, "zh-CN")
	for name, texts := range map[string][2]string{"bench": {"面对 100 倍容量的请求", "of the peak is sold"}, "ladder": {"每一级都卖得分毫不差", "every rung sold exactly"},
		"lab": {"2 种方案有 1 种结果正确；超卖：read-then-write", "1 of 2 strategies came out right in this run; sold more than there was: read-then-write"}} {
		for _, scheme := range []string{"light", "dark"} {
			v.emulates(320, 640, "prefers-color-scheme", scheme)
			v.goTo("/" + name + ".html")
			for i, id := range []string{"lang-zh", "lang-en"} {
				v.evaluates(fmt.Sprintf(`document.getElementById(%q).click(), ''`, id))
				shown := v.evaluates(`document.querySelector('.verdict').innerText`)
				if !strings.Contains(shown, texts[i]) || strings.Contains(shown, texts[1-i]) {
					t.Errorf("%s, %s: the verdict is %q, want %q", name, id, shown, texts[i])
				}
				v.fits(320)
			}
		}
		if light := v.evaluates(`getComputedStyle(document.body).backgroundColor`); light != "rgb(23, 20, 18)" {
			t.Errorf("%s in the dark is on %s", name, light)
		}
	}
	v.emulates(320, 640, "forced-colors", "active")
	v.goTo("/lab.html")
	v.until("the chosen language and the bars are seen", `(back => back(document.querySelector('label:has(:checked)')) !== back(document.querySelector('label:not(:has(:checked))')) &&
		[...document.querySelectorAll('.bar i')].every((i) => (back(i) !== 'rgba(0, 0, 0, 0)' || getComputedStyle(i).backgroundImage !== 'none') && getComputedStyle(i.parentElement).borderTopWidth === '1px'))((e) => getComputedStyle(e).backgroundColor)`)
	v.hasNoErrors()
}
