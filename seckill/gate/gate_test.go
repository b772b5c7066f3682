package gate

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/sandbox/sandboxtest"
)

// open returns the row of a sale that has been open for an hour.
func open(stock int) goods.Locked {
	return goods.Locked{ID: 1, State: goods.Published, Stock: stock, StartsAt: time.Now().Add(-time.Hour), EndsAt: time.Now().Add(time.Hour)}
}

// newGate returns a Gate, the process "here", on a Redis of its own with the gate of l installed.
func newGate(t testing.TB, l goods.Locked, qmax int) *Gate {
	t.Helper()
	g := New(sandboxtest.Redis(t), "here", time.Second)
	installGate(t, g, l, 1, qmax, true)
	return g
}

// installGate creates the tickets and installs the gate of l. want is whether the install is expected to change anything.
func installGate(t testing.TB, g *Gate, l goods.Locked, epoch int64, qmax int, want bool) {
	t.Helper()
	if _, err := g.CreateTickets(t.Context(), l.ID); err != nil {
		t.Fatal(err)
	}
	got, err := g.Install(t.Context(), l, epoch, qmax, true)
	if err != nil || got != want {
		t.Fatalf("install epoch %d: %v, %v, want %v", epoch, got, err, want)
	}
}

// reserveFor reserves tickets for users in one call, each with a new nonce.
func reserveFor(t testing.TB, g *Gate, users ...int64) []Reply {
	t.Helper()
	requests := make([]Request, len(users))
	for i, u := range users {
		requests[i] = Request{u, uuid.NewString()}
	}
	return mustReserve(t, g, requests)
}

// mustReserve runs the reserve script once.
func mustReserve(t testing.TB, g *Gate, requests []Request) []Reply {
	t.Helper()
	replies, err := g.reserve(t.Context(), 1, requests)
	if err != nil {
		t.Fatal(err)
	}
	return replies
}

// readState returns the state of the gate of sale 1.
func readState(t testing.TB, g *Gate) State {
	t.Helper()
	gates, err := States(t.Context(), g.rdb, []int64{1})
	if err != nil {
		t.Fatal(err)
	}
	return gates[1]
}

// wantState checks the stock of the gate and the number of tickets in its journal.
func wantState(t testing.TB, g *Gate, stock, inFlight int) {
	t.Helper()
	if r := readState(t, g); r.Stock != stock || r.InFlight != inFlight {
		t.Fatalf("stock %d and %d in the journal, want %d and %d", r.Stock, r.InFlight, stock, inFlight)
	}
}

// existing returns the user's existing ticket as the tickets hash has it, or "".
func (r Reply) existing() string {
	switch {
	case r.Existing == nil:
		return ""
	case r.Existing.State == Queued:
		return "Q" + r.Existing.Ticket
	}
	return encode(order.Result{Outcome: r.Existing.State, OrderID: r.Existing.OrderID})
}

// String returns "new", the refusal, or the first letter of what the user has already.
func (r Reply) String() string {
	switch {
	case r.Err != nil:
		return r.Err.Error()
	case r.Ticket != "":
		return "new"
	}
	return r.existing()[:1]
}

