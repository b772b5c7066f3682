package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"miaosha/goods"
	"miaosha/order"
)

// steppedGate is an open gate on a Redis whose clock the test sets.
type steppedGate struct {
	*Gate
	redis *miniredis.Miniredis
	now   time.Time
}

func newSteppedGate(t testing.TB, stock int) *steppedGate {
	t.Helper()
	m := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr()})
	t.Cleanup(func() { rdb.Close() })
	g := &steppedGate{New(rdb, "here", time.Second), m, time.Now().Truncate(time.Millisecond)}
	g.install(t, stock)
	return g
}

func (g *steppedGate) install(t testing.TB, stock int) {
	t.Helper()
	g.redis.SetTime(g.now)
	installGate(t, g.Gate, goods.Locked{ID: 1, State: goods.Published, Stock: stock, StartsAt: g.now.Add(-time.Hour), EndsAt: g.now.Add(1000 * time.Hour)}, 1, 1e6, true)
}

func (g *steppedGate) pass(d time.Duration) {
	g.now = g.now.Add(d)
	g.redis.SetTime(g.now)
	g.redis.FastForward(d)
}

// issued reports whether the user gets an address.
func (g *steppedGate) issued(t testing.TB, user int64, life time.Duration) bool {
	t.Helper()
	_, _, err := g.Address(t.Context(), 1, user, life, 5)
	if err != nil && !errors.As(err, &TooManyError{}) {
		t.Fatalf("user %d: %v", user, err)
	}
	return err == nil
}

// fill asks for an address for n users, from first on. Each must get one.
func (g *steppedGate) fill(t testing.TB, first int64, n int, life time.Duration) {
	t.Helper()
	for u := first; u < first+int64(n); u++ {
		if !g.issued(t, u, life) {
			t.Fatalf("user %d got no address", u)
		}
	}
}

// The first expiry of an address stands, whoever asks for longer and however often.
func TestFirstExpiryStands(t *testing.T) {
	t.Parallel()
	g := newSteppedGate(t, 5)
	first := g.now.Add(time.Minute)
	for range 4 {
		if expiry, wasted, err := g.Address(t.Context(), 1, 1, time.Minute, 5); err != nil || !expiry.Equal(first) || wasted != 0 {
			t.Errorf("at %v: %v and %d wasted, %v, want %v", g.now, expiry, wasted, err, first)
		}
		g.pass(19 * time.Second)
	}
	if g.pass(first.Sub(g.now) - time.Millisecond); !g.issued(t, 1, time.Minute) {
		t.Error("the address is not the user's in its last millisecond")
	}
	g.pass(time.Millisecond)
	if expiry, wasted, err := g.Address(t.Context(), 1, 1, time.Minute, 5); err != nil || !expiry.Equal(g.now.Add(time.Minute)) || wasted != 1 {
		t.Errorf("after its end: %v and %d wasted, %v, want a new address", expiry, wasted, err)
	}
}

// A user whose ticket was granted past the gate, while Redis was down, has not wasted the address.
func TestAnAddressOfATicketHolderIsNotWasted(t *testing.T) {
	t.Parallel()
	g := newSteppedGate(t, 5)
	g.fill(t, 1, 4, time.Minute)
	g.rdb.HSet(t.Context(), TicketsKey(1), 4, "Xsold_out") // a refused ticket holds nothing
	if err := g.AddOwners(t.Context(), 1, []order.Owner{{UserID: 1, OrderID: uuid.New()}, {UserID: 2, OrderID: uuid.New()}}, Knows{}); err != nil {
		t.Fatal(err)
	}
	g.pass(2 * time.Minute)
	if _, wasted, err := g.Address(t.Context(), 1, 5, time.Minute, 5); err != nil || wasted != 2 {
		t.Errorf("%d wasted, %v, want those of users 3 and 4", wasted, err)
	}
	if diff := gocmp.Diff(map[string]string{"3": "1", "4": "1"}, g.rdb.HGetAll(t.Context(), WastedKey(1)).Val()); diff != "" {
		t.Error(diff)
	}
}

