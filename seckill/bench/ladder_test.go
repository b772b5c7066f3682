package bench

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A visitor opens the list and the sale, clicks, and asks for the result. The click is planned when the sale has been shown.
func TestVisits(t *testing.T) {
	var mu sync.Mutex
	var paths []string
	came := map[string]time.Time{}
	note := func(h http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			path := r.Method + " " + r.URL.Path
			paths, came[path] = append(paths, path), time.Now()
			mu.Unlock()
			h(w, r)
		}
	}
	slow := func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(100 * time.Millisecond) //timing: a shop that is slow, which the figures must show
		io.WriteString(w, `{"code":"ok","data":[{"id":7}]}`)
	}
	s := fakeShop(t, false, map[string]http.HandlerFunc{
		"GET /api/sales":          note(slow),
		"GET /api/sales/8":        note(replyWith(200, `{"code":"ok","data":{"state":"open"}}`)),
		"POST /api/sales/8/buy/1": note(replyWith(202, queued)),
		"GET /api/sales/8/result": note(replyWith(200, ordered)),
	})
	turns, err := Run(t.Context(), Config{URL: s.URL, Sale: 7, Shape: LadderShape, Seconds: 5, Conns: 1, Poll: 100}, []Buyer{{Token: "t", Path: "1", Sale: 8}}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"GET /api/sales", "GET /api/sales/8", "POST /api/sales/8/buy/1", "GET /api/sales/8/result"}
	if diff := cmp.Diff(want, paths[max(0, len(paths)-4):]); diff != "" { // the bench has looked at the list before
		t.Errorf("requests: %s", diff)
	}
	turn := turns[0]
	if diff := cmp.Diff([]int64{1, 1, 1, 1, 0}, []int64{turn.Offered, turn.Pages, turn.Accepted, turn.Known, turn.Failed}); diff != "" {
		t.Errorf("offered, lists, accepted, known, failed: %s", diff)
	}
	// The reply to the click is there before the result is asked for. The figures are rounded.
	most := 1.1 * float64(came[want[3]].Sub(came[want[1]]).Milliseconds()+1)
	if turn.Page.Max < 100 || turn.Accept.Max > most { //timing: a part took no longer than the whole of the same run
		t.Errorf("the list took %.0f ms, the click %.0f ms, want at most %.0f", turn.Page.Max, turn.Accept.Max, most)
	}
}

// The figures of a rung are the means of its rounds, and one wrong round makes it wrong.
func TestLadderReport(t *testing.T) {
	l := Ladder{Buyers: 80, Conns: 8, Seconds: 2, Rungs: []Rung{{Name: "<naive>"}, {Name: "the gate"}}}
	turn := func(committed, p99 float64) Turn {
		return Turn{Committed: committed, Responses: 10 * committed, Accept: Latency{P99: p99}, Result: Latency{P99: 3 * p99}, Cost: &Cost{Shop: 40, Postgres: 20, Redis: 10, Client: 99}}
	}
	clean := Audit{Clean: true, Said: "every invariant holds"}
	l.Add(0, Round{Turn: turn(90, 20), Audit: clean})
	l.Add(1, Round{Turn: turn(900, 2), Audit: clean})
	l.Add(1, Round{Turn: turn(1100, 4), Audit: clean})
	l.Add(0, Round{Turn: turn(110, 40), Audit: clean, Wrong: "one order too many"})
	got := l.Rungs[1]
	got.Rounds = nil
	want := Rung{Name: "the gate", Purchases: 1000, Factor: 10, Requests: 10000, Click: 3, Result: 9, Cost: 70, Exact: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if l.Rungs[0].Exact {
		t.Error("a rung with a wrong round is called exact")
	}
	var text, page bytes.Buffer
	l.Write(&text)
	if err := l.HTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"80 buyers, one of 4 finds a unit", "900, 1100", "10.0", "NO: one order too many"} {
		if !strings.Contains(text.String(), want) || !strings.Contains(page.String(), want) {
			t.Errorf("no %q in\n%s\nor in\n%s", want, &text, &page)
		}
	}
	if strings.Contains(page.String(), "<naive>") || strings.Count(page.String(), "<polyline") != 3 {
		t.Errorf("want an escaped name and three curves (two rounds, the cost):\n%s", &page)
	}
	l.Rungs[0].Rounds[1] = Round{Audit: Audit{Said: "BROKEN I1"}}
	if got := l.Rungs[0].Verdict(); got != "NO: BROKEN I1" {
		t.Errorf("after a broken audit: %s", got)
	}
}
