package experiments

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"miaosha/seckill/lab"
)

// runLatePayment lets payment and expiry race. The payment deadlines of 200 orders pass. Around each
// deadline the payment arrives, and two processes look for the expired order, as every process of
// the shop does.
//
// The unguarded variant reads well: select the order, see that it is pending, update it, and return
// the unit in another statement. Between the select and the update, another process does the same.
// So a paid order is cancelled (or a cancelled order is paid), and its unit is sold a second time.
// If both processes return the unit, there is one unit more than before.
//
// The shop uses one conditional update for each step. The second process changes no row, and so
// knows that it is second. The unit is returned in the transaction that cancels the order. A payment
// that comes second is marked as due for refund in its own transaction (see order.Capture and
// order.Expire).
//
// The figures are paid: orders whose payment is kept; refunded: orders whose payment is refunded;
// put_back: units returned to the stock; both: orders that are paid although their unit was
// returned; back_twice: units returned once more than they should; units: units left plus orders paid,
// which should be 200.
func runLatePayment(ctx context.Context, s lab.Stores, seed uint64) ([]Finding, error) {
	race := func(pay, expire func(context.Context, workspace, int) error) func(context.Context) (Finding, error) {
		return func(ctx context.Context) (Finding, error) { return raceLatePayments(ctx, s, seed, pay, expire) }
	}
	return tryAll(ctx, []variant{
		{"select, then update", race(payUnguarded, expireUnguarded)},
		{"one conditional update", race(payGuarded, expireGuarded)},
	})
}

const (
	lateOrders   = 200
	lateConns    = 16
	lateFirst    = 200 * time.Millisecond // until the first order expires
	lateInterval = 5 * time.Millisecond   // between the expiries of two orders
	lateBefore   = 30 * time.Millisecond  // the earliest payment, before its order expires
	lateAfter    = 8 * time.Millisecond   // the latest payment, after that
	latePause    = 5 * time.Millisecond   // between the select and the update
	latePoll     = 10 * time.Millisecond  // between two looks of a process at its order
)

const lateTables = `
	create table item (stock int not null);
	create table orders (id int primary key, status text not null default 'pending', expires_at timestamptz not null);
	create table payments (order_id int not null, status text not null);
	create table put_back (order_id int not null)`

func raceLatePayments(
	ctx context.Context, s lab.Stores, seed uint64, pay, expire func(context.Context, workspace, int) error,
) (row Finding, err error) {
	w, err := openWorkspace(ctx, s, lateTables, lateConns)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, w.close(ctx)) }()
	var now time.Time // by the clock of the database, which decides
	if err := w.db.QueryRow(ctx, `select clock_timestamp()`).Scan(&now); err != nil {
		return row, err
	}
	start := time.Now() // after now, so that no process looks too early
	if _, err := w.db.Exec(ctx, `
		with stock as (insert into item values (0))
		insert into orders (id, expires_at)
		select n, $2::timestamptz + n * $3::int * interval '1 ms' from generate_series(1, $1::int) n`,
		lateOrders, now.Add(lateFirst), lateInterval.Milliseconds()); err != nil {
		return row, err
	}
	show(ctx, func() map[string]float64 {
		f, _ := w.countLatePayments(ctx) // none after an error; the next report counts again
		return f
	})
	rng := rand.New(rand.NewPCG(seed, 5))
	var all errgroup.Group
	for id := 1; id <= lateOrders; id++ {
		end := start.Add(lateFirst + time.Duration(id)*lateInterval)
		paid := end.Add(time.Duration(rng.Int64N(int64(lateBefore+lateAfter))) - lateBefore)
		all.Go(func() error {
			lab.Pause(ctx, time.Until(paid))
			return pay(ctx, w, id)
		})
		for range 2 { // processes
			all.Go(func() error {
				lab.Pause(ctx, time.Until(end))
				return expire(ctx, w, id)
			})
		}
	}
	if err := all.Wait(); err != nil {
		return row, err
	}
	f, err := w.countLatePayments(ctx)
	return Finding{Verdict: verdict(f["both"] == 0 && f["units"] == lateOrders, Wrong), Figures: f}, err
}

