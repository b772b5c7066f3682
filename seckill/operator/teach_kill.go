package operator

import (
	"context"
	"errors"
	"time"

	"miaosha/goods"
	"miaosha/seckill/bench"
)

// The second process sells to this many bots a second, and waits before each settle transaction, so that it always has
// tickets that are not orders yet. Its sale stays in the list for a few minutes.
const (
	secondPerSecond = 40
	secondPause     = "1s"
	secondSale      = 5 * time.Minute
	takeOverLimit   = 20 * time.Second
)

// killSecond starts a second process of the shop on the same stores, lets bots buy there for some seconds, kills it in
// the middle of them, and waits until its tickets are orders.
func (t *Teacher) killSecond(ctx context.Context, lasts time.Duration) error {
	second, err := startChild(ctx, t.env, "serve", "--addr", "127.0.0.1:0", "--ops-addr", "off",
		"--settle-pause", secondPause)
	if err != nil {
		return err
	}
	defer second.stop()
	seconds := int(lasts/time.Second) + 1 // clicks are under way at its death
	now := time.Now()
	sale, err := goods.New(t.stores.Web).Sell(ctx, goods.Item{Title: "教学：第二个进程被 kill -9",
		TitleEN: "Teaching: kill -9 a second process", Image: "goods/parcel.svg"},
		goods.Terms{Price: 1, Total: secondPerSecond * seconds, StartsAt: now.Add(-time.Minute),
			EndsAt: now.Add(secondSale)})
	if err != nil {
		return err
	}
	t.update(func(l *Lesson) {
		l.State, l.Second = "selling", &Second{URL: second.url, PID: second.pid(), Sale: sale}
	})
	bots := crowd{url: second.url, sale: sale, n: secondPerSecond * seconds, seconds: seconds}
	first := make(chan struct{})
	var turn bench.Turn
	var crowdErr error
	over := make(chan struct{})
	go func() {
		defer close(over)
		seen := false
		turn, crowdErr = bots.run(ctx, t.env, t.stores, func(s bench.Sample) {
			t.update(func(l *Lesson) { l.Second.Accepted, l.Second.Orders = s.Accepted, s.Sold })
			if s.Accepted > 0 && !seen {
				seen = true
				close(first)
			}
		})
	}()
	select { // it sells for the whole time
	case <-first:
	case <-over:
		return errors.Join(errors.New("the second process sold nothing"), crowdErr)
	}
	select {
	case <-time.After(lasts):
	case <-ctx.Done():
	}
	err = second.cmd.Process.Kill()
	died := time.Now()
	count := ordersAt(t.stores, sale)
	before, countErr := count(ctx)
	t.update(func(l *Lesson) { l.State, l.began, l.Second.Before, l.Second.Orders = "broken", died, before, before })
	<-over
	if err = errors.Join(err, countErr, crowdErr); err != nil {
		return err
	}
	return t.watchTakeOver(ctx, died, turn, count)
}

// watchTakeOver waits until every ticket that the dead process gave is an order.
func (t *Teacher) watchTakeOver(
	ctx context.Context, died time.Time, turn bench.Turn, count func(context.Context) (int, error),
) error {
	orders := 0
	for {
		n, err := count(ctx)
		if err != nil {
			return err
		}
		t.update(func(l *Lesson) {
			l.Second.Accepted, l.Second.Unknown, l.Second.Orders = turn.Accepted, turn.Failed, n
			if n > orders && n > l.Second.Before {
				l.Second.TookOver = round1(time.Since(died).Seconds())
			}
		})
		orders = max(orders, n)
		if int64(n) >= turn.Accepted || time.Since(died) > takeOverLimit {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
