package order_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"miaosha/goods"
	"miaosha/order"
)

// tickets gives one ticket for each user, in their order.
func tickets(users ...int64) []order.Ticket {
	ts := make([]order.Ticket, len(users))
	for i, u := range users {
		ts[i] = order.Ticket{ID: fmt.Sprintf("t%d", u), UserID: u}
	}
	return ts
}

func outcomes(results []order.Result) (out []string) {
	for _, r := range results {
		out = append(out, r.Outcome)
	}
	return out
}

func TestTheFirstInOrderGetTheUnits(t *testing.T) {
	s := newShop(t)
	users := []int64{50, 3, 41, 7, 29, 1, 99, 13, 60, 2} // arrival, not the users' numbers, decides
	for _, stock := range []int{1, 4, 10, 25} {
		sale := s.sell(t, stock)
		batch := make([]order.Ticket, len(users))
		for i, u := range users {
			batch[i] = order.Ticket{ID: fmt.Sprintf("%d of %d", u, stock), UserID: u}
		}
		got := s.place(t, sale, batch...)
		if len(got) != len(batch) {
			t.Fatalf("%d results for %d tickets", len(got), len(batch))
		}
		for i, r := range got {
			want := order.Ordered
			if i >= stock {
				want = order.SoldOut
			}
			if r.Ticket != batch[i].ID || r.UserID != users[i] || r.Outcome != want || (r.OrderID == uuid.Nil) != (want == order.SoldOut) {
				t.Errorf("of %d units, place %d: %+v, want %s", stock, i, r, want)
			}
		}
		if left := s.stock(t, sale); left != max(0, stock-len(users)) {
			t.Errorf("of %d units %d are left", stock, left)
		}
	}
	s.sound(t)
}

func TestABatchPlacedAgainChangesNothing(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 3)
	batch := append(tickets(1, 2, 3, 4, 5), order.Ticket{ID: "again", UserID: 2})
	first := s.place(t, sale, batch...)
	before := s.everything(t)
	for range 3 {
		if diff := cmp.Diff(first, s.place(t, sale, batch...)); diff != "" {
			t.Errorf("other results: %s", diff)
		}
	}
	if diff := cmp.Diff(before, s.everything(t)); diff != "" {
		t.Errorf("something changed: %s", diff)
	}
	// Units that came back in between are not for tickets that have their answer.
	if err := s.Cancel(t.Context(), 1, first[0].OrderID); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, s.place(t, sale, batch...)); diff != "" {
		t.Errorf("other results after a unit came back: %s", diff)
	}
	if got := s.stock(t, sale); got != 1 {
		t.Errorf("%d units are left, want the 1 that came back", got)
	}
	// They are for those who come now.
	if got := outcomes(s.place(t, sale, tickets(6, 7)...)); !slices.Equal(got, []string{order.Ordered, order.SoldOut}) {
		t.Errorf("who came then got %v", got)
	}
	s.sound(t)
}

func TestABatchThatIsRolledBackLeavesNothing(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 3)
	before := s.everything(t)
	undo := errors.New("undo")
	err := pgx.BeginFunc(t.Context(), s.db, func(tx pgx.Tx) error {
		l, err := goods.Lock(t.Context(), tx, sale)
		if err == nil {
			_, err = s.Place(t.Context(), tx, l, tickets(1, 2))
		}
		return errors.Join(err, undo)
	})
	if !errors.Is(err, undo) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, s.everything(t)); diff != "" {
		t.Error(diff)
	}
}

func TestOneOrderPerUserHoweverManyTickets(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 5)
	a, b, c := order.Ticket{ID: "a", UserID: 1}, order.Ticket{ID: "b", UserID: 1}, order.Ticket{ID: "c", UserID: 1}
	got := s.place(t, sale, order.Ticket{ID: "x", UserID: 2}, b, a)
	if diff := cmp.Diff([]string{order.Ordered, order.Ordered, order.Duplicate}, outcomes(got)); diff != "" {
		t.Error(diff)
	}
	if got[1].OrderID != got[2].OrderID || got[1].OrderID == got[0].OrderID {
		t.Errorf("the second ticket of a user points at another order: %+v", got)
	}
	later := s.place(t, sale, c)
	if later[0].Outcome != order.Duplicate || later[0].OrderID != got[1].OrderID {
		t.Errorf("a ticket in a later batch got %+v, want a duplicate of %s", later[0], got[1].OrderID)
	}
	if left := s.stock(t, sale); left != 3 {
		t.Errorf("%d units are left, want 3", left)
	}
	// Once is once: an order that was cancelled is not bought again.
	if err := s.Cancel(t.Context(), 1, got[1].OrderID); err != nil {
		t.Fatal(err)
	}
	if again := s.place(t, sale, order.Ticket{ID: "d", UserID: 1}); again[0].Outcome != order.Duplicate || again[0].OrderID != got[1].OrderID {
		t.Errorf("after cancelling got %+v", again[0])
	}
	// The same user in another sale is another matter.
	s.buy(t, s.sell(t, 1), 1)
	s.sound(t)
}

