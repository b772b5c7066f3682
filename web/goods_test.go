package web_test

import (
	"bytes"
	"compress/gzip"
	"context"
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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/klauspost/compress/zstd"

	"miaosha/goods"
	"miaosha/seckill"
	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/web"
)

// unpacked is an answer's body without its content coding.
func unpacked(t *testing.T, r sandboxtest.Reply) []byte {
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
		t.Fatalf("in %s", coding)
	}
	if err != nil {
		t.Fatalf("%s: %v", r.Header.Get("Content-Encoding"), err)
	}
	return b
}

func TestListsAreKeptAndAskedFor(t *testing.T) {
	t.Parallel()
	h := openHouse(t)
	for range 4 {
		h.sale("--start", "30m")
	}
	var slots []struct {
		StartAt string `json:"start_at"`
	}
	h.call("GET", "/api/slots", "", "").Read(t, &slots)
	tags := map[string]string{}
	for _, path := range []string{"/api/sales", "/api/sales?slot=" + slots[len(slots)-1].StartAt} {
		for _, language := range []string{"zh", "en"} {
			get := func(headers ...string) sandboxtest.Reply {
				return h.call("GET", path, "", "", append(headers, "Accept-Language", language)...)
			}
			plain := get("Accept-Encoding", "identity")
			for _, coding := range []string{"", "gzip", "zstd"} {
				name := strings.Join([]string{path, language, coding}, " ")
				r := get("Accept-Encoding", "br, "+coding)
				got, etag := r.Header.Get("Content-Encoding"), r.Header.Get("ETag")
				if r.Status != 200 || got != coding && len(plain.Raw) > 200 || !bytes.Equal(unpacked(t, r), plain.Raw) || len(r.Raw) > len(plain.Raw) {
					t.Errorf("%s: %d, %d bytes of %q, %v", name, r.Status, len(r.Raw), got, r.Header)
				}
				if r.Header.Get("Cache-Control") != "no-cache" || r.Header.Get("Vary") != "Accept-Language, Accept-Encoding" ||
					r.Header.Get("Content-Length") != strconv.Itoa(len(r.Raw)) || len(etag) < 10 || etag[0] != '"' {
					t.Errorf("%s: %v", name, r.Header)
				}
				if other, ok := tags[etag]; ok && other != string(r.Raw) {
					t.Errorf("%s: other bytes have the same ETag", name)
				}
				tags[etag] = string(r.Raw)
				for match, want := range map[string]int{etag: 304, "W/" + etag: 304, `"x", ` + etag: 304, "*": 304, `"x"`: 200, strings.Trim(etag, `"`): 200} {
					again := get("Accept-Encoding", coding, "If-None-Match", match)
					if again.Status != want || want == 304 && (len(again.Raw) > 0 || again.Header.Get("ETag") != etag ||
						again.Header.Get("Vary") != r.Header.Get("Vary") || again.Header.Get("Cache-Control") != "no-cache") {
						t.Errorf("%s with %s: %d %v, want %d", name, match, again.Status, again.Header, want)
					}
				}
				head := h.call("HEAD", path, "", "", "Accept-Language", language, "Accept-Encoding", coding)
				if head.Status != 200 || len(head.Raw) > 0 || head.Header.Get("Content-Length") != r.Header.Get("Content-Length") {
					t.Errorf("HEAD %s: %d %v", name, head.Status, head.Header)
				}
			}
		}
	}
	if len(tags) < 4 { // the list in three codings, the empty slot
		t.Errorf("ETags %v", slices.Collect(maps.Keys(tags)))
	}
}