// A user whose address ran out unused comes behind those who were told to wait. While the gate is not full that costs nothing.
func TestAWastedAddressSendsItsHolderToTheEndOfTheLine(t *testing.T) {
	t.Parallel()
	g := newSteppedGate(t, 5)
	g.fill(t, 1, 64, time.Minute)
	for u := int64(101); u <= 104; u++ {
		if g.issued(t, u, time.Minute) {
			t.Errorf("user %d got an address at a full gate", u)
		}
	}
	g.pass(40 * time.Second)
	for u := int64(103); u <= 104; u++ { // 101 and 102 have left the line
		g.issued(t, u, time.Minute)
	}
	g.pass(20 * time.Second)
	got := 0
	for u := int64(1); u <= 64; u++ {
		if g.issued(t, u, time.Minute) {
			got++
		}
	}
	if got != 62 {
		t.Errorf("%d holders of wasted addresses got another, want 62: two users wait", got)
	}
	g.pass(time.Millisecond) // so that user 105 has asked later than user 63
	if g.issued(t, 105, time.Minute) {
		t.Error("a user who did not wait came before two who did")
	}
	for u := int64(103); u <= 104; u++ {
		if !g.issued(t, u, time.Minute) {
			t.Errorf("user %d waited and got no address", u)
		}
	}
	reserveFor(t, g.Gate, 103)
	if g.issued(t, 63, time.Minute) || !g.issued(t, 105, time.Minute) {
		t.Error("user 63, who wasted an address, came before user 105, who asked later")
	}
	g.pass(time.Hour)
	g.fill(t, 1, 64, time.Minute) // no user waits any more
}

// A line that is full remembers no more users, except one who wasted fewer addresses than the last.
func TestTheLineIsBounded(t *testing.T) {
	t.Parallel()
	const most = 3
	g := newSteppedGate(t, 5)
	line := func(want ...string) {
		t.Helper()
		for _, key := range []string{WaitingKey(1), waitingUntilKey(1)} {
			got := g.rdb.ZRange(t.Context(), key, 0, -1).Val()
			if key == waitingUntilKey(1) {
				slices.Sort(got)
				slices.Sort(want)
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s", key, diff)
			}
		}
	}
	ask := func(user int64, want bool) {
		t.Helper()
		_, _, err := g.address(t.Context(), 1, user, time.Minute, 5, most)
		if issued := err == nil; issued != want || err != nil && !errors.As(err, &TooManyError{}) {
			t.Errorf("user %d: %v", user, err)
		}
		g.pass(time.Millisecond)
	}
	for u := int64(1); u <= 64; u++ {
		ask(u, true)
	}
	g.pass(2 * time.Minute)
	for u := int64(101); u <= 164; u++ {
		ask(u, true)
	}
	if n := g.rdb.HLen(t.Context(), WastedKey(1)).Val(); n != 64 { // one run found them all, and had room
		t.Errorf("%d users with wasted addresses", n)
	}
	ask(1, false)
	ask(2, false)
	line("1", "2")
	ask(201, false)
	line("201", "1", "2")
	ask(202, false) // in place of 2
	line("201", "202", "1")
	ask(3, false) // has wasted one as well, and asks later
	line("201", "202", "1")
	ask(203, false)
	ask(204, false)
	line("201", "202", "203")
	g.pass(2 * time.Minute)
	ask(301, true)
	if n := g.rdb.HLen(t.Context(), WastedKey(1)).Val(); n != 64 {
		t.Errorf("%d users with wasted addresses: more than the most were counted", n)
	}
}

// A key that is full of expired users is cleared in several runs.
func TestALongLineIsClearedInParts(t *testing.T) {
	t.Parallel()
	g := newSteppedGate(t, 100)
	g.fill(t, 1, 500, time.Minute)
	for u := int64(1001); u <= 1500; u++ {
		g.issued(t, u, time.Minute)
	}
	g.pass(61 * time.Second)
	sum := 0
	for user := int64(2001); user <= 2004; user++ {
		_, wasted, err := g.Address(t.Context(), 1, user, time.Minute, 5)
		if err != nil && !errors.As(err, &TooManyError{}) {
			t.Fatal(err)
		}
		sum += wasted
	}
	if sum != 500 {
		t.Errorf("%d addresses were counted as wasted, want 500", sum)
	}
	if n := g.rdb.ZCard(t.Context(), WaitingKey(1)).Val() + g.rdb.ZCard(t.Context(), waitingUntilKey(1)).Val(); n > 8 {
		t.Errorf("%d entries of users who left are in the line", n)
	}
}