// countLatePayments returns the figures, up to now.
func (w workspace) countLatePayments(ctx context.Context) (map[string]float64, error) {
	var kept, refunded, back, both, twice, units float64
	err := w.db.QueryRow(ctx, `
		select (select count(*) from payments where status = 'captured'),
		       (select count(*) from payments where status = 'refund_due'),
		       (select count(*) from put_back),
		       (select count(distinct order_id) from payments join put_back using (order_id) where status = 'captured'),
		       (select count(*) - count(distinct order_id) from put_back),
		       (select stock from item) + (select count(*) from payments where status = 'captured')`).
		Scan(&kept, &refunded, &back, &both, &twice, &units)
	if err != nil {
		return nil, err
	}
	return map[string]float64{"orders": lateOrders, "paid": kept, "refunded": refunded, "put_back": back, "both": both,
		"back_twice": twice, "units": units}, nil
}

// payUnguarded reads whether the order is pending, and then takes the payment.
func payUnguarded(ctx context.Context, w workspace, id int) error {
	var status string
	if err := w.db.QueryRow(ctx, `select status from orders where id = $1`, id).Scan(&status); err != nil {
		return err
	}
	payment := "refund_due"
	if status == "pending" {
		//lab:here
		lab.Pause(ctx, latePause)
		if _, err := w.db.Exec(ctx, `update orders set status = 'paid' where id = $1`, id); err != nil {
			return err
		}
		//lab:end
		payment = "captured"
	}
	_, err := w.db.Exec(ctx, `insert into payments values ($1, $2)`, id, payment)
	return err
}

// expireUnguarded reads whether the order has expired, and then cancels it and returns the unit.
func expireUnguarded(ctx context.Context, w workspace, id int) error {
	for ctx.Err() == nil {
		var status string
		var over bool
		err := w.db.QueryRow(ctx, `select status, expires_at <= clock_timestamp() from orders where id = $1`, id).Scan(&status, &over)
		switch {
		case err != nil:
			return err
		case status != "pending":
			return nil
		case !over:
			lab.Pause(ctx, latePoll)
			continue
		}
		lab.Pause(ctx, latePause)
		if _, err := w.db.Exec(ctx, `update orders set status = 'cancelled' where id = $1`, id); err != nil {
			return err
		}
		_, err = w.db.Exec(ctx, `with back as (insert into put_back values ($1)) update item set stock = stock + 1`, id)
		return err
	}
	return ctx.Err()
}

// payGuarded takes the payment if the order is pending at the moment of the write. Otherwise it
// marks the payment as due for refund.
func payGuarded(ctx context.Context, w workspace, id int) error {
	//lab:here
	_, err := w.db.Exec(ctx, `
		with paid as (
		     update orders set status = 'paid'
		     where  id = $1 and status = 'pending' and expires_at > clock_timestamp()
		     returning id)
		insert into payments select $1, case when exists (select from paid) then 'captured' else 'refund_due' end`, id)
	//lab:end
	return err
}

// expireGuarded cancels the order if it has expired at the moment of the write, and returns the unit
// only then.
func expireGuarded(ctx context.Context, w workspace, id int) error {
	for ctx.Err() == nil {
		var settled bool
		//lab:here
		err := w.db.QueryRow(ctx, `
			with gone as (
			     update orders set status = 'cancelled'
			     where  id = $1 and status = 'pending' and expires_at <= clock_timestamp()
			     returning id),
			     back as (insert into put_back select id from gone),
			     item as (update item set stock = stock + 1 where exists (select from gone))
			select status <> 'pending' or exists (select from gone) from orders where id = $1`, id).Scan(&settled)
		//lab:end
		if err != nil || settled {
			return err
		}
		lab.Pause(ctx, latePoll)
	}
	return ctx.Err()
}
