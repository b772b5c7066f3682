package web_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/klauspost/compress/zstd"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/web"
)

func TestCatalogueListsSalesAndSlots(t *testing.T) {
	t.Parallel()
	shop := openShop(t)
	open, later := shop.sale("--stock", "3", "--list-price", "1990"), shop.sale("--start", "10m", "--end", "10m")
	shop.lists(2)
	me := shop.tokens(1)[0]
	type sale struct {
		ID          int64
		Title       string
		Price       int64
		ListPrice   int64 `json:"list_price"`
		Total, Left int
		StartAt     time.Time `json:"start_at"`
		EndAt       time.Time `json:"end_at"`
		State       string
		Detail      *string
		ServerTime  time.Time `json:"server_time"`
		Captcha     *bool
	}
	var list []sale
	shop.call("GET", "/api/sales", "", "").Read(t, &list)
	type figures struct {
		State            string
		Price, ListPrice int64
		Left             int
	}
	if len(list) != 2 {
		t.Fatalf("the list has %d sales, want 2", len(list))
	}
	first := list[0]
	if diff := cmp.Diff(figures{"open", 990, 1990, 3}, figures{first.State, first.Price, first.ListPrice, first.Left}); diff != "" {
		t.Errorf("the first sale (-want +got):\n%s", diff)
	}
	if list[1].State != "upcoming" {
		t.Errorf("the second sale is %s, want upcoming", list[1].State)
	}
	var one sale
	shop.call("GET", "/api/sales/"+open, "", "").Read(t, &one)
	if one.Detail == nil {
		t.Error("a sale alone has no detail")
	}
	if one.Captcha == nil || *one.Captcha {
		t.Error("captcha is missing or true, want false")
	}
	if apart := time.Since(one.ServerTime).Abs(); apart > 5*time.Second {
		t.Errorf("server_time is %v from now", apart)
	}
	began := time.Now().Add(-3 * time.Hour)
	earlier := shop.sale("--start=-3h", "--end", "4h")
	var slots []struct {
		StartAt time.Time `json:"start_at"`
		EndAt   time.Time `json:"end_at"`
		State   string
		Empty   bool
	}
	shop.call("GET", "/api/slots", "", "").Read(t, &slots)
	if len(slots) < 23 || len(slots) > 25 {
		t.Fatalf("%d slots", len(slots))
	}
	seen := map[int64]bool{}
	for _, s := range slots {
		if s.Empty != (s.State == "ended" && !s.EndAt.After(began)) {
			t.Errorf("slot %v: only those that ended before %v had no sale", s, began)
		}
		var in []sale
		shop.call("GET", "/api/sales?slot="+strings.ReplaceAll(s.StartAt.Format(time.RFC3339), "+", "%2B"), "", "").Read(t, &in)
		for _, g := range in {
			seen[g.ID] = true
			if !g.StartAt.Before(s.EndAt) || !g.EndAt.After(s.StartAt) {
				t.Errorf("sale %d is not of slot %v", g.ID, s)
			}
		}
	}
	if len(seen) != 3 {
		t.Errorf("the menu has %v, want %s, %s and %s", seen, open, later, earlier)
	}
	shop.order(open, me)
	for range 100 { // the units left follow within half a second
		if shop.call("GET", "/api/sales/"+open, "", "").Read(t, &one); one.Left == 2 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d left after one of 3 was bought", one.Left)
}

// Postgres goes away before a sale opens, and no visitor has come yet: the shop has read what they will ask for.
func TestAnOpeningIsShownWithoutPostgres(t *testing.T) {
	t.Parallel()
	env := append(sandboxtest.Stores(t), "MIAOSHA_TIME_ZONE=Asia/Shanghai")
	sale := sandboxtest.Sale(t, env, 100, "--start", "19s")
	proxy, through := sandboxtest.ProxyTo(t, strings.TrimPrefix(env[0], "DATABASE_URL="))
	env[0] = "DATABASE_URL=" + through
	sent := proxy.Record()
	shop := testShop{sandboxtest.Open(t, env), t, env}
	sandboxtest.Until(t, "the sale's slot is read", func() bool { return strings.Contains(sent.String(), "s.ends_at > $1") })
	proxy.Cut()
	var list []struct{ ID int64 }
	if r := shop.call("GET", "/api/sales", "", ""); r.Status == 200 {
		r.Read(t, &list)
	}
	if len(list) != 1 || strconv.FormatInt(list[0].ID, 10) != sale {
		t.Errorf("the list has %v, want sale %s", list, sale)
	}
	if r := shop.call("GET", "/api/sales/"+sale, "", ""); r.Status != 200 {
		t.Errorf("the sale: %d %s", r.Status, r.Raw)
	}
}

func TestListsAreKeptAndAskedFor(t *testing.T) {
	t.Parallel()
	shop := openShop(t)
	for range 4 {
		shop.sale("--start", "30m")
	}
	shop.lists(4)
	var slots []struct {
		StartAt string `json:"start_at"`
	}
	shop.call("GET", "/api/slots", "", "").Read(t, &slots)
	tags := map[string]string{}
	for _, path := range []string{"/api/sales", "/api/sales?slot=" + slots[len(slots)-1].StartAt} {
		for _, language := range []string{"zh", "en"} {
			get := func(headers ...string) sandboxtest.Reply {
				return shop.call("GET", path, "", "", append(headers, "Accept-Language", language)...)
			}
			plain := get("Accept-Encoding", "identity")
			for _, coding := range []string{"", "gzip", "zstd"} {
				name := strings.Join([]string{path, language, coding}, " ")
				r := get("Accept-Encoding", "br, "+coding)
				got, etag := r.Header.Get("Content-Encoding"), r.Header.Get("ETag")
				if r.Status != 200 || got != coding && len(plain.Raw) > 200 {
					t.Errorf("%s: %d, encoding %q", name, r.Status, got)
				}
				if !bytes.Equal(decompress(t, r), plain.Raw) {
					t.Errorf("%s: %s, want %s", name, decompress(t, r), plain.Raw)
				}
				if len(r.Raw) > len(plain.Raw) {
					t.Errorf("%s: %d bytes, plain %d", name, len(r.Raw), len(plain.Raw))
				}
				wantHeaders(t, name, r.Header, map[string]string{"Cache-Control": "no-cache", "Vary": "Accept-Language, Accept-Encoding",
					"Content-Length": strconv.Itoa(len(r.Raw))})
				if len(etag) < 10 || etag[0] != '"' {
					t.Errorf("%s: ETag %s", name, etag)
				}
				if other, ok := tags[etag]; ok && other != string(r.Raw) {
					t.Errorf("%s: other bytes have the same ETag", name)
				}
				tags[etag] = string(r.Raw)
				for match, want := range map[string]int{etag: 304, "W/" + etag: 304, `"x", ` + etag: 304, "*": 304, `"x"`: 200, strings.Trim(etag, `"`): 200} {
					again := get("Accept-Encoding", coding, "If-None-Match", match)
					if again.Status != want {
						t.Errorf("%s with %s: %d, want %d", name, match, again.Status, want)
					}
					if want == 304 {
						if len(again.Raw) > 0 {
							t.Errorf("%s with %s: a body of %d bytes, want none", name, match, len(again.Raw))
						}
						wantHeaders(t, name+" with "+match, again.Header, map[string]string{"ETag": etag, "Vary": r.Header.Get("Vary"), "Cache-Control": "no-cache"})
					}
				}
				head := shop.call("HEAD", path, "", "", "Accept-Language", language, "Accept-Encoding", coding)
				if head.Status != 200 || len(head.Raw) > 0 {
					t.Errorf("HEAD %s: %d, %d bytes", name, head.Status, len(head.Raw))
				}
				wantHeaders(t, "HEAD "+name, head.Header, map[string]string{"Content-Length": r.Header.Get("Content-Length")})
			}
		}
	}
	if len(tags) < 4 { // the list in three encodings, the empty slot
		t.Errorf("ETags %v", slices.Collect(maps.Keys(tags)))
	}
}

// wantHeaders checks some headers of an answer.
func wantHeaders(t *testing.T, what string, h http.Header, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for name := range want {
		got[name] = h.Get(name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: headers (-want +got):\n%s", what, diff)
	}
}

// decompress returns the body of an answer without its content encoding.
func decompress(t *testing.T, r sandboxtest.Reply) []byte {
	t.Helper()
	var b []byte
	var err error
	switch coding := r.Header.Get("Content-Encoding"); coding {
	case "":
		b = r.Raw
	case "gzip":
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(r.Raw)); err == nil {
			b, err = io.ReadAll(z)
		}
	case "zstd":
		var z *zstd.Decoder
		if z, err = zstd.NewReader(nil); err == nil {
			defer z.Close()
			b, err = z.DecodeAll(r.Raw, nil)
		}
	default:
		t.Fatalf("encoding %s", coding)
	}
	if err != nil {
		t.Fatalf("%s: %v", r.Header.Get("Content-Encoding"), err)
	}
	return b
}

// A page sets its clock by server_time, so each answer about a sale has the time of its own request. It
// is never compressed.
func TestDetailsTellTheTime(t *testing.T) {
	t.Parallel()
	shop := openShop(t)
	sale := shop.sale("--start", "30m")
	db := shop.connect()
	long := strings.Repeat("Steam in the morning, quiet at night. ", 50)
	if _, err := db.Exec(t.Context(), `update goods set detail = $1, title_en = 'Kettle', detail_en = $2`, "长 "+long, "long "+long); err != nil {
		t.Fatal(err)
	}
	titles := map[string]bool{}
	for _, language := range []string{"zh", "en"} {
		var first map[string]any
		for _, coding := range []string{"identity", "gzip", "zstd, gzip;q=0", "zstd, gzip"} {
			for range 20 {
				asked := time.Now().Truncate(time.Millisecond)
				r := shop.call("GET", "/api/sales/"+sale, "", "", "Accept-Encoding", coding, "Accept-Language", language, "If-None-Match", "*")
				answered := time.Now()
				var body struct{ Data map[string]any }
				if err := json.Unmarshal(r.Raw, &body); err != nil {
					t.Fatalf("%s: %v in %s", coding, err, r.Raw)
				}
				at, err := time.Parse(time.RFC3339, body.Data["server_time"].(string))
				if err != nil {
					t.Fatalf("%s: %v", coding, err)
				}
				if at.Before(asked.Add(-skew)) || at.After(answered.Add(skew)) {
					t.Fatalf("%s: server_time %v, asked at %v and answered at %v", coding, at, asked, answered)
				}
				delete(body.Data, "server_time")
				if first == nil {
					first = body.Data
				}
				if fmt.Sprint(first) != fmt.Sprint(body.Data) {
					t.Errorf("%s: %v, want %v", coding, body.Data, first)
				}
				if r.Status != 200 {
					t.Errorf("%s: %d", coding, r.Status)
				}
				wantHeaders(t, coding, r.Header, map[string]string{"ETag": "", "Content-Encoding": "", "Cache-Control": "no-store",
					"Content-Type": "application/json; charset=utf-8", "Content-Length": strconv.Itoa(len(r.Raw)), "Vary": "Accept-Language, Accept-Encoding"})
			}
		}
		if !strings.Contains(first["detail"].(string), long) || len(first) != 13 {
			t.Errorf("detail %v", first)
		}
		titles[first["title"].(string)] = true
	}
	if len(titles) != 2 || !titles["Kettle"] {
		t.Errorf("titles %v", titles)
	}
}

// skew bounds the difference between the shop's clock and this machine's. The shop's is Redis's clock,
// known to half a round trip, on a machine that is busy with other tests.
const skew = 50 * time.Millisecond

// catalogue is the catalogue of a shop in this process, whose Postgres can be closed.
type catalogue struct {
	http.Handler
	db *pgxpool.Pool
}

func openCatalogue(t testing.TB) catalogue {
	t.Helper()
	db := sandboxtest.DB(t)
	sales := goods.New(db)
	cache := goods.NewCache(sales)
	rush, err := seckill.New(seckill.Config{Captcha: "math", Gate: "off", GateFactor: 5, PathTTL: time.Minute, MaxInFlight: 1, QMax: 1, Optimisations: seckill.AllOptimisations()},
		seckill.Deps{DB: db, Sales: sales, Cache: cache, Secret: make([]byte, 32), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := web.New(web.Config{Rate: "off", IPRate: "off", TimeZone: "UTC", Cashier: "off"},
		web.Deps{Cache: cache, Rush: rush, Orders: order.New(db, order.Config{PayWithin: 15 * time.Minute}), Log: slog.New(slog.DiscardHandler), Secret: make([]byte, 32)}, "")
	if err != nil {
		t.Fatal(err)
	}
	return catalogue{s, db}
}

func (w catalogue) sell(t testing.TB, n int, from, to time.Time) {
	t.Helper()
	for i := range n {
		if _, err := goods.New(w.db).Sell(t.Context(), goods.Item{Title: "电水壶 " + strconv.Itoa(i), Image: "goods/kettle.svg", ListPrice: 19900},
			goods.Terms{Price: 9900, Total: 100, StartsAt: from, EndsAt: to}); err != nil {
			t.Fatal(err)
		}
	}
}

func (w catalogue) get(path string) *httptest.ResponseRecorder {
	got := httptest.NewRecorder()
	w.ServeHTTP(got, httptest.NewRequest("GET", path, nil))
	return got
}

// An answer after the start or the end of a sale shows it, even if a prepared answer is very new.
func TestPreparedAnswersTurnWithTheClock(t *testing.T) {
	t.Parallel()
	w := openCatalogue(t)
	from := time.Now().Add(time.Second).Truncate(time.Millisecond)
	to := from.Add(time.Second)
	w.sell(t, 1, from, to)
	slot := "/api/sales?slot=" + from.UTC().Truncate(goods.SlotLength).Format(time.RFC3339)
	seen := map[string]bool{}
	for asked := time.Now(); asked.Before(to.Add(20*time.Millisecond)) || len(seen) < 6 && asked.Before(to.Add(5*time.Second)); asked = time.Now() {
		for _, path := range []string{slot, "/api/sales/1"} {
			asked = time.Now()
			got := w.get(path)
			answered := time.Now()
			for _, c := range []struct {
				state    string
				from, to time.Time // when this state is right
			}{{"upcoming", asked, from}, {"open", from, to}, {"ended", to, answered}} {
				if strings.Contains(got.Body.String(), `"state":"`+c.state+`"`) {
					seen[path+c.state] = true
					if asked.After(c.to) || answered.Before(c.from) {
						t.Fatalf("%s is %s between %v and %v; it is open from %v to %v", path, c.state, asked, answered, from, to)
					}
				}
			}
		}
	}
	if len(seen) != 6 {
		t.Errorf("seen: %v", seen)
	}
}

// A change in the catalogue is in the next answer. An answer without a change keeps its ETag.
func TestPreparedAnswersFollowTheCatalogue(t *testing.T) {
	t.Parallel()
	w := openCatalogue(t)
	now := time.Now()
	w.sell(t, 2, now, now.Add(time.Hour))
	list, one := w.get("/api/sales"), w.get("/api/sales/1")
	for read := time.Now(); time.Since(read) < 1500*time.Millisecond; time.Sleep(20 * time.Millisecond) { // the cache reads the same rows again
		if again := w.get("/api/sales"); again.Header().Get("ETag") != list.Header().Get("ETag") || !bytes.Equal(again.Body.Bytes(), list.Body.Bytes()) {
			t.Fatalf("the list is %v, was %v", again, list)
		}
	}
	if _, err := w.db.Exec(t.Context(), `update sales set stock = 0 where id = 1`); err != nil {
		t.Fatal(err)
	}
	for path, was := range map[string]*httptest.ResponseRecorder{"/api/sales": list, "/api/sales/1": one} {
		got := w.get(path)
		for ; !strings.Contains(got.Body.String(), `"left":0`); got = w.get(path) { // the deadline of the test bounds it
			time.Sleep(10 * time.Millisecond)
		}
		if !strings.Contains(got.Body.String(), `"state":"sold_out"`) || path == "/api/sales" && got.Header().Get("ETag") == was.Header().Get("ETag") {
			t.Errorf("%s: %v %v", path, got.Header(), got.Body)
		}
	}
}

func TestWithoutPostgresPreparedAnswersAreMarked(t *testing.T) {
	t.Parallel()
	w := openCatalogue(t)
	now := time.Now()
	w.sell(t, 2, now, now.Add(time.Hour))
	slots := goods.Slots(now.UTC())
	slot := func(s goods.Slot) string { return "/api/sales?slot=" + s.StartAt.Format(time.RFC3339) }
	paths := []string{"/api/sales", "/api/sales/1", slot(slots[0])}
	was := map[string]string{}
	for _, path := range paths {
		got := w.get(path)
		if was[path] = withoutTime(got); got.Code != 200 {
			t.Fatalf("%s: %d", path, got.Code)
		}
		wantHeaders(t, path, got.Header(), map[string]string{"Age": "", "Warning": ""})
	}
	read := time.Now()
	w.db.Close()
	for _, path := range paths {
		for old := 0; old < 2; {
			asked := time.Since(read)
			got := w.get(path)
			if got.Code != 200 || withoutTime(got) != was[path] {
				t.Fatalf("%s: %d %s, was %s", path, got.Code, got.Body, was[path])
			}
			age, warning := got.Header().Get("Age"), got.Header().Get("Warning")
			if (age == "") != (warning == "") {
				t.Fatalf("%s: Age %q, Warning %q; want both or none", path, age, warning)
			}
			if old, _ = strconv.Atoi(age); old < int(asked.Seconds()) || old > int((time.Since(read)+time.Second/2).Seconds()) {
				t.Fatalf("%s: Age %q, read %v ago", path, age, time.Since(read))
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	// A slot that was never read is an error, not an empty list.
	got := w.get(slot(slots[len(slots)-1]))
	if got.Code < 500 {
		t.Errorf("a slot that was never read: %d %s", got.Code, got.Body)
	}
	wantHeaders(t, "a slot that was never read", got.Header(), map[string]string{"ETag": "", "Cache-Control": "no-store"})
}

// withoutTime returns the body of an answer up to the time in it.
func withoutTime(r *httptest.ResponseRecorder) string {
	b, _, _ := strings.Cut(r.Body.String(), `"server_time"`)
	return b
}

// BenchmarkList measures the handler alone, without a network: a list of twelve sales, and one of them,
// plain and as a browser asks for them over TLS.
func BenchmarkList(b *testing.B) {
	w := openCatalogue(b)
	now := time.Now()
	w.sell(b, 12, now, now.Add(time.Hour))
	for _, path := range []string{"/api/sales", "/api/sales/1"} {
		for _, coding := range []string{"identity", "gzip, deflate, br, zstd"} {
			b.Run(path+" "+coding[:4], func(b *testing.B) {
				q := httptest.NewRequest("GET", path, nil)
				q.Header.Set("Accept-Encoding", coding)
				b.ReportAllocs()
				for b.Loop() {
					got := discard{http.Header{}}
					w.ServeHTTP(got, q)
				}
			})
		}
	}
}

// discard is a ResponseWriter that drops the body.
type discard struct{ h http.Header }

func (d discard) Header() http.Header { return d.h }

func (d discard) WriteHeader(int) {}

func (d discard) Write(b []byte) (int, error) { return len(b), nil }
