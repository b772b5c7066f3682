package web_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// Screenshots for a person to look at: MIAOSHA_SHOTS=folder go test -run Screenshots ./web
func TestScreenshots(t *testing.T) {
	folder := os.Getenv("MIAOSHA_SHOTS")
	if folder == "" {
		t.Skip("MIAOSHA_SHOTS is not set")
	}
	root := chromium(t)
	s := openSandboxShop(t)
	for i, device := range []struct {
		name                string
		width, height       int64
		colorScheme, locale string
	}{
		{"desktop-light-zh", 1280, 900, "light", "zh-CN"},
		{"desktop-dark-en", 1280, 900, "dark", "en-GB"},
		{"phone-light-en", 390, 844, "light", "en-GB"},
		{"phone-dark-zh", 390, 844, "dark", "zh-CN"},
	} {
		v := visit(t, root, s.URL, device.locale)
		v.emulates(device.width, device.height, "prefers-color-scheme", device.colorScheme)
		shootOf := func(v *visitor, name string) {
			v.do("wait", chromedp.Sleep(400*time.Millisecond))
			b, err := chromedp.Run(v.ctx, chromedp.CaptureScreenshot())
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, name+"-"+device.name+".png"), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		shoot := func(name string) { shootOf(v, name) }
		v.goTo("/")
		v.sees(test("sale-card"))
		shoot("home")
		v.goTo("/sale.html?id=5")
		v.sees(test("countdown"))
		shoot("waiting")
		v.goTo("/lab.html#1")
		v.clicks("lesson-run")
		v.sees(test("results"))
		shoot("lab")
		v.goTo("/login.html")
		v.sees(test("phone"))
		shoot("login")
		door := visit(t, root, s.atAFullDoor(t), device.locale)
		door.emulates(device.width, device.height, "prefers-color-scheme", device.colorScheme)
		door.goTo("/login.html")
		door.types("phone", "13800000000")
		door.types("password", "miaosha-demo\r")
		door.sees(test("captcha-img"))
		shootOf(door, "login-sum")
		door.clicks("captcha-kind")
		door.sees(test("captcha-words"))
		shootOf(door, "login-sum-in-words")
		v.goTo("/login.html?register")
		v.types("phone", fmt.Sprint(13900000001+i))
		v.clicks("send-code")
		v.until("the code is there", `document.getElementById('code').value.length === 6`)
		v.types("nickname", "admin")
		v.types("password", "123\r")
		v.sees("#password-error")
		shoot("register-password")
		v.types("password", "45678\r")
		v.until("the cursor is in the wrong field", `document.activeElement.id === 'nickname'`)
		shoot("register-nickname")
		if err := s.redis.Set(t.Context(), "ms:limit:otp:all", time.Now().Add(time.Hour).UnixMilli(), 0).Err(); err != nil {
			t.Fatal(err)
		}
		v.goTo("/login.html?register")
		v.types("phone", fmt.Sprint(13900000101+i))
		v.clicks("send-code")
		v.sees(test("captcha-img"))
		shoot("register-sum")
		s.redis.Del(t.Context(), "ms:limit:otp:all")
		v.goTo("/login.html?logout=unfinished")
		v.sees(test("note"))
		shoot("logout-unfinished")
		v.types("phone", "13800000000")
		v.types("password", "miaosha-demo\r")
		v.sees(test("sale-card"))
		v.goTo("/orders.html")
		v.do("wait", chromedp.Sleep(300*time.Millisecond))
		shoot("orders")
		sale := s.sale(t, "--title", "青瓷茶具一套", "--stock", "9", "--start", "25s", "--end", "1h", "--detail", "一壶四杯，手工拉坯。")
		v.goTo("/sale.html?id=" + sale)
		v.sees(test("prepare"))
		shoot("prepare")
		v.clicks("prepare")
		v.sees(test("captcha-img"))
		shoot("captcha-early")
		v.types("captcha-input", s.answer(t, sale)+"\r")
		v.sees(view("ready"))
		shoot("ready")
		sale = s.sale(t, "--title", "青瓷茶具一套", "--stock", "9", "--detail", "一壶四杯，手工拉坯。")
		v.goTo("/sale.html?id=" + sale)
		v.sees(view("open"))
		shoot("open")
		v.clicks("buy")
		v.sees(test("captcha-img"))
		shoot("captcha")
		v.clicks("captcha-kind")
		v.sees(test("captcha-words"))
		shoot("captcha-in-words")
		v.types("captcha-input", s.answer(t, sale)+"\r")
		v.sees(view("ordered"))
		shoot("ordered")
		v.clicks("pay-now")
		v.sees(test("pay-confirm"))
		shoot("cashier")
		v.clicks("pay-confirm")
		v.sees(test("order-status") + `[data-status="paid"]`)
		shoot("paid")
	}
}
