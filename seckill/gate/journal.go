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
	group     = "settle" // the consumer group of every journal
	acksOnce  = 500      // results in one call, during which Redis serves no other
	claimOnce = 500      // entries in one call of Heartbeat or Entries
	readOnce  = 2000     // entries in one call of Journal or Deliveries
)

// Entry is one journal entry: the tickets that one call of the reserve script granted.
type Entry struct {
	ID      string
	Tickets []order.Ticket
	Err     error // set if a part of the entry is no ticket: the reserve script did not write it
	values  map[string]any
	journal string // its key
}

// Delivery is an entry that is pending under this process's name, with the number of its owners so far.
type Delivery struct {
	EntryID string
	Count   int64
}

// EntryID returns the journal entry of a ticket, epoch:entry:nonce, or false for a ticket that was never in a journal.
func EntryID(ticket string) (string, bool) {
	entry, _, ok := cutTicket(ticket)
	return entry, ok
}

func cutTicket(ticket string) (entry, nonce string, ok bool) {
	_, rest, _ := strings.Cut(ticket, ":")
	entry, nonce, found := strings.Cut(rest, ":")
	return entry, nonce, found && !strings.Contains(nonce, ":")
}

// Ack acknowledges tickets whose results are committed in Postgres: the gate remembers the results, and each entry whose tickets
// are all among them leaves the journal.
func (g *Gate) Ack(ctx context.Context, sale int64, results []order.Result) error {
	keys := []string{GateKey(sale), TicketsKey(sale), JournalKey(sale), FormerJournalKey(sale)}
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
			if err := ackScript.Run(ctx, g.rdb, keys, args...).Err(); err != nil {
				return fmt.Errorf("acknowledge %d tickets of sale %d: %w", len(results), sale, err)
			}
			ids = ids[n:]
		}
		return nil
	})
}

// Claim claims at most n entries: first those whose owners have been silent for idle, then those that never had an owner. A
// claim counts as a delivery. Some of the entries may be this process's own. If a call fails, Claim also returns what it claimed
// before.
func (g *Gate) Claim(ctx context.Context, sale int64, idle time.Duration, n int) ([]Entry, error) {
	return g.claim(ctx, sale, JournalKey(sale), idle, n)
}

// ClaimFormer is Claim for the former journal.
func (g *Gate) ClaimFormer(ctx context.Context, sale int64, idle time.Duration, n int) ([]Entry, error) {
	return g.claim(ctx, sale, FormerJournalKey(sale), idle, n)
}

func (g *Gate) claim(ctx context.Context, sale int64, journal string, idle time.Duration, n int) (entries []Entry, err error) {
	call := func(do func(ctx context.Context) error) error {
		if err := g.call(ctx, callLimit, do); err != nil {
			return fmt.Errorf("claim entries of sale %d: %w", sale, err)
		}
		return nil
	}
	for start, more := "0-0", true; more; more = start != "0-0" && len(entries) < n { // a call looks at ten times as many as it claims
		if err := call(func(ctx context.Context) error {
			claimed, next, err := g.rdb.XAutoClaim(ctx, &redis.XAutoClaimArgs{
				Stream: journal, Group: group, Consumer: g.consumer, MinIdle: idle, Start: start, Count: int64(n - len(entries)),
			}).Result()
			if start = next; isNoGroup(err) {
				start = "0-0"
				return g.rdb.XGroupCreate(ctx, journal, group, "0").Err()
			}
			entries = append(entries, entriesOf(journal, claimed)...)
			return err
		}); err != nil {
			return entries, err
		}
	}
	if len(entries) == n {
		return entries, nil
	}
	return entries, call(func(ctx context.Context) error {
		streams, err := g.rdb.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: group, Consumer: g.consumer, Streams: []string{journal, ">"}, Count: int64(n - len(entries)), Block: -1,
		}).Result()
		for _, s := range streams {
			entries = append(entries, entriesOf(journal, s.Messages)...)
		}
		if errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	})
}

// Inherit puts at most n entries of a process that was found dead at since under this process's name, and returns them. It
// does not count as a delivery.
func (g *Gate) Inherit(ctx context.Context, sale int64, dead string, since time.Time, n int) ([]Entry, error) {
	ids, err := guarded(ctx, g, callLimit, func(ctx context.Context) ([]string, error) {
		return inheritScript.Run(ctx, g.rdb, []string{JournalKey(sale)}, dead, g.consumer, time.Since(since).Milliseconds(), n).StringSlice()
	})
	if err != nil {
		return nil, fmt.Errorf("inherit entries of sale %d: %w", sale, err)
	}
	return g.Entries(ctx, sale, ids)
}

// Deliveries lists at most n entries that have been pending under this process's name for idle or longer.
func (g *Gate) Deliveries(ctx context.Context, sale int64, idle time.Duration, n int) ([]Delivery, error) {
	id := func(p redis.XPendingExt) string { return p.ID }
	pending, err := pages(ctx, g, n, id, func(ctx context.Context, start string, n int) ([]redis.XPendingExt, error) {
		page, err := g.rdb.XPendingExt(ctx, &redis.XPendingExtArgs{
			Stream: JournalKey(sale), Group: group, Consumer: g.consumer, Idle: idle, Start: start, End: "+", Count: int64(n),
		}).Result()
		return page, exceptNoGroup(err)
	})
	if err != nil {
		return nil, fmt.Errorf("list the deliveries of sale %d: %w", sale, err)
	}
	deliveries := make([]Delivery, len(pending))
	for i, p := range pending {
		deliveries[i] = Delivery{p.ID, p.RetryCount}
	}
	return deliveries, nil
}

