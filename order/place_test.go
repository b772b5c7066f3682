package order_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"miaosha/goods"
	"miaosha/order"
)

// tickets returns one ticket for each user, in the same order.
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

func TestTheFirstTicketsGetTheUnits(t *testing.T) {
	s := newShop(t)
	users := []int64{50, 3, 41, 7, 29, 1, 99, 13, 60, 2} // the order of arrival decides, not the users' ids
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
			if diff := cmp.Diff(order.Result{Ticket: batch[i].ID, UserID: users[i], Outcome: want, OrderID: r.OrderID}, r); diff != "" {
				t.Errorf("%d units, position %d: %s", stock, i, diff)
			}
			if (r.OrderID == uuid.Nil) != (want == order.SoldOut) {
				t.Errorf("%d units, position %d: %s with order %s", stock, i, want, r.OrderID)
			}
		}
		if left := s.stock(t, sale); left != max(0, stock-len(users)) {
			t.Errorf("of %d units, %d are left", stock, left)
		}
	}
	s.checkInvariants(t)
}

func TestABatchPlacedAgainChangesNothing(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 3)
	batch := append(tickets(1, 2, 3, 4, 5), order.Ticket{ID: "again", UserID: 2})
	first := s.place(t, sale, batch...)
	before := s.snapshot(t)
	for range 3 {
		if diff := cmp.Diff(first, s.place(t, sale, batch...)); diff != "" {
			t.Errorf("the results changed: %s", diff)
		}
	}
	if diff := cmp.Diff(before, s.snapshot(t)); diff != "" {
		t.Errorf("rows changed: %s", diff)
	}
	if n := s.number(t, `select count(*) from ticket_results`); n != 3 {
		t.Errorf("%d stored results, want those of the three tickets without an order", n)
	}
	s.exec(t, `insert into ticket_results (ticket, user_id, sale_id, outcome, order_id) -- as shops before version 6 did
		select ticket, user_id, sale_id, 'ordered', id from orders`)
	if diff := cmp.Diff(first, s.place(t, sale, batch...)); diff != "" {
		t.Errorf("the results changed where an older shop stored them all: %s", diff)
	}
	// A unit that came back in between is not for tickets that have a result.
	if err := s.Cancel(t.Context(), 1, first[0].OrderID); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, s.place(t, sale, batch...)); diff != "" {
		t.Errorf("the results changed after a unit came back: %s", diff)
	}
	if got := s.stock(t, sale); got != 1 {
		t.Errorf("%d units are left, want the one that came back", got)
	}
	// It is for the tickets that come now.
	if got := outcomes(s.place(t, sale, tickets(6, 7)...)); !slices.Equal(got, []string{order.Ordered, order.SoldOut}) {
		t.Errorf("the next tickets got %v, want ordered and sold_out", got)
	}
	s.checkInvariants(t)
}

// A journal entry may name the wrong user.
func TestATicketHasOneResultWhoeverBringsIt(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 1)
	ticket := order.Ticket{ID: "once", UserID: 1}
	first := s.place(t, sale, ticket)
	ticket.UserID = 2
	if diff := cmp.Diff(first, s.place(t, sale, ticket)); diff != "" {
		t.Errorf("from a sale that is sold out: %s", diff)
	}
	if _, err := s.settle(t.Context(), s.sell(t, 1), ticket); refusedBy(err) != "one_order_per_ticket" {
		t.Errorf("from a sale with a unit: %v, want a refusal by the unique index", err)
	}
	s.checkInvariants(t)
}

func TestABatchThatIsRolledBackLeavesNothing(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 3)
	before := s.snapshot(t)
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
	if diff := cmp.Diff(before, s.snapshot(t)); diff != "" {
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
		t.Errorf("the second ticket of a user has another order: %+v", got)
	}
	later := s.place(t, sale, c)
	if later[0].Outcome != order.Duplicate || later[0].OrderID != got[1].OrderID {
		t.Errorf("a ticket in a later batch got %+v, want a duplicate of %s", later[0], got[1].OrderID)
	}
	if left := s.stock(t, sale); left != 3 {
		t.Errorf("%d units are left, want 3", left)
	}
	// A user who has cancelled an order cannot buy again.
	if err := s.Cancel(t.Context(), 1, got[1].OrderID); err != nil {
		t.Fatal(err)
	}
	if again := s.place(t, sale, order.Ticket{ID: "d", UserID: 1}); again[0].Outcome != order.Duplicate || again[0].OrderID != got[1].OrderID {
		t.Errorf("after the cancel: %+v, want the duplicate", again[0])
	}
	// The same user can buy in another sale.
	s.buy(t, s.sell(t, 1), 1)
	s.checkInvariants(t)
}

