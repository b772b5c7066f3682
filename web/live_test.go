package web_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// liveEvent is what the tests read of a live event.
type liveEvent struct {
	Units *struct {
		Left, Sold, Pending, Paid, Refunded int
	}
	Totals    map[string]int64
	Processes []struct{ Name, State string }
}

// watch opens a stream of the live view, with a pair of a header's name and value. next returns the next event, or "" at the end.
func (shop testShop) watch(path, header, value string) (next func() (event, data string)) {
	shop.t.Helper()
	req, err := http.NewRequestWithContext(shop.t.Context(), "GET", shop.URL+path, nil)
	if err != nil {
		shop.t.Fatal(err)
	}
	req.Header.Set(header, value)
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		shop.t.Fatalf("%v %v", resp, err)
	}
	shop.t.Cleanup(func() { resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return func() (event, data string) {
		for lines.Scan() {
			if rest, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				event = rest
			} else if rest, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return event, rest
			}
		}
		return "", ""
	}
}

// Every process shows the whole shop, and misses another one that is killed; make latency has how soon. A link shows
// figures without names, and is signed.
func TestLiveViewMissesAKilledProcess(t *testing.T) {
	t.Parallel()
	openShop(t, "MIAOSHA_RATE=off").missKilled()
}

// missKilled kills one of two processes, and returns after which time the other one misses it.
func (shop testShop) missKilled() (took time.Duration) {
	t := shop.t
	t.Helper()
	other := shop.another()
	sale, boss := shop.sale("--stock", "2"), shop.staff("13900001111", "admin", "")
	other.knows(sale)
	buyers := shop.tokens(2)
	shop.order(sale, buyers[0])
	other.order(sale, buyers[1])
	next := shop.watch("/api/admin/live?sale="+sale, "Authorization", "Bearer "+boss)
	if event, _ := next(); event != "live" {
		t.Errorf("the first event is %s", event)
	}
	if event, data := next(); event != "history" || !strings.Contains(data, `"columns":{`) {
		t.Errorf("the second event is %s %s", event, data)
	}
	until := func(what string, holds func(liveEvent) bool) {
		t.Helper()
		sandboxtest.Until(t, what, func() bool {
			var now liveEvent
			event, data := next()
			if err := json.Unmarshal([]byte(data), &now); err != nil || event != "live" {
				t.Fatalf("%s: %s %s %v", what, event, data, err)
			}
			return holds(now)
		})
	}
	until("both processes and their orders", func(now liveEvent) bool {
		return len(now.Processes) == 2 && now.Processes[0].State == "here" && now.Processes[1].State == "here" &&
			now.Totals["orders"] == 2 && now.Totals["buy.ok"] == 2 && now.Units != nil && now.Units.Left == 0 && now.Units.Sold == 2 && now.Units.Pending == 2
	})

	var made struct{ URL string }
	shop.call("POST", "/api/admin/live/link", boss, `{"hours":1}`).Read(t, &made)
	_, link, _ := strings.Cut(made.URL, "#")
	watch := shop.watch("/api/live?sale="+sale, "X-Live-Link", link)
	sandboxtest.Until(t, "a guest sees the units and both processes, without their names", func() bool {
		_, data := watch()
		return strings.Contains(data, `"left":0`) && strings.Contains(data, `"processes":[{"state":"here"},{"state":"here"}]`)
	})
	letter := "A"
	if link[10] == 'A' {
		letter = "B"
	}
	for name, wrong := range map[string]string{"changed": link[:10] + letter + link[11:], "none": "", "text": "%%%"} {
		if r := shop.call("GET", "/api/live", "", "", "X-Live-Link", wrong); r.Status != 403 || r.Code != "bad_link" {
			t.Errorf("a link (%s): %d %s", name, r.Status, r.Code)
		}
	}
	if strings.Contains(shop.Log.String(), link) {
		t.Error("the link is in the log")
	}
	if r := shop.call("POST", "/api/admin/live/link", boss, `{"hours":721}`); r.Status != 400 || !strings.Contains(string(r.Raw), `"hours"`) {
		t.Errorf("a link for 721 hours: %d %s", r.Status, r.Raw)
	}

	other.End(syscall.SIGKILL)
	began := time.Now()
	until("one is missing", func(now liveEvent) bool {
		return len(now.Processes) == 2 && (now.Processes[0].State == "missing") != (now.Processes[1].State == "missing") && now.Totals["orders"] == 2
	})
	took = time.Since(began)
	shop.call("POST", "/api/logout", boss, "")
	ended := make(chan bool)
	go func() {
		for event := "live"; event != ""; event, _ = next() {
		}
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(sandboxtest.Hang):
		t.Error("the stream goes on after the log-out")
	}
	return took
}
