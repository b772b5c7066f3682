package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"miaosha/order"
)

const (
	acksOnce     = 500  // results in one call, during which Redis serves no other
	takeoverOnce = 100  // entries in one call of TakeOver
	readOnce     = 2000 // entries in one call of Journal
)

// Entry is one journal entry: the tickets that one call of the reserve script granted.
type Entry struct {
	ID      string
	Tickets []order.Ticket
	Err     error     // set if a part of the entry is no ticket: the reserve script did not write it
	Owner   string    // the process that works on it; "" where a former release wrote the entry, which names none
	Owners  int       // how many it has had; 1 if it was never taken over
	Since   time.Time // its owner is the owner since then, by the clock of Redis
	values  map[string]any
}

// EntryID returns the journal entry of a ticket, epoch:entry:nonce, or false for a ticket that was never in a journal.
func EntryID(ticket string) (string, bool) {
	entry, _, ok := cutTicket(ticket)
	return entry, ok
}

// SameEntry reports whether two tickets are of one journal entry.
func SameEntry(a, b order.Ticket) bool {
	entry, ok := EntryID(a.ID)
	other, _ := EntryID(b.ID)
	return ok && entry == other
}

func cutTicket(ticket string) (entry, nonce string, ok bool) {
	_, rest, _ := strings.Cut(ticket, ":")
	entry, nonce, found := strings.Cut(rest, ":")
	return entry, nonce, found && !strings.Contains(nonce, ":")
}

// Ack acknowledges tickets whose results are committed in Postgres: the gate remembers the results, and each entry
// whose tickets are all among them leaves the journal.
func (g *Gate) Ack(ctx context.Context, sale int64, results []order.Result) error {
	byEntry, ids := map[string][]order.Result{}, []string(nil)
	for _, r := range results {
		id, ok := EntryID(r.Ticket)
		if !ok {
			continue
		}
		if byEntry[id] == nil {
			ids = append(ids, id)
		}
		byEntry[id] = append(byEntry[id], r)
	}
	return g.call(ctx, callLimit, func(ctx context.Context) error {
		for len(ids) > 0 {
			n, tickets := 0, 0
			for n < len(ids) && (n == 0 || tickets+len(byEntry[ids[n]]) <= acksOnce) {
				tickets += len(byEntry[ids[n]])
				n++
			}
			args := make([]any, 0, 1+3*n+3*tickets)
			args = append(args, n)
			for _, id := range ids[:n] {
				_, nonce, _ := cutTicket(byEntry[id][0].Ticket)
				args = append(args, id, nonce, len(byEntry[id]))
			}
			for _, id := range ids[:n] {
				for _, r := range byEntry[id] {
					compared := r.Ticket
					if r.OrderID != uuid.Nil {
						compared = "" // an order replaces any value
					}
					args = append(args, r.UserID, compared, encode(r))
				}
			}
			if err := g.ack(ctx, sale, args); err != nil {
				return fmt.Errorf("acknowledge %d tickets of sale %d: %w", len(results), sale, err)
			}
			ids = ids[n:]
		}
		return nil
	})
}

func (g *Gate) ack(ctx context.Context, sale int64, args []any) error {
	return ackScript.Run(ctx, g.rdb, []string{GateKey(sale), TicketsKey(sale), JournalKey(sale), TakeoversKey(sale)},
		args...).Err()
}

// Journal reads the n oldest entries, with their owners, and returns the time of the read by the clock of Redis. It
// changes nothing.
func (g *Gate) Journal(ctx context.Context, sale int64, n int) (entries []Entry, now time.Time, err error) {
	var clock *redis.TimeCmd
	var taken *redis.MapStringStringCmd
	err = g.call(ctx, callLimit, func(ctx context.Context) error {
		pipe := g.rdb.Pipeline()
		clock, taken = pipe.Time(ctx), pipe.HGetAll(ctx, TakeoversKey(sale))
		_, err := pipe.Exec(ctx)
		return err
	})
	for start, more := "-", err == nil; more; {
		var page []redis.XMessage
		page, err = guarded(ctx, g, callLimit, func(ctx context.Context) ([]redis.XMessage, error) {
			return g.rdb.XRangeN(ctx, JournalKey(sale), start, "+", int64(min(readOnce, n-len(entries)))).Result()
		})
		for _, m := range page {
			entries = append(entries, entryOf(m, taken.Val()[m.ID]))
			start = "(" + m.ID
		}
		more = err == nil && len(page) == readOnce && len(entries) < n
	}
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read the journal of sale %d: %w", sale, err)
	}
	return entries, clock.Val(), nil
}

// TicketsOf returns the tickets of an entry, none if it has left the journal.
func (g *Gate) TicketsOf(ctx context.Context, sale int64, entry string) (tickets []order.Ticket, err error) {
	messages, err := guarded(ctx, g, callLimit, func(ctx context.Context) ([]redis.XMessage, error) {
		return g.rdb.XRange(ctx, JournalKey(sale), entry, entry).Result()
	})
	if err != nil {
		return nil, fmt.Errorf("read an entry of sale %d: %w", sale, err)
	}
	for _, m := range messages {
		tickets = append(tickets, entryOf(m, "").Tickets...)
	}
	return tickets, nil
}