func TestWhatTheStateOfASaleMeansToItsTickets(t *testing.T) {
	s := newShop(t)
	for _, test := range []struct{ set, want string }{
		{`state = 'published'`, order.Ordered},
		{`state = 'paused'`, order.Ordered}, // granted before
		{`ends_at = now() - interval '1 s', starts_at = now() - interval '1 h'`, order.Ordered},
		{`state = 'closed'`, order.Shut},
		{`state = 'closed', stock = 0, total = 1`, order.Shut},
		{`stock = 0`, order.SoldOut},
	} {
		t.Run(test.set, func(t *testing.T) {
			sale := s.sell(t, 1)
			s.exec(t, `update sales set `+test.set+` where id = $1`, sale)
			ticket := order.Ticket{ID: "t" + strconv.FormatInt(sale, 10), UserID: 1}
			before := s.stock(t, sale)
			got := s.place(t, sale, ticket)
			if got[0].Outcome != test.want {
				t.Errorf("got %s, want %s", got[0].Outcome, test.want)
			}
			if left := s.stock(t, sale); (left < before) != (test.want == order.Ordered) {
				t.Errorf("%d units were left, now %d", before, left)
			}
		})
	}
	t.Run("closed, to one who has an order", func(t *testing.T) {
		sale := s.sell(t, 1)
		mine := s.buy(t, sale, 1)
		s.exec(t, `update sales set state = 'closed' where id = $1`, sale)
		if got := s.place(t, sale, order.Ticket{ID: "late", UserID: 1}); got[0].Outcome != order.Duplicate || got[0].OrderID != mine {
			t.Errorf("got %+v", got)
		}
	})
}

