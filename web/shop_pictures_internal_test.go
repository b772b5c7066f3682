package web

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"miaosha/order"
	"miaosha/seckill/admin"
	"miaosha/seckill/sandbox/sandboxtest"
)

// Whoever makes names of pictures up is refused soon, by an address of its own, and takes nothing from those who ask for true ones.
func TestMadeUpNamesStarveNoPicture(t *testing.T) {
	t.Parallel()
	db := sandboxtest.DB(t)
	log := slog.New(slog.DiscardHandler)
	s, err := New(Config{Rate: "off", IPRate: "off", TimeZone: "UTC", Cashier: "off"}, Deps{Log: log, Admin: admin.New(db, order.Config{}, nil)}, "")
	if err != nil {
		t.Fatal(err)
	}
	name := func(n int) string { return fmt.Sprintf("%032x.png", n) }
	const stored = 120
	for n := range stored {
		if _, err := db.Exec(t.Context(), `insert into pictures (name, bytes, width, height) values ($1, 'x', 1, 1)`, name(n)); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(path, from string) int {
		r := httptest.NewRequest("GET", path, nil)
		r.RemoteAddr = from + ":1"
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	s.desk.limits.bucket(pictureMisses).most.Per = 24 * time.Hour // the bucket does not fill during the test
	codes := map[int]int{}
	for n := range 300 {
		codes[ask("/pictures/"+name(1000+n), "203.0.113.1")]++
	}
	if codes[404] != 50 || codes[429] != 250 {
		t.Errorf("300 made-up names: %v; want 50 × 404, and then 429", codes)
	}
	for n := range stored {
		if code := ask("/pictures/"+name(n), "203.0.113.2"); code != 200 {
			t.Fatalf("picture %d for another address: %d", n, code)
		}
	}
	if code := ask("/pictures/"+name(0), "203.0.113.1"); code != 200 {
		t.Errorf("a picture in memory, for the address that made names up: %d", code)
	}
	for range 200 { // one broken link in a page that a whole class sees, and names that no picture can have
		if code := ask("/pictures/"+name(999), "203.0.113.3"); code != 404 {
			t.Fatalf("a missing picture, again: %d", code)
		}
		if code := ask("/pictures/x.png", "203.0.113.3"); code != 404 {
			t.Fatalf("a name that no picture has: %d", code)
		}
	}
	if code := ask("/pictures/"+name(998), "203.0.113.3"); code != 404 {
		t.Errorf("another missing picture after them: %d", code)
	}
}
