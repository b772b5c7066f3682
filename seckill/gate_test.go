package seckill

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/sandbox/sandboxtest"
)

// open is a sale that has been open for an hour.
func open(stock int) goods.Locked {
	return goods.Locked{ID: 1, State: goods.Published, Stock: stock, StartsAt: time.Now().Add(-time.Hour), EndsAt: time.Now().Add(time.Hour)}
}

func aGate(t testing.TB, l goods.Locked, qmax int) gate {
	t.Helper()
	g := gate{rdb: sandboxtest.Redis(t), consumer: "here"}
	installGate(t, g, l, 1, qmax, true)
	return g
}

func installGate(t testing.TB, g gate, l goods.Locked, epoch int64, qmax int, want bool) {
	t.Helper()
	if _, err := g.found(t.Context(), l.ID); err != nil {
		t.Fatal(err)
	}
	got, err := g.install(t.Context(), l, epoch, qmax)
	if err != nil || got != want {
		t.Fatalf("install epoch %d: %v, %v, want %v", epoch, got, err, want)
	}
}

// ask reserves for users in one call, each with a new nonce.
func ask(t testing.TB, g gate, users ...int64) []answer {
	t.Helper()
	crowd := make([]asked, len(users))
	for i, u := range users {
		crowd[i] = asked{user: u, nonce: uuid.NewString()}
	}
	return reserve(t, g, crowd)
}

func reserve(t testing.TB, g gate, crowd []asked) []answer {
	t.Helper()
	answers, err := g.reserve(t.Context(), 1, crowd)
	if err != nil {
		t.Fatal(err)
	}
	return answers
}

func read(t testing.TB, g gate) Reading {
	t.Helper()
	gates, err := ReadGates(t.Context(), g.rdb, []int64{1})
	if err != nil {
		t.Fatal(err)
	}
	return gates[1]
}

// wantGate holds a gate's stock and the length of its journal against what they should be.
func wantGate(t testing.TB, g gate, stock, waiting int) {
	t.Helper()
	if r := read(t, g); r.Stock != stock || r.Waiting != waiting {
		t.Fatalf("stock %d and %d in the journal, want %d and %d", r.Stock, r.Waiting, stock, waiting)
	}
}

func (a answer) String() string {
	switch {
	case a.err != nil:
		return a.err.Error()
	case a.ticket != "":
		return "new"
	}
	return a.has[:1]
}

func TestReserveGivesPlaces(t *testing.T) {
	t.Parallel()
	g := aGate(t, open(3), 10)
	if err := g.rdb.ZAdd(t.Context(), pathsKey(1), redis.Z{Score: 1e15, Member: "1"}, redis.Z{Score: 1e15, Member: "9"}).Err(); err != nil {
		t.Fatal(err)
	}
	a := ask(t, g, 1, 2, 1) // user 1 twice in one batch
	if got := fmt.Sprint(a); got != "[new new Q]" || a[2].has != "Q"+a[0].ticket {
		t.Fatalf("%s %+v", got, a)
	}
	wantGate(t, g, 1, 2)
	if got := g.rdb.ZRange(t.Context(), pathsKey(1), 0, -1).Val(); fmt.Sprint(got) != "[9]" {
		t.Errorf("addresses still counted: %v, want that of user 9", got)
	}
	b := ask(t, g, 1, 3, 4)
	if got := fmt.Sprint(b); got != "[Q new "+goods.ErrSoldOut.Error()+"]" || b[0].has != "Q"+a[0].ticket {
		t.Fatalf("%s %+v", got, b)
	}
	wantGate(t, g, 0, 3)
	if got := fmt.Sprint(ask(t, g, 2, 5)); got != "[Q "+goods.ErrSoldOut.Error()+"]" {
		t.Errorf("sold out: %s", got)
	}
	// A ticket is epoch:entry:nonce, and the journal has the three and the user.
	entries := g.rdb.XRange(t.Context(), journalKey(1), "-", "+").Val()
	for i, want := range []string{a[0].ticket, a[1].ticket, b[1].ticket} {
		if got, err := ticketIn(entries[i]); err != nil || got.ID != want || got.UserID != int64(i+1) {
			t.Errorf("entry %d makes %+v, %v, want %s", i, got, err, want)
		}
	}
	// Everything is under this consumer's name.
	if p := g.rdb.XPending(t.Context(), journalKey(1), group).Val(); p.Count != 3 || p.Consumers["here"] != 3 {
		t.Errorf("pending %+v, want 3 of here", p)
	}
}

