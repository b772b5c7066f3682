package web

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/program"
	"miaosha/user"
)

// However much a program shows, what is kept and what is sent stay small, the answer says that something was left out, and one address
// neither reads without end nor takes the place of the results of others.
func TestResultsOfProgramsAreBounded(t *testing.T) {
	t.Parallel()
	big := lab.Result{Strategy: "mine", Error: strings.Repeat("it failed ", 300_000), Verdict: &lab.Verdict{Output: strings.Repeat("x", 1<<20)}}
	for range 500 {
		big.Steps = append(big.Steps, lab.ScheduleStep{Text: strings.Repeat("select ", 1000), State: lab.RowState{Orders: strings.Repeat("1 ", 3000)}})
	}
	l := NewLab(lab.Stores{}, slog.New(slog.DiscardHandler))
	l.judge = func(context.Context, lab.Stores, program.Program, []lab.Plan, func(lab.Progress)) ([]lab.Result, error) {
		return []lab.Result{big}, nil
	}
	s, err := New(Config{Rate: "off", IPRate: "200", TimeZone: "UTC", Cashier: "off"}, Deps{Sandbox: true, Lab: l, Log: l.log, Demo: &Demo{Local: true, Accounts: map[string]DemoAccount{}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	s.desk.limits.bucket(programs).most = user.Limit{} // off
	ask := func(method, path, from, body string, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.RemoteAddr, r.Host = from+":1", "127.0.0.1"
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	run := func(from string) string {
		t.Helper()
		w := ask("POST", "/api/lab/mine", from, `{"language":"lua","source":"function buy() end","plan":{"buyers":1,"stock":1,"seconds":1}}`)
		var begun struct{ Data struct{ Run string } }
		if err := json.Unmarshal(w.Body.Bytes(), &begun); err != nil || w.Code != 202 {
			t.Fatalf("a program: %d %s", w.Code, w.Body)
		}
		if job := l.next(); job != nil {
			l.work(t.Context(), job)
		}
		return begun.Data.Run
	}
	read := func(id, from string, headers ...string) *httptest.ResponseRecorder {
		return ask("GET", "/api/lab/run?run="+id, from, "", headers...)
	}

	first := run("127.0.0.1")
	w := read(first, "127.0.0.1")
	var state struct {
		Data struct {
			State   string
			Cut     bool
			Results []lab.Result
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &state); err != nil || state.Data.State != "done" || !state.Data.Cut || w.Body.Len() > labProgramResult+1024 {
		t.Fatalf("a result of 10 MB: %d bytes, %+v, %v; want at most %d, and that it is cut", w.Body.Len(), state.Data.State, err, labProgramResult)
	}
	if text := state.Data.Results[0].Error; !strings.Contains(text, "more characters are not shown") {
		t.Errorf("a text that was cut is %.200q", text)
	}
	if again := read(first, "127.0.0.1", "If-None-Match", w.Header().Get("ETag")); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
		t.Errorf("a result that the browser has: %d with %d bytes", again.Code, again.Body.Len())
	}

	// A stranger's results take each other's places.
	big = lab.Result{Error: strings.Repeat("it failed ", 2000), Holds: make([][3]float64, 500)}
	for range 2 * labKept {
		run("127.0.0.2")
	}
	kept, bytes := 0, 0
	for _, job := range l.jobs {
		kept, bytes = kept+1, bytes+job.size()
	}
	if kept > labKept || bytes > labKeptBytes {
		t.Errorf("%d jobs with %d bytes are kept", kept, bytes)
	}
	if w := read(first, "127.0.0.1"); w.Code != 200 {
		t.Errorf("the result of another address, after %d of a stranger: %d", 2*labKept, w.Code)
	}

	// And what a stranger reads ends, though the bucket fills while it reads.
	big = lab.Result{Holds: make([][3]float64, 500)}
	for i := range big.Holds {
		big.Holds[i] = [3]float64{1e300 / 7, 1e299 / 7, 1e298 / 7}
	}
	sent, refused, id := 0, 0, run("127.0.0.3")
	for range 2000 {
		w := read(id, "127.0.0.3")
		if sent += w.Body.Len(); w.Code == http.StatusTooManyRequests {
			if refused++; w.Header().Get("ETag") != "" || w.Header().Get("Cache-Control") != "no-store" {
				t.Fatalf("a refusal has the headers of a result: %v", w.Header())
			}
		}
	}
	if refused == 0 {
		t.Errorf("one address has read %d bytes in 2000 reads, and none was refused", sent)
	}
	if w := read(first, "127.0.0.1"); w.Code != 200 {
		t.Errorf("another address, while a stranger reads: %d", w.Code)
	}
}

// One caller with more than its share of results loses its own oldest ones, also where its address has few.
func TestKeptResultsOfOneCaller(t *testing.T) {
	t.Parallel()
	l := NewLab(lab.Stores{}, slog.New(slog.DiscardHandler))
	add := func(browser string, i int) {
		t.Helper()
		job, err := l.add(labCaller{browser: browser, from: netip.MustParseAddr("127.0.0.1")}, true, labRun{}, func(context.Context, func(func(*labRun))) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		job.ID = fmt.Sprint(browser, i)
		l.work(t.Context(), l.next())
	}
	add("another", 0)
	for i := range labKeptOwn + 5 {
		add("one", i)
	}
	var ids []string
	for _, job := range l.jobs {
		ids = append(ids, job.ID)
	}
	if len(ids) != labKeptOwn+1 || ids[0] != "another0" || ids[1] != "one5" {
		t.Errorf("kept are %v", ids)
	}
}
