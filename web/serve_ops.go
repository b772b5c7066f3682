package web

import (
	"context"
	_ "embed"
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/singleflight"
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
	asking singleflight.Group
	last   atomic.Pointer[readyState]
}

// readyState is what the checks said at a time.
type readyState struct {
	at     time.Time
	stores map[string]string // by name: ok, or the reason
	ready  bool              // all are ok
}

// now returns a state that is at most readyFor old.
func (c *readiness) now() readyState {
	fresh := func() (readyState, bool) {
		last := c.last.Load()
		if last == nil || time.Since(last.at) >= readyFor {
			return readyState{}, false
		}
		return *last, true
	}
	if state, ok := fresh(); ok {
		return state
	}
	state, _, _ := c.asking.Do("", func() (any, error) {
		if state, ok := fresh(); ok { // another caller has asked meanwhile
			return state, nil
		}
		state := c.ask()
		c.last.Store(&state)
		return state, nil
	})
	return state.(readyState)
}

// ask makes the checks beside each other, so that a store which hangs makes no other look away. It does not end with a
// caller.
func (c *readiness) ask() readyState {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var asked sync.WaitGroup
	answers := make([]error, len(c.checks))
	for i, check := range c.checks {
		asked.Go(func() { answers[i] = check.Ask(ctx) })
	}
	asked.Wait()
	state := readyState{at: time.Now(), stores: map[string]string{}, ready: true}
	for i, check := range c.checks {
		state.stores[check.Name] = "ok"
		if answers[i] != nil {
			state.stores[check.Name], state.ready = answers[i].Error(), false
		}
	}
	return state
}

//go:embed ops.html
var opsIndex []byte

// Ops returns the handler for the operator: / (a list of the others), /metrics, /healthz (the process runs), /readyz
// (it can serve), /hot (the hot sales, as JSON) and /debug/pprof without the command line, which may have a secret. It
// needs an address of its own, which strangers cannot reach.
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
		state := stores.now()
		if !state.ready {
			status = http.StatusServiceUnavailable
		}
		sendJSON(w, status, state.stores)
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
