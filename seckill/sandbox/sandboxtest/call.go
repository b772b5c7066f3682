package sandboxtest

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

var browser = &http.Client{Timeout: Hang, Transport: &http.Transport{MaxIdleConnsPerHost: 2000, MaxConnsPerHost: 400}}

// Reply is the shop's reply to one request. If none came, Status is 0 and Code is the error.
type Reply struct {
	Status int
	Header http.Header
	Raw    []byte
	Code   string
	Msg    string
	Data   json.RawMessage
}

// Read decodes the reply's data into v.
func (r Reply) Read(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(r.Data, v); err != nil {
		t.Fatalf("%d %s %s: %v", r.Status, r.Code, r.Data, err)
	}
}

// Busy reports whether the same request may succeed later: the shop is busy, the user or address
// has asked too often, or no reply came.
func (r Reply) Busy() bool {
	return r.Status == 0 || r.Status == http.StatusServiceUnavailable || r.Status == http.StatusTooManyRequests
}

// RetryAfter returns the wait that the shop asks for; 0 if it asks for none.
func (r Reply) RetryAfter() time.Duration {
	seconds, err := strconv.Atoi(r.Header.Get("Retry-After"))
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// Cookies returns the cookies that the reply sets, as a request sends them.
func (r Reply) Cookies() string {
	var pairs []string
	for _, c := range (&http.Response{Header: r.Header}).Cookies() {
		pairs = append(pairs, c.Name+"="+c.Value)
	}
	return strings.Join(pairs, "; ")
}

// Call makes one request: with a session's token unless it is "", with a JSON body unless that is
// "", and with headers as pairs of name and value.
func Call(method, url, token, body string, headers ...string) Reply {
	return CallBy(browser, method, url, token, body, headers...)
}

// CallBy is Call with a client of the test's own. Of a reply without an end, which is an event
// stream, it reads the head only.
func CallBy(client *http.Client, method, url, token, body string, headers ...string) Reply {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	if body == "" {
		req.Body = nil
		req.ContentLength = 0
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return Reply{Code: err.Error()}
	}
	defer resp.Body.Close()
	r := Reply{Status: resp.StatusCode, Header: resp.Header}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return r
	}
	if r.Raw, err = io.ReadAll(resp.Body); err != nil {
		return Reply{Code: err.Error()}
	}
	json.Unmarshal(r.Raw, &r) // not JSON: Code stays empty
	return r
}