func TestRefusalsBesideUnits(t *testing.T) {
	t.Parallel()
	g := newSteppedGate(t, 5)
	want := func(what string, want map[int64]Refusing) {
		t.Helper()
		now := g.now // the pipeline reads the clock of Redis
		if got, err := Refusals(context.Background(), g.rdb, []int64{1, 2}); err != nil || !maps.Equal(got, want) {
			t.Errorf("%s, at %v: %v, %v, want %v", what, now, got, err, want)
		}
	}
	g.fill(t, 1, 64, time.Hour)
	want("no user was refused", map[int64]Refusing{})
	g.issued(t, 100, time.Minute)
	g.pass(50 * time.Second)
	want("refused once", map[int64]Refusing{1: {50 * time.Second, time.Minute}})
	g.issued(t, 100, time.Minute)
	g.pass(50 * time.Second)
	want("refused again", map[int64]Refusing{1: {100 * time.Second, time.Minute}})
	reserveFor(t, g.Gate, 1)
	want("a unit was sold", map[int64]Refusing{})
	g.issued(t, 100, time.Minute) // the free place
	g.issued(t, 101, time.Minute)
	g.pass(10 * time.Second)
	want("refused after a sale", map[int64]Refusing{1: {10 * time.Second, time.Minute}})
	g.pass(51 * time.Second)
	want("not refused for a life", map[int64]Refusing{})
	g.issued(t, 101, time.Hour) // the free place again
	for range 6 {               // a unit comes back and is sold between any two refusals
		g.pass(25 * time.Second)
		g.rdb.HIncrBy(t.Context(), GateKey(1), "ops", 1)
		want("a unit came back and was sold", map[int64]Refusing{})
		g.issued(t, 102, time.Minute)
		want("refused after that", map[int64]Refusing{1: {0, time.Minute}})
	}
	g.rdb.HSet(t.Context(), GateKey(1), "stock", 0)
	want("sold out", map[int64]Refusing{})
}

// addressModel is a model of the big gate with 62 addresses that never end. So two are free while a few units are left.
type addressModel struct {
	g       *steppedGate
	stock   int
	tickets map[int64]bool
	expiry  map[int64]time.Time
	line    []waiter
	wasted  map[int64]int
	since   time.Time // of the first refusal since a ticket
	lowest  int       // stock at the last refusal
	settled bool      // a ticket since the last refusal
	until   time.Time // when the refusals are forgotten
}

type waiter struct {
	user          int64
	wasted        int
	joined, until time.Time
}

const (
	modelHolders = 62
	modelMost    = 3
	modelFactor  = 10
)

// ask checks a request against what the model expects.
func (m *addressModel) ask(r *rapid.T, user int64, life time.Duration) {
	expiry, wasted, err := m.g.address(r.Context(), 1, user, life, modelFactor, modelMost)
	wantExpiry, wantWasted, wantErr := m.want(user, life)
	if full := errors.As(err, &TooManyError{}); wantErr == nil && err != nil || wantErr != nil && !errors.Is(err, wantErr) && !(full && wantErr == errFull) ||
		!expiry.Equal(wantExpiry) || wasted != wantWasted {
		r.Fatalf("user %d: %v, %d wasted, %v, want %v, %d, %v", user, expiry, wasted, err, wantExpiry, wantWasted, wantErr)
	}
}

var errFull = errors.New("full")

func (m *addressModel) want(user int64, life time.Duration) (expiry time.Time, wasted int, err error) {
	now := m.g.now
	switch end, has := m.expiry[user]; {
	case m.tickets[user]:
		return now.Add(life), 0, nil
	case m.stock <= 0:
		return time.Time{}, 0, goods.ErrSoldOut
	case has && end.After(now):
		return end, 0, nil
	}
	remembers := len(m.wasted) < modelMost
	for u, end := range m.expiry {
		if !end.After(now) {
			delete(m.expiry, u)
			if m.tickets[u] {
				continue // granted past the gate
			}
			wasted++
			if remembers {
				m.wasted[u]++
			}
		}
	}
	m.line = slices.DeleteFunc(m.line, func(w waiter) bool { return !w.until.After(now) })
	room := max(64, modelFactor*m.stock) - modelHolders - len(m.expiry)
	order := func(a, b waiter) int {
		return cmp.Or(cmp.Compare(a.wasted, b.wasted), a.joined.Compare(b.joined))
	}
	own := waiter{user, m.wasted[user], now, now.Add(30 * time.Second)}
	ahead := slices.IndexFunc(m.line, func(w waiter) bool { return w.user == user })
	waits := ahead >= 0
	if !waits {
		ahead = 0
		for _, w := range m.line {
			if order(w, own) <= 0 {
				ahead++
			}
		}
	}
	if ahead < room {
		m.line = slices.DeleteFunc(m.line, func(w waiter) bool { return w.user == user })
		m.expiry[user] = now.Add(life)
		return now.Add(life), wasted, nil
	}
	if waits {
		m.line[ahead].until = own.until
	} else {
		if len(m.line) >= modelMost && own.wasted < m.line[len(m.line)-1].wasted {
			m.line = m.line[:len(m.line)-1]
		}
		if len(m.line) < modelMost {
			m.line = append(m.line, own)
			slices.SortFunc(m.line, order)
		}
	}
	if !m.until.After(now) || m.stock < m.lowest || m.settled {
		m.since = now
	}
	m.lowest, m.until, m.settled = m.stock, now.Add(life), false
	return time.Time{}, wasted, errFull
}