// TakeOver makes this process the owner of entries whose owners have died. It returns those that it owns now, with the
// number of their owners. An entry that has left the journal, or that another process has taken over, is not among
// them.
func (g *Gate) TakeOver(ctx context.Context, sale int64, entries []Entry) (taken []Entry, err error) {
	for chunk := range slices.Chunk(entries, takeoverOnce) {
		args := []any{g.process}
		for _, e := range chunk {
			args = append(args, e.ID, e.Owner)
		}
		owners, err := guarded(ctx, g, callLimit, func(ctx context.Context) ([]int64, error) {
			return takeoverScript.Run(ctx, g.rdb, []string{JournalKey(sale), TakeoversKey(sale)}, args...).Int64Slice()
		})
		if err != nil {
			return taken, fmt.Errorf("take entries of sale %d over: %w", sale, err)
		}
		for i, e := range chunk {
			if e.Owner, e.Owners = g.process, int(owners[i]); e.Owners > 0 {
				taken = append(taken, e)
			}
		}
	}
	return taken, nil
}

// FormerJournals returns the sales with tickets in a journal of the releases before November 2026, which this one does
// not read.
func (g *Gate) FormerJournals(ctx context.Context, sales []int64) (with []int64, err error) {
	lens := make([]*redis.IntCmd, len(sales))
	err = g.call(ctx, callLimit, func(ctx context.Context) error {
		pipe := g.rdb.Pipeline()
		for i, sale := range sales {
			lens[i] = pipe.XLen(ctx, formerJournalKey(sale))
		}
		_, err := pipe.Exec(ctx)
		return err
	})
	if err != nil && !isWrongType(err) {
		return nil, fmt.Errorf("look for journals of former releases: %w", err)
	}
	for i, sale := range sales {
		if lens[i].Val() > 0 {
			with = append(with, sale)
		}
	}
	return with, nil
}

// DeadLetter copies a ticket that cannot be settled to the sale's dead letters. Its entry leaves the journal with its
// Ack.
func (g *Gate) DeadLetter(ctx context.Context, sale int64, t order.Ticket) error {
	id, _ := EntryID(t.ID)
	return g.deadLetter(ctx, sale, Entry{ID: id, values: map[string]any{"user": t.UserID, "ticket": t.ID}})
}

// DeadLetterEntry moves an entry with an Err to the sale's dead letters. Its tickets must have their results.
func (g *Gate) DeadLetterEntry(ctx context.Context, sale int64, e Entry) error {
	if err := g.deadLetter(ctx, sale, e); err != nil {
		return err
	}
	return g.call(ctx, callLimit, func(ctx context.Context) error { return g.ack(ctx, sale, []any{1, e.ID, "", 0}) })
}

func (g *Gate) deadLetter(ctx context.Context, sale int64, e Entry) error {
	values := map[string]any{"entry": e.ID}
	for k, v := range e.values {
		values["was_"+k] = v
	}
	return g.call(ctx, callLimit, func(ctx context.Context) error {
		_, err := g.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.XAdd(ctx, &redis.XAddArgs{Stream: DeadKey(sale), Values: values})
			p.Expire(ctx, DeadKey(sale), deadLife)
			return nil
		})
		return err
	})
}

// entryOf returns the entry of a message. taken is what the takeovers have of it: owners, time and owner, or "".
func entryOf(m redis.XMessage, taken string) Entry {
	tickets, err := ticketsIn(m)
	e := Entry{ID: m.ID, Tickets: tickets, Err: err, Owners: 1, values: m.Values}
	e.Owner, _ = m.Values["owner"].(string)
	written, _, _ := strings.Cut(m.ID, "-")
	if words := strings.SplitN(taken, " ", 3); len(words) == 3 {
		e.Owners, _ = strconv.Atoi(words[0])
		written, e.Owner = words[1], words[2]
	}
	ms, _ := strconv.ParseInt(written, 10, 64)
	e.Since = time.UnixMilli(ms)
	return e
}

// ticketsIn returns the tickets of a journal entry, and an error if a part of it is not a ticket: then the reserve
// script did not write it.
func ticketsIn(m redis.XMessage) (tickets []order.Ticket, err error) {
	field := func(name string) string { s, _ := m.Values[name].(string); return s }
	epoch := field("epoch")
	if _, err := strconv.ParseInt(epoch, 10, 64); err != nil {
		return nil, fmt.Errorf("epoch: %w", err)
	}
	for pair := range slices.Chunk(strings.Split(field("tickets"), " "), 2) {
		user, wrong := strconv.ParseInt(pair[0], 10, 64)
		if wrong != nil {
			err = errors.Join(err, fmt.Errorf("user id: %w", wrong))
			continue
		}
		nonce := pair[len(pair)-1]
		if id, wrong := uuid.Parse(nonce); wrong != nil || id.String() != nonce {
			err = errors.Join(err, errors.New("nonce: missing or malformed"))
			continue
		}
		tickets = append(tickets, order.Ticket{ID: epoch + ":" + m.ID + ":" + nonce, UserID: user})
	}
	if n := field("n"); n != strconv.Itoa(len(tickets)) {
		err = errors.Join(err, fmt.Errorf("%d tickets of %.9q", len(tickets), n))
	}
	return tickets, err
}
