package web_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

// shoots writes a screenshot of the whole page for a person to look at, if MIAOSHA_SHOTS names a folder.
func (v *visitor) shoots(name string) {
	v.t.Helper()
	folder := os.Getenv("MIAOSHA_SHOTS")
	if folder == "" {
		return
	}
	v.do("wait", chromedp.Sleep(400*time.Millisecond))
	b := ask(v, "take a picture", chromedp.CaptureScreenshot())
	if err := os.WriteFile(filepath.Join(folder, name+".png"), b, 0o644); err != nil {
		v.t.Fatal(err)
	}
}

// A member of the staff replaces the password that was made, finds a user, disables them, and reads it in the log.
func TestStaffWorkOnPeople(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	shop := openShop(t, "MIAOSHA_RATE=off")
	buyer := shop.account("13811112222")
	if _, err := shop.connect().Exec(t.Context(), `update users set nickname = 'a+b & 5%' where phone = '13811112222'`); err != nil {
		t.Fatal(err)
	}
	archived := shop.archives(t)
	for i, device := range []struct {
		name, language, color string
		width                 int64
		by                    []string
	}{{"phone-en-dark", "en-GB", "dark", 320, nil}, {"desktop-zh-light", "zh-CN", "light", 1280, []string{"--by", "13900001111"}}} {
		phone := fmt.Sprint(13900001111 + i)
		args := append([]string{"admin", "--phone", phone}, device.by...)
		_, made, _ := strings.Cut(sandboxtest.MustCommand(t, shop.env, args...), "password: ")
		v := visit(t, root, shop.URL, device.language)
		v.emulates(device.width, 900, "prefers-color-scheme", device.color)
		v.goTo("/login.html?next=/admin.html")
		v.types("phone", phone)
		v.types("password", strings.TrimSpace(made)+"\r")
		v.sees(test("new-password"))
		v.enters("#old", strings.TrimSpace(made), "")
		v.enters("#new", "short\r", "")
		v.sees("#new-error")
		v.shoots("admin-password-" + device.name)
		v.enters("#new", " no more, a long one\r", "")
		v.clicks("section-users")
		v.types("people-q", []string{"13811112222", "a+b & 5"}[i]+"\r")
		v.sees(`[data-test="people"] tbody tr:only-child a`)
		v.fits(device.width)
		v.shoots("admin-users-" + device.name)
		v.do("open the account", click(chromedp.CSS(`[data-test="people"] tbody tr a`)))
		v.clicks("toggle")
		v.clicks("confirm")
		v.sees(`[data-test="person"][data-disabled="true"]`)
		v.fits(device.width)
		v.shoots("admin-user-" + device.name)
		sandboxtest.Until(t, "the session ends", func() bool { return !shop.open(buyer) })
		v.clicks("toggle")
		v.clicks("confirm")
		v.sees(`[data-test="person"][data-disabled="false"]`)
		v.clicks("section-log")
		v.chooses("action", "user")
		v.do("filter the log", click(".filters button"))
		v.until("the log has the actions on people alone", `document.querySelectorAll('[data-test="log"] tbody tr').length > 1
			&& [...document.querySelectorAll('[data-test="log"] tbody tr')].every(r => r.dataset.action.startsWith('user.'))
			&& location.hash === '#log/action=user'`)
		v.fits(device.width)
		v.shoots("admin-log-" + device.name)
		for _, page := range []string{"log/subject=sale%207000", "orders/" + archived, "ticket=" + archived} {
			v.evaluates(`location.hash = '#` + page + `'`)
			v.until(page+" says that the rest is in files", `document.querySelector('[data-test="archived"]')?.textContent.includes('miaosha archive') && location.hash === '#`+page+`'`)
			v.fits(device.width)
			v.shoots("admin-archived-" + page[:3] + "-" + device.name)
		}
		v.clicks("section-log")
		v.sees(test("log"))
		v.evaluates(`window.fetch = () => Promise.reject(new TypeError('away')), ''`)
		v.chooses("action", "sale")
		v.do("filter the log, while the shop is away", click(".filters button"))
		v.until("the page does not show the lines of the former filter", `document.querySelector('main .blank h1') && !document.querySelector('[data-test="log"]')`)
		v.hasNoErrors()
	}
}

// archives adds an order of long ago and a line of the log, moves their old rows to files, and returns the order's id.
func (s testShop) archives(t *testing.T) (order string) {
	t.Helper()
	const id = "00000000-0000-7000-8000-000000000007"
	if _, err := s.connect().Exec(t.Context(), `
		set session_replication_role = replica;
		insert into goods (id, title) overriding system value values (7000, 'an old kettle');
		insert into sales (id, goods_id, price, total, stock, state, starts_at, ends_at) overriding system value
		values (7000, 7000, 100, 1, 1, 'published', now() - interval '101 days', now() - interval '100 days');
		insert into orders (id, user_id, sale_id, ticket, title, price, status, created_at, expires_at)
		values ('`+id+`', 1, 7000, 'old', 'an old kettle', 100, 'cancelled', now() - interval '101 days', now() - interval '101 days');
		insert into order_events (order_id, sale_id, from_status, to_status, at) values ('`+id+`', 7000, 'pending', 'cancelled', now() - interval '101 days'),
		(gen_random_uuid(), 1, 'pending', 'paid', now()); -- the newest row stays
		insert into admin_log (at, origin, action, subject) values (now() - interval '100 days', 'test', 'sale.close', 'sale 7000'), (now(), 'test', 'sale.close', 'sale 1');
		reset session_replication_role`, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	if out := sandboxtest.MustCommand(t, s.env, "archive", "--before", "90d", "--dir", t.TempDir()); !strings.Contains(out, "order_events: 1 row in 1 file\nadmin_log: 1 row in 1 file\n") {
		t.Fatal(out)
	}
	return id
}

// fits fails the test if the page is wider than the screen. It names what sticks out.
func (v *visitor) fits(width int64) {
	v.t.Helper()
	if out := v.evaluates(fmt.Sprintf(`document.documentElement.scrollWidth <= %d ? '' : 'wide: ' +
		[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > %[1]d && !e.closest('.scroll'))
			.map(e => e.outerHTML.slice(0, 80) + ' ' + Math.round(e.getBoundingClientRect().right)).slice(0, 5).join('; ')`, width)); out != "" {
		v.t.Errorf("the page does not fit a screen of %d: %s", width, out)
	}
}