func (m *addressModel) check(r *rapid.T) {
	line := []string{}
	for _, w := range m.line {
		line = append(line, fmt.Sprint(w.user))
	}
	if diff := gocmp.Diff(line, m.g.rdb.ZRange(r.Context(), WaitingKey(1), 0, -1).Val()); diff != "" {
		r.Fatalf("the line: %s", diff)
	}
	if n := m.g.rdb.ZCard(r.Context(), waitingUntilKey(1)).Val(); int(n) != len(line) {
		r.Fatalf("%d of %d users in line have an end", n, len(line))
	}
	wasted := map[string]string{}
	for u, n := range m.wasted {
		wasted[fmt.Sprint(u)] = fmt.Sprint(n)
	}
	if diff := gocmp.Diff(wasted, m.g.rdb.HGetAll(r.Context(), WastedKey(1)).Val()); diff != "" {
		r.Fatalf("wasted: %s", diff)
	}
	alive := m.g.rdb.ZCount(r.Context(), AddressesKey(1), fmt.Sprint(m.g.now.UnixMilli()+1), "+inf").Val()
	live := modelHolders
	for _, end := range m.expiry {
		if end.After(m.g.now) {
			live++
		}
	}
	if int(alive) != live {
		r.Fatalf("%d addresses are alive, want %d", alive, live)
	}
	refusing := map[int64]Refusing{}
	if m.until.After(m.g.now) && m.stock > 0 && m.stock >= m.lowest && !m.settled {
		refusing[1] = Refusing{For: m.g.now.Sub(m.since)}
	}
	got, err := Refusals(r.Context(), m.g.rdb, []int64{1})
	if err != nil || len(got) != len(refusing) || got[1].For != refusing[1].For {
		r.Fatalf("refusing %v, %v, want %v", got, err, refusing)
	}
}

// In any order of requests, the big gate behaves as its model.
func TestBigGateFollowsItsModel(t *testing.T) {
	t.Parallel()
	g := newSteppedGate(t, 1)
	rapid.Check(t, func(r *rapid.T) {
		g.redis.FlushAll()
		m := &addressModel{g: g, stock: rapid.IntRange(1, 8).Draw(r, "stock"), tickets: map[int64]bool{}, expiry: map[int64]time.Time{}, wasted: map[int64]int{}}
		g.install(t, m.stock)
		holders := make([]redis.Z, modelHolders)
		for i := range holders {
			holders[i] = redis.Z{Member: 1001 + i, Score: float64(g.now.Add(500 * time.Hour).UnixMilli())}
		}
		if err := g.rdb.ZAdd(r.Context(), AddressesKey(1), holders...).Err(); err != nil {
			r.Fatal(err)
		}
		users := rapid.Int64Range(1, 9)
		r.Repeat(map[string]func(*rapid.T){
			"ask": func(r *rapid.T) {
				life := rapid.SampledFrom([]time.Duration{time.Minute, time.Minute, 5 * time.Second}).Draw(r, "life")
				m.ask(r, users.Draw(r, "user"), life)
				g.pass(time.Millisecond) // no two users join the line at once
			},
			"pass": func(r *rapid.T) {
				g.pass(rapid.SampledFrom([]time.Duration{time.Second, 5*time.Second - time.Millisecond, 10 * time.Second, 31 * time.Second, time.Minute - time.Millisecond}).Draw(r, "time"))
			},
			"buy": func(r *rapid.T) {
				user := users.Draw(r, "user")
				if m.tickets[user] || m.stock == 0 {
					r.Skip()
				}
				if replies, err := g.reserve(r.Context(), 1, []Request{{user, fmt.Sprint("nonce ", user)}}); err != nil || replies[0].Ticket == "" {
					r.Fatalf("user %d buys: %v, %v", user, replies, err)
				}
				g.rdb.XTrimMaxLen(r.Context(), JournalKey(1), 0) // else the gate is busy when the ticket is old
				m.tickets[user] = true
				m.stock--
				delete(m.expiry, user)
			},
			"settle": func(r *rapid.T) { // a ticket; a refused one leaves its user without
				if user := users.Draw(r, "user"); m.tickets[user] && rapid.Bool().Draw(r, "refused") {
					g.rdb.HSet(r.Context(), TicketsKey(1), user, "Xsold_out")
					delete(m.tickets, user)
				}
				g.rdb.HIncrBy(r.Context(), GateKey(1), "ops", 1)
				m.settled = true
			},
			"ticket past the gate": func(r *rapid.T) { // the address stays
				user := users.Draw(r, "user")
				if err := g.AddOwners(r.Context(), 1, []order.Owner{{UserID: user, OrderID: uuid.New()}}, Knows{}); err != nil {
					r.Fatal(err)
				}
				m.tickets[user] = true
			},
			"unit back": func(r *rapid.T) {
				m.stock++
				g.rdb.HSet(r.Context(), GateKey(1), "stock", m.stock)
			},
			"": m.check,
		})
	})
}

