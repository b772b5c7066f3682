package web_test

import (
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A page says whose it is. Where the session is another user's, each route that needs a session refuses, and does nothing.
func TestAPageOfAnotherUserDoesNothing(t *testing.T) {
	t.Parallel()
	shop := openMatrixShop(t)
	is := map[int]int64{} // user ids
	for _, caller := range []int{owner, admin} {
		var me struct {
			UserID int64 `json:"user_id"`
		}
		shop.ask("GET", "/api/me", shop.tokens[caller], "").Read(t, &me)
		is[caller] = me.UserID
	}
	was, seen := shop.state(t), 0
	for _, row := range accessMatrix {
		if !strings.HasPrefix(row.want[anonymous], "401 not_logged_in") && row.route != "GET /api/me" || strings.HasPrefix(row.route, "HEAD ") {
			continue
		}
		seen++
		caller := allowedCaller(row.want)
		method, path := shop.at(row.route, "")
		for _, page := range []string{strconv.FormatInt(is[owner+admin-caller], 10), "0", "x"} {
			body := shop.fill(row.body, caller)
			if r := shop.ask(method, path, shop.tokens[caller], body, "X-User", page); outcome(r) != "409 other_user" {
				t.Errorf("%s of the page of %s: %s", row.route, page, outcome(r))
			}
			if r := shop.ask(method, path+"?for="+page, shop.tokens[caller], body); outcome(r) != "409 other_user" {
				t.Errorf("%s?for=%s: %s", row.route, page, outcome(r))
			}
		}
	}
	if seen < 60 {
		t.Errorf("%d routes need a session, want 60 or more", seen)
	}
	if now := shop.state(t); !maps.Equal(now, was) {
		t.Errorf("a refused request has changed something (-was +now):\n%s", cmp.Diff(was, now))
	}

	// The page of the user may do what the user may, and a page of no user has no session to be refused.
	mine := strconv.FormatInt(is[owner], 10)
	for _, c := range []struct{ token, page, query, want string }{
		{shop.tokens[owner], mine, "", "200 ok"}, {shop.tokens[owner], "", "?for=" + mine, "200 ok"}, {shop.tokens[owner], "", "", "200 ok"},
		{"", mine, "", "401 not_logged_in"}, {"", "0", "", "401 not_logged_in"},
	} {
		if r := shop.ask("GET", "/api/orders"+c.query, c.token, "", "X-User", c.page); outcome(r) != c.want {
			t.Errorf("%+v: %s", c, outcome(r))
		}
	}
}
