package goods

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"miaosha/seckill/sandbox/sandboxtest"
)

func take(t *testing.T, db *pgxpool.Pool, sale int64, n int) error {
	return in(t.Context(), db, func(tx pgx.Tx) error { return Take(t.Context(), tx, sale, n) })
}

func giveBack(t *testing.T, db *pgxpool.Pool, sale int64, n int) error {
	return in(t.Context(), db, func(tx pgx.Tx) error { return GiveBack(t.Context(), tx, sale, n) })
}

func TestTakeAndGiveBackFollowTheirModel(t *testing.T) {
	db := sandboxtest.DB(t)
	rapid.Check(t, func(r *rapid.T) {
		total := rapid.IntRange(1, 20).Draw(r, "total")
		sale, stock := sell(t, db, total), total
		for range rapid.IntRange(1, 12).Draw(r, "moves") {
			n := rapid.IntRange(1, total+1).Draw(r, "n")
			var err error
			if rapid.Bool().Draw(r, "take") {
				if err = take(t, db, sale, n); n > stock != errors.Is(err, ErrSoldOut) || (err == nil) != (n <= stock) {
					r.Fatalf("taking %d of %d: %v", n, stock, err)
				} else if err == nil {
					stock -= n
				}
			} else {
				if err = giveBack(t, db, sale, n); stock+n > total != (refusedBy(err) == "stock_within_total") || (err == nil) != (stock+n <= total) {
					r.Fatalf("giving %d back to %d of %d: %v", n, stock, total, err)
				} else if err == nil {
					stock += n
				}
			}
			if got := stockOf(t, db, sale); got != int64(stock) {
				r.Fatalf("the row has %d units, want %d", got, stock)
			}
		}
	})
}

func TestTakingMoreThanIsLeftIsSoldOutAndLeavesTheRow(t *testing.T) {
	db := sandboxtest.DB(t)
	sale := sell(t, db, 5)
	if err := take(t, db, sale, 3); err != nil {
		t.Fatal(err)
	}
	// The guard must hold by itself: in a transaction that is committed all the same.
	err := in(t.Context(), db, func(tx pgx.Tx) error {
		if err := Take(t.Context(), tx, sale, 3); !errors.Is(err, ErrSoldOut) {
			t.Errorf("taking 3 of 2: %v, want ErrSoldOut", err)
		}
		return nil
	})
	if got := stockOf(t, db, sale); err != nil || got != 2 {
		t.Errorf("%d units are left, %v; want 2", got, err)
	}
	if err := take(t, db, sale+1, 1); !errors.Is(err, ErrSoldOut) {
		t.Errorf("taking of no sale: %v, want ErrSoldOut", err)
	}
	if err := giveBack(t, db, sale+1, 1); !errors.Is(err, ErrNoSale) {
		t.Errorf("giving back to no sale: %v, want ErrNoSale", err)
	}
}

func TestOfTwoHundredWhoTakeOneOfFiftyExactlyFiftyGetIt(t *testing.T) {
	for _, lock := range []bool{false, true} {
		t.Run(map[bool]string{false: "guard alone", true: "under lock"}[lock], func(t *testing.T) {
			db := sandboxtest.DB(t)
			sale := sell(t, db, 50)
			var got, refused atomic.Int64
			var crowd sync.WaitGroup
			for range 200 {
				crowd.Go(func() {
					err := in(t.Context(), db, func(tx pgx.Tx) error {
						if lock {
							if _, err := Lock(t.Context(), tx, sale); err != nil {
								return err
							}
						}
						return Take(t.Context(), tx, sale, 1)
					})
					switch {
					case err == nil:
						got.Add(1)
					case errors.Is(err, ErrSoldOut):
						refused.Add(1)
					default:
						t.Error(err)
					}
				})
			}
			crowd.Wait()
			if left := stockOf(t, db, sale); got.Load() != 50 || refused.Load() != 150 || left != 0 {
				t.Errorf("%d got one, %d did not, %d are left; want 50, 150 and 0", got.Load(), refused.Load(), left)
			}
		})
	}
}

