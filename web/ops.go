package web

import (
	"context"
	_ "embed"
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Check has the health check of one store.
type Check struct {
	Name string
	Ask  func(context.Context) error
}

//go:embed ops.html
var opsIndex []byte

// Ops returns the handler for the operator: / (a list of the others), /metrics, /healthz (the process runs), /readyz (it can
// serve), /hot (the hot sales, as JSON) and /debug/pprof without the command line, which may have a
// secret. It needs an address of its own, which strangers cannot reach.
func Ops(metrics []prometheus.Collector, checks []Check, hot func() any) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reg.MustRegister(metrics...)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(opsIndex)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { ready(w, r, checks) })
	mux.HandleFunc("GET /hot", func(w http.ResponseWriter, r *http.Request) { sendJSON(w, http.StatusOK, hot()) })
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// ready answers 200 if every check passes within a second, and 503 otherwise, with the state of each store.
func ready(w http.ResponseWriter, r *http.Request, checks []Check) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	state, status := map[string]string{}, http.StatusOK
	for _, c := range checks {
		state[c.Name] = "ok"
		if err := c.Ask(ctx); err != nil {
			state[c.Name], status = "away", http.StatusServiceUnavailable
		}
	}
	sendJSON(w, status, state)
}

// sendJSON answers the operator.
func sendJSON(w http.ResponseWriter, status int, data any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(data)
}
