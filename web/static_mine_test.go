package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"miaosha/seckill/lab/exercises"
	"miaosha/seckill/sandbox/sandboxtest"
)

// writes replaces the source in the editor.
func (v *visitor) writes(source string) {
	v.t.Helper()
	text, err := json.Marshal(source)
	if err != nil {
		v.t.Fatal(err)
	}
	v.sees(test("source"))
	v.evaluates(`(field => { field.value = ` + string(text) + `; field.dispatchEvent(new Event('input', { bubbles: true })); return ''; })(document.querySelector('[data-test="source"]'))`)
}

const (
	repaired = `function prepare()
  sql("create unique index one_order on orders (user_id)")
end

function buy(user)
  think()
  return tx(function()
    local new = sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
    if new.affected == 0 then return true end
    return sql("update item set stock = stock - 1 where stock > 0").affected == 1
  end)
end
`
	// The second click of a buyer takes a unit from Redis, and no one has it.
	secondClickTakes = `function prepare()
  sql("create unique index one_order on orders (user_id)")
  redis("SET", key("stock"), sql("select stock from item")[1].stock)
end

function buy(user)
  if redis("DECR", key("stock")) < 0 then return false end
  sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
  return true
end
`
)

// A student runs a way that goes wrong, sees the two buyers and the steps that did it, and repairs it. The program is kept in the
// browser, leaves it as a file and comes back.
func TestMineGoesWrongIsExplainedAndRepaired(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	v := visit(t, root, s.URL, "en-GB")
	v.emulates(1280, 900, "prefers-reduced-motion", "reduce")
	v.goTo("/lab.html")
	v.clicks("to-mine")
	v.sees(test("editor"))
	v.until("it begins with a way that goes wrong", `document.querySelector('[data-test="source"]').value.includes('select stock from item')`)
	v.tabsTo("source")
	v.do("run", chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	v.sees(test("verdict") + `[data-right="no"][data-kind="lost_update"]`)
	v.shoots("mine-verdict")
	v.becomes("what a screen reader says", `document.querySelector('[data-test="verdict"] [role="status"]')?.innerText.slice(0, 9)`, "✗ oversol")
	if text := v.reads(test("same-read")); !strings.Contains(text, "Both buyers had read") {
		t.Errorf("what both believed: %q", text)
	}
	v.until("both buyers, the row between them, and where it broke", `(() => {
		const steps = [...document.querySelectorAll('[data-test="schedule"] .beats li')];
		const broken = steps.findIndex((li) => li.dataset.test === 'broken-step');
		return new Set(steps.map((li) => li.dataset.buyer)).size === 2 && broken > 2 && steps[broken].innerText.includes('It broke here')
			&& steps.some((li) => li.querySelector('.shared [data-changed]')) && document.querySelectorAll('[data-test="step-table"] tbody tr').length === steps.length;
	})()`)
	v.presses(kb.Escape) // the tab key writes in the editor, until then
	v.tabsTo("step-back")
	v.presses(kb.Home)
	v.until("one step is shown, and its line is marked", `document.querySelectorAll('.beats [data-state="ahead"]').length === document.querySelectorAll('.beats li').length - 1
		&& document.querySelector('.gutter [data-mark="now"]') !== null`)
	v.presses(kb.ArrowRight)
	v.until("what a step changes shows the value before", `[...document.querySelectorAll('.shared [data-changed] .was')].some((was) => was.textContent === '1 →')`)
	v.becomes("the place", `document.querySelector('[data-test="step-at"]').innerText.slice(0, 1)`, "2")
	v.clicks("to-line")
	v.becomes("the editor has the focus at that line", `document.activeElement.dataset.test + (document.activeElement.selectionEnd > document.activeElement.selectionStart)`, "sourcetrue")

	v.writes("function buy(user)\n  if oops oops\nend\n")
	v.runsTo(test("problem"))
	v.until("the line of the error is marked", `document.querySelector('.gutter [data-mark="error"]')?.innerText === '2'`)
	for _, c := range [][2]string{{"drop table orders", "The statement would have changed what belongs to the judge"}, {"select no_such_column", "A function ended in an error"}} {
		v.writes("function prepare()\n  sql('" + c[0] + "')\nend\nfunction buy(user)\n  return false\nend\n")
		v.clicks("run-mine")
		v.until(c[0]+" before the crowd", `document.querySelector('[data-test="problem"]')?.innerText.includes('`+c[1]+`') === true`)
	}
	v.writes(repaired)
	v.runsTo(test("verdict") + `[data-right="yes"]`)
	v.until("each unit is sold once", `document.querySelectorAll('[data-test="picture"] .dots [data-sold="once"]').length === 20`)

	v.retypes("name", "own\r")
	v.becomes("the name", `document.querySelector('[data-test="kept"]').value`, "own")
	v.sees(test("verdict") + `[data-right="yes"]`) // it is of the program, whatever its name
	v.evaluates(`(start => { start.value = '0'; start.dispatchEvent(new Event('change', { bubbles: true })); return ''; })(document.querySelector('[data-test="start"]'))`)
	v.becomes("a new program of the old name", `document.querySelector('[data-test="kept"]').value`, "read-then-write")
	v.until("no one has judged it", `document.querySelector('[data-test="verdict"]') === null`)
	v.evaluates(`(kept => { kept.value = 'own'; kept.dispatchEvent(new Event('change', { bubbles: true })); return ''; })(document.querySelector('[data-test="kept"]'))`)
	v.sees(test("verdict") + `[data-right="yes"]`)

	files := t.TempDir()
	v.do("allow files", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: files,
			BrowserContextID: chromedp.FromContext(ctx).BrowserContextID})
		return err
	}))
	v.clicks("export")
	file := filepath.Join(files, "own.lua")
	if !sandboxtest.Poll(func() bool { b, err := os.ReadFile(file); return err == nil && string(b) == repaired }) {
		t.Fatalf("the program was not exported as %s", file)
	}
	v.clicks("remove")
	v.clicks("remove") // and yes
	v.until("it is gone", `!document.querySelector('[data-test="source"]').value.includes('one_order')`)
	v.do("import", chromedp.SetUploadFiles(test("import"), []string{file}))
	v.until("it is back", `document.querySelector('[data-test="source"]').value.includes('one_order')`)
	v.goTo("/mine.html")
	v.until("it is kept", `document.querySelector('[data-test="source"]')?.value.includes('one_order')`)

	v.writes(strings.ReplaceAll(repaired, "return tx(", "tx(") + "local own = buy\nfunction buy(user) own(user) return false end\n")
	v.runsTo(test("verdict") + `[data-kind="denied_order"]`)
	v.until("the answer is where it broke", `document.querySelector('[data-test="broken-step"] code').textContent === 'no'`)
	v.writes(secondClickTakes)
	v.runsTo(test("verdict") + `[data-kind="unsold"]`)
	v.until("each click has its buyer", `[...document.querySelectorAll('.lanes b:not([data-col="shared"])')].map((b) => b.innerText).join() === 'Click 1 of buyer 1,Click 2 of buyer 1,Buyer 2'`)
	v.until("the first change shows the value before", `document.querySelector('.shared [data-changed] .was').textContent === '2 →'`)
	v.until("who held it", `document.querySelector('[data-test="holders"]').innerText.includes('Click 1 of buyer 1 has it from step')`)
	v.evaluates(`(document.querySelector('[data-test="crowd"]').open = true, '')`)
	v.clicks("crowd-closes")
	v.retypes("crowd-buyers", "1000")
	v.retypes("crowd-stock", "800")
	v.writes(repaired) // and it does not ask whether the sale is over
	v.clicks("run-mine")
	v.until("units are sold after the end", `/^✗ [1-9]\d* units? sold after the end of the sale/.test(document.querySelector('[data-test="verdict"] h2')?.innerText)`)
	v.emulates(320, 700, "prefers-color-scheme", "dark")
	v.fits(320)
	v.hasNoErrors()
}

