package bench

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"miaosha/seckill/sandbox/sandboxtest"
)

// The memory is read before, with and after the connections. Connections that the shop closes are
// counted.
func TestConns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		closed int
	}{"patient": {0}, "impatient": {40}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			open, most := map[net.Conn]bool{}, 0
			s := fakeShop(t, false, nil, func(s *http.Server) {
				s.ConnState = func(conn net.Conn, state http.ConnState) {
					mu.Lock()
					defer mu.Unlock()
					switch state {
					case http.StateNew:
						open[conn] = true
						most = max(most, len(open))
					case http.StateClosed:
						delete(open, conn)
					}
				}
			})
			none := func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(open) == 0
			}
			readings := []int64{1000, 9000, 3000}
			turns, err := Run(t.Context(), Config{URL: s.URL, Sale: 7, Shape: "conns", Seconds: 1, Conns: 40, Usage: func(context.Context) (Usage, error) {
				if len(readings) == 0 {
					return Usage{}, errors.New("read too often")
				}
				if len(readings) == 2 && c.closed > 0 { // the connections are open
					mu.Lock()
					for conn := range open {
						conn.Close()
					}
					mu.Unlock()
					sandboxtest.Until(t, "the shop has closed all", none)
				}
				u := Usage{Resident: readings[0]}
				readings = readings[1:]
				return u, nil
			}}, []Buyer{{}}, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			one := turns[0]
			memory := *one.Memory
			if memory.Seconds < 1 {
				t.Errorf("the memory was read again after %.2f s, want 1", memory.Seconds)
			}
			memory.Seconds = 0
			if diff := cmp.Diff(Memory{Conns: 40, ClosedByShop: c.closed, Before: 1000, Open: 9000, After: 3000}, memory); diff != "" {
				t.Error(diff)
			}
			if memory.PerConn() != 200 {
				t.Errorf("%.1f bytes for each connection, want 200", memory.PerConn())
			}
			sandboxtest.Until(t, "no connection stays open", none)
			if most < 40 {
				t.Errorf("%d were open at once, want 40", most)
			}
			if one.Pages != 40 || one.Page.Count != 40 {
				t.Errorf("%d pages and %d latencies, want 40", one.Pages, one.Page.Count)
			}
		})
	}
	s := fakeShop(t, false, nil)
	if _, err := Run(t.Context(), Config{URL: s.URL, Sale: 7, Shape: "conns", Seconds: 1, Conns: 1}, []Buyer{{}}, io.Discard); err == nil || !strings.Contains(err.Error(), "--ops") {
		t.Errorf("%v, want an error that names --ops", err)
	}
}
