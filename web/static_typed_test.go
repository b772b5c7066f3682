package web_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"miaosha/seckill/sandbox/sandboxtest"
)

// pastes puts a text into an empty field as the clipboard does: at once, so a maxlength would cut it.
func (v *visitor) pastes(name, text string) {
	v.t.Helper()
	v.until("the text is pasted into "+name, `((e, text) => {
		if (!e || e.matches(':disabled')) return false;
		e.focus();
		e.select();
		document.execCommand('delete');
		e.setRangeText(e.maxLength < 0 ? text : text.slice(0, e.maxLength));
		return e.dispatchEvent(new InputEvent('input', { inputType: 'insertFromPaste', bubbles: true }));
	})(`+visible+`(`+quoted(test(name))+`), `+quoted(text)+`)`)
}

// hasInField waits until a field has a text.
func (v *visitor) hasInField(name, text string) {
	v.t.Helper()
	v.becomes("the text of "+name, `document.querySelector(`+quoted(test(name))+`)?.value ?? ''`, text)
}

// The pages read what people type as the shop does, by one table of cases.
func TestTheBrowserReadsTheTableOfCases(t *testing.T) {
	t.Parallel()
	v := visit(t, chromium(t), sharedSandbox(t).URL, "en-GB")
	v.goTo("/login.html")
	raw, err := os.ReadFile("../seckill/typed/testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []any
	if err := json.Unmarshal(raw, &all); err != nil || len(all) < 200 {
		t.Fatalf("%d cases, %v", len(all), err)
	}
	v.becomes("the cases that are read otherwise", `(async () => {
		const { readers } = await import(document.querySelector('link[rel="modulepreload"][href$="/typed.js"]').href);
		const read = ({ kind, in: typed }) => {
			try { return { out: readers[kind](typed) }; } catch ({ char, at }) { return { char, at }; }
		};
		return `+string(raw)+`.filter((c) => c.kind in readers)
			.filter((c) => { const got = read(c); return got.out !== c.out || got.char !== c.char || got.at !== c.at; })
			.map((c) => JSON.stringify([c, read(c)])).join('\n');
	})()`, "")
}

// A buyer registers, logs in and says where parcels go in the spellings of an address book, a spreadsheet and an input method.
// The field shows what is stored. A character that has no place is named, in the buyer's language.
func TestAPhoneIsOneHoweverItIsTyped(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	phone := newPhone()
	spaced := phone[:3] + " " + phone[3:7] + " " + phone[7:]
	v := visit(t, root, s.URL, "zh-CN")
	v.emulates(390, 844, "prefers-color-scheme", "light")
	v.goTo("/login.html?register&next=/account.html")
	v.types("phone", strings.Replace(spaced, " ", "o", 1))
	v.clicks("send-code")
	v.becomes("the refusal", `document.querySelector('#phone-error')?.innerText ?? ''`, "手机号只能有数字、空格、短横和开头的 +；第 4 个字符“o”不能用")
	v.shoots("typed-register-phone-zh")
	v.pastes("phone", "\u202d+86 "+spaced+"\u202c")
	v.hasInField("phone", phone)
	v.clicks("send-code")
	v.until("the code is filled in", `document.querySelector('[data-test="code"]').value.length === 6`)
	code := v.evaluates(`document.querySelector('[data-test="code"]').value`)
	v.pastes("code", "【商城】您的验证码是 "+code+"，5 分钟内有效。")
	v.hasInField("code", code)
	v.types("password", "a long password")
	v.types("nickname", "小明 \r")
	v.shows("my-nickname", "小明")

	for _, typed := range []string{"（＋８６）" + phone, "0086-" + phone, strings.Map(func(r rune) rune { return r - '0' + '٠' }, phone), "tel:" + strings.ReplaceAll(spaced, " ", "\u00a0")} {
		v = visit(t, root, s.URL, "en-GB")
		v.emulates(1280, 900, "prefers-color-scheme", "light")
		v.goTo("/login.html?next=/account.html")
		v.types("phone", typed)
		v.types("password", "a long password\r")
		v.shows("my-nickname", "小明")
	}
	v.clicks("change-address")
	v.sees("#address")
	if put := v.evaluates(`(async (e) => {
		const drawn = () => new Promise((done) => setTimeout(done));
		e.focus();
		e.setRangeText('北京市 ');
		e.dispatchEvent(new InputEvent('input', { inputType: 'insertReplacementText', bubbles: true }));
		await drawn();
		const was = e.value;
		e.blur();
		await drawn();
		return was + '|' + e.value;
	})(document.getElementById('address'))`); put != "北京市 |北京市" {
		t.Errorf("a suggested word keeps its blank until the field is left: %s", put)
	}
	for field, text := range map[string]string{"name": "李\u00a0雷 ", "phone": "010-1234567o", "address": "北京市\t海淀区\u202c１ 号"} {
		v.enters(chromedp.CSS("#"+field), text, "e.select()")
	}
	v.clicks("save-address")
	v.becomes("the refusal", `document.querySelector('#phone-error')?.innerText ?? ''`,
		"A phone number may contain digits, spaces, dashes, brackets, a leading + and an extension (ext. 123); character 12 is “o”, which is not allowed")
	v.shoots("typed-address-desktop-en")
	v.enters("#phone", "（０１０）１２３４ ５６７８ 转 123", "e.select()")
	v.clicks("save-address")
	v.becomes("the address", `document.querySelector('[data-test="address"]')?.innerText ?? ''`, "李 雷 010-12345678-123\n北京市 海淀区１ 号")
	v.hasNoErrors()
}

// An answer that is no number uses up no sum: the page names the character, and the same sum takes the right answer, whatever
// the digits look like.
func TestASumIsNotUsedUpByATextThatIsNoNumber(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	sale := s.sale(t, "--stock", "5", "--title", "A teapot for a sum")
	for _, c := range []struct{ language, refused, shot string }{
		{"zh-CN", "答案是一个数，请用数字 0 到 9 填写；第 1 个字符“五”不能用。", "typed-sum-phone-zh"},
		{"en-GB", "The answer must be a number in the digits 0 to 9; character 1 is “五”, which is not allowed.", "typed-sum-phone-en"},
	} {
		u := s.user(t)
		v := visit(t, root, s.URL, c.language)
		v.emulates(390, 844, "prefers-color-scheme", "light")
		v.isLoggedIn(u.Token)
		v.goTo("/sale.html?id=" + sale)
		v.clicks("buy")
		v.sees(test("captcha-img"))
		answer := v.sum(s, sale, "session")
		v.types("captcha-input", "五万\r")
		v.shows("captcha-error", c.refused)
		v.shoots(c.shot)
		r := sandboxtest.Call("POST", s.URL+"/api/sales/"+sale+"/path", u.Token, `{"captcha":"`+answer+`o"}`)
		if !strings.Contains(string(r.Raw), `"field":"captcha","reason":"form"`) || r.Status != 400 {
			t.Errorf("a sum with a letter: %d %s", r.Status, r.Raw)
		}
		if kept := v.sum(s, sale, "session"); kept != answer {
			t.Errorf("the sum is %s now, want still %s", kept, answer)
		}
		wide := strings.Map(func(r rune) rune { return r - '0' + '０' }, answer)
		v.pastes("captcha-input", "= "+wide[:6]+"\u3000 "+wide[6:]+"。\r\n")
		v.hasInField("captcha-input", answer)
		v.clicks("captcha-submit")
		v.sees(view("ordered"))
		v.hasNoErrors()
	}
}

// The staff finds an order by what a buyer quotes, and a price is taken as it is pasted. A search that finds nothing says what can
// be searched.
func TestTheStaffPastesWhatItHas(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	sale := s.sale(t, "--stock", "5", "--title", "A teapot for the staff")
	buyer := s.Buyers(t, 1, sale)[0]
	order := buyer.Order(t)
	var phone string
	if err := s.connect(t).QueryRow(t.Context(), `select phone from users where id = $1`, buyer.ID).Scan(&phone); err != nil {
		t.Fatal(err)
	}
	v := visit(t, root, s.URL, "zh-CN")
	v.emulates(1280, 900, "prefers-color-scheme", "light")
	v.isLoggedIn(s.keeper(t))
	times := 0
	searches := func(typed string) { // in a new page, since the list of the last one stays until the next is there
		t.Helper()
		times++
		v.goTo(fmt.Sprintf("/admin.html?%d#orders", times))
		v.enters(`[name="q"]`, typed, "e.select()")
		v.clicks("search")
		v.until("the search is in the address", `location.hash.startsWith('#orders?q=')`)
	}
	number := ""
	for i, typed := range []string{"订单号：{" + strings.ToUpper(order) + "}\n", "", "", phone[:3] + "-" + phone[3:]} {
		if i > 0 && typed == "" {
			typed = []string{"", "#" + strings.ToLower(strings.ReplaceAll(number, "-", " ")), "您好，订单 " + number + " 什么时候发货"}[i]
		}
		searches(typed)
		v.until("the order alone is found", `[...document.querySelectorAll('[data-order]')].map((row) => row.dataset.order).join() === `+quoted(order))
		number = v.reads(chromedp.CSS(`[data-order="` + order + `"] .soft`))
	}
	v.goTo("/admin.html?sale#orders?sale=" + url.QueryEscape("＃"+sale))
	v.sees(test("refund-sale"))
	searches("13800o38000")
	v.shows("no-orders", "没有找到订单。 没有与“13800o38000”完全相同的手机号、订单号、排队号或支付流水号；请输入完整的号码。很久以前的排队结果可能已归档（miaosha archive）。")
	v.shoots("typed-search-desktop-zh")

	v.goTo("/admin.html#sales/new")
	v.enters("#new-title", "茶壶", "")
	v.enters("#new-price", "19o", "e.select()")
	v.enters("#new-stock", "１,０００ 件", "e.select()")
	v.clicks("make-draft")
	v.becomes("the refusal", `document.querySelector('#new-price-error')?.innerText ?? ''`, "价格请填数字，最多两位小数，如 199 或 1,999.50；第 3 个字符“o”不能用。")
	v.shoots("typed-price-desktop-zh")
	v.enters("#new-price", "￥1，999．00 元", "e.select()")
	v.clicks("make-draft")
	v.shows("sale-price", "¥1999")
	v.shows("sale-total", "1000")
	v.hasNoErrors()
}