// An exercise is solved from its start: what is missed is said, a hint helps, and the certificate names it.
func TestMineExerciseIsSolved(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	v := visit(t, root, s.URL, "zh-CN")
	v.emulates(320, 700, "prefers-color-scheme", "light")
	v.goTo("/mine.html#exercises")
	v.sees(test("exercise"))
	v.becomes("the address names the exercise", `location.hash`, "#exercises/one-unit")
	v.fits(320)
	v.clicks("exercise-first-come")
	v.until("each target is named", `document.querySelector('.targets').innerText.includes('最多 12 个订单给了晚到的买家')`)
	v.clicks("exercise-one-unit")
	v.sees(test("exercise") + `[data-name="one-unit"]`)
	v.runsTo(test("schedule"))
	v.sees(test("judged") + `[data-solved="no"]`)
	v.until("what is missed is at the top", `Math.abs(document.querySelector('[data-test="judged"]').getBoundingClientRect().top) < 100`)
	v.evaluates(`(document.querySelector('.schedule details').open = true, '')`)
	v.fits(320)
	v.shoots("mine-exercise")
	v.clicks("hint")
	v.sees(test("hint-1"))
	v.until("the comments are in Chinese", `document.querySelector('[data-test="source"]').value.includes('think() -- 查价格')`)
	v.evaluates(`(field => { field.focus(); field.setSelectionRange(field.value.length, field.value.length); return ''; })(document.querySelector('[data-test="source"]'))`)
	v.presses("-- " + strings.Repeat("long ", 20) + "\rprint")
	v.becomes("after a long line, the lines are seen from their start", `String(document.querySelector('[data-test="source"]').scrollLeft)`, "0")
	v.until("no solution yet", `document.querySelector('[data-test="solution"]') === null`)
	v.writes(repaired)
	v.runsTo(test("judged") + `[data-solved="yes"]`)
	v.sees(test("solution"))
	v.clicks("next-exercise")
	v.until("the next one begins at its title", `document.activeElement.tagName === 'H2' && document.querySelector('[data-test="exercise"]').dataset.name === 'two-processes'
		&& document.activeElement.getBoundingClientRect().top >= 0 && document.activeElement.getBoundingClientRect().bottom < innerHeight`)
	v.clicks("part-certificate")
	v.types("student", "王小明")
	v.until("the certificate", `['王小明', ' 个练习中的 1 个', '1 个提示'].every((text) => document.querySelector('[data-test="certificate"]').innerText.includes(text))`)
	v.until("no text is missing", `!/\b(mine|exercise|target|certificate|fault|wrong|schedule|picture|held)\.[\w-]+\b/.test(document.querySelector('main').innerText)`)
	v.fits(320)
	v.shoots("mine-certificate")
	v.hasNoErrors()
}