func TestOutcomesByTheStateOfTheSale(t *testing.T) {
	s := newShop(t)
	for _, test := range []struct{ set, want string }{
		{`state = 'published'`, order.Ordered},
		{`state = 'paused'`, order.Ordered}, // the ticket was granted before the pause
		{`ends_at = now() - interval '1 s', starts_at = now() - interval '1 h'`, order.Ordered},
		{`state = 'closed'`, order.Closed},
		{`state = 'closed', stock = 0, total = 1`, order.Closed},
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
				t.Errorf("%d units were left, now %d; want a change only for an order", before, left)
			}
		})
	}
	t.Run("closed, for a user with an order", func(t *testing.T) {
		sale := s.sell(t, 1)
		mine := s.buy(t, sale, 1)
		s.exec(t, `update sales set state = 'closed' where id = $1`, sale)
		if got := s.place(t, sale, order.Ticket{ID: "late", UserID: 1}); got[0].Outcome != order.Duplicate || got[0].OrderID != mine {
			t.Errorf("got %+v, want the duplicate", got)
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
			t.Errorf("got %+v, want invalid", got)
		}
	}
	if got := s.place(t, sale, bad); got[0].Outcome != order.Invalid {
		t.Errorf("placed after the rejection: %+v, want invalid", got)
	}
	ticket := s.read(t, `select ticket from orders where id = $1`, mine)[0]
	if got := reject(order.Ticket{ID: ticket, UserID: 2}); got[0].Outcome != order.Ordered || got[0].OrderID != mine {
		t.Errorf("a ticket that has its order was rejected: %+v", got)
	}
	if left := s.stock(t, sale); left != 4 {
		t.Errorf("%d units are left, want 4", left)
	}
	s.checkInvariants(t)
}

// One call reads the results of any buyers: of one sale or of several, also of users who bought in one and were refused in another.
func TestOutcomesReturnsTheOrderOrTheNewestResult(t *testing.T) {
	s := newShop(t)
	sale, other := s.sell(t, 1), s.sell(t, 1)
	outcomes := func(sales ...int64) map[order.Buyer]order.Result {
		t.Helper()
		var buyers []order.Buyer
		for user := int64(3); user > 0; user-- {
			for _, sale := range sales {
				buyers = append(buyers, order.Buyer{SaleID: sale, UserID: user}, order.Buyer{SaleID: sale, UserID: user})
			}
		}
		all, err := s.Outcomes(t.Context(), buyers)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if all := outcomes(sale, other); len(all) > 0 {
		t.Errorf("before the first ticket: %v, want none", all)
	}
	mine, theirs := s.buy(t, sale, 1), s.buy(t, other, 2)
	s.place(t, sale, order.Ticket{ID: "second", UserID: 1}, order.Ticket{ID: "loser", UserID: 2})
	all := outcomes(sale, other, other+1)
	want := map[order.Buyer]order.Result{}
	for _, b := range []struct {
		order.Buyer
		order.Result
	}{
		{order.Buyer{SaleID: sale, UserID: 1}, order.Result{UserID: 1, Outcome: order.Ordered, OrderID: mine}},
		{order.Buyer{SaleID: sale, UserID: 2}, order.Result{UserID: 2, Outcome: order.SoldOut}},
		{order.Buyer{SaleID: other, UserID: 2}, order.Result{UserID: 2, Outcome: order.Ordered, OrderID: theirs}},
	} {
		b.Ticket = all[b.Buyer].Ticket
		want[b.Buyer] = b.Result
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Error(diff)
	}
	// A later try has the newest result.
	if err := s.Cancel(t.Context(), 1, mine); err != nil {
		t.Fatal(err)
	}
	s.exec(t, `update sales set state = 'closed'`)
	s.place(t, sale, order.Ticket{ID: "loser again", UserID: 2})
	if r := outcomes(sale)[order.Buyer{SaleID: sale, UserID: 2}]; r.Outcome != order.Closed || r.Ticket != "loser again" {
		t.Errorf("the newest result of user 2 is %+v, want closed", r)
	}
}

func TestOwnersListsEachUserOnce(t *testing.T) {
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
		if err != nil || len(owners) != len(want) {
			t.Errorf("%s: %d owners, %v; want %d", what, len(owners), err, len(want))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	owners, err := s.Owners(t.Context(), sale, "direct:", 0, 10)
	check("direct", map[int64]uuid.UUID{8: direct.OrderID}, owners, err)
	owners, err = s.OwnersAmong(t.Context(), sale, []int64{2, 5, 99, 100})
	check("among", map[int64]uuid.UUID{2: want[2], 5: want[5]}, owners, err)
	want[8] = direct.OrderID
	owners, err = s.Owners(t.Context(), sale, "", 0, 10)
	check("all", want, owners, err)
}

// Twenty workers settle at once. Their batches have common users, and half of the batches are
// placed twice, as after a lost reply.
func TestACrowdGetsExactlyTheStock(t *testing.T) {
	s := newShop(t)
	const stock, people, workers, batches, size = 100, 150, 20, 6, 15
	sale := s.sell(t, stock)
	var mu sync.Mutex
	results := map[string]order.Result{}
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
					got, err := s.settle(t.Context(), sale, batch...)
					if err != nil || len(got) != size {
						t.Errorf("%d results, %v; want %d", len(got), err, size)
						return
					}
					mu.Lock()
					for _, r := range got {
						if before, ok := results[r.Ticket]; ok && before != r {
							t.Errorf("first %+v, then %+v", before, r)
						}
						results[r.Ticket] = r
					}
					mu.Unlock()
				}
			}
		})
	}
	crowd.Wait()
	if orders, left := s.number(t, `select count(*) from orders`), s.stock(t, sale); orders != stock || left != 0 {
		t.Errorf("%d orders and %d units are left, want %d and 0", orders, left, stock)
	}
	counts := map[string]int{}
	for _, r := range results {
		counts[r.Outcome]++
	}
	if counts[order.Ordered] != stock || counts[order.Ordered]+counts[order.Duplicate]+counts[order.SoldOut] != workers*batches*size {
		t.Errorf("outcomes %v; want %d orders, and %d with duplicates and sold out", counts, stock, workers*batches*size)
	}
	s.checkInvariants(t)
}

