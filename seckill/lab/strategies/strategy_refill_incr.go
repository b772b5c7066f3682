package strategies

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// refillIncr puts a unit back into the pre-stock (库存回补) when an order fails. A buyer who passes Redis
// may still get no order: the database refuses a second order of a buyer, or a statement runs into a
// time limit. The unit was decremented for nothing, and INCR is the inverse of DECR.
//
// Wrong: it leaves units unsold. Each refused buyer has decremented too, so the counter is not at zero
// when the order fails. It is at -2, or at -500. INCR makes it -499, and the next buyer is refused like
// all before. The unit is in stock in Postgres, and no buyer can reach it. Each buyer who sees it on
// the page and presses again takes the counter one further down.
//
// To undo the DECR of a refused buyer too is the next idea. Between that DECR and its INCR the counter
// is too low for everyone, and a process that dies between the two leaves it so.
//
// In the field: the first of three refills that a course compares. The others are refillSetOne and
// refillCompare. All three meet the same crowd: one buyer in three has a first order that fails, and
// a refused buyer presses again while the page shows units, until it has stood still for 1.5 s.
type refillIncr struct{ refill }

func (s refillIncr) Buy(ctx context.Context, user int64) (bool, error) {
	return s.buy(ctx, user, func() error {
		//lab:here
		return s.Redis.Incr(ctx, s.Key("stock")).Err()
		//lab:end
	})
}

// refill is the purchase of all three.
type refill struct{ redisStock }

// Prepare creates the unique index and writes the stock to Redis.
func (s refill) Prepare(ctx context.Context) error {
	if err := (guardUnique{s.Node}).Prepare(ctx); err != nil {
		return err
	}
	return s.redisStock.Prepare(ctx)
}

// buy takes a unit in Redis and writes the order. It calls putBack when the order has failed.
func (s refill) buy(ctx context.Context, user int64, putBack func() error) (bool, error) {
	s.LookUpPrice(ctx, user)
	refused := time.Now()
	for tries := 0; ; tries++ {
		//lab:here
		left, err := s.Redis.Decr(ctx, s.Key("stock")).Result()
		//lab:end
		if err != nil {
			return false, err
		}
		if left >= 0 {
			break
		}
		if again, err := s.PressesAgain(ctx, refused, tries); err != nil || !again {
			return false, err
		}
	}
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if err := s.Hang(ctx, tx, user); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `insert into orders (user_id) values ($1)`, user); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `update item set stock = stock - 1 where stock > 0`)
		if err == nil && tag.RowsAffected() == 0 {
			return errSoldOut
		}
		return err
	})
	if err == nil || errors.Is(err, errSoldOut) { // sold out in Postgres too: there is no unit to put back
		return err == nil, nil
	}
	if lost := putBack(); lost != nil {
		return false, lost
	}
	if isUnique(err) {
		return true, nil // the buyer has an order
	}
	return false, err // the buyer clicks again
}