// runsTo runs the program until there is what it leads to. Of a starved machine the page says that the lab did not come to it, and to run
// it again.
func (v *visitor) runsTo(selector chromedp.CSS) {
	v.t.Helper()
	const again = `/请再运行一次|请稍后再试|[Rr]un (it|the program) again|try again later/.test(document.querySelector('main').innerText)`
	seen := visible + `(` + quoted(selector) + `) !== null`
	for range 5 {
		v.clicks("run-mine")
		v.until(string(selector)+" is seen, or what to do", seen+` || `+again)
		if v.evaluates(`String(`+seen+`)`) == "true" {
			return
		}
	}
	v.sees(selector)
}

// The algorithm of a course stands below the ladder, shows its fault with the steps, and is right after its repair. The certificate does
// not count it.
func TestMineCourseIsRepaired(t *testing.T) {
	t.Parallel()
	v := visit(t, chromium(t), sharedSandbox(t).URL, "zh-CN")
	v.emulates(1280, 900, "prefers-reduced-motion", "reduce")
	v.goTo("/mine.html#exercises/b-last-unit")
	v.sees(test("exercise") + `[data-name="b-last-unit"]`)
	v.until("its list is below the ladder, and seen", `(() => {
		const links = [...document.querySelectorAll('.ladder nav a')], [list, open] = ['.ladder nav', '.ladder nav [aria-current]'].map((one) => document.querySelector(one).getBoundingClientRect());
		return links.length === `+fmt.Sprint(len(exercises.Ladder())+len(exercises.OfCourses()))+` && links[`+fmt.Sprint(len(exercises.Ladder()))+`].dataset.test === 'exercise-`+exercises.OfCourses()[0].Name+`'
			&& open.top >= list.top && open.bottom <= list.bottom;
	})()`)
	v.runsTo(test("schedule"))
	v.sees(test("judged") + `[data-solved="no"]`)
	v.shoots("mine-course")
	v.evaluates(`(field => { field.value = field.value.replace('result > 0', 'result >= 0'); field.dispatchEvent(new Event('input', { bubbles: true })); return ''; })(document.querySelector('[data-test="source"]'))`)
	v.runsTo(test("judged") + `[data-solved="yes"]`)
	v.sees(test("solution"))
	v.until("it is marked, and not counted", `document.querySelector('[data-test="exercise-b-last-unit"] .done') && document.querySelector('[data-test="progress"]').innerText.includes(' 0 个')`)
	v.clicks("part-certificate")
	v.until("no certificate", `document.querySelector('[data-test="student"]') && !document.querySelector('[data-test="certificate"]')`)
	v.hasNoErrors()
}

