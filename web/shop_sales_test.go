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
	"miaosha/seckill/captcha"
	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/web"
)

func TestCatalogueListsSales(t *testing.T) {
	t.Parallel()
	shop := sharedShop(t)
	open, later := shop.sale("--stock", "3", "--list-price", "1990"), shop.sale("--start", "10m", "--end", "10m")
	me := shop.tokens(1)[0]
	type sale struct {
		ID          int64
		Title       string
		Price       int64
		ListPrice   int64 `json:"list_price"`
		Total, Left int
		State       string
		Detail      *string
		ServerTime  time.Time `json:"server_time"`
		Captcha     *bool
	}
	type figures struct {
		State            string
		Price, ListPrice int64
		Left             int
	}
	listed := map[string]sale{} // others sell in this shop, too
	sandboxtest.Until(t, "both sales are in the list", func() bool {
		var list []sale
		shop.call("GET", "/api/sales", "", "").Read(t, &list)
		clear(listed)
		for _, g := range list {
			listed[strconv.FormatInt(g.ID, 10)] = g
		}
		return listed[open].ID != 0 && listed[later].ID != 0
	})
	first := listed[open]
	if diff := cmp.Diff(figures{"open", 990, 1990, 3}, figures{first.State, first.Price, first.ListPrice, first.Left}); diff != "" {
		t.Errorf("the first sale (-want +got):\n%s", diff)
	}
	if listed[later].State != "upcoming" {
		t.Errorf("the second sale is %s, want upcoming", listed[later].State)
	}
	var one sale
	shop.call("GET", "/api/sales/"+open, "", "").Read(t, &one)
	if one.Detail == nil {
		t.Error("a sale alone has no detail")
	}
	if one.Captcha == nil || *one.Captcha {
		t.Error("captcha is missing or true, want false")
	}
	if apart := time.Since(one.ServerTime).Abs(); apart > sandboxtest.Hang {
		t.Errorf("server_time is %v from now", apart)
	}
	shop.order(open, me)
	sandboxtest.Until(t, "2 units are left after one of 3 was bought", func() bool {
		shop.call("GET", "/api/sales/"+open, "", "").Read(t, &one)
		return one.Left == 2
	})
}

// Each sale is in every slot in which it is open, and only a slot that is over and had none is empty.
func TestTheMenuHasTheSlotsOfSales(t *testing.T) {
	t.Parallel()
	w := openCatalogue(t)
	now := time.Now()
	began := now.Add(-3 * time.Hour)
	for _, window := range [][2]time.Duration{{-time.Minute, time.Hour}, {10 * time.Minute, 20 * time.Minute}, {-3 * time.Hour, time.Hour}} {
		w.sell(t, 1, now.Add(window[0]), now.Add(window[1]))
	}
	read := func(path string, data any) {
		t.Helper()
		if err := json.Unmarshal(w.get(path).Body.Bytes(), &struct{ Data any }{data}); err != nil {
			t.Fatal(err)
		}
	}
	var slots []struct {
		StartAt time.Time `json:"start_at"`
		EndAt   time.Time `json:"end_at"`
		State   string
		Empty   bool
	}
	read("/api/slots", &slots)
	if len(slots) < 23 || len(slots) > 25 {
		t.Fatalf("%d slots", len(slots))
	}
	seen := map[int64]bool{}
	for _, s := range slots {
		if s.Empty != (s.State == "ended" && !s.EndAt.After(began)) {
			t.Errorf("slot %v: only those that ended before %v had no sale", s, began)
		}
		var in []struct {
			ID      int64
			StartAt time.Time `json:"start_at"`
			EndAt   time.Time `json:"end_at"`
		}
		read("/api/sales?slot="+strings.ReplaceAll(s.StartAt.Format(time.RFC3339), "+", "%2B"), &in)
		for _, g := range in {
			seen[g.ID] = true
			if !g.StartAt.Before(s.EndAt) || !g.EndAt.After(s.StartAt) {
				t.Errorf("sale %d is not of slot %v", g.ID, s)
			}
		}
	}
	if len(seen) != 3 {
		t.Errorf("the menu has %v, want three sales", seen)
	}
}

