package web_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type wrongField struct{ Field, Reason, Msg string }

// Every body of several fields is refused with all that are wrong, in the client's language.
func TestABadRequestListsEveryWrongField(t *testing.T) {
	t.Parallel()
	shop := openMatrixShop(t)
	wrong := func(by int, route, body, language string) (code string, fields []wrongField) {
		method, path := shop.at(route, "")
		r := shop.ask(method, path, shop.tokens[by], body, "Accept-Language", language)
		var in struct{ Fields []wrongField }
		if err := json.Unmarshal(r.Raw, &in); err != nil {
			t.Fatal(err)
		}
		return outcome(r), in.Fields
	}
	const price, years = "A price must be ¥0 to ¥9999999.99, with at most two decimals", "Enter a date and time from 2000 to 2099"
	for _, c := range []struct {
		by          int
		route, body string
		want        []wrongField
	}{
		{anonymous, "POST /api/register", `{"phone":"11012345678","code":"12345","password":"short","nickname":"admin"}`, []wrongField{
			{"phone", "form", "A phone number must have 11 digits and begin with 13 to 19"}, {"code", "form", "The code must be 6 digits"},
			{"password", "length", "A password must have 8 to 72 characters"}, {"nickname", "reserved", "This looks like a staff name; choose another one"}}},
		{anonymous, "POST /api/register", `{}`, []wrongField{{"phone", "required", "Required"}, {"code", "required", "Required"},
			{"password", "required", "Required"}, {"nickname", "required", "Required"}}},
		{anonymous, "POST /api/register", `{"phone":13811112222,"role":"admin","password":["x"],"code":"\u0000"}`, []wrongField{
			{"phone", "type", "Wrong type"}, {"role", "unknown", "Unknown field"}, {"password", "type", "Wrong type"},
			{"code", "form", "The code must be 6 digits"}}},
		{anonymous, "POST /api/login", `{"phone":"","password":""}`, []wrongField{{"phone", "required", "Required"}, {"password", "required", "Required"}}},
		{anonymous, "POST /api/otp", `{"phone":"110"}`, []wrongField{{"phone", "form", "A phone number must have 11 digits and begin with 13 to 19"}}},
		{owner, "POST /api/password", `{"old":"","new":"short"}`, []wrongField{{"old", "required", "Required"}, {"new", "length", "A password must have 8 to 72 characters"}}},
		{owner, "POST /api/sales/{id}/path", `{"captcha":1,"sum":2}`, []wrongField{{"captcha", "type", "Wrong type"}, {"sum", "unknown", "Unknown field"}}},
		{owner, "POST /api/cashier/{id}", `{"action":"steal"}`, []wrongField{{"action", "value", "Not an allowed value"}}},
		{admin, "POST /api/lab/run", `{"strategies":[],"buyers":0,"stock":0,"double_clicks":0,"seed":1,"seconds":1}`, []wrongField{{"strategies", "required", "Required"},
			{"buyers", "1 to 5000", "Wrong value: 1 to 5000"}, {"stock", "1 to 1000", "Wrong value: 1 to 1000"}}},
		{admin, "POST /api/admin/sales", `{"title":"T","list_price":1000000000,"state":"draft","price":1e30,"stock":99999999999999999999,"start_at":"1999-12-31T23:59:59Z","end_at":"+010000-01-01T00:00:00Z"}`, []wrongField{
			{"list_price", "range", price}, {"end_at", "form", years}, {"price", "range", price}, {"stock", "range", "1 to 2147483647 units"}, {"start_at", "range", years}}},
		{admin, "POST /api/admin/sales", `{"title":"T","list_price":0.1,"state":"draft","price":-1,"stock":1.5,"start_at":"2098-01-01T00:00:00Z","end_at":"2100-01-01T00:00:00Z"}`, []wrongField{
			{"list_price", "whole", price}, {"stock", "whole", "Enter a whole number"}}},
		{admin, "POST /api/admin/sales/{id}/price", `{"price":1000000000}`, []wrongField{{"price", "range", price}}},
		{admin, "POST /api/admin/sales/{id}/units", `{"delta":2147483648}`, []wrongField{{"delta", "range", "A number from -2147483647 to 2147483647, not 0; use a negative number to remove units"}}},
		{admin, "POST /api/admin/sales/{id}/window", `{"start_at":"2098-01-01T00:00:00Z","end_at":"9998-01-01T00:00:00Z"}`, []wrongField{{"end_at", "range", years}}},
		{admin, "POST /api/admin/sales/{id}/plans", `{"action":"pause","at":"2100-01-01T00:00:00Z"}`, []wrongField{{"at", "range", years}}},
		{admin, "POST /api/admin/goods", `{"title":"T","list_price":1e30}`, []wrongField{{"list_price", "range", price}}},
		{admin, "POST /api/admin/orders/{id}/extend", `{"minutes":1e30}`, []wrongField{{"minutes", "range", "1 to 1440 minutes"}}},
		{admin, "POST /api/admin/sales", `{"goods_id":1e30,"state":"draft","price":1,"stock":1,"start_at":"2098-01-01T00:00:00Z","end_at":"2099-01-01T00:00:00Z"}`, []wrongField{
			{"goods_id", "unknown", "Product not found"}}},
		{admin, "POST /api/admin/refunds", `{"sale":-1e30}`, []wrongField{{"sale", "form", "Invalid format"}}},
		{admin, "POST /api/admin/live/link", `{"hours":1e30}`, []wrongField{{"hours", "link", "1 to 720 hours"}}},
	} {
		code, got := wrong(c.by, c.route, c.body, "en")
		if diff := cmp.Diff(c.want, got); diff != "" || code != "400 bad_request" {
			t.Errorf("%s %s: %s (-want +got):\n%s", c.route, c.body, code, diff)
		}
		if _, zh := wrong(c.by, c.route, c.body, "zh-CN"); len(zh) != len(got) || zh[0].Reason != got[0].Reason || zh[0].Msg == got[0].Msg || zh[0].Msg == "" {
			t.Errorf("%s %s in Chinese: %+v", c.route, c.body, zh)
		}
	}
}
