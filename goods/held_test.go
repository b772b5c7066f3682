package goods

import (
	"testing"
	"time"
)

// However many buyers look at a sale that is sold out, the units that it has held cost a query in five seconds.
func TestHeldUnitsCostFewQueries(t *testing.T) {
	t.Parallel()
	c := newTestCache(t)
	sale := sell(t, c.other, 5)
	held := func() *Held {
		t.Helper()
		h, err := c.Held(t.Context(), sale)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	if h := held(); h.Units != 0 || h.BackAt != nil {
		t.Errorf("a sale without orders has held %+v", h)
	}
	first := c.now().Add(time.Minute).Truncate(time.Millisecond)
	exec(t, c.other, `
		insert into orders (id, user_id, sale_id, ticket, title, price, expires_at)
		select gen_random_uuid(), n + 1, $1::bigint + n / 5, n::text, 'T', 1, $2::timestamptz + n * interval '1 minute'
		from   generate_series(0, 5) n`, sale, first)
	exec(t, c.other, `update orders set status = 'paid', paid_at = now() where ticket = '3'`)
	if n := c.countQueries(func() {
		for range 100 {
			held()
		}
	}); n != 0 {
		t.Errorf("%d queries within five seconds, want none", n)
	}
	c.advance(heldFor)
	var h *Held
	if n := c.countQueries(func() { h = held() }); n != 1 {
		t.Errorf("%d queries after five seconds, want one", n)
	}
	if h.Units != 4 || h.BackAt == nil || !h.BackAt.Equal(first) { // of 0, 1, 2 and 4; the fifth is of another sale
		t.Errorf("four units are held, the first until %v: got %+v", first, h)
	}
}