// A call whose reply was lost is made again by the client, and gives the same tickets and takes nothing more.
func TestReserveAgain(t *testing.T) {
	t.Parallel()
	g := aGate(t, open(5), 10)
	crowd := []asked{{1, uuid.NewString()}, {2, uuid.NewString()}, {1, uuid.NewString()}}
	first, second := reserve(t, g, crowd), reserve(t, g, crowd)
	if fmt.Sprint(first) != "[new new Q]" || fmt.Sprintf("%+v", first) != fmt.Sprintf("%+v", second) {
		t.Fatalf("%+v, then %+v", first, second)
	}
	wantGate(t, g, 3, 2)
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
			g := gate{rdb: sandboxtest.Redis(t), consumer: "here"}
			installGate(t, g, l, 1, 9, true)
			had := ask(t, g, 1, 2) // before the change
			if err := g.settle(t.Context(), 1, []order.Result{{Ticket: had[1].ticket, UserID: 2, Outcome: order.Ordered, OrderID: uuid.New()}}); err != nil {
				t.Fatal(err)
			}
			l.Stock -= 1
			c.change(&l)
			installGate(t, g, l, 2, c.qmax, true)
			was := read(t, g)
			a := ask(t, g, 7, 1, 2)
			if !errors.Is(a[0].err, c.want) {
				t.Errorf("%v, want %v", a[0], c.want)
			}
			// Who has something hears of it all the same.
			if a[1].has != "Q"+had[0].ticket || a[2].String() != "O" {
				t.Errorf("who has a ticket and who has an order hear %v and %v", a[1], a[2])
			}
			if now := read(t, g); now != was {
				t.Errorf("a refusal changed the gate: %+v, was %+v", now, was)
			}
		})
	}
}

func TestReserveTooEarly(t *testing.T) {
	t.Parallel()
	l := open(5)
	l.StartsAt = time.Now().Add(30 * time.Second)
	g := aGate(t, l, 9)
	var early goods.NotStartedError
	if a := ask(t, g, 1); !errors.As(a[0].err, &early) || early.In < 25*time.Second || early.In > 31*time.Second {
		t.Errorf("%v, want about 30 s", a)
	}
	wantGate(t, g, 5, 0)
}

// The window is judged by the clock of Redis, whatever this process thinks: a millisecond before, at the start, a
// millisecond before the end, at the end.
func TestWindowByTheClockOfRedis(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr()})
	defer rdb.Close()
	g := gate{rdb: rdb, consumer: "here"}
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
		if i == 2 { // the first ticket would be old by now
			rdb.XTrimMaxLen(t.Context(), journalKey(1), 0)
		}
		if a := ask(t, g, int64(i+1)); !errors.Is(a[0].err, c.want) || c.want == nil && a[0].ticket == "" {
			t.Errorf("reserve at %v: %v, want %v", c.at.Sub(starts), a, c.want)
		}
		if _, err := g.path(t.Context(), 1, 100, time.Minute, 5); !errors.Is(err, c.want) {
			t.Errorf("path at %v: %v, want %v", c.at.Sub(starts), err, c.want)
		}
	}
}

