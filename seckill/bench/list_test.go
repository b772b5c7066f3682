package bench

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A list counts if its status is 200 and its encoding is the expected one. Its size is that of the
// encoded body. The first list is older than the sale, so it is asked for again.
func TestList(t *testing.T) {
	t.Parallel()
	var asked, plain, refused atomic.Int64
	s := fakeShop(t, false, map[string]http.HandlerFunc{"GET /api/sales": func(w http.ResponseWriter, r *http.Request) {
		body := `{"code":"ok","data":[` + strings.Repeat(`{"id":7,"title":"tea"},`, 99) + `{"id":8}]}`
		n := asked.Add(1)
		switch {
		case n == 1:
			io.WriteString(w, `{"code":"ok","data":[]}`)
		case n > 3 && n%4 == 0:
			refused.Add(1)
			replyWith(503, busy)(w, r)
		case n > 3 && n%4 == 1:
			plain.Add(1)
			io.WriteString(w, body)
		case strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"):
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			io.WriteString(z, body)
			z.Close()
		default:
			io.WriteString(w, body)
		}
	}})
	turns, err := Run(t.Context(), Config{URL: s.URL, Sale: 7, Shape: "list", Seconds: 1, Conns: 2}, []Buyer{{}}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	one, n := turns[0], asked.Load()-3
	if n < 10 {
		t.Errorf("only %d lists", n)
	}
	got := map[string]int64{"offered": one.Offered, "pages": one.Pages, "not the page": one.FailedBy["not the page"], "busy": one.RefusedBy["busy"]}
	want := map[string]int64{"offered": n, "pages": n - plain.Load() - refused.Load(), "not the page": plain.Load(), "busy": refused.Load()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	size := *one.List
	if size.Bytes < 30 || size.Bytes > 200 {
		t.Errorf("the list has %d bytes, want 30 to 200", size.Bytes)
	}
	size.Bytes = 0
	if diff := cmp.Diff(List{Sales: 100, Encoding: "gzip", Plain: 2308}, size); diff != "" {
		t.Error(diff)
	}
}

// A response that is not a list is an error, not a figure.
func TestListIsChecked(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"fault":      replyWith(500, `{"code":"ok","data":[]}`),
		"other code": replyWith(200, busy),
		"no JSON":    replyWith(200, `hello`),
		"not gzip": func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "identity" {
				w.Header().Set("Content-Encoding", "gzip")
			}
			io.WriteString(w, `{"code":"ok","data":[{"id":7}]}`)
		},
	} {
		s := fakeShop(t, false, map[string]http.HandlerFunc{"GET /api/sales": h})
		if _, err := Run(t.Context(), Config{URL: s.URL, Sale: 7, Shape: "list", Seconds: 1, Conns: 1}, []Buyer{{}}, io.Discard); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