// A page sets its clock by a detail: each tells the time at which it was asked for, in every coding.
func TestDetailsTellTheTime(t *testing.T) {
	t.Parallel()
	h := openHouse(t)
	sale := h.sale("--start", "30m")
	db, err := pgx.Connect(t.Context(), strings.TrimPrefix(h.env[0], "DATABASE_URL="))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
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
				r := h.call("GET", "/api/sales/"+sale, "", "", "Accept-Encoding", coding, "Accept-Language", language, "If-None-Match", "*")
				answered := time.Now()
				var body struct{ Data map[string]any }
				if err := json.Unmarshal(unpacked(t, r), &body); err != nil {
					t.Fatalf("%s: %v in %s", coding, err, r.Raw)
				}
				at, err := time.Parse(time.RFC3339, body.Data["server_time"].(string))
				if err != nil || at.Before(asked.Add(-skew)) || at.After(answered.Add(skew)) {
					t.Fatalf("%s: it was %v (%v) between %v and %v", coding, at, err, asked, answered)
				}
				delete(body.Data, "server_time")
				if first == nil {
					first = body.Data
				}
				if fmt.Sprint(first) != fmt.Sprint(body.Data) {
					t.Errorf("%s: %v, want %v", coding, body.Data, first)
				}
				if want := strings.HasSuffix(coding, "gzip"); r.Status != 200 || r.Header.Get("ETag") != "" || r.Header.Get("Cache-Control") != "no-store" ||
					(r.Header.Get("Content-Encoding") == "gzip") != want || r.Header.Get("Vary") != "Accept-Language, Accept-Encoding" || want && len(r.Raw) > 600 {
					t.Errorf("%s: %d, %d bytes, %v", coding, r.Status, len(r.Raw), r.Header)
				}
			}
		}
		if !strings.Contains(first["detail"].(string), long) || len(first) != 12 {
			t.Errorf("detail %v", first)
		}
		titles[first["title"].(string)] = true
	}
	if len(titles) != 2 || !titles["Kettle"] {
		t.Errorf("titles %v", titles)
	}
}

// skew is how far the shop's clock, which is Redis's as heard, may be from this machine's: half of a round trip, on a machine
// that is busy with other tests.
const skew = 50 * time.Millisecond

// window is the catalogue of a shop inside this process, whose Postgres can be taken away.
type window struct {
	http.Handler
	db *pgxpool.Pool
}