func TestReserveWithoutAGate(t *testing.T) {
	t.Parallel()
	g := aGate(t, open(5), 9)
	for _, field := range []string{"state", "stock", "epoch", "qmax", "start_ms", "end_ms"} {
		had := g.rdb.HGet(t.Context(), gateKey(1), field).Val()
		g.rdb.HDel(t.Context(), gateKey(1), field)
		if a := ask(t, g, 1, 2); !errors.Is(a[0].err, errNoGate) || !errors.Is(a[1].err, errNoGate) {
			t.Errorf("without %s: %v", field, a)
		}
		g.rdb.HSet(t.Context(), gateKey(1), field, had)
	}
	wantGate(t, g, 5, 0)
	g.rdb.FlushDB(t.Context())
	if a := ask(t, g, 1); !errors.Is(a[0].err, errNoGate) {
		t.Errorf("flushed: %v", a)
	}
	if n := g.rdb.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys came into being", n)
	}
}

func TestReserveMakesTheGroupAgain(t *testing.T) {
	t.Parallel()
	g := aGate(t, open(5), 9)
	ask(t, g, 1)
	if err := g.rdb.XGroupDestroy(t.Context(), journalKey(1), group).Err(); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(ask(t, g, 2)); got != "[new]" {
		t.Fatal(got)
	}
	if p := g.rdb.XPending(t.Context(), journalKey(1), group).Val(); p == nil || p.Count != 2 {
		t.Errorf("pending %+v, want both", p)
	}
	wantGate(t, g, 3, 2)
}

// Entries nobody was given go under the caller's name, so that a crash leaves them in the pending list; and however
// many they are, none of the caller's own stays outside.
func TestReserveTakesStrayEntries(t *testing.T) {
	t.Parallel()
	g := aGate(t, open(5), 1000)
	for range 300 {
		g.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: journalKey(1), Values: []string{"user", "1"}})
	}
	ask(t, g, 1)
	if p := g.rdb.XPending(t.Context(), journalKey(1), group).Val(); p.Consumers["here"] != 301 {
		t.Errorf("pending %+v, want 301 of here", p)
	}
}

// While nobody settles, tickets are taken for ten seconds and no longer.
func TestReserveStopsWhenNobodySettles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		age  time.Duration
		want string
	}{"young": {8 * time.Second, "[new]"}, "old": {11 * time.Second, "[" + ErrBusy.Error() + "]"}} {
		t.Run(name, func(t *testing.T) {
			g := aGate(t, open(5), 9)
			id := strconv.FormatInt(time.Now().Add(-c.age).UnixMilli(), 10) + "-0"
			if err := g.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: journalKey(1), ID: id, Values: []string{"user", "9"}}).Err(); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(ask(t, g, 1)); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestSettleAtTheGate(t *testing.T) {
	t.Parallel()
	g := aGate(t, open(9), 99)
	a := ask(t, g, 1, 2, 3)
	first, second := uuid.New(), uuid.New()
	results := []order.Result{
		{Ticket: a[0].ticket, UserID: 1, Outcome: order.Ordered, OrderID: first},
		{Ticket: a[1].ticket, UserID: 2, Outcome: order.SoldOut},
		{Ticket: "direct:" + uuid.NewString(), UserID: 8, Outcome: order.Ordered, OrderID: second}, // never was in a journal
	}
	was := read(t, g)
	settle := func(rs ...order.Result) {
		t.Helper()
		if err := g.settle(t.Context(), 1, rs); err != nil {
			t.Fatal(err)
		}
	}
	has := func(user string) string { return g.rdb.HGet(t.Context(), ticketsKey(1), user).Val() }
	settle(results...)
	want := func() {
		t.Helper()
		wantGate(t, g, 6, 1)
		if has("1") != "O"+first.String() || has("2") != "Xsold_out" || has("3") != "Q"+a[2].ticket {
			t.Errorf("tickets: %q %q %q", has("1"), has("2"), has("3"))
		}
		if p := g.rdb.XPending(t.Context(), journalKey(1), group).Val(); p.Count != 1 {
			t.Errorf("pending %+v, want one", p)
		}
	}
	want()
	if now := read(t, g); now.Ops == was.Ops {
		t.Errorf("ops stayed %s", now.Ops)
	}
	settle(results...) // told again
	want()

	// The loser asks again and has a newer ticket: the old answer must not touch it, an order must.
	again := ask(t, g, 2)
	if again[0].ticket == "" || again[0].ticket == a[1].ticket {
		t.Fatalf("asked again: %v", again)
	}
	settle(results[1])
	if has("2") != "Q"+again[0].ticket {
		t.Errorf("a late answer put %q over a newer ticket", has("2"))
	}
	settle(order.Result{Ticket: a[1].ticket, UserID: 2, Outcome: order.Duplicate, OrderID: second})
	if has("2") != "O"+second.String() {
		t.Errorf("an order did not land: %q", has("2"))
	}
	settle(order.Result{Ticket: again[0].ticket, UserID: 2, Outcome: order.SoldOut})
	if has("2") != "O"+second.String() {
		t.Errorf("%q over an order", has("2"))
	}

	// Invalid bars him for good, and is told.
	settle(order.Result{Ticket: a[2].ticket, UserID: 3, Outcome: order.Invalid})
	if b := ask(t, g, 3); b[0].has != "Xinvalid" {
		t.Errorf("%+v, want Xinvalid", b)
	}

	g.rdb.FlushDB(t.Context())
	settle(results...)
	if n := g.rdb.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("settling on an empty Redis made %d keys", n)
	}
}

