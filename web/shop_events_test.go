package web_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// An event stream sends the result and the units left.
func TestEventsSendResultAndLeft(t *testing.T) {
	t.Parallel()
	shop := sharedShop(t)
	sale := shop.sale("--stock", "2")
	me := shop.tokens(1)[0]
	req, err := http.NewRequestWithContext(t.Context(), "GET", shop.URL+"/api/sales/"+sale+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+me)
	resp, err := http.DefaultClient.Do(req)
	if err != nil || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("%v %v", resp, err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	next := func() (event, data string) {
		for lines.Scan() {
			if rest, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				event = rest
			} else if rest, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return event, rest
			}
		}
		t.Fatalf("the stream has ended: %v", lines.Err())
		return "", ""
	}
	if event, data := next(); event != "result" || !strings.Contains(data, `"none"`) {
		t.Errorf("the first event is %s %s, want a result none", event, data)
	}
	if event, data := next(); event != "left" || data != `{"left":2}` {
		t.Errorf("the second event is %s %s, want left 2", event, data)
	}
	order := shop.order(sale, me)
	var result, left bool
	for !result || !left {
		switch event, data := next(); event {
		case "result":
			result = result || strings.Contains(data, order)
		case "left":
			left = left || data == `{"left":1}`
		}
	}
}

// A stream ends with its session, whichever process ends the session. make latency has how soon.
func TestEventsEndWithTheSession(t *testing.T) {
	t.Parallel()
	sharedShop(t).endStream()
}

// endStream ends the session of an event stream in another process, and returns how long the stream went on.
func (shop testShop) endStream() time.Duration {
	t := shop.t
	t.Helper()
	other := shop.another()
	sale, me := shop.sale(), shop.tokens(1)[0]
	ctx, cancel := context.WithTimeout(t.Context(), sandboxtest.Hang)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", shop.URL+"/api/sales/"+sale+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+me)
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%v %v", resp, err)
	}
	defer resp.Body.Close()
	if r := other.call("POST", "/api/logout", me, ""); r.Code != "ok" {
		t.Fatalf("%d %s", r.Status, r.Code)
	}
	began := time.Now()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Errorf("%v after the log-out; want the end of the stream", err)
	}
	return time.Since(began)
}
