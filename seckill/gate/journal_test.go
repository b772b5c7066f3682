package gate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"miaosha/order"
	"miaosha/seckill/sandbox/sandboxtest"
)

// Ack removes entries from the journal and stores results. An order is always stored, a refusal only over its own ticket.
func TestAck(t *testing.T) {
	t.Parallel()
	g := newGate(t, open(9), 99)
	a := append(reserveFor(t, g, 1, 2), reserveFor(t, g, 3)...)
	takeOverAll(t, New(g.rdb, "there", time.Second), g)
	order1, order2 := uuid.New(), uuid.New()
	results := []order.Result{
		{Ticket: a[0].Ticket, UserID: 1, Outcome: order.Ordered, OrderID: order1},
		{Ticket: a[1].Ticket, UserID: 2, Outcome: order.SoldOut},
		{Ticket: "direct:" + uuid.NewString(), UserID: 8, Outcome: order.Ordered, OrderID: order2}, // was never in a journal
	}
	was := readState(t, g)
	ack := func(rs ...order.Result) {
		t.Helper()
		if err := g.Ack(t.Context(), 1, rs); err != nil {
			t.Fatal(err)
		}
	}
	ticket := func(user string) string { return g.rdb.HGet(t.Context(), TicketsKey(1), user).Val() }
	ack(results...)
	wantAcked := func() {
		t.Helper()
		wantState(t, g, 6, 1)
		tickets := []string{ticket("1"), ticket("2"), ticket("3")}
		if diff := cmp.Diff([]string{"O" + order1.String(), "Xsold_out", "Q" + a[2].Ticket}, tickets); diff != "" {
			t.Errorf("tickets of users 1 to 3 (-want +got):\n%s", diff)
		}
		if n := g.rdb.HLen(t.Context(), TakeoversKey(1)).Val(); n != 1 {
			t.Errorf("%d takeovers are kept, want that of the entry in the journal", n)
		}
	}
	wantAcked()
	if now := readState(t, g); now.Ops == was.Ops {
		t.Errorf("ops stayed %d", now.Ops)
	}
	ack(results...) // a second time
	wantAcked()

	// User 2 reserves again and has a newer ticket. The old refusal must not replace it; an order must.
	again := reserveFor(t, g, 2)
	if again[0].Ticket == "" || again[0].Ticket == a[1].Ticket {
		t.Fatalf("reserved again: %v, want a new ticket", again)
	}
	ack(results[1])
	if ticket("2") != "Q"+again[0].Ticket {
		t.Errorf("an old refusal replaced a newer ticket by %q", ticket("2"))
	}
	ack(order.Result{Ticket: a[1].Ticket, UserID: 2, Outcome: order.Duplicate, OrderID: order2})
	if ticket("2") != "O"+order2.String() {
		t.Errorf("an order did not replace the ticket: %q", ticket("2"))
	}
	ack(order.Result{Ticket: again[0].Ticket, UserID: 2, Outcome: order.SoldOut})
	if ticket("2") != "O"+order2.String() {
		t.Errorf("a refusal replaced an order by %q", ticket("2"))
	}

	// Invalid is final: the user gets no new ticket.
	ack(order.Result{Ticket: a[2].Ticket, UserID: 3, Outcome: order.Invalid})
	if b := reserveFor(t, g, 3); b[0].existing() != "Xinvalid" {
		t.Errorf("%+v, want Xinvalid", b)
	}

	g.rdb.FlushDB(t.Context())
	ack(results...)
	if n := g.rdb.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("acks on an empty Redis created %d keys", n)
	}
}

// An entry has tickets only as the reserve script writes them. Of a damaged entry the others are still tickets.
func TestMalformedEntriesAreNoTickets(t *testing.T) {
	nonces := []string{uuid.NewString(), uuid.NewString()}
	for text, want := range map[string][]int64{
		"1 " + nonces[0] + " 2 " + nonces[1]:     {1, 2},
		"1 " + nonces[0]:                         {1}, // n is 2
		"1 " + nonces[0] + " 2":                  {1},
		"1 " + nonces[0] + " x " + nonces[1]:     {1},
		"1 " + nonces[0][1:] + " 2 " + nonces[1]: {2},
		"1  " + nonces[0]:                        nil,
		"1":                                      nil,
		"":                                       nil,
	} {
		tickets, err := ticketsIn(redis.XMessage{ID: "1-2", Values: map[string]any{"epoch": "3", "n": "2", "tickets": text}})
		var users []int64
		for _, ticket := range tickets {
			users = append(users, ticket.UserID)
		}
		whole := len(want) == 2
		if diff := cmp.Diff(want, users); diff != "" || (err == nil) != whole {
			t.Errorf("%q: error %v, users (-want +got):\n%s", text, err, diff)
		}
	}

	for _, epoch := range []string{"", "x", "1:2"} {
		m := redis.XMessage{ID: "1-2", Values: map[string]any{"epoch": epoch, "n": "1", "tickets": "1 " + nonces[0]}}
		if got, err := ticketsIn(m); err == nil || len(got) > 0 {
			t.Errorf("epoch %q is read as %v, want an error", epoch, got)
		}
	}
	for _, nonce := range []string{"", "\x00", "a:b", strings.Repeat("a", 5000), "urn:uuid:" + uuid.NewString(), "\xff"} {
		m := redis.XMessage{ID: "1-2", Values: map[string]any{"epoch": "3", "n": "1", "tickets": "1 " + nonce}}
		if got, err := ticketsIn(m); err == nil || len(got) > 0 {
			t.Errorf("nonce %.40q is read as %v, want an error", nonce, got)
		}
	}
	for _, user := range []string{"", "x", "1.5", "9223372036854775808", "7\n"} {
		m := redis.XMessage{ID: "1-2", Values: map[string]any{"epoch": "3", "n": "1", "tickets": user + " " + nonces[0]}}
		if got, err := ticketsIn(m); err == nil || len(got) > 0 {
			t.Errorf("user %q is read as %v, want an error", user, got)
		}
	}
}

