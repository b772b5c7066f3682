package experiments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"miaosha/seckill/lab"
)

// runConfirm writes messages to a Redis stream, as a shop writes orders to a message queue, and lets the
// producer's process die in the middle. A message is promised when the buyer is told that it is in the
// queue. A second process sends what was not promised; the consumer's primary key drops what came twice.
//
// No confirm: the process promises at once and sends from its memory. It is as fast as memory, and what
// was promised and not sent yet dies with it.
//
// A transaction for each message (RabbitMQ's txSelect and txCommit, here MULTI and EXEC), or a confirm
// for each: nothing is lost, and each message waits for a round trip of its own. What a broker does at
// a commit is not measured: RabbitMQ's transactions cost far more than its confirms.
//
// Confirms in batches: the messages that wait go out together, and then all confirms are awaited. As
// safe, and one round trip for a hundred. The process dies before it has read the replies, so the
// batch is sent twice: that costs nothing if writing an order is idempotent.
//
// One entry for a batch: the shop's journal. The script that grants the tickets of a reserve call writes
// them as one entry of a stream (reserve.lua), so there is no moment between unit and message.
//
// Then the consumer dies (see consume).
//
// The figures are messages; per_second: messages promised per second; p99_ms: from the burst to a
// message's promise; lost: messages that were promised and became no order; twice: messages that are
// in the stream twice.
func runConfirm(ctx context.Context, s lab.Stores, _ uint64) (rows []Finding, err error) {
	w, err := openWorkspace(ctx, s, `create table orders (id int primary key)`, 2)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close(ctx)) }()
	q := messageQueue{w, s}
	publish := func(p publisher) func(context.Context) (Finding, error) {
		return func(ctx context.Context) (Finding, error) { return q.publish(ctx, p) }
	}
	consume := func(ackFirst bool) func(context.Context) (Finding, error) {
		return func(ctx context.Context) (Finding, error) { return q.consume(ctx, ackFirst) }
	}
	return tryAll(ctx, []variant{
		{"no confirm", publish(publisher{size: confirmBatch, send: sendMessages, fromMemory: true})},
		{"a transaction for each message", publish(publisher{size: 1, send: sendTransaction})},
		{"a confirm for each message", publish(publisher{size: 1, send: sendMessages})},
		{"confirms in batches", publish(publisher{size: confirmBatch, send: sendMessages})},
		{"one journal entry for a batch", publish(publisher{size: confirmBatch, send: sendEntry})},
		{"ack, then work", consume(true)},
		{"work, then ack", consume(false)},
	})
}

const (
	confirmMessages = 1000
	confirmBatch    = 100
)

// messageQueue is a stream, and the table for its orders.
type messageQueue struct {
	workspace
	stores lab.Stores
}

func (q messageQueue) stream() string      { return q.Key("messages") }
func (q messageQueue) deadLetters() string { return q.Key("dead_letters") }

// publisher sends messages in batches of a size, and returns when Redis has confirmed a batch. If it
// does not wait, the process keeps its messages in memory, and sends them in the background.
type publisher struct {
	size       int
	send       func(ctx context.Context, rdb redis.UniversalClient, stream string, ids []int) error
	fromMemory bool
}

func sendTransaction(ctx context.Context, rdb redis.UniversalClient, stream string, ids []int) error {
	_, err := rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		return tx.XAdd(ctx, entryOf(stream, ids)).Err()
	})
	return err
}

func sendMessages(ctx context.Context, rdb redis.UniversalClient, stream string, ids []int) error {
	_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range ids {
			pipe.XAdd(ctx, entryOf(stream, ids[i:i+1]))
		}
		return nil
	})
	return err
}

func sendEntry(ctx context.Context, rdb redis.UniversalClient, stream string, ids []int) error {
	//lab:here
	return rdb.XAdd(ctx, entryOf(stream, ids)).Err()
	//lab:end
}

func entryOf(stream string, ids []int) *redis.XAddArgs {
	return &redis.XAddArgs{Stream: stream, Values: []string{"ids", strings.Trim(fmt.Sprint(ids), "[]")}}
}

// publish sends a burst of messages from two processes. The first one dies in the middle, and the
// second one sends all that was not promised.
func (q messageQueue) publish(ctx context.Context, p publisher) (row Finding, err error) {
	if err := q.empty(ctx); err != nil {
		return row, err
	}
	began := time.Now()
	var waits []time.Duration // of the promised messages, in order
	for _, dies := range []bool{true, false} {
		if waits, err = q.publishFrom(ctx, p, dies, began, waits); err != nil {
			return row, err
		}
	}
	took := time.Since(began)
	sent, orders, err := q.write(ctx)
	return Finding{Verdict: verdict(orders == confirmMessages, Wrong),
		Figures: map[string]float64{"messages": confirmMessages,
			"per_second": lab.Round(confirmMessages/took.Seconds(), 0),
			"p99_ms":     lab.Round(1000*waits[len(waits)*99/100].Seconds(), 1),
			"lost":       float64(confirmMessages - orders), "twice": float64(sent - orders)}}, err
}

// publishFrom is the life of one process, which begins with the first message that was not promised.
func (q messageQueue) publishFrom(
	ctx context.Context, p publisher, dies bool, began time.Time, waits []time.Duration,
) ([]time.Duration, error) {
	rdb, err := lab.OpenRedis(q.stores)
	if err != nil {
		return nil, err
	}
	defer rdb.Close()
	memory := make(chan []int, confirmMessages)
	var background errgroup.Group
	background.Go(func() error {
		for ids := range memory {
			if err := p.send(ctx, rdb, q.stream(), ids); err != nil {
				return err
			}
		}
		return nil
	})
	for len(waits) < confirmMessages {
		ids := make([]int, p.size)
		for i := range ids {
			ids[i] = len(waits) + i
		}
		killed := dies && len(waits)+p.size > confirmMessages/2
		if killed && p.fromMemory {
			rdb.Close() // before this batch leaves, and whatever else is in the memory
		}
		//lab:here
		if p.fromMemory {
			memory <- ids
		} else if err := p.send(ctx, rdb, q.stream(), ids); err != nil {
			return nil, err
		}
		//lab:end
		if killed && !p.fromMemory {
			rdb.Close()
		}
		if !killed || p.fromMemory {
			waits = append(waits, slices.Repeat([]time.Duration{time.Since(began)}, p.size)...)
		}
		if killed {
			break
		}
	}
	close(memory)
	if err := background.Wait(); err != nil && !dies {
		return nil, err
	}
	return waits, nil
}

// write writes the orders of all messages in the stream. It returns the numbers of messages and orders.
func (q messageQueue) write(ctx context.Context) (sent, orders int, err error) {
	entries, err := q.Redis.XRange(ctx, q.stream(), "-", "+").Result()
	if err != nil {
		return 0, 0, err
	}
	for _, e := range entries {
		ids := strings.Fields(fmt.Sprint(e.Values["ids"]))
		tag, err := q.db.Exec(ctx, `insert into orders (id) select unnest($1::text[])::int on conflict do nothing`, ids)
		if err != nil {
			return 0, 0, err
		}
		sent += len(ids)
		orders += int(tag.RowsAffected())
	}
	return sent, orders, nil
}

// empty removes the orders and the stream of the last variant.
func (q messageQueue) empty(ctx context.Context) error {
	_, err := q.db.Exec(ctx, `truncate orders`)
	return errors.Join(err, q.Redis.Del(ctx, q.stream(), q.deadLetters()).Err())
}
