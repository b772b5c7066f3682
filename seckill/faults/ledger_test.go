//go:build faults && linux

package faults

import (
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// response is one line of the ledger: a request, and the shop's reply to it. Status 0 means that no reply came: then Code
// is the error.
type response struct {
	User   int64 // 0 for a visitor without a session
	Kind   string
	Path   string
	Shop   int
	Sent   time.Time
	Took   time.Duration
	Status int
	Code   string
	Data   sandboxtest.Purchase

	RetryAfter time.Duration
}

func (r response) received() time.Time { return r.Sent.Add(r.Took) }

// patience is how long a client of the suite waits for a reply.
const patience = 15 * time.Second

// gaveUp reports whether no reply came because the client did not wait longer.
func (r response) gaveUp() bool { return r.Status == 0 && r.Took >= patience }

// Ledger has every response of every shop. It is the only record of what the shops promised.
type Ledger struct {
	client    *http.Client
	mu        sync.Mutex
	responses []response
}

func newLedger() *Ledger {
	return &Ledger{client: &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 2000}}}
}

// request makes one request and records the response.
func (l *Ledger) request(s *Shop, user int64, token, kind, method, path, body string, headers ...string) response {
	resp, _ := l.send(s, user, token, kind, method, path, body, headers...)
	return resp
}

// send is request. It also returns the whole reply, which the ledger does not keep.
func (l *Ledger) send(s *Shop, user int64, token, kind, method, path, body string, headers ...string) (response, sandboxtest.Reply) {
	resp := response{User: user, Kind: kind, Path: path, Shop: s.n, Sent: time.Now()}
	reply := sandboxtest.CallBy(l.client, method, s.URL()+path, token, body, headers...)
	resp.Took = time.Since(resp.Sent)
	resp.Status, resp.Code, resp.Data, resp.RetryAfter = reply.Status, reply.Code, reply.Purchase(), reply.RetryAfter()
	l.mu.Lock()
	l.responses = append(l.responses, resp)
	l.mu.Unlock()
	return resp, reply
}

// filter returns the responses so far for which keep returns true, in the order of their receipt.
func (l *Ledger) filter(keep func(response) bool) []response {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []response
	for _, resp := range l.responses {
		if keep(resp) {
			out = append(out, resp)
		}
	}
	return out
}

// ofKind keeps the responses to some kinds of requests.
func ofKind(kinds ...string) func(response) bool {
	return func(resp response) bool { return slices.Contains(kinds, resp.Kind) }
}

// ofUser keeps the responses to one user.
func ofUser(id int64) func(response) bool {
	return func(resp response) bool { return resp.User == id }
}

// latencies returns how long the responses took, sorted.
func latencies(responses []response) []time.Duration {
	out := make([]time.Duration, 0, len(responses))
	for _, resp := range responses {
		out = append(out, resp.Took)
	}
	slices.Sort(out)
	return out
}

// quantile returns a quantile of sorted durations, or 0 if there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}
