package bench

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A buyer with an order polls for the result. If the shop has forgotten the buyer, that is a failure.
func TestPolls(t *testing.T) {
	t.Parallel()
	var polls atomic.Int64
	s := fakeShop(t, false, map[string]http.HandlerFunc{
		"POST /api/sales/7/buy/{n}": replyWith(202, ordered),
		"GET /api/sales/7/result": func(w http.ResponseWriter, r *http.Request) {
			if polls.Add(1)%3 == 0 {
				io.WriteString(w, `{"code":"ok","data":{"state":"none","next_poll_ms":0}}`)
				return
			}
			io.WriteString(w, ordered)
		},
	})
	turns, err := Run(t.Context(), Config{URL: s.URL, Sale: 7, Shape: "polls", Seconds: 1, Conns: 2, Pay: 0}, []Buyer{{Token: "a", Path: "1"}, {Token: "b", Path: "2"}}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	n := polls.Load()
	if n == 0 {
		t.Error("no polls")
	}
	if got := turns[0].Accepted; got != 2 {
		t.Errorf("%d buyers accepted, want 2", got)
	}
	if diff := cmp.Diff(Counts{Offered: n, Requests: n, Failed: n / 3, Known: n - n/3}, turns[1].Counts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int64{"ticket forgotten": n / 3}, turns[1].FailedBy); diff != "" {
		t.Error(diff)
	}
}

// Polls prove nothing if some buyers have no order.
func TestPollsNeedOrders(t *testing.T) {
	t.Parallel()
	s := fakeShop(t, false, map[string]http.HandlerFunc{"POST /api/sales/7/buy/{n}": replyWith(410, soldout)})
	_, err := Run(t.Context(), Config{URL: s.URL, Sale: 7, Shape: "polls", Seconds: 1, Conns: 1}, []Buyer{{Token: "a", Path: "1"}}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "0 of 1") {
		t.Errorf("got %v, want an error with 0 of 1", err)
	}
}