func TestInstall(t *testing.T) {
	t.Parallel()
	g := aGate(t, open(5), 9)
	ask(t, g, 1, 2)
	later := open(5)
	later.EndsAt = time.Now().Add(48 * time.Hour)
	for _, old := range []int64{0, 1} {
		installGate(t, g, later, old, 9, false)
	}
	wantGate(t, g, 3, 2)
	was := read(t, g)
	installGate(t, g, later, 2, 9, true) // none of the two is in the durable stock yet
	wantGate(t, g, 3, 2)
	if now := read(t, g); now.Epoch != "2" || now.Ops == was.Ops {
		t.Errorf("installed as %+v, was %+v", now, was)
	}
	later.Stock = 1 // fewer than tickets
	installGate(t, g, later, 3, 9, true)
	wantGate(t, g, 0, 2)
	for _, key := range []string{gateKey(1), ticketsKey(1), journalKey(1)} {
		last := time.Now().Add(g.rdb.PTTL(t.Context(), key).Val())
		if d := last.Sub(later.EndsAt.Add(24 * time.Hour)).Abs(); d > 5*time.Second {
			t.Errorf("%s lives until %v, want a day after the end", key, last)
		}
	}
}

// Users laid for a gate that is then installed must still be there.
func TestInstallAfterAFlush(t *testing.T) {
	t.Parallel()
	g := gate{rdb: sandboxtest.Redis(t), consumer: "here"}
	if _, err := g.install(t.Context(), open(5), 1, 9); !errors.Is(err, errNoGate) {
		t.Errorf("%v, want errNoGate", err)
	}
	if n := g.rdb.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys came into being", n)
	}
}

