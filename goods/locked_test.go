package goods

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

// A sale that misses its lock is tried once more with patience, rests for longer each time, and is forgotten: when a try had the
// lock, or when the last miss is long ago.
func TestLockedSalesRest(t *testing.T) {
	t.Parallel()
	missed := fmt.Errorf("lock sale 7: %w", ErrSaleLocked)
	synctest.Test(t, func(t *testing.T) {
		var l LockedSales
		var waited []time.Duration
		try := func(err error) error {
			waited = nil
			return l.Try(t.Context(), 7, func(wait time.Duration) error {
				waited = append(waited, wait)
				time.Sleep(wait)
				return err
			})
		}
		check := func(what string, err, want error, waits ...time.Duration) {
			t.Helper()
			if !errors.Is(err, want) || !slices.Equal(waited, waits) {
				t.Errorf("%s: %v after waits of %v, want %v and %v", what, err, waited, want, waits)
			}
		}
		check("a row that is free", try(nil), nil, LockWait)
		if len(l.bySale) != 0 {
			t.Error("a sale that was not locked is kept")
		}
		check("another row that is locked", try(ErrLocked), ErrLocked, LockWait)
		check("a locked sale", try(missed), ErrLocked, LockWait, LongLockWait)
		if slow, resting := l.Slow(); !slices.Equal(slow, []int64{7}) || !slices.Equal(resting, slow) {
			t.Errorf("slow are %v, and %v rest", slow, resting)
		}
		check("a sale that rests", try(nil), ErrLocked)
		err := l.Insist(t.Context(), 7, func(wait time.Duration) error { waited = append(waited, wait); return ErrLocked })
		check("the staff, in the rest", err, ErrLocked, LongLockWait)
		err = new(LockedSales).Insist(t.Context(), 7, func(wait time.Duration) error { waited = append(waited, wait); return missed })
		check("the staff, where no try missed", err, ErrLocked, LongLockWait, LongLockWait, LongLockWait)
		time.Sleep(restFirst / restOfCalls)
		fault := errors.New("no connection")
		check("a fault", try(fault), fault, LongLockWait)
		check("a sale that is still locked", try(missed), ErrLocked, LongLockWait)
		for range 10 {
			time.Sleep(restLast)
			check("a sale that stays locked", try(missed), ErrLocked, LongLockWait)
		}
		if _, resting := l.Slow(); len(resting) != 1 {
			t.Error("the sale does not rest")
		}
		time.Sleep(restLast)
		if slow, resting := l.Slow(); len(slow) != 1 || len(resting) != 0 {
			t.Errorf("slow are %v, and %v rest", slow, resting)
		}
		check("a sale that is locked no more", try(nil), nil, LongLockWait)
		check("a sale that was locked just now", try(nil), nil, LongLockWait)
		if slow, _ := l.Slow(); len(slow) != 0 {
			t.Error("a sale that is locked no more is slow")
		}
		time.Sleep(restLast)
		check("a sale that was locked long ago", try(nil), nil, LockWait)
		if len(l.bySale) != 0 {
			t.Error("a sale that was locked long ago is kept")
		}
		l.Note(7, time.Now(), missed)
		time.Sleep(2 * restLast)
		if slow, _ := l.Slow(); len(slow) != 0 {
			t.Error("a miss is not forgotten")
		}
		if _, done := l.use(8); len(l.bySale) != 1 {
			t.Error("a sale whose miss is forgotten is kept")
		} else {
			done()
		}
	})
}

// The row of a hot sale goes from one transaction to the next. A try that misses it while another one had it is no miss, and whoever
// waits for a turn while the sale begins to rest is tried if another one had the lock meanwhile.
func TestAHotSaleIsNotSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l LockedSales
		after := func(d time.Duration, err error) func(time.Duration) error {
			return func(time.Duration) error { time.Sleep(d); return err }
		}
		try := func(do func(time.Duration) error) chan error {
			ended := make(chan error, 1)
			go func() { ended <- l.Once(t.Context(), 7, do) }()
			synctest.Wait()
			return ended
		}
		misses, had := try(after(2*time.Second, ErrSaleLocked)), try(after(time.Second, nil))
		<-misses
		<-had
		if slow, _ := l.Slow(); len(slow) != 0 {
			t.Error("a sale is slow whose lock another try had")
		}
		for _, do := range []func(time.Duration) error{after(time.Second, nil), after(time.Minute, nil), after(time.Minute, nil), after(time.Minute, nil),
			after(time.Second, ErrSaleLocked), after(time.Second, ErrSaleLocked)} { // one after the other, in the place of the first
			try(do)
		}
		waited := try(after(0, nil))
		if err := <-waited; err != nil {
			t.Errorf("a try that came before another one had the lock: %v", err)
		}
		time.Sleep(time.Minute)
	})
}

