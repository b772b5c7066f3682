package web_test

import (
	"testing"
)

// A note goes with its reason: a lost connection when the shop can be reached again, a wait when it is over, and the
// error of a field when the field changes.
func TestNotesGoWithTheirReason(t *testing.T) {
	t.Parallel()
	s := sharedSandbox(t)
	v := visit(t, chromium(t), s.URL, "en-GB")
	v.isLoggedIn(s.user(t).Token)
	v.goTo("/account.html")
	v.clicks("change-nickname")
	v.retypes("nickname", "Ada")
	v.evaluates(`window.ask = fetch, window.lost = true, window.fetch = (url, ...more) => window.lost ? Promise.reject(new TypeError('no network')) : ask(url, ...more), ''`)
	v.clicks("save-nickname")
	v.shows("note", "No connection. Check it and try again.")
	v.evaluates(`window.lost = false, ''`)
	v.until("the note is gone", `document.querySelector('[data-test="note"]').hidden`)
	v.becomes("what was typed", `document.querySelector('[data-test="nickname"]').value`, "Ada")

	v.evaluates(`window.fetch = async () => new Response('{"code":"too_many"}', { status: 429, headers: { 'Retry-After': '2' } }), ''`)
	v.clicks("save-nickname")
	v.sees(test("note"))
	v.until("the wait is over", `document.querySelector('[data-test="note"]').hidden`)

	v.evaluates(`window.fetch = ask, ''`)
	v.retypes("nickname", " ")
	v.clicks("save-nickname")
	v.sees("#nickname-error")
	v.retypes("nickname", "Ada L")
	v.until("the error is gone", `document.querySelector('#nickname-error') === null`)
	v.clicks("save-nickname")
	v.sees(test("done"))

	v.clicks("change-address")
	v.clicks("save-address")
	v.sees("#name-error")
	v.sees("#address-error")
	v.enters("#name", "Ada", "")
	v.until("one error is gone", `document.querySelector('#name-error') === null && document.querySelector('#address-error') !== null`)
	v.hasNoErrors()
}