func TestReserve(t *testing.T) {
	t.Parallel()
	g := newGate(t, open(3), 10)
	if err := g.rdb.ZAdd(t.Context(), AddressesKey(1), redis.Z{Score: 1e15, Member: "1"}, redis.Z{Score: 1e15, Member: "9"}).Err(); err != nil {
		t.Fatal(err)
	}
	a := reserveFor(t, g, 1, 2, 1) // user 1 twice in one batch
	if got := fmt.Sprint(a); got != "[new new Q]" || a[2].existing() != "Q"+a[0].Ticket {
		t.Fatalf("%s %+v", got, a)
	}
	wantState(t, g, 1, 2)
	if got := g.rdb.ZRange(t.Context(), AddressesKey(1), 0, -1).Val(); fmt.Sprint(got) != "[9]" {
		t.Errorf("live addresses of users %v, want only user 9", got)
	}
	b := reserveFor(t, g, 1, 3, 4)
	if got := fmt.Sprint(b); got != "[Q new "+goods.ErrSoldOut.Error()+"]" || b[0].existing() != "Q"+a[0].Ticket {
		t.Fatalf("%s %+v", got, b)
	}
	wantState(t, g, 0, 3)
	if got := fmt.Sprint(reserveFor(t, g, 2, 5)); got != "[Q "+goods.ErrSoldOut.Error()+"]" {
		t.Errorf("sold out: %s", got)
	}
	// A ticket is epoch:entry:nonce. All tickets of a call are in one journal entry.
	entries, now, err := g.Journal(t.Context(), 1, 99)
	if err != nil {
		t.Fatal(err)
	}
	var got [][]order.Ticket
	for _, e := range entries {
		if got = append(got, e.Tickets); e.Err != nil || e.Owner != "here" || e.Owners != 1 || e.Since.After(now) || now.Sub(e.Since) > sandboxtest.Hang {
			t.Errorf("entry %+v: want one of this process, written just now (%v)", e, now)
		}
	}
	want := [][]order.Ticket{{{ID: a[0].Ticket, UserID: 1}, {ID: a[1].Ticket, UserID: 2}}, {{ID: b[1].Ticket, UserID: 3}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the journal's tickets (-want +got):\n%s", diff)
	}
	for _, e := range entries {
		if tickets, err := g.TicketsOf(t.Context(), 1, e.ID); err != nil || !cmp.Equal(tickets, e.Tickets) {
			t.Errorf("the tickets of %s: %v, %v", e.ID, tickets, err)
		}
	}
	if tickets, err := g.TicketsOf(t.Context(), 1, "1-1"); err != nil || len(tickets) > 0 {
		t.Errorf("the tickets of an entry that is not there: %v, %v", tickets, err)
	}
}

// The first ticket makes the journal, which ends a day after the sale. It is made once more after Redis has lost it.
func TestTheFirstTicketGivesTheJournalItsExpiry(t *testing.T) {
	t.Parallel()
	l := open(9)
	g := newGate(t, l, 9)
	for user := int64(1); user <= 2; user++ {
		if n := g.rdb.Exists(t.Context(), JournalKey(1)).Val(); n != 0 {
			t.Fatal("there is a journal before the first ticket")
		}
		reserveFor(t, g, user)
		last := time.Now().Add(g.rdb.PTTL(t.Context(), JournalKey(1)).Val())
		if d := last.Sub(l.EndsAt.Add(24 * time.Hour)).Abs(); d > sandboxtest.Hang {
			t.Errorf("the journal lives until %v, want a day after the end", last)
		}
		g.rdb.Del(t.Context(), JournalKey(1))
	}
}

// A call whose reply was lost is repeated. It returns the same tickets and takes no more units.
func TestReserveAgain(t *testing.T) {
	t.Parallel()
	g := newGate(t, open(5), 10)
	requests := []Request{{1, uuid.NewString()}, {2, uuid.NewString()}, {1, uuid.NewString()}}
	first, second := mustReserve(t, g, requests), mustReserve(t, g, requests)
	if fmt.Sprint(first) != "[new new Q]" || fmt.Sprintf("%+v", first) != fmt.Sprintf("%+v", second) {
		t.Fatalf("%+v, then %+v", first, second)
	}
	wantState(t, g, 3, 2)
}

func TestReserveRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*goods.Locked)
		qmax   int
		want   error
	}{
		"closed":            {func(l *goods.Locked) { l.State = goods.Closed }, 9, goods.ErrEnded},
		"paused":            {func(l *goods.Locked) { l.State = goods.Paused }, 9, goods.ErrPaused},
		"ended":             {func(l *goods.Locked) { l.EndsAt = time.Now().Add(-time.Second) }, 9, goods.ErrEnded},
		"paused and ended":  {func(l *goods.Locked) { l.State, l.EndsAt = goods.Paused, time.Now().Add(-time.Second) }, 9, goods.ErrEnded},
		"sold out":          {func(l *goods.Locked) { l.Stock = 0 }, 9, goods.ErrSoldOut},
		"sold out and full": {func(l *goods.Locked) { l.Stock = 1 }, 1, goods.ErrSoldOut},
		"full":              {func(l *goods.Locked) {}, 1, ErrBusy},
	} {
		t.Run(name, func(t *testing.T) {
			l := open(5)
			g := New(sandboxtest.Redis(t), "here", time.Second)
			installGate(t, g, l, 1, 9, true)
			before := append(reserveFor(t, g, 1), reserveFor(t, g, 2)...)
			if err := g.Ack(t.Context(), 1, []order.Result{{Ticket: before[1].Ticket, UserID: 2, Outcome: order.Ordered, OrderID: uuid.New()}}); err != nil {
				t.Fatal(err)
			}
			l.Stock -= 1
			c.change(&l)
			installGate(t, g, l, 2, c.qmax, true)
			was := readState(t, g)
			a := reserveFor(t, g, 7, 1, 2)
			if !errors.Is(a[0].Err, c.want) {
				t.Errorf("%v, want %v", a[0], c.want)
			}
			// A user with a ticket or an order is told of it all the same.
			if a[1].existing() != "Q"+before[0].Ticket || a[2].String() != "O" {
				t.Errorf("the user with a ticket: %v, the user with an order: %v", a[1], a[2])
			}
			if now := readState(t, g); now != was {
				t.Errorf("a refusal changed the gate to %+v, was %+v", now, was)
			}
		})
	}
}

