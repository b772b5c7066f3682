package web

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// httpMetrics measures requests by method, route and status. No label has anything that a client invented: a request
// that no route takes counts as other.
type httpMetrics struct {
	seconds *prometheus.HistogramVec
	routes  map[routeKey]*routeMetrics
	other   *routeMetrics
}

// routeKey is a route as the router names it: a method, and the patterns that it matched one after the other. It is
// found without a new string for each request.
type routeKey struct {
	method   string
	patterns [3]string
}

// routeMetrics has the observers of one route, by status; nil for a status that it has not answered yet.
type routeMetrics struct {
	method, pattern string
	byStatus        [600]atomic.Pointer[prometheus.Observer]
}

// statusGone is counted for a client that left before it had an answer.
const statusGone = 499

func newHTTPMetrics(tree chi.Routes) *httpMetrics {
	m := &httpMetrics{routes: map[routeKey]*routeMetrics{}, other: &routeMetrics{method: "other", pattern: "other"},
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "miaosha_http_request_duration_seconds",
			Help: "How long requests took, by method, route and status; 499: the client left. An event " +
				"stream counts when it ends.",
			Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 3}},
			[]string{"method", "route", "code"})}
	m.add(tree, nil)
	return m
}

// add adds the routes of a tree whose own pattern is the last one of above.
func (m *httpMetrics) add(tree chi.Routes, above []string) {
	for _, route := range tree.Routes() {
		c := chi.Context{RoutePatterns: append(above[:len(above):len(above)], route.Pattern)}
		if route.SubRoutes != nil {
			m.add(route.SubRoutes, c.RoutePatterns)
			continue
		}
		for method := range route.Handlers {
			m.routes[keyOf(method, c.RoutePatterns)] = &routeMetrics{method: method, pattern: c.RoutePattern()}
		}
	}
}

func keyOf(method string, patterns []string) (k routeKey) {
	k.method = method
	copy(k.patterns[:], patterns)
	return k
}

// observe counts a request that the router has handled.
func (m *httpMetrics) observe(c *chi.Context, status int, took time.Duration) {
	route := m.routes[keyOf(c.RouteMethod, c.RoutePatterns)]
	if route == nil {
		route = m.other
	}
	at := &route.byStatus[min(status, len(route.byStatus)-1)]
	o := at.Load()
	if o == nil {
		made := m.seconds.WithLabelValues(route.method, route.pattern, strconv.Itoa(status))
		at.Store(&made)
		o = &made
	}
	(*o).Observe(took.Seconds())
}

// statusWriter remembers the status of an answer; 0 before there is one.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// What becomes of a payment notice, beside the statuses captured, refund_due, refunded and declined.
const (
	noticeForged   = "forged"
	noticeUntimely = "untimely"
	noticeRefused  = "refused" // by its content
	noticeFailed   = "failed"  // because a store did not answer: the provider sends it again
)

func newNoticeCounter() *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "miaosha_payment_notices_total",
		Help: "Notices of payments, by what became of them: captured, refund_due (too late, or the second), " +
			"refunded (again, after its refund), declined, forged, untimely (signed for another time), refused, failed (a store did not answer)."},
		[]string{"result"})
	for _, result := range []string{"captured", "refund_due", "refunded", "declined", noticeForged, noticeUntimely,
		noticeRefused, noticeFailed} {
		c.WithLabelValues(result)
	}
	return c
}
