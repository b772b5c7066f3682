package web

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// measured returns how many requests each series has, as "METHOD route code".
func measured(t *testing.T, s *Server) map[string]uint64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.http.seconds)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]uint64{}
	for _, m := range families[0].GetMetric() {
		label := map[string]string{}
		for _, pair := range m.GetLabel() {
			label[pair.GetName()] = pair.GetValue()
		}
		counts[label["method"]+" "+label["route"]+" "+label["code"]] = (*dto.Metric)(m).GetHistogram().GetSampleCount()
	}
	return counts
}

func newUnstored(t testing.TB) *Server {
	t.Helper()
	s, err := New(Config{Rate: "off", IPRate: "off", TimeZone: "UTC", Cashier: "sandbox"}, Deps{Log: slog.New(slog.DiscardHandler)}, "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Every route is measured under its own pattern, whatever it answers, and what no route takes under "other".
func TestRequestsAreMeasuredByRoute(t *testing.T) {
	t.Parallel()
	s := newUnstored(t)
	call := func(method, path string) {
		s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, path, http.NoBody))
	}
	want := map[string]bool{}
	parameter := regexp.MustCompile(`\{\w+\}|\*`)
	if err := chi.Walk(s.handler.(chi.Routes), func(method, pattern string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		want[method+" "+pattern] = true
		call(method, parameter.ReplaceAllString(pattern, "1"))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for series := range measured(t, s) {
		route := series[:strings.LastIndex(series, " ")]
		if !want[route] {
			t.Errorf("%s is measured, which no route is", series)
		}
		delete(want, route)
	}
	for route := range want {
		t.Errorf("%s is not measured", route)
	}
	call("BREW", "/api/orders")
	call("POST", "/no/such/page")
	gone, leave := context.WithCancel(t.Context())
	leave()
	s.measure(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(httptest.NewRecorder(),
		httptest.NewRequest("GET", "/", http.NoBody).WithContext(context.WithValue(gone, chi.RouteCtxKey, chi.NewRouteContext())))
	got := measured(t, s)
	for series, n := range map[string]uint64{"other other 405": 2, "other other 499": 1, "GET /api/orders 401": 1} {
		if got[series] != n {
			t.Errorf("%d requests of %s, want %d", got[series], series, n)
		}
	}
}

// A body that is too large closes its connection, as without the measuring: else the server would read on to its end.
func TestATooLargeBodyClosesItsConnection(t *testing.T) {
	t.Parallel()
	shop := httptest.NewServer(newUnstored(t))
	defer shop.Close()
	resp, err := http.Post(shop.URL+"/api/login", "application/json", strings.NewReader(strings.Repeat(" ", 2*maxBody)))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge || !resp.Close {
		t.Errorf("answered %d, closes %v", resp.StatusCode, resp.Close)
	}
}

// A shop that met another incarnation answers nothing from what it remembers.
func TestAfterRefuseEveryAnswerIsBusy(t *testing.T) {
	t.Parallel()
	s := newUnstored(t)
	for _, want := range []int{http.StatusOK, http.StatusServiceUnavailable} {
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, httptest.NewRequest("GET", "/", http.NoBody)); w.Code != want {
			t.Errorf("answered %d, want %d", w.Code, want)
		}
		s.Refuse()
	}
}

// BenchmarkMeasure measures what the metrics add to a request.
func BenchmarkMeasure(b *testing.B) {
	s := newUnstored(b)
	c := chi.NewRouteContext()
	c.RouteMethod, c.RoutePatterns = "POST", []string{"/api/sales/{id}/buy/{path}"}
	r := httptest.NewRequest("POST", "/", http.NoBody)
	r = r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, c))
	w := httptest.NewRecorder()
	h := s.measure(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.(*statusWriter).status = http.StatusGone }))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			h.ServeHTTP(w, r)
		}
	})
	s.http.observe(c, http.StatusGone, time.Second)
}
