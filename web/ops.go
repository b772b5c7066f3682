package web

import (
	"context"
	_ "embed"
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Check has the health check of one store. The text of an error is the reason in a few words, without a secret.
type Check struct {
	Name string
	Ask  func(context.Context) error
}

const readyFor = time.Second // an answer of the checks stands for so long, for all who ask

// readiness makes the checks once a second, however many ask.
type readiness struct {
	checks []Check

	mu    sync.Mutex // held while the checks are made: others wait, and get the same answer
	at    time.Time
	state map[string]string
	ready bool
}

// now returns the state of each store, and whether all are well, at most readyFor old.
func (c *readiness) now(ctx context.Context) (state map[string]string, ready bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != nil && time.Since(c.at) < readyFor {
		return c.state, c.ready
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	c.state, c.ready = map[string]string{}, true
	var asked sync.WaitGroup
	answers := make([]error, len(c.checks))
	for i, check := range c.checks { // beside each other: a store that hangs makes no other look away
		asked.Go(func() { answers[i] = check.Ask(ctx) })
	}
	asked.Wait()
	for i, check := range c.checks {
		c.state[check.Name] = "ok"
		if answers[i] != nil {
			c.state[check.Name], c.ready = answers[i].Error(), false
		}
	}
	c.at = time.Now()
	return c.state, c.ready
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
	stores := &readiness{checks: checks}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(opsIndex)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusOK
		state, ready := stores.now(r.Context())
		if !ready {
			status = http.StatusServiceUnavailable
		}
		sendJSON(w, status, state)
	})
	mux.HandleFunc("GET /hot", func(w http.ResponseWriter, r *http.Request) { sendJSON(w, http.StatusOK, hot()) })
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// sendJSON answers the operator.
func sendJSON(w http.ResponseWriter, status int, data any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(data)
}