func TestARejectedTicketStaysRejected(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 5)
	mine := s.buy(t, sale, 2)
	reject := func(ts ...order.Ticket) (results []order.Result) {
		err := pgx.BeginFunc(t.Context(), s.db, func(tx pgx.Tx) (err error) {
			results, err = s.Reject(t.Context(), tx, sale, ts)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return results
	}
	bad := order.Ticket{ID: "bad", UserID: 1}
	for range 2 {
		if got := reject(bad); len(got) != 1 || got[0] != (order.Result{Ticket: "bad", UserID: 1, Outcome: order.Invalid}) {
			t.Errorf("got %+v", got)
		}
	}
	if got := s.place(t, sale, bad); got[0].Outcome != order.Invalid {
		t.Errorf("placed afterwards it got %+v", got)
	}
	ticket := s.read(t, `select ticket from orders where id = $1`, mine)[0]
	if got := reject(order.Ticket{ID: ticket, UserID: 2}); got[0].Outcome != order.Ordered || got[0].OrderID != mine {
		t.Errorf("a ticket that has its order was rejected: %+v", got)
	}
	if left := s.stock(t, sale); left != 4 {
		t.Errorf("%d units are left, want 4", left)
	}
	s.sound(t)
}

func TestOutcomesAreTheOrderElseTheLastResult(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 1)
	outcomes := func(sale int64) map[int64]order.Result {
		t.Helper()
		all, err := s.Outcomes(t.Context(), sale, []int64{1, 2, 3})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if all := outcomes(sale); len(all) > 0 {
		t.Errorf("before anything: %v", all)
	}
	mine := s.buy(t, sale, 1)
	s.place(t, sale, order.Ticket{ID: "second", UserID: 1}, order.Ticket{ID: "loser", UserID: 2})
	all := outcomes(sale)
	if r := all[1]; r.Outcome != order.Ordered || r.OrderID != mine || r.UserID != 1 {
		t.Errorf("user 1: %+v, want order %s", r, mine)
	}
	if r := all[2]; r.Outcome != order.SoldOut || r.OrderID != uuid.Nil || len(all) != 2 {
		t.Errorf("user 2: %+v of %v, want sold out, and nothing of user 3", r, all)
	}
	// What he tries later is what he hears of.
	if err := s.Cancel(t.Context(), 1, mine); err != nil {
		t.Fatal(err)
	}
	s.exec(t, `update sales set state = 'closed'`)
	s.place(t, sale, order.Ticket{ID: "loser again", UserID: 2})
	if r := outcomes(sale)[2]; r.Outcome != order.Shut {
		t.Errorf("the last result of user 2 is %+v; want closed", r)
	}
	if all := outcomes(sale + 1); len(all) > 0 {
		t.Errorf("of another sale: %v", all)
	}
}

func TestOwnersNamesEachOnce(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 25)
	want := map[int64]uuid.UUID{}
	for _, r := range s.place(t, sale, tickets(1, 2, 3, 4, 5, 6, 7)...) {
		want[r.UserID] = r.OrderID
	}
	direct := s.place(t, sale, order.Ticket{ID: "direct:8", UserID: 8})[0]
	s.buy(t, s.sell(t, 1), 99) // of another sale
	check := func(what string, want map[int64]uuid.UUID, owners []order.Owner, err error) {
		t.Helper()
		got := map[int64]uuid.UUID{}
		for _, o := range owners {
			got[o.UserID] = o.OrderID
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil || len(got) != len(owners) {
			t.Errorf("%s: %d owners, %v %s", what, len(owners), err, diff)
		}
	}
	owners, err := s.Owners(t.Context(), sale, "direct:")
	check("direct", map[int64]uuid.UUID{8: direct.OrderID}, owners, err)
	owners, err = s.OwnersAmong(t.Context(), sale, []int64{2, 5, 99, 100})
	check("among", map[int64]uuid.UUID{2: want[2], 5: want[5]}, owners, err)
	want[8] = direct.OrderID
	owners, err = s.Owners(t.Context(), sale, "")
	check("all", want, owners, err)
}

// Twenty settle at once, their batches overlap in users, each batch is placed twice as after a lost answer.
func TestACrowdGetsExactlyTheStock(t *testing.T) {
	s := newShop(t)
	const stock, people, workers, batches, size = 100, 150, 20, 6, 15
	sale := s.sell(t, stock)
	var mu sync.Mutex
	told := map[string]order.Result{}
	seed := uint64(rand.Int64())
	t.Logf("seed %d", seed)
	var crowd sync.WaitGroup
	for w := range workers {
		crowd.Go(func() {
			dice := rand.New(rand.NewPCG(seed, uint64(w)))
			for b := range batches {
				batch := make([]order.Ticket, size)
				for i := range batch {
					batch[i] = order.Ticket{ID: fmt.Sprintf("%d-%d-%d", w, b, i), UserID: 1 + dice.Int64N(people)}
				}
				for range 1 + dice.IntN(2) {
					results, err := s.settle(t.Context(), sale, batch...)
					if err != nil || len(results) != size {
						t.Errorf("%d results, %v", len(results), err)
						return
					}
					mu.Lock()
					for _, r := range results {
						if had, ok := told[r.Ticket]; ok && had != r {
							t.Errorf("told %+v, then %+v", had, r)
						}
						told[r.Ticket] = r
					}
					mu.Unlock()
				}
			}
		})
	}
	crowd.Wait()
	if orders, left := s.number(t, `select count(*) from orders`), s.stock(t, sale); orders != stock || left != 0 {
		t.Errorf("%d orders and %d units left, want %d and 0", orders, left, stock)
	}
	got := map[string]int{}
	for _, r := range told {
		got[r.Outcome]++
	}
	if got[order.Ordered] != stock || got[order.Ordered]+got[order.Duplicate]+got[order.SoldOut] != workers*batches*size {
		t.Errorf("told %v", got)
	}
	s.sound(t)
}

// Batches of any tickets, also such that were placed before, against a model in a few lines.
func TestPlaceFollowsItsModel(t *testing.T) {
	s := newShop(t)
	rapid.Check(t, func(r *rapid.T) {
		stock := rapid.IntRange(1, 6).Draw(r, "stock")
		sale := s.sell(t, stock)
		owner := map[string]int64{}    // ticket -> user
		outcome := map[string]string{} // ticket -> outcome
		winner := map[int64]string{}   // user -> ticket
		for range rapid.IntRange(1, 5).Draw(r, "batches") {
			var batch []order.Ticket
			for i := range rapid.IntRange(1, 6).Draw(r, "size") {
				id := fmt.Sprintf("%d/%d", sale, rapid.IntRange(0, 15).Draw(r, "ticket"+strconv.Itoa(i)))
				if _, ok := owner[id]; !ok {
					owner[id] = rapid.Int64Range(1, 8).Draw(r, "user"+strconv.Itoa(i))
				}
				if !slices.Contains(batch, order.Ticket{ID: id, UserID: owner[id]}) {
					batch = append(batch, order.Ticket{ID: id, UserID: owner[id]})
				}
			}
			for _, tk := range batch { // first the orders, then what became of the others
				if _, ok := winner[tk.UserID]; !ok && outcome[tk.ID] == "" && stock > 0 {
					winner[tk.UserID] = tk.ID
					stock--
				}
			}
			for _, tk := range batch {
				switch w, ok := winner[tk.UserID]; {
				case outcome[tk.ID] != "":
				case !ok:
					outcome[tk.ID] = order.SoldOut
				case w == tk.ID:
					outcome[tk.ID] = order.Ordered
				default:
					outcome[tk.ID] = order.Duplicate
				}
			}
			got := s.place(t, sale, batch...)
			if len(got) != len(batch) {
				r.Fatalf("%d results for %d tickets", len(got), len(batch))
			}
			for i, g := range got {
				if g.Ticket != batch[i].ID || g.Outcome != outcome[g.Ticket] {
					r.Fatalf("ticket %s of user %d: %s, want %s", g.Ticket, g.UserID, g.Outcome, outcome[g.Ticket])
				}
			}
			if left := s.stock(t, sale); left != stock {
				r.Fatalf("%d units are left, want %d", left, stock)
			}
		}
	})
	s.sound(t)
}