// A full Redis refuses commands that need memory. It must not refuse acks, because they free memory, nor what leads to them: the
// processes show that they live, and take over from those that have died.
func TestAckAtAFullRedis(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: sandboxtest.StartRedis(t)})
	t.Cleanup(func() { rdb.Close() })
	g := New(rdb, "me", time.Second)
	if _, err := g.CreateTickets(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if ok, err := g.Install(t.Context(), open(9), 1, 99, true); err != nil || !ok {
		t.Fatal(ok, err)
	}
	a := reserveFor(t, g, 1, 2)
	if err := rdb.ConfigSet(t.Context(), "maxmemory", "1mb").Err(); err != nil { // less than it uses already
		t.Fatal(err)
	}
	if err := rdb.Set(t.Context(), "key", "x", 0).Err(); err == nil || !strings.HasPrefix(err.Error(), "OOM") {
		t.Fatalf("%v, want OOM", err)
	}
	if own, _, err := g.Beat(t.Context()); err != nil || own != 1 {
		t.Errorf("beat %d, %v", own, err)
	}
	if taken := takeOverAll(t, New(rdb, "there", time.Second), g); len(taken) != 1 || taken[0].Owners != 2 {
		t.Errorf("took over %+v, want the entry", taken)
	}
	results := []order.Result{
		{Ticket: a[0].Ticket, UserID: 1, Outcome: order.SoldOut},
		{Ticket: a[1].Ticket, UserID: 2, Outcome: order.Ordered, OrderID: uuid.New()},
	}
	for _, try := range []string{"the ack", "the same ack again"} {
		if err := g.Ack(t.Context(), 1, results); err != nil {
			t.Errorf("%s: %v", try, err)
		}
	}
	if r := readState(t, g); r.InFlight != 0 {
		t.Errorf("%d tickets in the journal, want none", r.InFlight)
	}
	if got := rdb.HGet(t.Context(), TicketsKey(1), "1").Val(); got != "Xsold_out" {
		t.Errorf("user 1 has %q, want Xsold_out", got)
	}
}

// An entry leaves the journal only with the results of all its tickets.
func TestAckOfAPartOfAnEntry(t *testing.T) {
	t.Parallel()
	g := newGate(t, open(9), 99)
	a := reserveFor(t, g, 1, 2, 3)
	var results []order.Result
	for i, r := range a {
		results = append(results, order.Result{Ticket: r.Ticket, UserID: int64(i + 1), Outcome: order.SoldOut})
	}
	if err := g.Ack(t.Context(), 1, results[:2]); err != nil {
		t.Fatal(err)
	}
	wantState(t, g, 6, 3)
	if got := g.rdb.HMGet(t.Context(), TicketsKey(1), "1", "2", "3").Val(); fmt.Sprint(got) != "[Xsold_out Xsold_out Q"+a[2].Ticket+"]" {
		t.Errorf("the gate remembers %v", got)
	}
	if err := g.Ack(t.Context(), 1, results); err != nil {
		t.Fatal(err)
	}
	wantState(t, g, 6, 0)
}

