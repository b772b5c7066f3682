package admin

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"miaosha/goods"
	"miaosha/order"
)

// What an order is before and after an action. The action's own update says so: it refuses an order of another status.
type (
	status struct {
		Status string `json:"status"`
	}
	expires struct {
		ExpiresAt time.Time `json:"expires_at"`
	}
)

// Refund is that of order.Store, with a line in the log.
func (s *Store) Refund(ctx context.Context, by By, id uuid.UUID) error {
	a := action{name: "order.refund", subject: subjectOf(id), before: status{order.Paid}, after: status{order.Refunded}}
	var sale int64
	err := s.actOnOrder(ctx, by, &a, id, func(tx pgx.Tx) error { return s.ordersOn(tx, &sale).Refund(ctx, id) })
	if err == nil {
		s.unitsReturned(sale)
	}
	return err
}

// actOnOrder is actOnSale with the order's sale. do reports an order that does not exist.
func (s *Store) actOnOrder(ctx context.Context, by By, a *action, id uuid.UUID, do func(pgx.Tx) error) error {
	var sale int64
	err := s.db.QueryRow(ctx, `select sale_id from orders where id = $1`, id).Scan(&sale)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("read order %s: %w", id, err)
	}
	return s.actOnSale(ctx, by, a, sale, do)
}

// Refunded says what became of one order: Err is nil if it was refunded.
type Refunded struct {
	Order uuid.UUID
	Err   error
}

// refundFor bounds RefundAll, so that its answer comes before the request's own limit.
const refundFor = 2 * time.Second

// RefundAll refunds orders one after the other, each in a transaction and with a line in the log of its own: one that
// is refused stops no other. It stops after two seconds, and before an order of a sale that is locked, unless that is
// the first. It returns what became of those that it came to. Whoever asks again for the others, or for all, refunds
// none twice. With a key each order has one of its own, see keyOf: a repetition receives for each order what the first
// did, and refunds those to which the first did not come.
func (s *Store) RefundAll(ctx context.Context, by By, ids []uuid.UUID) (done []Refunded) {
	key := by.Key
	for end := time.Now().Add(refundFor); len(done) < len(ids) && time.Now().Before(end) && ctx.Err() == nil; {
		id := ids[len(done)]
		if key != uuid.Nil {
			by.Key = keyOf(key, id)
		}
		err := s.Refund(ctx, by, id)
		if late := ctx.Err() != nil && !errors.Is(err, ErrUnsure); (late || errors.Is(err, goods.ErrLocked)) &&
			len(done) > 0 {
			break
		}
		done = append(done, Refunded{id, err})
	}
	return done
}

// keyOf returns the key of one order in a request with a key: the first half is that of the request.
func keyOf(key, order uuid.UUID) (of uuid.UUID) {
	own := uuid.NewSHA1(key, order[:])
	copy(of[:8], key[:8])
	copy(of[8:], own[:8])
	return of
}

// RefundedBefore returns the orders that a former request with by's key has refunded, in its order. Other keys may have
// the same first half.
func (s *Store) RefundedBefore(ctx context.Context, by By) (ids []uuid.UUID, err error) {
	if by.Key == uuid.Nil {
		return nil, nil
	}
	var low, high uuid.UUID
	copy(low[:8], by.Key[:8])
	copy(high[:8], by.Key[:8])
	binary.BigEndian.PutUint64(high[8:], math.MaxUint64)
	rows, _ := s.db.Query(ctx, `
		select key, substr(subject, length('order ') + 1)::uuid from admin_log
		where  by_user = $1 and key between $2 and $3 and action = 'order.refund'
		order  by id`, by.UserID, low, high)
	var key, id uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&key, &id}, func() error {
		if key == keyOf(by.Key, id) {
			ids = append(ids, id)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for the refunds of a former request: %w", err)
	}
	return ids, nil
}

// payment is what the log shows of an order whose payment was confirmed by hand, and of that payment.
type payment struct {
	status
	Payment   string `json:"payment"`
	Reference string `json:"reference"`
}

// Confirm is ConfirmByHand of order.Store, with a line in the log.
func (s *Store) Confirm(ctx context.Context, by By, id uuid.UUID, ref string) (money string, err error) {
	a := action{name: "order.confirm", subject: subjectOf(id), result: &money}
	err = s.act(ctx, by, &a, func(tx pgx.Tx) error {
		var was string
		err := tx.QueryRow(ctx, `select status from orders where id = $1 for update`, id).Scan(&was)
		if errors.Is(err, pgx.ErrNoRows) {
			return order.ErrNotFound
		}
		if err != nil {
			return fmt.Errorf("read order %s: %w", id, err)
		}
		money, err = order.New(tx, s.orders).ConfirmByHand(ctx, id, ref)
		is := was
		if money == "captured" {
			is = order.Paid
		}
		a.before, a.after = status{was}, payment{status{is}, money, ref}
		return err
	})
	return money, err
}

// Cancel cancels a pending order of any user, with a line in the log. order.ErrNotFound, order.ErrWrongStatus.
func (s *Store) Cancel(ctx context.Context, by By, id uuid.UUID) error {
	a := action{name: "order.cancel", subject: subjectOf(id), before: status{order.Pending},
		after: status{order.Cancelled}}
	var sale int64
	err := s.actOnOrder(ctx, by, &a, id, func(tx pgx.Tx) error {
		var user int64
		err := tx.QueryRow(ctx, `select user_id from orders where id = $1`, id).Scan(&user)
		if errors.Is(err, pgx.ErrNoRows) {
			return order.ErrNotFound
		}
		if err != nil {
			return fmt.Errorf("read order %s: %w", id, err)
		}
		return s.ordersOn(tx, &sale).Cancel(ctx, user, id)
	})
	if err == nil {
		s.unitsReturned(sale)
	}
	return err
}

// ordersOn returns the orders in a transaction. It notes the sale whose units come back: they have when the transaction
// is committed.
func (s *Store) ordersOn(tx pgx.Tx, sale *int64) *order.Store {
	orders := order.New(tx, s.orders)
	orders.OnUnitsReturned(func(id int64) { *sale = id })
	return orders
}

// Extend is that of order.Store, with a line in the log.
func (s *Store) Extend(ctx context.Context, by By, id uuid.UUID, d time.Duration) error {
	a := action{name: "order.extend", subject: subjectOf(id)}
	return s.actOnOrder(ctx, by, &a, id, func(tx pgx.Tx) error {
		end, err := order.New(tx, s.orders).Extend(ctx, id, d)
		a.before, a.after = expires{end.Add(-d)}, expires{end}
		return err
	})
}

// shipment is what the log shows of a delivery. It shows no address: a line of it is never erased.
type shipment struct {
	Carrier  string `json:"carrier"`
	Tracking string `json:"tracking"`
}

// Ship is that of order.Store, with a line in the log.
func (s *Store) Ship(ctx context.Context, by By, id uuid.UUID, carrier, tracking string) error {
	a := action{name: "order.ship", subject: subjectOf(id), after: shipment{carrier, tracking}}
	return s.act(ctx, by, &a, func(tx pgx.Tx) error {
		was, err := order.New(tx, s.orders).Ship(ctx, id, carrier, tracking)
		if was.Tracking != "" {
			a.before = shipment{was.Carrier, was.Tracking}
		}
		return err
	})
}

func subjectOf(id uuid.UUID) string { return "order " + id.String() }
