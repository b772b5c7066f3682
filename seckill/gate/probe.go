package gate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"miaosha/goods"
	"miaosha/order"
)

// Scripts are the sources of all scripts of this package.
func Scripts() []string {
	return []string{reserveSource, ackSource, installSource, fixSource, addressSource, seedSource, takeoverSource,
		beatSource, publishedSource, drawSource, takeSource}
}

// Probe makes the calls of this package once, on the keys of a sale that no shop has, which it deletes. So what a Redis
// cannot do, or refuses to this user or in its current state, is found before a buyer comes. It returns the first
// error.
func Probe(ctx context.Context, rdb redis.UniversalClient) (err error) {
	sale := -1 - rand.Int64N(1<<62)
	g, other := New(rdb, "probe "+uuid.NewString(), time.Second), New(rdb, "another probe", time.Second)
	keys := []string{GateKey(sale), TicketsKey(sale), JournalKey(sale), TakeoversKey(sale), AddressesKey(sale),
		WaitingKey(sale), waitingUntilKey(sale),
		WastedKey(sale), RefusingKey(sale), DeadKey(sale), SumOfSale(sale, "").Key()}
	defer func() {
		if left := rdb.Del(context.WithoutCancel(ctx), keys...).Err(); err == nil && left != nil { // or they expire
			err = fmt.Errorf("delete keys: %w", left)
		}
	}()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	// A script that Redis has already is called by its name alone.
	if err := rdb.Eval(ctx, "return redis.call('EXISTS', KEYS[1])", []string{GateKey(sale)}).Err(); err != nil {
		return fmt.Errorf("run a script: %w", err)
	}
	now, err := rdb.Time(ctx).Result()
	if err != nil {
		return fmt.Errorf("read the clock: %w", err)
	}
	buyers := []Request{{UserID: 1, Nonce: uuid.NewString()}, {UserID: 2, Nonce: uuid.NewString()},
		{UserID: 3, Nonce: uuid.NewString()}}
	crowd := make([]redis.Z, 100) // more than have an address at once while two units are left
	for i := range crowd {
		crowd[i] = redis.Z{Score: float64(now.Add(time.Minute).UnixMilli()), Member: 1000 + i}
	}
	path := func(user int64, life time.Duration, most int) func() error {
		return func() error {
			_, _, err := g.address(ctx, sale, user, life, 1, most)
			return err
		}
	}
	var entries []Entry
	var tickets []string
	steps := []func() error{
		func() error { _, err := g.CreateTickets(ctx, sale); return err },
		func() error {
			_, err := g.Install(ctx, goods.Locked{ID: sale, State: goods.Published, StartsAt: now.Add(-time.Hour),
				EndsAt: now.Add(time.Minute), Stock: 2}, 1, 10, true)
			return err
		},
		// Addresses: one that runs out at once and is swept, buyers who are told to wait, and one who displaces
		// another.
		path(1, 0, 10), path(1, time.Second, 10),
		func() error { return rdb.ZAdd(ctx, AddressesKey(sale), crowd...).Err() },
		path(2, time.Second, 10), path(3, time.Second, 1),
		func() error {
			replies, err := g.Reserve(ctx, sale, buyers)
			for _, r := range replies {
				tickets = append(tickets, r.Ticket)
			}
			if err == nil && tickets[0] == "" {
				return fmt.Errorf("no ticket for the first buyer, as if Redis had forgotten what it was told: %v",
					replies[0].Err)
			}
			return err
		},
		func() (err error) { entries, _, err = g.Journal(ctx, sale, 10); return err },
		func() error { _, err := other.TakeOver(ctx, sale, entries); return err },
		func() error { _, err := g.TicketsOf(ctx, sale, "1-1"); return err },
		func() error { _, _, err := CountJournal(ctx, rdb, sale); return err },
		func() error {
			var results []order.Result
			for i, ticket := range tickets {
				if ticket != "" {
					results = append(results, order.Result{Ticket: ticket, UserID: buyers[i].UserID,
						Outcome: order.SoldOut})
				}
			}
			if len(results) > 0 {
				results[0].Outcome, results[0].OrderID = order.Ordered, uuid.New()
			}
			return g.Ack(ctx, sale, results)
		},
		func() error {
			states, err := g.States(ctx, []int64{sale})
			if err == nil {
				_, _, err = g.Fix(ctx, sale, states[sale], 2)
			}
			return err
		},
		func() error { return g.Tickets(ctx, []order.Buyer{{SaleID: sale, UserID: 1}})[0].Err },
		func() error {
			return g.RepairTickets(ctx, map[int64][]order.Owner{sale: {{UserID: 4, OrderID: uuid.New()}}})
		},
		func() error { _, err := g.Users(ctx, sale); return err },
		func() error {
			return g.AddOwners(ctx, sale, []order.Owner{{UserID: 4, OrderID: uuid.New()}},
				Knows{Bypasses: 1, Seeded: 1})
		},
		func() error { _, err := g.BeginSeeding(ctx, sale); return err },
		func() error { return g.KeepSeeding(ctx, sale) },
		func() error { return g.EndSeeding(ctx, sale) },
		// in a transaction Redis does not name it
		func() error { return rdb.Expire(ctx, DeadKey(sale), time.Minute).Err() },
		func() error { return g.DeadLetter(ctx, sale, order.Ticket{ID: "1:1-1:" + buyers[0].Nonce, UserID: 1}) },
		func() error { _, err := g.FormerJournals(ctx, []int64{sale}); return err },
		func() error { return g.SaveCaptcha(ctx, SumOfSale(sale, ""), "1", time.Time{}) },
		func() error { _, _, _, err := g.TakeCaptcha(ctx, SumOfSale(sale, ""), "1"); return err },
		// The keys of all sales: what is asked and removed there does not exist.
		func() error { _, _, err := g.Processes(ctx, now.Add(time.Hour)); return err },
		func() error { return rdb.ZRem(ctx, processesKey, uuid.NewString()).Err() },
		func() error { _, _, err := g.Beat(ctx); return err },
		func() error { return g.EndBeats(ctx, g.process) },
		func() error { _, _, err := g.Published(ctx); return err },
		func() error { return g.Publish(ctx, "probe", "") },
		func() error { return g.Unpublish(ctx, "probe") },
		func() error { return g.HideSecrets(ctx, uuid.NewString(), nil) },
		func() error {
			id := uuid.NewString()
			if err := g.Answer(ctx, id, "probe", ""); err != nil {
				return err
			}
			if _, err := g.Answers(ctx, id, []string{"probe"}); err != nil {
				return err
			}
			return g.Withdraw(ctx, id, id)
		},
	}
	for _, step := range steps {
		if err := step(); err != nil && !IsRefusal(err) {
			return err
		} else if errors.Is(err, ErrUnavailable) {
			return err
		}
	}
	return nil
}