// Entries reads entries by id, at most 500. It leaves out those that have left the journal.
func (g *Gate) Entries(ctx context.Context, sale int64, ids []string) (entries []Entry, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	reads := make([]*redis.XMessageSliceCmd, min(len(ids), claimOnce))
	err = g.call(ctx, callLimit, func(ctx context.Context) error {
		pipe := g.rdb.Pipeline()
		for i := range reads {
			reads[i] = pipe.XRange(ctx, JournalKey(sale), ids[i], ids[i])
		}
		_, err := pipe.Exec(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read entries of sale %d: %w", sale, err)
	}
	for _, r := range reads {
		entries = append(entries, entriesOf(JournalKey(sale), r.Val())...)
	}
	return entries, nil
}

// Journal reads the n oldest entries, whichever process owns them. It claims nothing.
func (g *Gate) Journal(ctx context.Context, sale int64, n int) ([]Entry, error) {
	id := func(m redis.XMessage) string { return m.ID }
	messages, err := pages(ctx, g, n, id, func(ctx context.Context, start string, n int) ([]redis.XMessage, error) {
		return g.rdb.XRangeN(ctx, JournalKey(sale), start, "+", int64(n)).Result()
	})
	if err != nil {
		return nil, fmt.Errorf("read the journal of sale %d: %w", sale, err)
	}
	return entriesOf(JournalKey(sale), messages), nil
}

// Heartbeat refreshes this process's claim on entries, so that no other process claims them. It does not count as a delivery.
// A lost journal is no error: the tickets in the queue are settled all the same.
func (g *Gate) Heartbeat(ctx context.Context, sale int64, ids []string) error {
	var errs error
	for chunk := range slices.Chunk(ids, claimOnce) {
		errs = errors.Join(errs, g.call(ctx, callLimit, func(ctx context.Context) error {
			return exceptNoGroup(g.rdb.XClaimJustID(ctx, &redis.XClaimArgs{
				Stream: JournalKey(sale), Group: group, Consumer: g.consumer, Messages: chunk,
			}).Err())
		}))
	}
	return errs
}

// DeadLetter copies a ticket that cannot be settled to the sale's dead letters. Its entry leaves the journal with its Ack.
func (g *Gate) DeadLetter(ctx context.Context, sale int64, t order.Ticket) error {
	id, _ := EntryID(t.ID)
	return g.deadLetter(ctx, sale, Entry{ID: id, values: map[string]any{"user": t.UserID, "ticket": t.ID}})
}

// DeadLetterEntry moves an entry with an Err to the sale's dead letters. Its tickets must have their results.
func (g *Gate) DeadLetterEntry(ctx context.Context, sale int64, e Entry) error {
	if err := g.deadLetter(ctx, sale, e); err != nil {
		return err
	}
	return g.call(ctx, callLimit, func(ctx context.Context) error {
		return ackScript.Run(ctx, g.rdb, []string{GateKey(sale), TicketsKey(sale), e.journal, e.journal}, 1, e.ID, "", 0).Err()
	})
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

// RemoveIdleConsumers removes the consumers of a journal that have been silent for idle and have nothing pending.
func (g *Gate) RemoveIdleConsumers(ctx context.Context, sale int64, idle time.Duration) error {
	err := g.call(ctx, callLimit, func(ctx context.Context) error {
		return exceptNoGroup(removeConsumersScript.Run(ctx, g.rdb, []string{JournalKey(sale)}, idle.Milliseconds()).Err())
	})
	if err != nil {
		return fmt.Errorf("remove consumers of sale %d: %w", sale, err)
	}
	return nil
}

// pages reads at most n items of a stream in guarded calls of at most readOnce. Each call starts after the last id of the one
// before. read returns up to n items from start on.
func pages[T any](ctx context.Context, g *Gate, n int, id func(T) string,
	read func(ctx context.Context, start string, n int) ([]T, error)) (items []T, err error) {
	for start := "-"; len(items) < n; {
		page, err := guarded(ctx, g, callLimit, func(ctx context.Context) ([]T, error) {
			return read(ctx, start, min(readOnce, n-len(items)))
		})
		if err != nil {
			return nil, err
		}
		if items = append(items, page...); len(page) < readOnce {
			break
		}
		ms, seq, _ := strings.Cut(id(page[len(page)-1]), "-")
		last, err := strconv.ParseUint(seq, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the id of a stream entry: %w", err)
		}
		start = ms + "-" + strconv.FormatUint(last+1, 10)
	}
	return items, nil
}

func entriesOf(journal string, messages []redis.XMessage) []Entry {
	entries := make([]Entry, len(messages))
	for i, m := range messages {
		tickets, err := ticketsIn(m)
		entries[i] = Entry{ID: m.ID, Tickets: tickets, Err: err, values: m.Values, journal: journal}
	}
	return entries
}

// ticketsIn returns the tickets of a journal entry, and an error if a part of it is none: then the reserve script did not write
// it. An entry of the former journal has one ticket, in the fields user and nonce.
func ticketsIn(m redis.XMessage) (tickets []order.Ticket, err error) {
	field := func(name string) string { s, _ := m.Values[name].(string); return s }
	epoch := field("epoch")
	if _, err := strconv.ParseInt(epoch, 10, 64); err != nil {
		return nil, fmt.Errorf("epoch: %w", err)
	}
	words := strings.Split(field("tickets"), " ")
	if _, former := m.Values["user"]; former {
		words = []string{field("user"), field("nonce")}
	}
	for pair := range slices.Chunk(words, 2) {
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
	if n, former := field("n"), m.Values["user"] != nil; !former && n != strconv.Itoa(len(tickets)) {
		err = errors.Join(err, fmt.Errorf("%d tickets of %.9q", len(tickets), n))
	}
	return tickets, err
}
