package web_test

import (
	"strings"
	"testing"
)

// A reminder is offered only where the browser can show a notification; elsewhere a sound is, and the page says why,
// and what else there is. A notification that cannot be shown later is a sound, and the page goes on.
func TestRemindersOfEveryBrowser(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	sale := s.knownSale(t, "--title", "T", "--stock", "1", "--start", "50m", "--end", "2h")
	const makes = `window.notified = []; window.rung = 0; window.Notification = class {
		static permission = 'PERMISSION';
		static requestPermission(done) { ANSWER }
		constructor(title) { if (!title) return; THROWS; notified.push(title); }
	};
	const gain = { setValueAtTime() {}, exponentialRampToValueAtTime() {} };
	window.AudioContext = class { currentTime = 0; resume() {} createOscillator() { return { frequency: {}, connect: (next) => next, start: () => { window.rung++; }, stop() {} }; }
		createGain() { return { gain, connect: (next) => next }; } };`
	browser := func(permission, answer, throws string) string {
		return strings.NewReplacer("PERMISSION", permission, "ANSWER", answer, "THROWS", throws).Replace(makes)
	}
	const sounds, why = "You will hear the same sound one minute before the start. Keep this page open and the sound on.", " Add the sale to your calendar, or keep this page open: its title counts down."
	for _, b := range []struct{ name, script, offer, said, click, then string }{
		{"a desktop", browser("default", `Notification.permission = 'granted'; return Promise.resolve('granted')`, ""), "notice", "",
			"You will be notified one minute before the start. Keep this page open.", "1 0"},
		{"Safari before 15", browser("default", `Notification.permission = 'granted'; done('granted')`, ""), "notice", "",
			"You will be notified one minute before the start. Keep this page open.", "1 0"},
		{"a question that is closed", browser("default", `return Promise.resolve('default')`, ""), "notice", "", "Notifications are not allowed yet. Press again, and choose “Allow”.", "0 0"},
		{"a question that fails", browser("default", `throw new Error('no')`, ""), "notice", "", "Notifications are not allowed yet. Press again, and choose “Allow”.", "0 0"},
		{"a question that is refused", browser("default", `Notification.permission = 'denied'; return Promise.resolve('denied')`, ""), "notice", "",
			"The browser blocks notifications. You can allow them in its settings." + why, "0 0"},
		{"denied before", browser("denied", "", ""), "sound", "The browser blocks notifications. You can allow them in its settings." + why, sounds, "0 4"},
		{"iOS, WeChat", browser("default", "", "") + `delete window.Notification;`, "sound", "This browser cannot show notifications." + why, sounds, "0 4"},
		{"Chrome on Android", browser("default", "", "") + `window.Notification = class { static permission = 'default'; constructor() { throw new TypeError('Illegal constructor'); } };`,
			"sound", "This browser cannot show notifications." + why, sounds, "0 4"},
		{"http from another machine", browser("default", "", "") + `Object.defineProperty(window, 'isSecureContext', { value: false });`,
			"sound", "This address is not https, so the browser shows no notifications." + why, sounds, "0 4"},
		{"without sound", browser("denied", "", "") + `delete window.Notification; delete window.AudioContext; delete window.webkitAudioContext;`, "", "This browser cannot show notifications." + why, "", "0 0"},
		{"throws later", browser("default", `Notification.permission = 'granted'; return Promise.resolve('granted')`, `throw new TypeError('Illegal constructor')`), "notice", "",
			"You will be notified one minute before the start. Keep this page open.", "0 2"},
	} {
		v := visit(t, root, s.URL, "en-GB")
		v.before(b.script)
		v.goTo("/sale.html?id=" + sale)
		v.sees(test("calendar"))
		v.becomes(b.name+": what is offered", `document.querySelector('[data-test="notify"]')?.dataset.offer ?? ''`, b.offer)
		v.becomes(b.name+": what is said", `document.querySelector('[data-test="remind-said"]').textContent`, b.said)
		if b.offer == "" {
			continue
		}
		v.evaluates(`(later => { window.setTimeout = (f, ms, ...more) => later(f, ms > 2e6 ? 0 : ms, ...more); })(setTimeout), ''`) // at once
		v.clicks("notify")
		v.becomes(b.name+": what is said", `document.querySelector('[data-test="remind-said"]').textContent.trim()`, b.click)
		v.becomes(b.name+": notifications and tones", `window.notified.length + ' ' + window.rung`, b.then)
		v.sees(view("waiting"))
		v.hasNoErrors()
	}
}
