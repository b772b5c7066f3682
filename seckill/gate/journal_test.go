package gate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"miaosha/order"
	"miaosha/seckill/sandbox"
	"miaosha/seckill/sandbox/sandboxtest"
)

// Ack removes entries from the journal and stores results. An order is always stored, a refusal only over its own ticket.
func TestAck(t *testing.T) {
	t.Parallel()
	g := newGate(t, open(9), 99)
	a := append(reserveFor(t, g, 1, 2), reserveFor(t, g, 3)...)
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
		if p := g.rdb.XPending(t.Context(), JournalKey(1), group).Val(); p.Count != 1 {
			t.Errorf("pending entries %+v, want one", p)
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

	// One ticket of the former journal.
	good := func() map[string]any { return map[string]any{"user": "7", "nonce": nonces[0], "epoch": "3"} }
	if got, err := ticketsIn(redis.XMessage{ID: "1-2", Values: good()}); err != nil || len(got) != 1 || got[0].UserID != 7 {
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
			if got, err := ticketsIn(redis.XMessage{ID: "1-2", Values: m}); err == nil || len(got) > 0 {
				t.Errorf("%s %.40q is read as %v, want an error", field, v, got)
			}
		}
	}
}

// A full Redis refuses commands that need memory. It must not refuse acks, because they free memory.
func TestAckAtAFullRedis(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: sandboxtest.StartRedis(t)})
	t.Cleanup(func() { rdb.Close() })
	g := New(rdb, "me", time.Second)
	if _, err := g.CreateTickets(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if ok, err := g.Install(t.Context(), open(9), 1, 99); err != nil || !ok {
		t.Fatal(ok, err)
	}
	a := reserveFor(t, g, 1, 2)
	if err := rdb.ConfigSet(t.Context(), "maxmemory", "1mb").Err(); err != nil { // less than it uses already
		t.Fatal(err)
	}
	if err := rdb.Set(t.Context(), "key", "x", 0).Err(); err == nil || !strings.HasPrefix(err.Error(), "OOM") {
		t.Fatalf("%v, want OOM", err)
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

// Consumers that have been silent for long enough are removed, unless entries are pending under their name.
func TestRemoveIdleConsumers(t *testing.T) {
	t.Parallel()
	if sandboxtest.Kind() == sandbox.Embedded {
		t.Skip("the embedded Redis, which has one process only, does not report how long a consumer has been silent")
	}
	g := newGate(t, open(5), 9)
	for i, name := range []string{"gone", "gone too", "has pending"} {
		ticket := reserveFor(t, New(g.rdb, name, time.Second), int64(i+1))[0].Ticket
		if name != "has pending" {
			if err := g.Ack(t.Context(), 1, []order.Result{{Ticket: ticket, UserID: int64(i + 1), Outcome: order.SoldOut}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	names := func() (names []string) {
		consumers, err := g.rdb.XInfoConsumers(t.Context(), JournalKey(1), group).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range consumers {
			names = append(names, c.Name)
		}
		return names
	}
	if err := g.RemoveIdleConsumers(t.Context(), 1, time.Hour); err != nil || len(names()) != 3 {
		t.Errorf("silent for less than an hour: %v, %v, want all three", names(), err)
	}
	sandboxtest.Until(t, "all have been silent for a while, which Redis measures in ms", func() bool {
		consumers, err := g.rdb.XInfoConsumers(t.Context(), JournalKey(1), group).Result()
		return err == nil && !slices.ContainsFunc(consumers, func(c redis.XInfoConsumer) bool { return c.Idle < 2*time.Millisecond })
	})
	if err := g.RemoveIdleConsumers(t.Context(), 1, time.Millisecond); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"has pending"}, names()); diff != "" {
		t.Errorf("consumers (-want +got):\n%s", diff)
	}
	if err := g.RemoveIdleConsumers(t.Context(), 2, time.Millisecond); err != nil {
		t.Errorf("of a sale without a journal: %v", err)
	}
}

// A journal that is longer than one call reads is read to its end, or as far as asked, without a gap.
func TestALongJournalIsReadInPages(t *testing.T) {
	t.Parallel()
	const entries = 2*readOnce + 7
	g := newGate(t, open(9), 99)
	pipe := g.rdb.Pipeline()
	for range entries {
		pipe.XAdd(t.Context(), &redis.XAddArgs{Stream: JournalKey(1), Values: []string{"epoch", "1", "n", "1", "tickets", "7 " + uuid.NewString()}})
	}
	pipe.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: group, Consumer: g.consumer, Streams: []string{JournalKey(1), ">"}})
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]int{1: 1, readOnce: readOnce, readOnce + 1: readOnce + 1, 2 * entries: entries} {
		seen := map[string]bool{}
		journal, err := g.Journal(t.Context(), 1, n)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range journal {
			if seen[e.ID] = true; e.Err != nil {
				t.Fatal(e.Err)
			}
		}
		deliveries, err := g.Deliveries(t.Context(), 1, 0, n)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range deliveries {
			if !seen[d.EntryID] {
				t.Fatalf("of %d: entry %s is delivered and not in the journal", n, d.EntryID)
			}
		}
		if len(journal) != want || len(seen) != want || len(deliveries) != want {
			t.Errorf("of %d: %d entries, %d different ones, %d deliveries, want %d", n, len(journal), len(seen), len(deliveries), want)
		}
	}
}

// The former journal has one ticket in an entry. Its tickets count as in flight, are claimed and acknowledged. Of two entries with
// the same id, one in each journal, only the one leaves whose ticket is acknowledged.
func TestTheFormerJournal(t *testing.T) {
	t.Parallel()
	g := newGate(t, open(9), 99)
	ticket := reserveFor(t, g, 1)[0].Ticket
	id, _, _ := cutTicket(ticket)
	former := FormerJournalKey(1)
	second := reserveFor(t, g, 5)[0].Ticket
	secondID, _, _ := cutTicket(second)
	for _, entry := range []*redis.XAddArgs{
		{Stream: former, ID: id, Values: []string{"user", "2", "nonce", uuid.NewString(), "epoch", "1"}},
		{Stream: former, ID: secondID, Values: []string{"user", "4"}},
		{Stream: former, Values: []string{"user", "3", "nonce", uuid.NewString(), "epoch", "1"}},
	} {
		if err := g.rdb.XAdd(t.Context(), entry).Err(); err != nil {
			t.Fatal(err)
		}
	}
	wantState(t, g, 7, 5)
	installGate(t, g, open(9), 2, 99, true)
	wantState(t, g, 4, 5)
	for range 2 { // also the second time, the former entry of the same id stays
		if err := g.Ack(t.Context(), 1, []order.Result{{Ticket: ticket, UserID: 1, Outcome: order.SoldOut}}); err != nil {
			t.Fatal(err)
		}
		if s := readState(t, g); s.Former != 3 || s.Entries != 1 {
			t.Fatalf("%+v, want one entry and three former ones", s)
		}
	}
	if drift, fixed, err := g.Fix(t.Context(), 1, readState(t, g), 8); drift != 0 || !fixed || err != nil {
		t.Errorf("fixed by %d, %v, %v; want nothing to fix", drift, fixed, err)
	}

	entries, err := g.ClaimFormer(t.Context(), 1, 0, 99) // the group is missing: the claim creates it
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 3 || entries[0].ID != id || entries[1].Err == nil {
		t.Fatalf("claimed %+v, want three, the second of them malformed", entries)
	}
	for _, e := range entries {
		var err error
		if e.Err != nil {
			err = g.DeadLetterEntry(t.Context(), 1, e)
		} else {
			err = g.Ack(t.Context(), 1, []order.Result{{Ticket: e.Tickets[0].ID, UserID: e.Tickets[0].UserID, Outcome: order.SoldOut}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if p := g.rdb.XPending(t.Context(), former, group).Val(); p.Count != 0 {
		t.Errorf("pending entries %+v, want none", p)
	}
	if s := readState(t, g); s.Former != 0 || s.Entries != 1 || s.InFlight != 1 {
		t.Errorf("%+v, want the one entry of the journal", s)
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

// More than ten entries of a living process do not hide the one of a dead process behind them, however few are claimed at once.
func TestClaimLooksBehindLivingEntries(t *testing.T) {
	t.Parallel()
	g := newGate(t, open(99), 999)
	dead := New(g.rdb, "dead", time.Second)
	var ids []string
	for user := range int64(40) {
		id, _ := EntryID(reserveFor(t, dead, user+1)[0].Ticket)
		ids = append(ids, id)
	}
	for _, id := range ids { // all owners are silent
		if err := g.rdb.Do(t.Context(), "XCLAIM", JournalKey(1), group, "dead", 0, id, "IDLE", time.Hour.Milliseconds(), "JUSTID").Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Heartbeat(t.Context(), 1, ids[:35]); err != nil {
		t.Fatal(err)
	}
	claimed, err := g.Claim(t.Context(), 1, time.Hour, 1)
	if err != nil || len(claimed) != 1 || claimed[0].ID != ids[35] {
		t.Errorf("claimed %+v, %v, want %s", claimed, err, ids[35])
	}
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