func TestReserveTooEarly(t *testing.T) {
	t.Parallel()
	l := open(5)
	l.StartsAt = time.Now().Add(30 * time.Second)
	g := newGate(t, l, 9)
	var early goods.NotStartedError
	most := time.Until(l.StartsAt)
	if a := reserveFor(t, g, 1); !errors.As(a[0].Err, &early) {
		t.Errorf("%v, want NotStartedError", a)
	}
	least := time.Until(l.StartsAt)
	if early.In < least-2*time.Millisecond || early.In > most+2*time.Millisecond {
		t.Errorf("the sale starts in %v, want %v to %v", early.In, least, most)
	}
	wantState(t, g, 5, 0)
}

// The window is judged by the clock of Redis, whatever the clock of this process shows. The test tries a millisecond before
// the start, the start, a millisecond before the end, and the end.
func TestWindowByTheClockOfRedis(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr()})
	defer rdb.Close()
	g := New(rdb, "here", time.Second)
	starts := time.Now().Add(1000 * time.Hour).Truncate(time.Millisecond)
	l := goods.Locked{ID: 1, State: goods.Published, Stock: 5, StartsAt: starts, EndsAt: starts.Add(time.Hour)}
	m.SetTime(starts.Add(-time.Millisecond))
	installGate(t, g, l, 1, 9, true)
	for i, c := range []struct {
		at   time.Time
		want error
	}{
		{starts.Add(-time.Millisecond), goods.NotStartedError{In: time.Millisecond}},
		{starts, nil},
		{l.EndsAt.Add(-time.Millisecond), nil},
		{l.EndsAt, goods.ErrEnded},
	} {
		m.SetTime(c.at)
		if i == 2 { // else the first ticket has waited for too long
			rdb.XTrimMaxLen(t.Context(), JournalKey(1), 0)
		}
		if a := reserveFor(t, g, int64(i+1)); !errors.Is(a[0].Err, c.want) || c.want == nil && a[0].Ticket == "" {
			t.Errorf("reserve at %v: %v, want %v", c.at.Sub(starts), a, c.want)
		}
		if _, _, err := g.Address(t.Context(), 1, 100, time.Minute, 5); !errors.Is(err, c.want) {
			t.Errorf("path at %v: %v, want %v", c.at.Sub(starts), err, c.want)
		}
	}
}