// An order is of the click whose step has made it. A table that cannot be read ends no one's hold, and a step may write several orders. A
// buyer who presses again after a refusal asks until the last answer.
func TestWhoHoldsAUnit(t *testing.T) {
	t.Parallel()
	v := visit(t, chromium(t), sharedSandbox(t).URL, "en-GB")
	v.goTo("/mine.html")
	for name, c := range map[string]struct{ kind, steps, users, want string }{
		"the second click is first": {"holds", `[1, ''], [2, ''], [2, '7'], [1, '7 7']`, `[7, 7]`, `[{"click":1,"from":3,"to":3},{"click":2,"from":2,"to":3}]`},
		"locked meanwhile":          {"holds", `[1, '7'], [2, '?'], [2, '7'], [1, '7']`, `[7, 7]`, `[{"click":1,"from":0,"to":3}]`},
		"two orders at once":        {"holds", `[1, ''], [2, '7 7']`, `[7, 7]`, `[{"click":1,"from":1,"to":1},{"click":2,"from":1,"to":1}]`},
		"another buyer, and back":   {"holds", `[1, '7'], [2, '7 8'], [1, '8'], [2, '8']`, `[7, 8]`, `[{"click":1,"from":0,"to":1},{"click":2,"from":1,"to":3}]`},
		"refused, and again":        {"asks", `[1, '7'], [2, '7', 'answer'], [1, '7', 'answer'], [1, ''], [2, '8'], [2, '8', 'answer']`, `[7, 8]`, `[{"click":1,"from":0,"to":2},{"click":2,"from":1,"to":5}]`},
	} {
		v.evaluates(`(import(new URL('holders.js', document.querySelector('script[type="module"]').src)).then(({ spansOf }) => {
			const steps = [` + c.steps + `].map(([buyer, orders, kind]) => ({ buyer, kind, state: { orders } }));
			window.held = ` + "`" + name + ": ${" + `JSON.stringify(spansOf(steps, ` + c.users + `).flatMap((spans, i) => spans.filter((s) => s.kind === '` + c.kind + `').map(({ from, to }) => ({ click: i + 1, from, to }))))` + "}`" + `;
		}), '')`)
		v.becomes(name, `window.held`, name+": "+c.want)
	}
}