// Postgres goes away before a sale opens, and no visitor has come yet: the shop has read what they will ask for.
func TestAnOpeningIsShownWithoutPostgres(t *testing.T) {
	t.Parallel()
	env := append(sandboxtest.Stores(t), "MIAOSHA_TIME_ZONE=Asia/Shanghai")
	sale := sandboxtest.Sale(t, env, 100, "--start", "1h", "--end", "2h")
	db := testShop{t: t, env: slices.Clone(env)}.connect()
	proxy, through := sandboxtest.ProxyTo(t, strings.TrimPrefix(env[0], "DATABASE_URL="))
	env[0] = "DATABASE_URL=" + through
	sent := proxy.Record()
	shop := testShop{sandboxtest.Open(t, env), t, env}
	var moved time.Time
	sandboxtest.Until(t, "the sale's slot and its details are read", func() bool {
		// it never opens, however long the shop takes to look
		if time.Since(moved) > 5*time.Second { //timing: how often the sale is moved on
			moved = time.Now()
			if _, err := db.Exec(t.Context(), `update sales set starts_at = clock_timestamp() + interval '15 seconds' where id = $1`, sale); err != nil {
				t.Fatal(err)
			}
		}
		return strings.Count(sent.String(), "s.ends_at > $1") > 1 // the first round is over when the second one asks
	})
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
	w := openCatalogue(t)
	now := time.Now()
	w.sell(t, 4, now.Add(30*time.Minute), now.Add(time.Hour))
	shop := w.serve(t)
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
	w := openCatalogue(t)
	now := time.Now()
	w.sell(t, 1, now.Add(30*time.Minute), now.Add(time.Hour))
	const sale = "1"
	long := strings.Repeat("Steam in the morning, quiet at night. ", 50)
	if _, err := w.db.Exec(t.Context(), `update goods set detail = $1, title_en = 'Kettle', detail_en = $2`, "长 "+long, "long "+long); err != nil {
		t.Fatal(err)
	}
	shop, titles := w.serve(t), map[string]bool{}
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
				if at.Before(asked) || at.After(answered) {
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

// catalogue is the catalogue of a shop in this process, whose Postgres can be closed.
type catalogue struct {
	http.Handler
	db *pgxpool.Pool
}

// openCatalogue opens a catalogue that reads again after a second, or after life. Its clock is that of this machine.
func openCatalogue(t testing.TB, life ...time.Duration) catalogue {
	t.Helper()
	db := sandboxtest.DB(t)
	sales := goods.New(db)
	cache := goods.NewCache(sales)
	for _, d := range life {
		cache.SetLife(goods.Config{CatalogueLife: d})
	}
	rush, err := seckill.New(seckill.Config{Gate: "off", GateFactor: 5, AddressTTL: time.Minute, MaxInFlight: 1, QMax: 1, QueueWorkers: 6, Optimisations: seckill.AllOptimisations()},
		seckill.Deps{DB: db, Sales: sales, Cache: cache, Secret: make([]byte, 32), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := web.New(web.Config{Rate: "off", IPRate: "off", TimeZone: "UTC", Cashier: "off"},
		web.Deps{Cache: cache, Rush: rush, Sums: captcha.New(captcha.Config{Kind: "math"}, cache, nil, rush.Shared()), Orders: order.New(db, order.Config{PayWithin: 15 * time.Minute}), Log: slog.New(slog.DiscardHandler), Secret: make([]byte, 32)}, "")
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

// serve serves the catalogue over HTTP until the end of the test.
func (w catalogue) serve(t *testing.T) testShop {
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	return testShop{Shop: &sandboxtest.Shop{URL: server.URL}, t: t}
}

func (w catalogue) get(path string) *httptest.ResponseRecorder {
	got := httptest.NewRecorder()
	w.ServeHTTP(got, httptest.NewRequest("GET", path, nil))
	return got
}

// An answer after the start or the end of a sale shows it, even if a prepared answer is very new.
func TestPreparedAnswersTurnWithTheClock(t *testing.T) {
	t.Parallel()
	for open := 150 * time.Millisecond; open < sandboxtest.Hang; open *= 2 { // a busy machine may ask too late for a short sale
		w := openCatalogue(t)
		from := time.Now().Add(open).Truncate(time.Millisecond)
		to := from.Add(open)
		w.sell(t, 1, from, to)
		slot := "/api/sales?slot=" + from.UTC().Truncate(goods.SlotLength).Format(time.RFC3339)
		seen := map[string]bool{}
		for ended := 0; ended < 20; { // an answer may be new at the end
			for _, path := range []string{slot, "/api/sales/1"} {
				asked := time.Now()
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
				if asked.After(to) {
					ended++
				}
			}
		}
		if len(seen) == 6 {
			return
		}
		t.Logf("of a sale of %v only these were seen: %v", open, seen)
	}
	t.Error("no sale was seen before, while and after it was open")
}

// A change in the catalogue is in the next answer. An answer without a change keeps its ETag.
func TestPreparedAnswersFollowTheCatalogue(t *testing.T) {
	t.Parallel()
	w := openCatalogue(t, time.Millisecond)
	now := time.Now()
	w.sell(t, 2, now, now.Add(time.Hour))
	list, one := w.get("/api/sales"), w.get("/api/sales/1")
	read := w.db.Stat().AcquireCount()
	sandboxtest.Until(t, "the cache has read the same rows again", func() bool {
		if again := w.get("/api/sales"); again.Header().Get("ETag") != list.Header().Get("ETag") || !bytes.Equal(again.Body.Bytes(), list.Body.Bytes()) {
			t.Fatalf("the list is %v, was %v", again, list)
		}
		return w.db.Stat().AcquireCount() >= read+10
	})
	if _, err := w.db.Exec(t.Context(), `update sales set stock = 0 where id = 1`); err != nil {
		t.Fatal(err)
	}
	for path, was := range map[string]*httptest.ResponseRecorder{"/api/sales": list, "/api/sales/1": one} {
		var got *httptest.ResponseRecorder
		sandboxtest.Until(t, path+" shows no unit", func() bool {
			got = w.get(path)
			return strings.Contains(got.Body.String(), `"left":0`)
		})
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
	paths := []string{"/api/sales", "/api/sales/1", slot(slots[len(slots)/2])}
	was := map[string]string{}
	before := time.Now()
	for _, path := range paths {
		got := w.get(path)
		if was[path] = withoutTime(got); got.Code != 200 {
			t.Fatalf("%s: %d", path, got.Code)
		}
		wantHeaders(t, path, got.Header(), map[string]string{"Age": "", "Warning": ""})
	}
	w.db.Close()
	closed := time.Now() // the rows were read between these two times
	for _, path := range paths {
		sandboxtest.Until(t, path+" is two seconds old", func() bool {
			asked := time.Since(closed)
			got := w.get(path)
			if got.Code != 200 || withoutTime(got) != was[path] {
				t.Fatalf("%s: %d %s, was %s", path, got.Code, got.Body, was[path])
			}
			age, warning := got.Header().Get("Age"), got.Header().Get("Warning")
			if (age == "") != (warning == "") {
				t.Fatalf("%s: Age %q, Warning %q; want both or none", path, age, warning)
			}
			old, _ := strconv.Atoi(age)
			if old < int(asked.Seconds()) || old > int(time.Since(before).Seconds()) { //timing: an age lies between two readings of the clock
				t.Fatalf("%s: Age %q, read %v to %v ago", path, age, time.Since(closed), time.Since(before))
			}
			return old >= 2
		})
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
