package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestReadResponse(t *testing.T) {
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, c := range []struct {
		name, raw, body, fault string
		status                 int
		retryAfter             time.Duration
		closing                bool
	}{
		{name: "accepted", raw: "HTTP/1.1 202 Accepted\r\nContent-Type: x\r\nContent-Length: 4\r\n\r\nbody", status: 202, body: "body"},
		{name: "other case, bare line ends", raw: "HTTP/1.1 200 OK\ncontent-LENGTH:4\n\nbody", status: 200, body: "body"},
		{name: "busy", raw: "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n", status: 503, retryAfter: 2 * time.Second},
		{name: "a very long wait", raw: "HTTP/1.1 429 \r\nRetry-After: 86400\r\nContent-Length: 0\r\n\r\n", status: 429, retryAfter: time.Minute},
		{name: "last", raw: "HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n", status: 200, closing: true},
		{name: "old", raw: "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", status: 200, closing: true},
		{name: "no content", raw: "HTTP/1.1 204 No Content\r\n\r\n", status: 204},
		{name: "nothing", raw: "", fault: "cut off"},
		{name: "cut in the head", raw: "HTTP/1.1 200 OK\r\nContent-Le", fault: "cut off"},
		{name: "cut in the body", raw: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nbody", fault: "cut off"},
		{name: "no length", raw: "HTTP/1.1 200 OK\r\n\r\nbody", fault: "malformed answer"},
		{name: "two lengths", raw: "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nbody!", fault: "malformed answer"},
		{name: "negative", raw: "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", fault: "malformed answer"},
		{name: "huge", raw: "HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n", fault: "malformed answer"},
		{name: "chunks", raw: chunked + "3\r\nbod\r\n1;x=y\r\ny\r\n0\r\n\r\n", status: 200, body: "body"},
		{name: "chunks and a trailer", raw: chunked + "4\r\nbody\r\n0\r\nX: y\r\n\r\n", status: 200, body: "body"},
		{name: "no chunks", raw: chunked + "0\r\n\r\n", status: 200},
		{name: "cut in a chunk", raw: chunked + "4\r\nbo", fault: "cut off"},
		{name: "cut between chunks", raw: chunked + "4\r\nbody\r\n", fault: "cut off"},
		{name: "cut after the chunks", raw: chunked + "4\r\nbody\r\n0\r\n", fault: "cut off"},
		{name: "a chunk without a size", raw: chunked + "x\r\nbody\r\n0\r\n\r\n", fault: "malformed answer"},
		{name: "huge chunks", raw: chunked + "100001\r\n" + strings.Repeat("x", 0x100001) + "\r\n0\r\n\r\n", fault: "malformed answer"},
		{name: "chunks and a length", raw: "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", fault: "malformed answer"},
		{name: "chunks, compressed", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", fault: "malformed answer"},
		{name: "long line", raw: "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 5000) + "\r\n\r\n", fault: "malformed answer"},
		{name: "not HTTP", raw: "SSH-2.0-OpenSSH_9.2p1 Debian\r\n", fault: "malformed answer"},
		{name: "no number", raw: "HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n", fault: "malformed answer"},
		{name: "not yet", raw: "HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n", fault: "malformed answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, _, err := readResponse(bufio.NewReader(strings.NewReader(c.raw)), nil)
			if c.fault != "" {
				if err == nil || faultKind(err) != c.fault {
					t.Fatalf("got %v, want %s", err, c.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := response{status: c.status, body: []byte(c.body), retryAfter: c.retryAfter, closing: c.closing}
			if diff := cmp.Diff(want, resp, cmp.AllowUnexported(response{}), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// readResponse leaves the reader at the start of the next response, and reuses the buffer.
func TestReadResponsesInARow(t *testing.T) {
	one := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nxy\r\n0\r\n\r\n"
	r := bufio.NewReader(strings.NewReader(one + one))
	for range 2 {
		if a, _, err := readResponse(r, nil); err != nil || string(a.body) != "xy" {
			t.Fatalf("%q %v", a.body, err)
		}
	}
	one = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"
	r = bufio.NewReader(strings.NewReader(one + "abcd" + one + "efgh"))
	var buf []byte
	for _, want := range []string{"abcd", "efgh"} {
		a, next, err := readResponse(r, buf)
		if err != nil || string(a.body) != want {
			t.Fatalf("%q, %v", a.body, err)
		}
		if buf != nil && &buf[0] != &next[0] {
			t.Error("a second buffer was allocated")
		}
		buf = next
	}
}

// A response that readResponse accepts, net/http reads as the same.
func FuzzReadResponse(f *testing.F) {
	f.Add([]byte("HTTP/1.1 202 Accepted\r\nContent-Type: x\r\nContent-Length: 4\r\n\r\nbody"))
	f.Add([]byte("HTTP/1.1 503 X\r\nRetry-After: 2\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"))
	f.Add([]byte("HTTP/1.0 204 \n\n"))
	slowest := sandboxtest.Slowest(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		defer slowest(raw)()
		got, _, err := readResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
		if err != nil {
			if faultKind(err) == "other fault" {
				t.Errorf("no kind for the fault %v", err)
			}
			return
		}
		if len(got.body) > maxBody || got.retryAfter > time.Minute {
			t.Fatalf("out of bounds: %d bytes, wait %v", len(got.body), got.retryAfter)
		}
		want, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
		if err != nil {
			return // net/http is stricter
		}
		body, err := io.ReadAll(want.Body)
		if err != nil {
			t.Fatalf("net/http cannot read the body: %v; readResponse reads %q", err, got.body)
		}
		if want.StatusCode != got.status || !bytes.Equal(body, got.body) {
			t.Errorf("net/http reads %d %q, readResponse %d %q", want.StatusCode, body, got.status, got.body)
		}
	})
}

func TestJSONValue(t *testing.T) {
	body, _ := json.Marshal(map[string]any{"code": "ok", "data": map[string]any{"state": "queued", "ahead": 12, "next_poll_ms": 250, "msg": `a "code":"no" in a text`}})
	for key, want := range map[string]string{"code": "ok", "state": "queued", "ahead": "12", "next_poll_ms": "250", "order_id": "", "queued": ""} {
		if got := string(jsonValue(body, key)); got != want {
			t.Errorf("%s is %q, want %q, in %s", key, got, want, body)
		}
	}
	for _, cut := range []string{"", `{"code":`, `{"code":"o`, `{"code":1`} {
		if got := jsonValue([]byte(cut), "code"); got != nil {
			t.Errorf("got %q of %q, want nothing", got, cut)
		}
	}
}