func TestReserveWithoutAGate(t *testing.T) {
	t.Parallel()
	g := newGate(t, open(5), 9)
	for _, field := range []string{"state", "stock", "epoch", "qmax", "start_ms", "end_ms", "in_flight"} {
		value := g.rdb.HGet(t.Context(), GateKey(1), field).Val()
		g.rdb.HDel(t.Context(), GateKey(1), field)
		if a := reserveFor(t, g, 1, 2); !errors.Is(a[0].Err, ErrNoGate) || !errors.Is(a[1].Err, ErrNoGate) {
			t.Errorf("without %s: %v, want ErrNoGate", field, a)
		}
		g.rdb.HSet(t.Context(), GateKey(1), field, value)
	}
	wantState(t, g, 5, 0)
	g.rdb.FlushDB(t.Context())
	if a := reserveFor(t, g, 1); !errors.Is(a[0].Err, ErrNoGate) {
		t.Errorf("flushed: %v, want ErrNoGate", a)
	}
	if n := g.rdb.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys were created", n)
	}
}

// While nothing is settled, tickets are granted until the oldest entry is ten seconds old.
func TestReserveStopsWhenNothingIsSettled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		age  time.Duration
		want string
	}{"young": {time.Second, "[new]"}, "old": {11 * time.Second, "[" + ErrBusy.Error() + "]"}} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, open(5), 9)
			id := strconv.FormatInt(time.Now().Add(-c.age).UnixMilli(), 10) + "-0"
			if err := g.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: JournalKey(1), ID: id, Values: []string{"user", "9"}}).Err(); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(reserveFor(t, g, 1)); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// The same by a clock that the test sets.
func TestReserveStopsAtTenSeconds(t *testing.T) {
	t.Parallel()
	g := newSteppedGate(t, 5)
	g.issued(t, 1, time.Hour)
	reserveFor(t, g.Gate, 1)
	g.pass(10*time.Second - time.Millisecond)
	if got := fmt.Sprint(reserveFor(t, g.Gate, 2)); got != "[new]" {
		t.Errorf("a millisecond before: %s, want a ticket", got)
	}
	g.pass(2 * time.Millisecond)
	if got := fmt.Sprint(reserveFor(t, g.Gate, 3)); got != "["+ErrBusy.Error()+"]" {
		t.Errorf("after ten seconds: %s, want busy", got)
	}
}

func TestInstall(t *testing.T) {
	t.Parallel()
	g := newGate(t, open(5), 9)
	reserveFor(t, g, 1, 2)
	takeOverAll(t, New(g.rdb, "there", time.Second), g)
	later := open(5)
	later.EndsAt = time.Now().Add(48 * time.Hour)
	for _, epoch := range []int64{0, 1} { // not newer
		installGate(t, g, later, epoch, 9, false)
	}
	wantState(t, g, 3, 2)
	was := readState(t, g)
	installGate(t, g, later, 2, 9, true) // neither ticket is settled yet
	wantState(t, g, 3, 2)
	if now := readState(t, g); now.Epoch != 2 || now.Ops == was.Ops {
		t.Errorf("installed as %+v, was %+v", now, was)
	}
	later.Stock = 1 // fewer units than tickets
	installGate(t, g, later, 3, 9, true)
	wantState(t, g, 0, 2)
	for _, key := range []string{GateKey(1), TicketsKey(1), JournalKey(1), TakeoversKey(1)} {
		last := time.Now().Add(g.rdb.PTTL(t.Context(), key).Val())
		if d := last.Sub(later.EndsAt.Add(24 * time.Hour)).Abs(); d > sandboxtest.Hang {
			t.Errorf("%s lives until %v, want a day after the end", key, last)
		}
	}
}

// A gate is not installed if Redis has lost the tickets hash, with the owners in it.
func TestInstallAfterAFlush(t *testing.T) {
	t.Parallel()
	g := New(sandboxtest.Redis(t), "here", time.Second)
	if _, err := g.Install(t.Context(), open(5), 1, 9, true); !errors.Is(err, ErrNoGate) {
		t.Errorf("%v, want ErrNoGate", err)
	}
	if n := g.rdb.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys were created", n)
	}
}

