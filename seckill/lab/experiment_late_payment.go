package lab

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
)

// tryLatePayment lets money and expiry race. The time to pay of 200 orders ends; about that moment the buyer's payment
// arrives, and two processes look for orders that have run out, as each process of a shop does.
//
// The naive way is the one that reads well: select the order, see that it is pending, think, update it; and put the unit back in
// a statement of its own. Between the select and the update the other does the same. So an order that was paid is cancelled
// after that (or a cancelled one is paid), and its unit, which somebody has paid for, is sold again; and where both processes
// put it back, there is one more unit than there ever was.
//
// The shop's way is one conditional update for each step. Whoever comes second changes no row, and knows by that. The unit
// goes back in the transaction that cancelled. Money that comes second is noted as due back, in the same transaction (see
// order.Capture and order.Expire).
//
// paid: orders whose money was kept; refunded: whose money goes back; put_back: units put back; both: orders that were paid for
// and whose unit was put back as well; units: what is left and what was paid for, which should be the 200 there were.
func tryLatePayment(ctx context.Context, s Stores, seed uint64) (rows []Found, err error) {
	for _, w := range []struct {
		name        string
		pay, expire func(context.Context, room, int) error
	}{
		{"select, then update", payNaively, expireNaively},
		{"one conditional update", payGuarded, expireGuarded},
	} {
		row, err := lateRace(ctx, s, seed, w.pay, w.expire)
		if err != nil {
			return nil, err
		}
		row.Way = w.name
		rows = append(rows, row)
	}
	return rows, nil
}

const (
	lateOrders   = 200
	lateConns    = 16
	lateFirst    = 200 * time.Millisecond // until the first order ends
	lateEvery    = 5 * time.Millisecond   // between the ends of two orders
	lateBefore   = 30 * time.Millisecond  // how long before its order's end a payment comes, at most
	lateAfter    = 8 * time.Millisecond   // and how long after
	lateThink    = 5 * time.Millisecond   // between the select and the update
	latePatience = 10 * time.Millisecond  // a sweeper's pause
)

const lateTables = `
	create table item (stock int not null);
	create table orders (id int primary key, status text not null default 'pending', expires_at timestamptz not null);
	create table payments (order_id int not null, status text not null);
	create table put_back (order_id int not null)`

func lateRace(ctx context.Context, s Stores, seed uint64, pay, expire func(context.Context, room, int) error) (row Found, err error) {
	r, err := openRoom(ctx, s, lateTables, lateConns)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, r.close(ctx)) }()
	var now time.Time // by the clock of the database, which judges
	if err := r.db.QueryRow(ctx, `select clock_timestamp()`).Scan(&now); err != nil {
		return row, err
	}
	asked := time.Now() // later, so that who comes at an order's end by our clock does not come before it
	if _, err := r.db.Exec(ctx, `
		with stock as (insert into item values (0))
		insert into orders (id, expires_at)
		select n, $2::timestamptz + n * $3::int * interval '1 ms' from generate_series(1, $1::int) n`,
		lateOrders, now.Add(lateFirst), lateEvery.Milliseconds()); err != nil {
		return row, err
	}
	luck := rand.New(rand.NewPCG(seed, 5))
	var all errgroup.Group
	for id := 1; id <= lateOrders; id++ {
		end := asked.Add(lateFirst + time.Duration(id)*lateEvery)
		paid := end.Add(time.Duration(luck.Int64N(int64(lateBefore+lateAfter))) - lateBefore)
		all.Go(func() error {
			pause(ctx, time.Until(paid))
			return pay(ctx, r, id)
		})
		for range 2 { // processes
			all.Go(func() error {
				pause(ctx, time.Until(end))
				return expire(ctx, r, id)
			})
		}
	}
	if err := all.Wait(); err != nil {
		return row, err
	}
	var kept, refunded, back, both, units float64
	err = r.db.QueryRow(ctx, `
		select (select count(*) from payments where status = 'captured'),
		       (select count(*) from payments where status = 'refund_due'),
		       (select count(*) from put_back),
		       (select count(distinct order_id) from payments join put_back using (order_id) where status = 'captured'),
		       (select stock from item) + (select count(*) from payments where status = 'captured')`).
		Scan(&kept, &refunded, &back, &both, &units)
	row.Right = both == 0 && units == lateOrders
	row.Figures = map[string]float64{"orders": lateOrders, "paid": kept, "refunded": refunded, "put_back": back, "both": both, "units": units}
	return row, err
}

// payNaively asks whether the order still waits for money, and takes the money.
func payNaively(ctx context.Context, r room, id int) error {
	var status string
	if err := r.db.QueryRow(ctx, `select status from orders where id = $1`, id).Scan(&status); err != nil {
		return err
	}
	money := "refund_due"
	if status == "pending" {
		pause(ctx, lateThink)
		if _, err := r.db.Exec(ctx, `update orders set status = 'paid' where id = $1`, id); err != nil {
			return err
		}
		money = "captured"
	}
	_, err := r.db.Exec(ctx, `insert into payments values ($1, $2)`, id, money)
	return err
}

// expireNaively asks whether the order has run out, cancels it and puts the unit back.
func expireNaively(ctx context.Context, r room, id int) error {
	for ctx.Err() == nil {
		var status string
		var over bool
		err := r.db.QueryRow(ctx, `select status, expires_at <= clock_timestamp() from orders where id = $1`, id).Scan(&status, &over)
		switch {
		case err != nil:
			return err
		case status != "pending":
			return nil
		case !over:
			pause(ctx, latePatience)
			continue
		}
		pause(ctx, lateThink)
		if _, err := r.db.Exec(ctx, `update orders set status = 'cancelled' where id = $1`, id); err != nil {
			return err
		}
		_, err = r.db.Exec(ctx, `with back as (insert into put_back values ($1)) update item set stock = stock + 1`, id)
		return err
	}
	return ctx.Err()
}

// payGuarded takes the money if the order waits for it at the moment of the write, and else writes down that it is due back.
func payGuarded(ctx context.Context, r room, id int) error {
	_, err := r.db.Exec(ctx, `
		with paid as (
		     update orders set status = 'paid'
		     where  id = $1 and status = 'pending' and expires_at > clock_timestamp()
		     returning id)
		insert into payments select $1, case when exists (select from paid) then 'captured' else 'refund_due' end`, id)
	return err
}

// expireGuarded cancels the order if it has run out at the moment of the write, and puts the unit back only then.
func expireGuarded(ctx context.Context, r room, id int) error {
	for ctx.Err() == nil {
		var settled bool
		err := r.db.QueryRow(ctx, `
			with gone as (
			     update orders set status = 'cancelled'
			     where  id = $1 and status = 'pending' and expires_at <= clock_timestamp()
			     returning id),
			     back as (insert into put_back select id from gone),
			     item as (update item set stock = stock + 1 where exists (select from gone))
			select status <> 'pending' or exists (select from gone) from orders where id = $1`, id).Scan(&settled)
		if err != nil || settled {
			return err
		}
		pause(ctx, latePatience)
	}
	return ctx.Err()
}
