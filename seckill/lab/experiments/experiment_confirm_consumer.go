package experiments

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"
)

const (
	consumers        = "consumers" // the group
	consumedMessages = 100
	prefetch         = 20 // messages that a consumer has at one time
	consumerDies     = 50 // messages after which the first consumer dies: in the middle of its third prefetch
	maxDeliveries    = 3
)

// consume lets two consumers of a group write an order for each message. The first one dies in the
// middle of a prefetch, right after a commit. One message is broken: Postgres refuses its order.
//
// Ack, then work (RabbitMQ's autoAck): the messages of the prefetch have left the queue when the consumer
// dies, and no other consumer receives them.
//
// Work, then ack: what was not acknowledged is delivered to the second consumer. One of these messages
// has an order already, and the primary key drops the second one. The broken message would come back
// for ever; at its third delivery it goes to the dead letters (死信), where an operator finds it.
//
// The figures are messages; orders; again: deliveries to the second consumer of what the first one had;
// dead: dead letters; lost: messages that are neither an order nor a dead letter.
func (q messageQueue) consume(ctx context.Context, ackFirst bool) (row Finding, err error) {
	if err := q.empty(ctx); err != nil {
		return row, err
	}
	for id := range consumedMessages {
		body := any(id)
		if id == 13 {
			body = "thirteen"
		}
		if err := q.Redis.XAdd(ctx, &redis.XAddArgs{Stream: q.stream(), Values: []any{"id", body}}).Err(); err != nil {
			return row, err
		}
	}
	if err := q.Redis.XGroupCreate(ctx, q.stream(), consumers, "0").Err(); err != nil {
		return row, err
	}
	if _, err := q.work(ctx, "first", ackFirst, consumerDies); err != nil {
		return row, err
	}
	again, err := q.work(ctx, "second", ackFirst, consumedMessages)
	if err != nil {
		return row, err
	}
	var orders, dead int64
	if err := q.db.QueryRow(ctx, `select count(*) from orders`).Scan(&orders); err != nil {
		return row, err
	}
	dead, err = q.Redis.XLen(ctx, q.deadLetters()).Result()
	lost := consumedMessages - orders - dead
	return Finding{Verdict: verdict(lost == 0, Wrong),
		Figures: map[string]float64{"messages": consumedMessages, "orders": float64(orders),
			"again": float64(again), "dead": float64(dead), "lost": float64(lost)}}, err
}

// work is the life of one consumer: first what another one has left behind, then new messages. It ends
// when there are none, or in death after so many messages. It returns how many it has claimed.
func (q messageQueue) work(
	ctx context.Context, consumer string, ackFirst bool, diesAfter int,
) (claimed int, err error) {
	for worked := 0; ; {
		var batch []redis.XMessage
		if consumer != "first" {
			if batch, _, err = q.Redis.XAutoClaim(ctx,
				&redis.XAutoClaimArgs{Stream: q.stream(), Group: consumers, Consumer: consumer,
					Start: "0", Count: consumedMessages}).Result(); err != nil {
				return claimed, err
			}
			claimed += len(batch)
		}
		read, err := q.Redis.XReadGroup(ctx, &redis.XReadGroupArgs{Group: consumers, Consumer: consumer,
			Streams: []string{q.stream(), ">"},
			Count:   prefetch, Block: -1}).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return claimed, err
		}
		for _, stream := range read {
			batch = append(batch, stream.Messages...)
		}
		if len(batch) == 0 {
			return claimed, nil
		}
		//lab:here
		if ackFirst {
			if err := q.ack(ctx, batch...); err != nil {
				return claimed, err
			}
		}
		//lab:end
		for _, m := range batch {
			acks, err := q.writeOrder(ctx, m)
			if err != nil {
				return claimed, err
			}
			if worked++; worked == diesAfter {
				return claimed, nil
			}
			//lab:here
			if acks && !ackFirst {
				if err := q.ack(ctx, m); err != nil {
					return claimed, err
				}
			}
			//lab:end
		}
	}
}

// writeOrder writes the order of a message and reports whether the message is done. It is not if
// Postgres has refused its order fewer than maxDeliveries times.
func (q messageQueue) writeOrder(ctx context.Context, m redis.XMessage) (done bool, err error) {
	_, err = q.db.Exec(ctx, `insert into orders (id) values ($1::text::int) on conflict do nothing`, m.Values["id"])
	if refused := new(pgconn.PgError); !errors.As(err, &refused) {
		return err == nil, err
	}
	pending, err := q.Redis.XPendingExt(ctx, &redis.XPendingExtArgs{Stream: q.stream(), Group: consumers, Start: m.ID,
		End: m.ID, Count: 1}).Result()
	if err != nil || len(pending) == 0 || pending[0].RetryCount < maxDeliveries { // none: it was acknowledged first
		return false, err
	}
	return true, q.Redis.XAdd(ctx, &redis.XAddArgs{Stream: q.deadLetters(), Values: m.Values}).Err()
}

func (q messageQueue) ack(ctx context.Context, batch ...redis.XMessage) error {
	ids := make([]string, len(batch))
	for i, m := range batch {
		ids[i] = m.ID
	}
	return q.Redis.XAck(ctx, q.stream(), consumers, ids...).Err()
}
