package web

import (
	"net/http/httptest"
	"testing"
)

// A request is from this machine if its connection is, for a name of it, and no proxy says that it has passed it on.
func TestAtThisMachine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		peer, host, header string
		want               bool
	}{
		{"127.0.0.1:1", "127.0.0.1:8080", "", true},
		{"127.0.0.2:1", "localhost", "", true},
		{"[::1]:1", "[::1]:8080", "", true},
		{"[::ffff:127.0.0.1]:1", "shop.localhost:8080", "", true},
		{"192.0.2.1:1", "127.0.0.1:8080", "", false},
		{"[2001:db8::1]:1", "localhost", "", false},
		{"@", "localhost", "", false}, // no address
		{"127.0.0.1:1", "shop.example", "", false},
		{"127.0.0.1:1", "192.0.2.1:8080", "", false},
		{"127.0.0.1:1", "127.0.0.1:8080", "X-Forwarded-For", false},
		{"127.0.0.1:1", "127.0.0.1:8080", "Forwarded", false},
		{"127.0.0.1:1", "127.0.0.1:8080", "X-Real-IP", false},
		{"127.0.0.1:1", "127.0.0.1:8080", "Via", false},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr, r.Host = c.peer, c.host
		if c.header != "" {
			r.Header.Set(c.header, "192.0.2.1")
		}
		if got := atThisMachine(r); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}
