package goods

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A sale that misses its lock is tried once more with patience, rests for longer each time, and is forgotten: when a try had the
// lock, or when the last miss is long ago.
func TestLockedSalesRest(t *testing.T) {
	t.Parallel()
	missed := fmt.Errorf("lock sale 7: %w", errMissed)
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
		misses, had := try(after(2*time.Second, errMissed)), try(after(time.Second, nil))
		<-misses
		<-had
		if slow, _ := l.Slow(); len(slow) != 0 {
			t.Error("a sale is slow whose lock another try had")
		}
		for _, do := range []func(time.Duration) error{after(time.Second, nil), after(time.Minute, nil), after(time.Minute, nil), after(time.Minute, nil),
			after(time.Second, errMissed), after(time.Second, errMissed)} { // one after the other, in the place of the first
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
				return errMissed
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
			l.Note(1+sale, time.Now().Add(time.Millisecond), errMissed)
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