// Random batches, with tickets that were placed before, are compared with a small model.
func TestPlaceFollowsAModel(t *testing.T) {
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
			for _, tk := range batch { // first the orders, then the other outcomes
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
	s.checkInvariants(t)
}

// Without a journal, only the first refusal of a user leaves a row, however many clicks there are.
func TestPlacedAtOnceClicksLeaveFewRows(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 3)
	atOnce := func(tickets ...order.Ticket) (results []order.Result) {
		t.Helper()
		err := pgx.BeginFunc(t.Context(), s.db, func(tx pgx.Tx) error {
			l, err := goods.Lock(t.Context(), tx, sale)
			if err == nil {
				results, err = s.PlaceAtOnce(t.Context(), tx, l, tickets)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(results, func(a, b order.Result) int { return strings.Compare(a.Ticket, b.Ticket) })
		return results
	}
	first := atOnce(tickets(1, 2, 3)...)
	if diff := cmp.Diff([]string{order.Ordered, order.Ordered, order.Ordered}, outcomes(first)); diff != "" {
		t.Fatal(diff)
	}
	again := order.Ticket{ID: "t4-again", UserID: 4}
	atOnce(append(tickets(4, 5), again)...) // the first refusals, and a second click in the same call
	if n := s.number(t, `select count(*) from ticket_results where outcome = 'sold_out'`); n != 2 {
		t.Errorf("two users' refusals left %d rows, want 2", n)
	}
	before := s.snapshot(t)
	if diff := cmp.Diff(first, atOnce(tickets(1, 2, 3)...)); diff != "" {
		t.Errorf("the reply to the same tickets changed: %s", diff)
	}
	for n := range 20 {
		for user := range int64(5) {
			got := atOnce(order.Ticket{ID: fmt.Sprintf("again-%d-%d", user, n), UserID: user + 1})
			want := order.Result{Ticket: got[0].Ticket, UserID: user + 1, Outcome: order.SoldOut}
			if user < 3 {
				want.Outcome, want.OrderID = order.Duplicate, first[user].OrderID
			}
			if diff := cmp.Diff([]order.Result{want}, got); diff != "" {
				t.Fatal(diff)
			}
		}
	}
	if diff := cmp.Diff(before, s.snapshot(t)); diff != "" {
		t.Errorf("rows changed: %s", diff)
	}
	s.checkInvariants(t)
}
