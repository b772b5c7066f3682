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
		if len(l.bySale) != 0 {
			t.Error("a sale that is not locked any more is kept")
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