// Three other processes have the row in turn, each for 40 ms, and 60 buyers cancel at once: all cancel within the limit of a request.
func TestCancelsOfAHotSale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l LockedSales
		row := make(chan struct{}, 1) // whoever waits for it has it in turn
		have := func(wait, d time.Duration) error {
			select {
			case row <- struct{}{}:
				time.Sleep(d)
				<-row
				return nil
			case <-time.After(wait):
				return ErrSaleLocked
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for range 3 {
			go func() {
				for ctx.Err() == nil {
					have(time.Hour, 40*time.Millisecond)
				}
			}()
		}
		ended := make(chan error, 60)
		for range cap(ended) {
			go func() {
				ended <- l.Try(ctx, 7, func(wait time.Duration) error { return have(wait, time.Millisecond) })
			}()
		}
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		cancel()
		time.Sleep(time.Second)
	})
}

// Many calls for one sale, and for many sales that are locked: few are under way, and the sale that is not locked is among them.
func TestLockedSalesAreFewAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l LockedSales
		for sale := range int64(6) {
			l.Note(1+sale, time.Now().Add(time.Millisecond), ErrSaleLocked)
		}
		ctx, cancel := context.WithCancel(t.Context())
		under := map[int64]int{}
		waits := make(chan struct{})
		for n := range int64(8 * 7) {
			go l.Once(ctx, 1+n%7, func(time.Duration) error {
				l.mu.Lock()
				under[1+n%7]++
				l.mu.Unlock()
				<-waits
				return nil
			})
		}
		synctest.Wait()
		slow := 0
		for sale, n := range under {
			if sale != 7 {
				slow += n
			}
		}
		if under[7] != triesAtOnce || slow != slowAtOnce {
			t.Errorf("under way are %v, want %d of sale 7 and %d of the others", under, triesAtOnce, slowAtOnce)
		}
		cancel()
		close(waits)
	})
}

// A transaction that had the sale's lock ends the misses, even if it was refused; another error does not.
func TestALockThatWasHadEndsTheMisses(t *testing.T) {
	t.Parallel()
	db := sandboxtest.DB(t)
	sale, err := New(db).Sell(t.Context(), Item{Title: "kettle"}, Terms{Price: 1, Total: 1, StartsAt: time.Now(), EndsAt: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	for what, c := range map[string]struct {
		missed bool
		do     func(pgx.Tx) error
	}{
		"refused before the lock": {true, func(pgx.Tx) error { return refused }},
		"refused after it": {false, func(tx pgx.Tx) error {
			_, err := Lock(t.Context(), tx, sale)
			return errors.Join(err, refused)
		}},
	} {
		var l LockedSales
		l.Note(sale, time.Now(), ErrSaleLocked)
		if err := l.InTx(t.Context(), db, sale, c.do); !errors.Is(err, refused) {
			t.Errorf("%s: %v", what, err)
		}
		if slow, _ := l.Slow(); (len(slow) == 1) != c.missed {
			t.Errorf("%s: slow are %v", what, slow)
		}
	}
}

// The limit of an outer transaction is that of its statements after an inner one, and of a part of it that has none of its own.
func TestALimitInALimit(t *testing.T) {
	t.Parallel()
	db := sandboxtest.DB(t)
	limit := func(tx pgx.Tx) (limit string) {
		if err := tx.QueryRow(t.Context(), `show lock_timeout`).Scan(&limit); err != nil {
			t.Error(err)
		}
		return limit
	}
	var l LockedSales
	var inner, part, after string
	err := InTx(t.Context(), db, 200*time.Millisecond, func(tx pgx.Tx) error {
		err := InTx(t.Context(), tx, 300*time.Millisecond, func(tx pgx.Tx) error { inner = limit(tx); return nil })
		after = limit(tx)
		return errors.Join(err, l.InTx(t.Context(), tx, 7, func(tx pgx.Tx) error { part = limit(tx); return nil }))
	})
	if err != nil || inner != "300ms" || after != "200ms" || part != "200ms" {
		t.Errorf("inner %s, after it %s, in a part %s, %v; want 300ms, 200ms, 200ms", inner, after, part, err)
	}
}