func TestFix(t *testing.T) {
	t.Parallel()
	fix := func(t *testing.T, g gate, was Reading, durable, drift, stock int) {
		t.Helper()
		got, _, err := g.fix(t.Context(), 1, was, durable)
		if err != nil || got != drift {
			t.Errorf("drift %d, %v, want %d", got, err, drift)
		}
		if r := read(t, g); r.Stock != stock {
			t.Errorf("stock %d, want %d", r.Stock, stock)
		}
	}
	t.Run("empty journal", func(t *testing.T) {
		g := aGate(t, open(5), 9)
		fix(t, g, read(t, g), 8, 3, 8)
		fix(t, g, read(t, g), 2, -6, 2)
		fix(t, g, read(t, g), 2, 0, 2)
	})
	t.Run("waiting", func(t *testing.T) {
		g := aGate(t, open(5), 9)
		ask(t, g, 1, 2)                 // stock 3
		fix(t, g, read(t, g), 3, 0, 3)  // both may be in the 3 already
		fix(t, g, read(t, g), 5, 0, 3)  // or not
		fix(t, g, read(t, g), 9, 4, 7)  // seven are surely there
		fix(t, g, read(t, g), 6, -1, 6) // and six at most
	})
	t.Run("moved on", func(t *testing.T) {
		g := aGate(t, open(5), 9)
		was := read(t, g)
		a := ask(t, g, 1)
		if err := g.settle(t.Context(), 1, []order.Result{{Ticket: a[0].ticket, UserID: 1, Outcome: order.SoldOut}}); err != nil {
			t.Fatal(err)
		}
		fix(t, g, was, 9, 0, 4) // another ops
		was = read(t, g)
		installGate(t, g, open(6), 2, 9, true)
		was.Ops = read(t, g).Ops
		fix(t, g, was, 9, 0, 6) // another epoch
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
	g := aGate(t, open(20), 99)
	get := func(user int64, life time.Duration) error {
		t.Helper()
		before := time.Now().Add(-time.Second)
		expiry, err := g.path(t.Context(), 1, user, life, factor)
		if err == nil && (expiry.Before(before.Add(life)) || expiry.After(time.Now().Add(life+time.Second))) {
			t.Errorf("address until %v, want %v from now", expiry, life)
		}
		return err
	}
	for u := range int64(100) { // factor x 20
		if err := get(u+1, time.Minute); err != nil {
			t.Fatalf("user %d: %v", u+1, err)
		}
	}
	full := func(user int64) {
		t.Helper()
		var many TooManyError
		if err := get(user, time.Minute); !errors.As(err, &many) || many.RetryAfter <= 0 || many.RetryAfter > 5*time.Second {
			t.Errorf("user %d: %v, want too many", user, err)
		}
	}
	full(101)
	if err := get(7, time.Minute); err != nil {
		t.Errorf("who has an address may refresh it: %v", err)
	}
	// A ticket gives its address back; one unit fewer is left, so the bound is 95 now, and 99 are alive.
	ask(t, g, 1)
	full(101)
	if err := get(1, time.Minute); err != nil {
		t.Errorf("who has a place: %v", err)
	}
	if n := g.rdb.ZCard(t.Context(), pathsKey(1)).Val(); n != 99 {
		t.Errorf("%d addresses counted, want 99", n)
	}
	// With 3 left the bound is 64.
	for u := int64(1); u <= 17; u++ {
		ask(t, g, u)
	}
	for u := int64(18); u <= 36; u++ {
		g.rdb.ZRem(t.Context(), pathsKey(1), u)
	}
	if n := g.rdb.ZCard(t.Context(), pathsKey(1)).Val(); n != 64 {
		t.Fatalf("%d addresses counted, want 64", n)
	}
	full(200)
	g.rdb.ZRem(t.Context(), pathsKey(1), "100")
	if err := get(200, 30*time.Millisecond); err != nil {
		t.Errorf("the 64th: %v", err)
	}
	if ttl := g.rdb.PTTL(t.Context(), pathsKey(1)).Val(); ttl < 30*time.Second || ttl > time.Minute {
		t.Errorf("a short address made the set live for %v, and others are good for a minute", ttl)
	}
	until(t, 5*time.Second, "a place is free when an address has run out", func() bool { return get(201, time.Minute) == nil })
	full(202)

	ask(t, g, 300, 301, 302)
	if err := get(200, time.Minute); !errors.Is(err, goods.ErrSoldOut) {
		t.Errorf("nothing left: %v, want sold out", err)
	}
	if err := get(300, time.Minute); err != nil {
		t.Errorf("who has the last place: %v", err)
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
		g := aGate(t, l, 9)
		if _, err := g.path(t.Context(), 1, 1, time.Minute, 5); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		g.rdb.FlushDB(t.Context())
		if _, err := g.path(t.Context(), 1, 1, time.Minute, 5); !errors.Is(err, errNoGate) {
			t.Errorf("%v, want errNoGate", err)
		}
	}
}

// An address that runs out leaves the count by Redis's clock, and the whole set by its own expiry.
func TestAddressesLeaveNothing(t *testing.T) {
	t.Parallel()
	g := aGate(t, open(5), 9)
	if _, err := g.path(t.Context(), 1, 1, time.Minute, 5); err != nil {
		t.Fatal(err)
	}
	if ttl := g.rdb.PTTL(t.Context(), pathsKey(1)).Val(); ttl <= 0 || ttl > time.Minute {
		t.Errorf("the set lives for %v", ttl)
	}
}

func TestUnknownWords(t *testing.T) {
	for _, word := range []string{"", "OK", "new", "EARLY x"} {
		w, rest, _ := strings.Cut(word, " ")
		if err := refusal(w, rest); err == nil || isRefusal(err) {
			t.Errorf("%q gives %v, want a fault", word, err)
		}
	}
}

func TestGarbageMakesNoTicket(t *testing.T) {
	good := func() map[string]any { return map[string]any{"user": "7", "nonce": uuid.NewString(), "epoch": "3"} }
	if got, err := ticketIn(redis.XMessage{ID: "1-2", Values: good()}); err != nil || got.UserID != 7 {
		t.Fatalf("%v, %v", got, err)
	}
	for field, values := range map[string][]string{
		"user":  {"", "x", "1.5", "9223372036854775808", "7\n"},
		"epoch": {"", "x", "1:2"},
		"nonce": {"", "\x00", "a:b", strings.Repeat("a", 5000), "urn:uuid:" + uuid.NewString(), "\xff"},
	} {
		for _, v := range values {
			m := good()
			if m[field] = v; v == "" {
				delete(m, field)
			}
			if got, err := ticketIn(redis.XMessage{ID: "1-2", Values: m}); err == nil {
				t.Errorf("%s %.40q makes %v", field, v, got)
			}
		}
	}
}

// A Redis that is full refuses what takes memory. It must not refuse what frees it: results leave the journal all the same.
func TestSettleAtAFullRedis(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: sandboxtest.StartRedis(t)})
	t.Cleanup(func() { rdb.Close() })
	g := gate{rdb: rdb, consumer: "me"}
	if _, err := g.found(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if ok, err := g.install(t.Context(), open(9), 1, 99); err != nil || !ok {
		t.Fatal(ok, err)
	}
	a := ask(t, g, 1, 2)
	if err := rdb.ConfigSet(t.Context(), "maxmemory", "1mb").Err(); err != nil { // it has more already
		t.Fatal(err)
	}
	if err := rdb.Set(t.Context(), "more", "x", 0).Err(); err == nil || !strings.HasPrefix(err.Error(), "OOM") {
		t.Fatalf("%v, want OOM", err)
	}
	err := g.settle(t.Context(), 1, []order.Result{
		{Ticket: a[0].ticket, UserID: 1, Outcome: order.SoldOut},
		{Ticket: a[1].ticket, UserID: 2, Outcome: order.Ordered, OrderID: uuid.New()},
	})
	if err != nil {
		t.Error(err)
	}
	if r := read(t, g); r.Waiting != 0 {
		t.Errorf("%d wait in the journal", r.Waiting)
	}
	if got := rdb.HGet(t.Context(), ticketsKey(1), "1").Val(); got != "Xsold_out" {
		t.Errorf("who came too late has %q", got)
	}
}
