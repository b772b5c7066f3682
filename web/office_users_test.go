package web_test

import (
	"fmt"
	"strings"
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
)

// A member of the staff whose password a command has made may do what a buyer may, until they choose another one.
func TestStaffChooseAPasswordFirst(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_RATE=off")
	_, made, _ := strings.Cut(sandboxtest.MustCommand(t, shop.env, "admin", "--phone", "13900001111"), "password: ")
	made = strings.TrimSpace(made)
	type in struct {
		Token, Role string
		PasswordDue bool `json:"password_due"`
	}
	var first, chosen in
	shop.insist("/api/login", "", fmt.Sprintf(`{"phone":"13900001111","password":%q}`, made)).Read(t, &first)
	if !first.PasswordDue || first.Role != "admin" {
		t.Errorf("the first log-in: %+v", first)
	}
	for path, want := range map[string]string{"GET /api/admin/log": "403 new_password", "GET /api/admin/users": "403 new_password",
		"POST /api/admin/sales/1/pause": "403 new_password", "GET /api/lab": "403 forbidden", "GET /api/orders": "200 ok"} {
		method, path, _ := strings.Cut(path, " ")
		if got := outcome(shop.call(method, path, first.Token, "")); got != want {
			t.Errorf("%s with a made password: %s, want %s", path, got, want)
		}
	}
	r := shop.insist("/api/password", first.Token, fmt.Sprintf(`{"old":%q,"new":%q}`, made, made))
	if outcome(r) != "400 bad_request" || !strings.Contains(string(r.Raw), `"same"`) {
		t.Errorf("the same password: %d %s", r.Status, r.Raw)
	}
	shop.insist("/api/password", first.Token, fmt.Sprintf(`{"old":%q,"new":%q}`, made, staffPassword)).Read(t, &chosen)
	if chosen.PasswordDue || chosen.Role != "admin" {
		t.Errorf("after the new password: %+v", chosen)
	}
	if got := outcome(shop.call("GET", "/api/admin/log", chosen.Token, "")); got != "200 ok" {
		t.Errorf("after the new password: %s", got)
	}
	if got := outcome(shop.call("GET", "/api/me", first.Token, "")); got != "401 not_logged_in" {
		t.Errorf("the first session: %s, want none", got)
	}
}

// A disabled user's sessions end in every process. Their orders stay, and only the right password tells why
// the log-in is refused.
func TestADisabledUserIsLoggedOutEverywhere(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_RATE=off")
	other := shop.another()
	admin := shop.staff("13900001111", "admin", "")
	viewer := shop.staff("13900002222", "viewer", "13900001111")
	token := shop.account("13811112222")
	var users struct {
		Users []struct {
			ID    int64 `json:"user_id"`
			Phone string
		}
	}
	for by, phone := range map[string]string{viewer: "138****2222", admin: "13811112222"} {
		shop.call("GET", "/api/admin/users?q=13811112222&disabled=false", by, "").Read(t, &users)
		if len(users.Users) != 1 || users.Users[0].Phone != phone {
			t.Fatalf("found %+v, want %s", users, phone)
		}
	}
	at := fmt.Sprintf("/api/admin/users/%d", users.Users[0].ID)
	if got := outcome(other.call("GET", "/api/me", token, "")); got != "200 ok" { // the other process has a copy now
		t.Fatalf("before: %s", got)
	}
	if r := shop.call("POST", at+"/disable", admin, ""); r.Code != "ok" {
		t.Fatalf("disable: %d %s", r.Status, r.Raw)
	}
	for name, process := range map[string]testShop{"here": shop, "there": other} {
		sandboxtest.Until(t, name+" the session ends", func() bool { return !process.open(token) })
	}
	for password, want := range map[string]string{firstPassword: "403 disabled", "another one": "401 wrong_password"} {
		if got := outcome(shop.insist("/api/login", "", fmt.Sprintf(`{"phone":"13811112222","password":%q}`, password))); got != want {
			t.Errorf("log-in with %q: %s, want %s", password, got, want)
		}
	}
	if r := shop.call("POST", at+"/enable", admin, ""); r.Code != "ok" {
		t.Fatalf("enable: %d %s", r.Status, r.Raw)
	}
	if got := outcome(shop.insist("/api/login", "", fmt.Sprintf(`{"phone":"13811112222","password":%q}`, firstPassword))); got != "200 ok" {
		t.Errorf("log-in after it was enabled: %s", got)
	}
	var log struct{ Lines []struct{ Action string } }
	shop.call("GET", "/api/admin/log", viewer, "").Read(t, &log)
	var actions []string
	for _, l := range log.Lines {
		actions = append(actions, l.Action)
	}
	if got, want := strings.Join(actions, " "), "user.enable user.disable staff.search staff.login staff.login user.role staff.login staff.login user.role"; got != want {
		t.Errorf("the log has %s, want %s", got, want)
	}
}