func TestFix(t *testing.T) {
	t.Parallel()
	fix := func(t *testing.T, g *Gate, was State, durable, drift, stock int) {
		t.Helper()
		got, _, err := g.Fix(t.Context(), 1, was, durable)
		if err != nil || got != drift {
			t.Errorf("drift %d, %v, want %d", got, err, drift)
		}
		if r := readState(t, g); r.Stock != stock {
			t.Errorf("stock %d, want %d", r.Stock, stock)
		}
	}
	t.Run("empty journal", func(t *testing.T) {
		g := newGate(t, open(5), 9)
		fix(t, g, readState(t, g), 8, 3, 8)
		fix(t, g, readState(t, g), 2, -6, 2)
		fix(t, g, readState(t, g), 2, 0, 2)
	})
	t.Run("tickets in flight", func(t *testing.T) {
		g := newGate(t, open(5), 9)
		reserveFor(t, g, 1, 2)               // stock 3
		fix(t, g, readState(t, g), 3, 0, 3)  // both may be settled: 3 units left is possible
		fix(t, g, readState(t, g), 5, 0, 3)  // or neither is
		fix(t, g, readState(t, g), 9, 4, 7)  // at least 7 units are left
		fix(t, g, readState(t, g), 6, -1, 6) // at most 6 units are left
	})
	t.Run("the gate moved", func(t *testing.T) {
		g := newGate(t, open(5), 9)
		was := readState(t, g)
		a := reserveFor(t, g, 1)
		if err := g.Ack(t.Context(), 1, []order.Result{{Ticket: a[0].Ticket, UserID: 1, Outcome: order.SoldOut}}); err != nil {
			t.Fatal(err)
		}
		fix(t, g, was, 9, 0, 4) // ops differ
		was = readState(t, g)
		installGate(t, g, open(6), 2, 9, true)
		was.Ops = readState(t, g).Ops
		fix(t, g, was, 9, 0, 6) // epochs differ
		g.rdb.FlushDB(t.Context())
		fix(t, g, was, 9, 0, 0)
		if n := g.rdb.DBSize(t.Context()).Val(); n != 0 {
			t.Errorf("fix made %d keys", n)
		}
	})
}

