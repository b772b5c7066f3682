package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/admin"
	"miaosha/seckill/payment"

	"miaosha/seckill/sandbox/sandboxtest"
)

// Each fuzz target reads bytes of strangers. A second reader, slower and simpler, must agree with the
// shop's.

// A body is accepted only if it is one flat object of known fields, each at most once. Then it is read
// as it is.
func FuzzBody(f *testing.F) {
	for _, s := range []string{
		`{"phone":"13811112222","password":"x"}`, `{"amount":990,"order_id":"x","provider_ref":"y"}`, `{"captcha":"48219"}`, `{}`, ``, ` `, `null`, `[]`, `"x"`, `1`,
		`{"phone":1}`, `{"phone":null}`, `{"amount":9223372036854775808}`, `{"amount":1e3}`, `{"amount":-1}`, `{"amount":1.0}`, `{"role":"admin"}`,
		`{"phone":"1"}{}`, `{"phone":"1"} x`, `{"phone":"1","phone":"2"}`, `{"phone":"1","Phone":"2"}`, `{"PHONE":"1"}`, `{"phone":{"phone":"1"}}`, `{"phone":["1"]}`,
		`{"phone":"\u0000"}`, `{"phone":"\ud800"}`, "{\"phone\":\"\xff\"}", "\ufeff{}", `{"p\u0068one":"1"}`, `{"__proto__":1}`, strings.Repeat(`{"phone":`, 400),
		strings.Repeat("[", 4000), "{\"phone\":\"\x00\"}", `{"phone":"1",}`, `{'phone':'1'}`, `{"phone":"<img src=x onerror=alert(1)>"}`,
		`{"strategies":["a","b"]}`, `{"strategies":[]}`, `{"strategies":[["a"]]}`, `{"strategies":[null]}`, `{"strategies":["\u0000"]}`, `{"strategies":[{}]}`,
		`{"strategies":["a"`, `{"strategies":"a"}`, `{"phone":["1"],"phone":["2"]}`, `{"strategies":["a"],"strategies":["b"]}`, `{"strategies":[1]}`,
	} {
		f.Add([]byte(s))
	}
	// The fields have every type that bodies of the shop have.
	type form struct {
		Phone    string `json:"phone"`
		Password string `json:"password"`
		Captcha  string `json:"captcha"`
		payment.Notice
		Strategies []string `json:"strategies"`
	}
	slowest := sandboxtest.Slowest(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		defer slowest(raw)()
		var in form
		err := decode(raw, &in)
		if err != nil {
			if !errors.Is(err, errBadRequest) {
				t.Errorf("%q: %v is not a bad request", raw, err)
			}
			w := httptest.NewRecorder()
			(&desk{}).writeError(w, httptest.NewRequest("POST", "/", http.NoBody), err)
			if w.Code != 400 || !json.Valid(w.Body.Bytes()) {
				t.Errorf("%q: answered %d %s", raw, w.Code, w.Body)
			}
			return
		}
		fields := map[string]any{}
		if json.Unmarshal(raw, &fields) != nil {
			t.Fatalf("%q was accepted", raw)
		}
		want := form{}
		for name, value := range fields {
			text, isText := value.(string)
			list, isList := value.([]any)
			switch n, isNumber := value.(float64); {
			case value == nil: // as if the field were missing
			case name == "amount" && isNumber && (n == float64(in.Amount)):
				want.Amount = in.Amount
			case isText && name == "phone":
				want.Phone = text
			case isText && name == "password":
				want.Password = text
			case isText && name == "captcha":
				want.Captcha = text
			case isText && name == "order_id":
				want.OrderID = text
			case isText && name == "payment_id":
				want.PaymentID = text
			case isText && name == "declined":
				want.Declined = text
			case isText && name == "provider_ref":
				want.Ref = text
			case isList && name == "strategies":
				want.Strategies = []string{}
				for _, v := range list {
					text, isText := v.(string)
					if !isText && v != nil || strings.Contains(text, "\x00") {
						t.Errorf("%q: %v in a list was accepted", raw, v)
					}
					want.Strategies = append(want.Strategies, text)
				}
			default:
				t.Errorf("%q: %q = %v was accepted", raw, name, value)
			}
		}
		if !reflect.DeepEqual(in, want) {
			t.Errorf("%q was read as %+v, want %+v", raw, in, want)
		}
		if len(keysOf(raw)) != len(fields) {
			t.Errorf("%q was accepted with a field twice", raw)
		}
	})
}

// keysOf returns the keys of a flat object.
func keysOf(raw []byte) (keys []string) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.Token()
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return keys
		}
		keys = append(keys, fmt.Sprint(key))
		if value, _ := d.Token(); value == json.Delim('[') {
			for d.More() {
				d.Token()
			}
			d.Token()
		}
	}
	return keys
}