func openWindow(t testing.TB) window {
	t.Helper()
	db := sandboxtest.DB(t)
	sales := goods.New(db)
	cache := goods.NewCache(sales)
	rush, err := seckill.New(seckill.Config{Captcha: "math", Gate: "off", GateFactor: 5, PathTTL: time.Minute, MaxInFlight: 1, QMax: 1},
		seckill.Deps{DB: db, Sales: sales, Cache: cache, Secret: make([]byte, 32), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := web.New(web.Config{Rate: "off", IPRate: "off", TimeZone: "UTC", Cashier: "off"},
		web.Deps{Cache: cache, Rush: rush, Log: slog.New(slog.DiscardHandler), Secret: make([]byte, 32)}, "")
	if err != nil {
		t.Fatal(err)
	}
	return window{s, db}
}

func (w window) sell(t testing.TB, n int, from, to time.Time) {
	t.Helper()
	for i := range n {
		if _, err := goods.New(w.db).Sell(t.Context(), goods.Item{Title: "电水壶 " + strconv.Itoa(i), Image: "goods/kettle.svg", ListPrice: 19900},
			goods.Terms{Price: 9900, Total: 100, StartsAt: from, EndsAt: to}); err != nil {
			t.Fatal(err)
		}
	}
}

func (w window) get(path string) *httptest.ResponseRecorder {
	got := httptest.NewRecorder()
	w.ServeHTTP(got, httptest.NewRequest("GET", path, nil))
	return got
}

// Who asks after the start or the end sees it, however new the prepared answer is.
func TestPreparedAnswersTurnWithTheClock(t *testing.T) {
	t.Parallel()
	w := openWindow(t)
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
				from, to time.Time // when it is right
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

// What the cache learns is in the next answer; what it does not change keeps its ETag.
func TestPreparedAnswersFollowTheCatalogue(t *testing.T) {
	t.Parallel()
	w := openWindow(t)
	now := time.Now()
	w.sell(t, 2, now, now.Add(time.Hour))
	list, one := w.get("/api/sales"), w.get("/api/sales/1")
	for read := time.Now(); time.Since(read) < 1500*time.Millisecond; time.Sleep(20 * time.Millisecond) { // read anew, and the same
		if again := w.get("/api/sales"); again.Header().Get("ETag") != list.Header().Get("ETag") || !bytes.Equal(again.Body.Bytes(), list.Body.Bytes()) {
			t.Fatalf("%v, was %v", again, list)
		}
	}
	if _, err := w.db.Exec(t.Context(), `update sales set stock = 0 where id = 1`); err != nil {
		t.Fatal(err)
	}
	for path, was := range map[string]*httptest.ResponseRecorder{"/api/sales": list, "/api/sales/1": one} {
		got := w.get(path)
		for ; !strings.Contains(got.Body.String(), `"left":0`); got = w.get(path) { // the test's own deadline bounds it
			time.Sleep(10 * time.Millisecond)
		}
		if !strings.Contains(got.Body.String(), `"state":"sold_out"`) || path == "/api/sales" && got.Header().Get("ETag") == was.Header().Get("ETag") {
			t.Errorf("%s: %v %v", path, got.Header(), got.Body)
		}
	}
}

func TestWithoutPostgresPreparedAnswersAreMarked(t *testing.T) {
	t.Parallel()
	w := openWindow(t)
	now := time.Now()
	w.sell(t, 2, now, now.Add(time.Hour))
	slots := goods.Slots(now.UTC())
	slot := func(s goods.Slot) string { return "/api/sales?slot=" + s.StartAt.Format(time.RFC3339) }
	paths := []string{"/api/sales", "/api/sales/1", slot(slots[0])}
	was := map[string]string{}
	for _, path := range paths {
		got := w.get(path)
		if was[path] = list(got); got.Code != 200 || got.Header().Get("Age") != "" || got.Header().Get("Warning") != "" {
			t.Fatalf("%s: %d %v", path, got.Code, got.Header())
		}
	}
	read := time.Now()
	w.db.Close()
	for _, path := range paths {
		for old := 0; old < 2; {
			asked := time.Since(read)
			got := w.get(path)
			if got.Code != 200 || list(got) != was[path] {
				t.Fatalf("%s: %d %s, was %s", path, got.Code, got.Body, was[path])
			}
			age, warning := got.Header().Get("Age"), got.Header().Get("Warning")
			if old, _ = strconv.Atoi(age); (age == "") != (warning == "") || old < int(asked.Seconds()) || old > int((time.Since(read)+time.Second/2).Seconds()) {
				t.Fatalf("%s: Age %q, Warning %q, of a read %v ago", path, age, warning, time.Since(read))
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	// And what nobody read is no empty list.
	if got := w.get(slot(slots[len(slots)-1])); got.Code < 500 || got.Header().Get("ETag") != "" || got.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("a slot that was never read: %d %v %s", got.Code, got.Header(), got.Body)
	}
}

// list is an answer's body up to the time in it.
func list(r *httptest.ResponseRecorder) string {
	b, _, _ := strings.Cut(r.Body.String(), `"server_time"`)
	return b
}

// BenchmarkList asks for a list of twelve sales, and for one of them, as a browser does over TLS, past the network.
func BenchmarkList(b *testing.B) {
	w := openWindow(b)
	now := time.Now()
	w.sell(b, 12, now, now.Add(time.Hour))
	for _, path := range []string{"/api/sales", "/api/sales/1"} {
		for _, coding := range []string{"identity", "gzip, deflate, br, zstd"} {
			b.Run(path+" "+coding[:4], func(b *testing.B) {
				q := httptest.NewRequest("GET", path, nil)
				q.Header.Set("Accept-Encoding", coding)
				b.ReportAllocs()
				for b.Loop() {
					got := nobody{http.Header{}}
					w.ServeHTTP(got, q)
				}
			})
		}
	}
}

// nobody reads an answer.
type nobody struct{ h http.Header }

func (n nobody) Header() http.Header         { return n.h }
func (n nobody) WriteHeader(int)             {}
func (n nobody) Write(b []byte) (int, error) { return len(b), nil }