func TestLock(t *testing.T) {
	db := sandboxtest.DB(t)
	from := time.Now().Add(-time.Minute).Truncate(time.Microsecond)
	sale := sellFor(t, db, Terms{Price: 990, Total: 9, StartsAt: from, EndsAt: from.Add(time.Hour)})
	exec(t, db, `update sales set stock = 4, state = 'paused', epoch = 77 where id = $1`, sale)
	want := Locked{ID: sale, Title: "kettle", Price: 990, Stock: 4, State: Paused, StartsAt: from, EndsAt: from.Add(time.Hour), Epoch: 77}

	first, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Rollback(t.Context())
	got, err := Lock(t.Context(), first, sale)
	if err != nil {
		t.Fatal(err)
	}
	now := got.Now
	got.Now = time.Time{}
	if diff := cmp.Diff(want, got); diff != "" || now.IsZero() {
		t.Errorf("locked at %v: %s", now, diff)
	}

	// The second waits for the first, sees what it did, and its clock is read after the wait.
	var second Locked
	done := make(chan error, 1)
	go func() {
		done <- in(t.Context(), db, func(tx pgx.Tx) error {
			var err error
			second, err = Lock(t.Context(), tx, sale)
			return err
		})
	}()
	waitsForALock(t, db)
	if err := Take(t.Context(), first, sale, 1); err != nil {
		t.Fatal(err)
	}
	var before time.Time
	if err := first.QueryRow(t.Context(), `select clock_timestamp()`).Scan(&before); err != nil {
		t.Fatal(err)
	}
	if err := first.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || second.Stock != 3 || second.Now.Before(before) {
		t.Errorf("the second finds %d units at %v, %v; want 3 and not before %v", second.Stock, second.Now, err, before)
	}

	err = in(t.Context(), db, func(tx pgx.Tx) error {
		_, err := Lock(t.Context(), tx, sale+1)
		return err
	})
	if !errors.Is(err, ErrNoSale) {
		t.Errorf("locking no sale: %v, want ErrNoSale", err)
	}
}

// waitsForALock returns when somebody on the database waits for a lock.
func waitsForALock(t *testing.T, db *pgxpool.Pool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		if number(t, db, `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody waits for a lock")
		}
	}
}

func TestNoEpochComesTwice(t *testing.T) {
	db := sandboxtest.DB(t)
	sales := []int64{sell(t, db, 1), sell(t, db, 1), sell(t, db, 1)}
	var mu sync.Mutex
	seen := map[int64]bool{}
	for _, sale := range sales {
		seen[number(t, db, `select epoch from sales where id = $1`, sale)] = true
	}
	if len(seen) != len(sales) {
		t.Fatalf("new sales share an epoch: %v", seen)
	}
	undo := errors.New("undo")
	var crowd sync.WaitGroup
	for i := range 60 {
		crowd.Go(func() {
			var epoch, before int64
			err := in(t.Context(), db, func(tx pgx.Tx) error {
				l, err := Lock(t.Context(), tx, sales[i%3])
				if err != nil {
					return err
				}
				before = l.Epoch
				if epoch, err = NextEpoch(t.Context(), tx, l.ID); err == nil && i%2 == 0 {
					err = undo
				}
				return err
			})
			if err != nil && !errors.Is(err, undo) {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if seen[epoch] || epoch <= before {
				t.Errorf("epoch %d came after %d, seen before: %v", epoch, before, seen[epoch])
			}
			seen[epoch] = true
		})
	}
	crowd.Wait()
}

func TestTruthsAreTheSalesWhoseGatesHaveWork(t *testing.T) {
	db := sandboxtest.DB(t)
	now := time.Now()
	want := map[int64]bool{} // open?
	for _, s := range []struct {
		state    string
		from, to time.Duration
		listed   bool
		open     bool
	}{
		{Published, -time.Minute, time.Minute, true, true},
		{Paused, -time.Minute, time.Minute, true, true},
		{Closed, -time.Minute, time.Minute, true, true},
		{Draft, -time.Minute, time.Minute, false, false},
		{Published, 9 * time.Minute, time.Hour, true, false},
		{Published, 11 * time.Minute, time.Hour, false, false},
		{Published, -time.Hour, -20 * time.Second, true, false},
		{Published, -time.Hour, -40 * time.Second, false, false},
	} {
		id := sellFor(t, db, Terms{Total: 3, StartsAt: now.Add(s.from), EndsAt: now.Add(s.to)})
		exec(t, db, `update sales set state = $2 where id = $1`, id, s.state)
		if s.listed {
			want[id] = s.open
		}
	}
	truths, err := New(db).Truths(t.Context(), 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	got := map[int64]bool{}
	for _, tr := range truths {
		got[tr.ID] = tr.Open
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
