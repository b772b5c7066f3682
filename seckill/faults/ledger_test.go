//go:build faults && linux

package faults

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// answer is one line of the ledger: what somebody asked, and what he was told. Status 0 is no answer, and Code says why.
type answer struct {
	User   int64 // 0 is a passer-by
	Kind   string
	Shop   int
	Sent   time.Time
	Took   time.Duration
	Status int
	Code   string
	Data   told

	RetryAfter time.Duration
}

func (a answer) received() time.Time { return a.Sent.Add(a.Took) }

// told is what the data of an answer may hold.
type told struct {
	Ticket    string `json:"ticket"`
	State     string `json:"state"`
	OrderID   string `json:"order_id"`
	Next      int    `json:"next_poll_ms"`
	StartsIn  int    `json:"starts_in_ms"`
	Path      string `json:"path"`
	PaymentID string `json:"payment_id"`
	Status    string `json:"status"` // of an order, or of a payment
	ExpiresAt string `json:"expires_at"`
}

// Ledger is all that was told.
type Ledger struct {
	client *http.Client
	mu     sync.Mutex
	lines  []answer
}

func newLedger() *Ledger {
	return &Ledger{client: &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 2000}}}
}

// ask makes one request and writes the answer down.
func (l *Ledger) ask(s *Shop, user int64, token, kind, method, path, body string) answer {
	return l.askWith(s, user, token, kind, method, path, body, http.Header{})
}

// askWith is ask with headers, which it keeps.
func (l *Ledger) askWith(s *Shop, user int64, token, kind, method, path, body string, header http.Header) answer {
	a := answer{User: user, Kind: kind, Shop: s.n, Sent: time.Now()}
	req, err := http.NewRequest(method, s.URL()+path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header = header
	if body == "" {
		req.Body, req.ContentLength = nil, 0
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := l.client.Do(req)
	if err == nil {
		var raw []byte
		raw, err = io.ReadAll(resp.Body)
		resp.Body.Close()
		a.Took = time.Since(a.Sent)
		var in struct {
			Code string
			Data json.RawMessage
		}
		if err == nil {
			a.Status = resp.StatusCode
			json.Unmarshal(raw, &in)
			a.Code = in.Code
			json.Unmarshal(in.Data, &a.Data) // a list has none of it
			if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
				a.RetryAfter = time.Duration(s) * time.Second
			}
		}
	}
	if err != nil {
		a.Took, a.Code = time.Since(a.Sent), err.Error()
	}
	l.mu.Lock()
	l.lines = append(l.lines, a)
	l.mu.Unlock()
	return a
}

// all gives the lines so far that keep says, in the order of their receipt.
func (l *Ledger) all(keep func(answer) bool) []answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []answer
	for _, a := range l.lines {
		if keep(a) {
			out = append(out, a)
		}
	}
	return out
}

// of is a keep for kinds.
func of(kinds ...string) func(answer) bool {
	return func(a answer) bool { return slices.Contains(kinds, a.Kind) }
}

// latencies sorts how long answers took.
func latencies(lines []answer) []time.Duration {
	out := make([]time.Duration, 0, len(lines))
	for _, a := range lines {
		out = append(out, a.Took)
	}
	slices.Sort(out)
	return out
}

// quantile of sorted durations; 0 of none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}