// More results than one call carries are acknowledged in several, each with whole entries.
func TestAckInSeveralCalls(t *testing.T) {
	t.Parallel()
	const users, inOneCall = 1100, 220
	g := newGate(t, open(users), 2*users)
	var results []order.Result
	for first := int64(0); first < users; first += inOneCall {
		requests := make([]Request, inOneCall)
		for i := range requests {
			requests[i] = Request{first + int64(i) + 1, uuid.NewString()}
		}
		for i, r := range mustReserve(t, g, requests) {
			results = append(results, order.Result{Ticket: r.Ticket, UserID: requests[i].UserID, Outcome: order.Ordered, OrderID: uuid.New()})
		}
	}
	was := readState(t, g)
	if was.InFlight != users || was.Entries != users/inOneCall {
		t.Fatalf("%+v", was)
	}
	if err := g.Ack(t.Context(), 1, results); err != nil {
		t.Fatal(err)
	}
	if now := readState(t, g); now.InFlight != 0 || now.Entries != 0 || now.Ops != was.Ops+3 {
		t.Errorf("%+v, was %+v; want an empty journal after three calls", now, was)
	}
	tickets := g.rdb.HGetAll(t.Context(), TicketsKey(1)).Val()
	for _, r := range results {
		if got := tickets[strconv.FormatInt(r.UserID, 10)]; got != encode(r) {
			t.Fatalf("user %d has %q", r.UserID, got)
		}
	}
}

// A journal that is longer than one call reads is read to its end, or as far as asked, without a gap. More entries than one
// call takes over are all taken over.
func TestALongJournalIsReadInPages(t *testing.T) {
	t.Parallel()
	const entries = 2*readOnce + 7
	g := newGate(t, open(9), 99)
	pipe := g.rdb.Pipeline()
	for range entries {
		addEntry(t, pipe, "", "there")
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]int{1: 1, readOnce: readOnce, readOnce + 1: readOnce + 1, 2 * readOnce: 2 * readOnce, 2 * entries: entries} {
		journal, _, err := g.Journal(t.Context(), 1, n)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, e := range journal {
			if seen[e.ID] = true; e.Err != nil || e.Owner != "there" {
				t.Fatalf("%+v", e)
			}
		}
		if len(journal) != want || len(seen) != want {
			t.Errorf("of %d: %d entries, %d different ones, want %d", n, len(journal), len(seen), want)
		}
	}
	const many = 2*takeoverOnce + 7
	journal, _, err := g.Journal(t.Context(), 1, many)
	if err != nil || len(journal) != many {
		t.Fatalf("%d entries, %v", len(journal), err)
	}
	taken, err := g.TakeOver(t.Context(), 1, journal)
	if err != nil || len(taken) != many {
		t.Fatalf("took %d entries over, %v, want %d", len(taken), err, many)
	}
	for i, e := range taken {
		if e.ID != journal[i].ID || e.Owner != "here" || e.Owners != 2 {
			t.Fatalf("%+v, want this process as the second owner of %s", e, journal[i].ID)
		}
	}
}

// A process takes an entry over only from the owner that it has read, and owner and count change together.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	g := newGate(t, open(9), 99)
	written := addEntry(t, g.rdb, strconv.FormatInt(time.Now().Add(-time.Minute).UnixMilli(), 10)+"-0", "here")
	nobodys := addEntry(t, g.rdb, "", "") // a former release wrote none
	damaged := g.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: JournalKey(1), Values: []string{"user", "nobody"}}).Val()
	broken := addEntry(t, g.rdb, "", "here")
	g.rdb.HSet(t.Context(), TakeoversKey(1), broken, "x")
	gone := addEntry(t, g.rdb, "", "here")
	read, _, err := g.Journal(t.Context(), 1, 99)
	if err != nil {
		t.Fatal(err)
	}
	var owners []string
	for _, e := range read {
		if owners = append(owners, e.Owner); e.Owners != 1 || (e.Err != nil) != (e.ID == damaged) {
			t.Errorf("%+v, want its first owner", e)
		}
	}
	if diff := cmp.Diff([]string{"here", "", "", "here", "here"}, owners); diff != "" {
		t.Fatalf("owners (-want +got):\n%s", diff)
	}
	g.rdb.XDel(t.Context(), JournalKey(1), gone)
	g.rdb.Expire(t.Context(), JournalKey(1), time.Hour)
	there, late := New(g.rdb, "there", time.Second), New(g.rdb, "late", time.Second)
	take := func(by *Gate, entries []Entry, want map[string]int) {
		t.Helper()
		taken, err := by.TakeOver(t.Context(), 1, entries)
		got := map[string]int{}
		for _, e := range taken {
			if got[e.ID] = e.Owners; e.Owner != by.process {
				t.Errorf("%+v, want %s as its owner", e, by.process)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("taken by %s, with the number of owners: %v (-want +got):\n%s", by.process, err, diff)
		}
	}
	before := g.rdb.Time(t.Context()).Val().Truncate(time.Millisecond)
	all := map[string]int{written: 2, nobodys: 2, damaged: 2, broken: 2}
	take(there, read, all)
	take(there, read, all) // the reply was lost: nothing changes
	take(late, read, map[string]int{})
	now, after, err := g.Journal(t.Context(), 1, 99)
	if err != nil || len(now) != 4 {
		t.Fatal(now, err)
	}
	for _, e := range now {
		if e.Owner != "there" || e.Owners != 2 || e.Since.Before(before) || e.Since.After(after) {
			t.Errorf("%+v, want there since %v to %v", e, before, after)
		}
	}
	take(there, now, all) // from itself: no owner more
	take(late, now[:1], map[string]int{written: 3})
	take(there, now[:1], map[string]int{}) // it has lost the entry, and does not know yet
	if life := g.rdb.PTTL(t.Context(), TakeoversKey(1)).Val(); life <= 0 || life > time.Hour {
		t.Errorf("the takeovers end in %v, want with the journal", life)
	}
}