// How long accounts that ask for addresses and never buy keep four people from the four units of a sale. The accounts are
// always faster: at every step all of them ask before any person. People arrive 20 s after the first accounts and ask every 20 s.
//
// The people wait for as many address lives as accounts that are new to the sale fill. SECURITY.md has the figures.
func TestHoardersDelayPeople(t *testing.T) {
	t.Parallel()
	const (
		life   = time.Minute
		step   = 20 * time.Second
		people = 4
	)
	every := func(int64, int) bool { return true }
	for _, c := range []struct {
		name         string
		accounts     int64
		asks         func(account int64, step int) bool
		most         int
		lives, later float64 // at most: the people's wait, and that of one who comes when the accounts are known
	}{
		{"64 accounts", 64, every, waitingMost, 1, 1.1},
		{"64 accounts, one after the other", 64, func(a int64, step int) bool { return int(a)*6/64 <= step }, waitingMost, 1, 1.1},
		{"128 accounts, at once", 128, every, waitingMost, 2, 1.1},
		{"128 accounts, the second half when the addresses of the first end", 128, func(a int64, step int) bool { return a <= 64 || step >= 3 }, waitingMost, 1, 1.1},
		{"128 accounts, half of which wait in line and do not come", 128, func(a int64, step int) bool { return a <= 64 || step <= 2 }, waitingMost, 1.5, 2.1},
		{"128 accounts, more than the gate remembers", 128, every, 32, 3, 3.1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newSteppedGate(t, people+1) // the last unit is for a user who comes later
			expiry := map[int64]time.Time{}
			ask := func(user int64) bool {
				if g.now.Before(expiry[user]) {
					return true
				}
				end, _, err := g.address(t.Context(), 1, user, life, 5, c.most)
				if err != nil && !errors.As(err, &TooManyError{}) {
					t.Fatal(err)
				}
				expiry[user] = end
				g.pass(time.Millisecond)
				return err == nil
			}
			began := g.now
			var served []float64
			waits := map[int64]bool{1001: true, 1002: true, 1003: true, 1004: true}
			serve := func(user int64) {
				reserveFor(t, g.Gate, user)
				g.rdb.XTrimMaxLen(t.Context(), JournalKey(1), 0)
			}
			next := 0
			for ; len(waits) > 0 && next < 100; next++ {
				for account := int64(1); account <= c.accounts; account++ {
					if c.asks(account, next) {
						ask(account)
					}
				}
				if next > 0 {
					for _, user := range slices.Sorted(maps.Keys(waits)) {
						if ask(user) {
							serve(user)
							delete(waits, user)
							served = append(served, float64(g.now.Sub(began.Add(step)))/float64(life))
						}
					}
				}
				g.pass(max(0, began.Add(time.Duration(next+1)*step).Sub(g.now)))
			}
			if len(waits) > 0 {
				t.Fatalf("users %v got no address in %v", waits, g.now.Sub(began))
			}
			var later float64
			for came := g.now; later == 0 && next < 200; next++ {
				for account := int64(1); account <= c.accounts; account++ {
					ask(account)
				}
				if ask(2001) {
					later = float64(g.now.Sub(came)) / float64(life)
				}
				g.pass(max(0, began.Add(time.Duration(next+1)*step).Sub(g.now)))
			}
			t.Logf("the people waited for %.1f address lives, a later one for %.1f", served, later)
			if slices.Max(served) > c.lives || later > c.later || later == 0 {
				t.Errorf("want at most %v, and %v", c.lives, c.later)
			}
		})
	}
}
