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
	deadLife  = 7 * 24 * time.Hour
	claimOnce = 500  // entries in one call of Heartbeat or Entries
	readOnce  = 2000 // entries in one call of Journal or Deliveries
)

// Entry is one journal entry. Exactly one of Ticket and Err is set.
type Entry struct {
	ID     string
	Ticket order.Ticket
	Err    error // set if the reserve script did not write the entry
	values map[string]any
}

// Delivery is an entry that is pending under this process's name, with the number of its owners so far.
type Delivery struct {
	EntryID string
	Count   int64
}

// EntryID returns the journal entry of a ticket, epoch:entry:nonce, or false for a ticket that was never in a journal.
func EntryID(ticket string) (string, bool) {
	_, rest, _ := strings.Cut(ticket, ":")
	entry, nonce, found := strings.Cut(rest, ":")
	if !found || strings.Contains(nonce, ":") {
		return "", false
	}
	return entry, true
}

// Ack acknowledges tickets whose results are committed in Postgres: their entries leave the journal, and the gate
// remembers the results.
func (g *Gate) Ack(ctx context.Context, sale int64, results []order.Result) error {
	return g.call(ctx, callLimit, func(ctx context.Context) error {
		keys := []string{GateKey(sale), TicketsKey(sale), JournalKey(sale)}
		for chunk := range slices.Chunk(results, acksOnce) {
			args := make([]any, 0, 4*len(chunk))
			for _, r := range chunk {
				entry, ok := EntryID(r.Ticket)
				if !ok {
					continue
				}
				compared := r.Ticket
				if r.OrderID != uuid.Nil {
					compared = "" // an order replaces any value
				}
				args = append(args, entry, r.UserID, compared, encode(r))
			}
			if len(args) == 0 {
				continue
			}
			if err := ackScript.Run(ctx, g.rdb, keys, args...).Err(); err != nil {
				return fmt.Errorf("acknowledge %d tickets of sale %d: %w", len(results), sale, err)
			}
		}
		return nil
	})
}

// Claim claims at most n entries: first those whose owners have been silent for idle, then those that never had an owner. A
// claim counts as a delivery. Some of the entries may be this process's own.
func (g *Gate) Claim(ctx context.Context, sale int64, idle time.Duration, n int) (entries []Entry, err error) {
	err = g.call(ctx, callLimit, func(ctx context.Context) error {
		claimed, _, err := g.rdb.XAutoClaim(ctx, &redis.XAutoClaimArgs{
			Stream: JournalKey(sale), Group: group, Consumer: g.consumer, MinIdle: idle, Start: "0-0", Count: int64(n),
		}).Result()
		if isNoGroup(err) { // the next claim finds all entries of the journal
			return g.rdb.XGroupCreate(ctx, JournalKey(sale), group, "0").Err()
		}
		if err != nil {
			return err
		}
		entries = entriesOf(claimed)
		if len(entries) == n {
			return nil
		}
		streams, err := g.rdb.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: group, Consumer: g.consumer, Streams: []string{JournalKey(sale), ">"}, Count: int64(n - len(entries)), Block: -1,
		}).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		for _, s := range streams {
			entries = append(entries, entriesOf(s.Messages)...)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("claim entries of sale %d: %w", sale, err)
	}
	return entries, nil
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
		entries = append(entries, entriesOf(r.Val())...)
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
	return entriesOf(messages), nil
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
	return g.deadLetter(ctx, sale, Entry{ID: id, values: map[string]any{"user": t.UserID, "ticket": t.ID}}, false)
}

// DeadLetterEntry moves an entry with an Err to the sale's dead letters: without a ticket there is no Ack.
func (g *Gate) DeadLetterEntry(ctx context.Context, sale int64, e Entry) error {
	return g.deadLetter(ctx, sale, e, true)
}

func (g *Gate) deadLetter(ctx context.Context, sale int64, e Entry, remove bool) error {
	values := map[string]any{"entry": e.ID}
	for k, v := range e.values {
		values["was_"+k] = v
	}
	return g.call(ctx, callLimit, func(ctx context.Context) error {
		_, err := g.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.XAdd(ctx, &redis.XAddArgs{Stream: DeadKey(sale), Values: values})
			p.Expire(ctx, DeadKey(sale), deadLife)
			if remove {
				p.XAck(ctx, JournalKey(sale), group, e.ID)
				p.XDel(ctx, JournalKey(sale), e.ID)
			}
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

func entriesOf(messages []redis.XMessage) []Entry {
	entries := make([]Entry, len(messages))
	for i, m := range messages {
		ticket, err := ticketIn(m)
		entries[i] = Entry{ID: m.ID, Ticket: ticket, Err: err, values: m.Values}
	}
	return entries
}

// ticketIn returns the ticket of a journal entry, or an error if the reserve script did not write the entry.
func ticketIn(m redis.XMessage) (order.Ticket, error) {
	field := func(name string) string { s, _ := m.Values[name].(string); return s }
	user, err := strconv.ParseInt(field("user"), 10, 64)
	if err != nil {
		return order.Ticket{}, fmt.Errorf("user: %w", err)
	}
	if _, err := strconv.ParseInt(field("epoch"), 10, 64); err != nil {
		return order.Ticket{}, fmt.Errorf("epoch: %w", err)
	}
	if id, err := uuid.Parse(field("nonce")); err != nil || id.String() != field("nonce") {
		return order.Ticket{}, errors.New("nonce: missing or malformed")
	}
	return order.Ticket{ID: field("epoch") + ":" + m.ID + ":" + field("nonce"), UserID: user}, nil
}