// A query and an id in a path are refused unless they are a slot of the menu, a sale's id or an order's id.
func FuzzQuery(f *testing.F) {
	s := &catalogue{zone: time.FixedZone("CST", 8*3600)}
	now := time.Date(2026, 11, 11, 12, 34, 56, 0, time.UTC)
	menu := goods.Slots(now.In(s.zone))
	for _, q := range []string{"slot=" + url.QueryEscape(menu[3].StartAt.Format(time.RFC3339)), "slot=" + menu[3].StartAt.Format(time.RFC3339), "slot=", "slot=x", "slot=%zz",
		"slot=2026-11-11T04:00:00Z&slot=x", "a;b", "slot=9999-12-31T23:59:59Z", "slot=2026-11-11T04:00:00.000000001Z", "slot=0000-00-00T00:00:00Z", strings.Repeat("&", 999)} {
		f.Add(q, "1")
	}
	for _, id := range []string{"0", "-1", "+7", "007", "9223372036854775807", "9223372036854775808", "1e3", "0x7", "1_0", "７", "", "%00", "0b2c4b48-6a4e-4b2a-9d9f-8f0a4e1f7c11",
		"{0b2c4b48-6a4e-4b2a-9d9f-8f0a4e1f7c11}", "urn:uuid:0b2c4b48-6a4e-4b2a-9d9f-8f0a4e1f7c11", "0b2c4b486a4e4b2a9d9f8f0a4e1f7c11", "0B2C4B48-6A4E-4B2A-9D9F-8F0A4E1F7C11",
		"0b2c4b48-6a4e-4b2a-9d9f-8f0a4e1f7c1g", "' or 1=1 --"} {
		f.Add("", id)
	}
	slowest := sandboxtest.Slowest(f)
	f.Fuzz(func(t *testing.T, query, id string) {
		defer slowest(query, id)()
		r := &http.Request{URL: &url.URL{RawQuery: query}}
		route := chi.NewRouteContext()
		route.URLParams.Add("id", id)
		r = r.WithContext(context.WithValue(t.Context(), chi.RouteCtxKey, route))
		at, err := s.slotAt(r.URL.Query().Get("slot"), now)
		inMenu := slices.ContainsFunc(menu, func(slot goods.Slot) bool { return slot.StartAt.Equal(at) })
		if err == nil && !inMenu {
			t.Errorf("?%s: %v is not in the menu", query, at)
		}
		if err != nil && (!errors.Is(err, errBadRequest) || !at.IsZero()) {
			t.Errorf("?%s: %v, %v; want a bad request and no time", query, at, err)
		}
		sale, err := saleID(r)
		switch {
		case err == nil && (sale < 1 || strconv.FormatInt(sale, 10) != id):
			t.Errorf("sale %q: %d", id, sale)
		case err != nil && (err != goods.ErrNoSale || sale != 0):
			t.Errorf("sale %q: %d, %v; want 0 and no_sale", id, sale, err)
		case err != nil && len(id) > 0 && len(id) < 19 && id[0] != '0' && strings.Trim(id, "0123456789") == "":
			t.Errorf("sale %q is refused", id)
		}
		of, err := orderID(r)
		if err == nil && of.String() != id {
			t.Errorf("order %q: %v", id, of)
		}
		if err != nil && (err != order.ErrNotFound || of != uuid.Nil) {
			t.Errorf("order %q: %v, %v; want no id and not_found", id, of, err)
		}
	})
}

// A refused method comes with the methods that the path has. A path that has none is not found, whatever
// the method is called.
func TestARefusedMethodNamesTheOthers(t *testing.T) {
	s, err := New(Config{Rate: "off", IPRate: "off", TimeZone: "UTC", Cashier: "off"}, Deps{}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"BREW", "/api/me", 405, "GET, HEAD"},
		{"PUT", "/api/login", 405, "POST"},
		{"BREW", "/nothing", 405, "GET, HEAD"},
		{"DELETE", "/api/sales/1%202/result", 405, "GET, HEAD"},
		{"DELETE", "/api/sales/1%2f2/result", 404, ""},
		{"PUT", "/api/nothing", 404, ""},
		{"BREW", "/api/nothing", 404, ""},
		{"get", "/api/orders/1/pay%2f", 404, ""},
	} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(c.method, c.path, http.NoBody))
		if got := w.Header().Get("Allow"); w.Code != c.status || got != c.allow {
			t.Errorf("%s %s: %d, Allow %q; want %d, %q", c.method, c.path, w.Code, got, c.status, c.allow)
		}
	}
}

// A change whose commit had no answer is not to be tried again as one that was not done.
func TestAnUnsureChangeIsNotBusy(t *testing.T) {
	err := fmt.Errorf("%w: %w", admin.ErrUnsure, context.DeadlineExceeded)
	for language, says := range map[string]string{"zh-CN": "请先核对当前内容", "en-GB": "before you try again"} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "/", http.NoBody)
		r.Header.Set("Accept-Language", language)
		(&desk{}).writeError(w, r, err)
		if body := w.Body.String(); w.Code != 504 || w.Header().Get("Retry-After") != "" || !strings.Contains(body, `"unsure"`) || !strings.Contains(body, says) {
			t.Errorf("%d %v %s", w.Code, w.Header(), body)
		}
		if code, msg := partOfAnswer(r, err, nil); code != "unsure" || !strings.Contains(msg, says) {
			t.Errorf("as a part of an answer it is %s, %s", code, msg)
		}
	}
}

func TestAStoreWithoutRoomIsUnavailable(t *testing.T) {
	for code, want := range map[string]bool{
		"53100": true, // disk_full
		"53300": true, // too_many_connections
		"57P02": true, // crash_shutdown
		"55P03": true, // lock_not_available
		"08P01": true, // of PgBouncer
		"25006": true, // read_only_sql_transaction: a primary that is none any more
		"23505": false, "42P01": false, "XX000": false,
	} {
		if got := isUnavailable(fmt.Errorf("pay: %w", &pgconn.PgError{Code: code})); got != want {
			t.Errorf("%s: unavailable is %v, want %v", code, got, want)
		}
	}
}