// Of many processes that read the same dead owner, each entry has one new owner, and is counted once.
func TestOneOfManyTakesAnEntryOver(t *testing.T) {
	t.Parallel()
	const processes, entries = 8, 40
	g := newGate(t, open(9), 99)
	for range entries {
		addEntry(t, g.rdb, "", "dead")
	}
	read, _, err := g.Journal(t.Context(), 1, 99)
	if err != nil {
		t.Fatal(err)
	}
	taken := make([][]Entry, processes)
	var work sync.WaitGroup
	for i := range taken {
		work.Go(func() {
			for e := range slices.Chunk(read, 3) {
				got, err := New(g.rdb, fmt.Sprint("process ", i), time.Second).TakeOver(t.Context(), 1, e)
				if taken[i] = append(taken[i], got...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	owner := map[string]string{}
	for _, e := range slices.Concat(taken...) {
		if owner[e.ID] != "" || e.Owners != 2 {
			t.Errorf("%s: owner number %d is %s, and %q is one too", e.ID, e.Owners, e.Owner, owner[e.ID])
		}
		owner[e.ID] = e.Owner
	}
	now, _, err := g.Journal(t.Context(), 1, 99)
	if err != nil || len(owner) != entries {
		t.Errorf("%d of %d entries have a new owner, %v", len(owner), entries, err)
	}
	for _, e := range now {
		if e.Owner != owner[e.ID] || e.Owners != 2 {
			t.Errorf("%+v, want %s", e, owner[e.ID])
		}
	}
}

// Redis fails over to a copy that lacks the last entry and whose clock is slower, and uses its id again. The late ack of the lost
// entry leaves the new one alone.
func TestAckOfALostEntry(t *testing.T) {
	t.Parallel()
	g := newGate(t, open(9), 99)
	lost := reserveFor(t, g, 1)[0].Ticket
	id, _ := EntryID(lost)
	g.rdb.Del(t.Context(), JournalKey(1))
	addEntry(t, g.rdb, id, "there")
	if err := g.Ack(t.Context(), 1, []order.Result{{Ticket: lost, UserID: 1, Outcome: order.Ordered, OrderID: uuid.New()}}); err != nil {
		t.Fatal(err)
	}
	if tickets, err := g.TicketsOf(t.Context(), 1, id); err != nil || len(tickets) != 1 {
		t.Errorf("the entry that has the id now has the tickets %v, %v, want one", tickets, err)
	}
	wantState(t, g, 8, 1)
}

// A sale is named whose journal of a former release still has tickets.
func TestFormerJournals(t *testing.T) {
	t.Parallel()
	g := newGate(t, open(9), 99)
	reserveFor(t, g, 1)
	for _, sale := range []int64{2, 3} {
		g.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: formerJournalKey(sale), ID: "1-1", Values: []string{"user", "2"}})
	}
	g.rdb.XDel(t.Context(), formerJournalKey(3), "1-1") // settled: the key stays
	g.rdb.Set(t.Context(), formerJournalKey(4), "x", 0)
	if with, err := g.FormerJournals(t.Context(), []int64{1, 2, 3, 4, 5}); err != nil || !slices.Equal(with, []int64{2}) {
		t.Errorf("%v, %v, want sale 2", with, err)
	}
}

// addEntry adds an entry with one ticket to the journal of sale 1, as the reserve script does, and returns its id. A former release
// names no owner.
func addEntry(t testing.TB, to redis.Cmdable, id, owner string) string {
	values := []string{"epoch", "1", "n", "1", "tickets", "7 " + uuid.NewString()}
	if owner != "" {
		values = append([]string{"owner", owner}, values...)
	}
	return to.XAdd(t.Context(), &redis.XAddArgs{Stream: JournalKey(1), ID: id, Values: values}).Val()
}

// takeOverAll lets a process take over all entries in the journal of sale 1, as another one has read it.
func takeOverAll(t testing.TB, by, reader *Gate) []Entry {
	t.Helper()
	entries, _, err := reader.Journal(t.Context(), 1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	taken, err := by.TakeOver(t.Context(), 1, entries)
	if err != nil {
		t.Fatal(err)
	}
	return taken
}