func TestBigGate(t *testing.T) {
	t.Parallel()
	const factor = 5
	g := newGate(t, open(20), 99)
	first := map[int64]time.Time{} // the expiry of each user's address
	request := func(user int64, life time.Duration) error {
		t.Helper()
		before := time.Now().Add(-time.Second)
		expiry, _, err := g.Address(t.Context(), 1, user, life, factor)
		if was, again := first[user]; err == nil && again {
			if !expiry.Equal(was) {
				t.Errorf("user %d asks again: the address expires at %v, want %v as before", user, expiry, was)
			}
		} else if err == nil && (expiry.Before(before.Add(life)) || expiry.After(time.Now().Add(life+time.Second))) {
			t.Errorf("the address expires at %v, want %v from now", expiry, life)
		}
		if err == nil {
			first[user] = expiry
		}
		return err
	}
	for u := range int64(100) { // factor x 20
		if err := request(u+1, time.Hour); err != nil {
			t.Fatalf("user %d: %v", u+1, err)
		}
	}
	wantFull := func(user int64) {
		t.Helper()
		var many TooManyError
		if err := request(user, time.Hour); !errors.As(err, &many) {
			t.Errorf("user %d: %v, want TooManyError", user, err)
		}
		if many.RetryAfter <= 0 || many.RetryAfter > 5*time.Second {
			t.Errorf("user %d: retry after %v, want at most 5 s", user, many.RetryAfter)
		}
	}
	wantFull(101)
	if err := request(7, 2*time.Hour); err != nil {
		t.Errorf("a user with an address asks again: %v", err)
	}
	// A ticket frees its address. One unit fewer is left, so the bound is 95 now, and 99 addresses are alive.
	reserveFor(t, g, 1)
	wantFull(101)
	delete(first, 1)
	if err := request(1, time.Hour); err != nil {
		t.Errorf("a user with a ticket: %v", err)
	}
	if n := g.rdb.ZCard(t.Context(), AddressesKey(1)).Val(); n != 99 {
		t.Errorf("%d addresses counted, want 99", n)
	}
	// With 3 units left the bound is 64.
	for u := int64(1); u <= 17; u++ {
		reserveFor(t, g, u)
	}
	for u := int64(18); u <= 36; u++ {
		g.rdb.ZRem(t.Context(), AddressesKey(1), u)
	}
	if n := g.rdb.ZCard(t.Context(), AddressesKey(1)).Val(); n != 64 {
		t.Fatalf("%d addresses counted, want 64", n)
	}
	wantFull(101)
	wantFull(200)
	g.rdb.ZRem(t.Context(), AddressesKey(1), "100")
	wantFull(200) // user 101 asked first
	wantFull(201)
	if err := request(101, 30*time.Millisecond); err != nil {
		t.Errorf("the 64th address, for the user who asked first: %v", err)
	}
	sandboxtest.Until(t, "a new address is granted when one has expired", func() bool { return request(200, time.Hour) == nil })
	wantFull(201)
	if n := g.rdb.HGet(t.Context(), WastedKey(1), "101").Val(); n != "1" {
		t.Errorf("user 101 wasted %q addresses, want 1", n)
	}

	reserveFor(t, g, 300, 301, 302)
	if err := request(201, time.Hour); !errors.Is(err, goods.ErrSoldOut) {
		t.Errorf("no unit left: %v, want sold out", err)
	}
	if err := request(300, time.Hour); err != nil {
		t.Errorf("the user with the last ticket: %v", err)
	}
}

func TestBigGateRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*goods.Locked)
		want   error
	}{
		"closed": {func(l *goods.Locked) { l.State = goods.Closed }, goods.ErrEnded},
		"paused": {func(l *goods.Locked) { l.State = goods.Paused }, goods.ErrPaused},
		"ended":  {func(l *goods.Locked) { l.EndsAt = time.Now().Add(-time.Second) }, goods.ErrEnded},
	} {
		l := open(5)
		c.change(&l)
		g := newGate(t, l, 9)
		if _, _, err := g.Address(t.Context(), 1, 1, time.Minute, 5); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		g.rdb.FlushDB(t.Context())
		if _, _, err := g.Address(t.Context(), 1, 1, time.Minute, 5); !errors.Is(err, ErrNoGate) {
			t.Errorf("%s, flushed: %v, want ErrNoGate", name, err)
		}
	}
}

// What the big gate remembers of a sale's users expires with the sale.
func TestAddressesExpire(t *testing.T) {
	t.Parallel()
	l := open(5)
	g := newGate(t, l, 9)
	for user := range int64(66) {
		life := time.Minute
		if user == 0 {
			life = time.Millisecond // wasted when the next user asks
		}
		expiry, _, err := g.Address(t.Context(), 1, user+1, life, 5)
		if err != nil && !errors.As(err, &TooManyError{}) {
			t.Fatal(err)
		}
		if user == 0 {
			sandboxtest.Until(t, "the first address has ended", func() bool { return g.rdb.Time(t.Context()).Val().After(expiry) })
		}
	}
	ends := time.Until(l.EndsAt)
	for _, key := range []string{AddressesKey(1), WaitingKey(1), waitingUntilKey(1), WastedKey(1)} {
		if ttl := g.rdb.PTTL(t.Context(), key).Val(); ttl < ends-time.Minute || ttl > ends+time.Second {
			t.Errorf("%s expires in %v, want with the sale in %v", key, ttl, ends)
		}
	}
	if ttl := g.rdb.PTTL(t.Context(), RefusingKey(1)).Val(); ttl <= 0 || ttl > time.Minute {
		t.Errorf("the refusals are remembered for %v, want at most an address life", ttl)
	}
}
