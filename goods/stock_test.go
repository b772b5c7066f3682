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
	return inTx(t.Context(), db, func(tx pgx.Tx) error { return Take(t.Context(), tx, sale, n) })
}

func giveBack(t *testing.T, db *pgxpool.Pool, sale int64, n int) error {
	return inTx(t.Context(), db, func(tx pgx.Tx) error { return GiveBack(t.Context(), tx, sale, n) })
}

func TestTakeAndGiveBackFollowAModel(t *testing.T) {
	db := sandboxtest.DB(t)
	rapid.Check(t, func(r *rapid.T) {
		total := rapid.IntRange(1, 20).Draw(r, "total")
		sale, stock := sell(t, db, total), total
		for range rapid.IntRange(1, 12).Draw(r, "moves") {
			n := rapid.IntRange(1, total+1).Draw(r, "n")
			var err error
			if rapid.Bool().Draw(r, "take") {
				if err = take(t, db, sale, n); n > stock != errors.Is(err, ErrSoldOut) || (err == nil) != (n <= stock) {
					r.Fatalf("take %d of %d: %v", n, stock, err)
				} else if err == nil {
					stock -= n
				}
			} else {
				if err = giveBack(t, db, sale, n); stock+n > total != (refusedBy(err) == "stock_within_total") || (err == nil) != (stock+n <= total) {
					r.Fatalf("give %d back to %d of %d: %v", n, stock, total, err)
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

func TestTakingMoreThanIsLeftIsSoldOutAndChangesNothing(t *testing.T) {
	db := sandboxtest.DB(t)
	sale := sell(t, db, 5)
	if err := take(t, db, sale, 3); err != nil {
		t.Fatal(err)
	}
	// The check in the statement must be enough: this transaction is committed.
	err := inTx(t.Context(), db, func(tx pgx.Tx) error {
		if err := Take(t.Context(), tx, sale, 3); !errors.Is(err, ErrSoldOut) {
			t.Errorf("take 3 of 2: %v, want ErrSoldOut", err)
		}
		return nil
	})
	if got := stockOf(t, db, sale); err != nil || got != 2 {
		t.Errorf("%d units are left, %v; want 2", got, err)
	}
	if err := take(t, db, sale+1, 1); !errors.Is(err, ErrSoldOut) {
		t.Errorf("take from an unknown sale: %v, want ErrSoldOut", err)
	}
	if err := giveBack(t, db, sale+1, 1); !errors.Is(err, ErrNoSale) {
		t.Errorf("give back to an unknown sale: %v, want ErrNoSale", err)
	}
}

func TestTwoHundredTakersOfFiftyUnitsGetExactlyFifty(t *testing.T) {
	for _, lock := range []bool{false, true} {
		t.Run(map[bool]string{false: "without the row lock", true: "with the row lock"}[lock], func(t *testing.T) {
			db := sandboxtest.DB(t)
			sale := sell(t, db, 50)
			var taken, refused atomic.Int64
			var crowd sync.WaitGroup
			for range 200 {
				crowd.Go(func() {
					err := inTx(t.Context(), db, func(tx pgx.Tx) error {
						if lock {
							if _, err := Lock(t.Context(), tx, sale); err != nil {
								return err
							}
						}
						return Take(t.Context(), tx, sale, 1)
					})
					switch {
					case err == nil:
						taken.Add(1)
					case errors.Is(err, ErrSoldOut):
						refused.Add(1)
					default:
						t.Error(err)
					}
				})
			}
			crowd.Wait()
			if diff := cmp.Diff([]int64{50, 150, 0}, []int64{taken.Load(), refused.Load(), stockOf(t, db, sale)}); diff != "" {
				t.Errorf("taken, refused, left: %s", diff)
			}
		})
	}
}

func TestLock(t *testing.T) {
	db := sandboxtest.DB(t)
	from := time.Now().Add(-time.Minute).Truncate(time.Microsecond)
	sale := sellFor(t, db, Terms{Price: 990, Total: 9, StartsAt: from, EndsAt: from.Add(time.Hour)})
	exec(t, db, `update sales set stock = 4, state = 'paused' where id = $1`, sale)
	exec(t, db, `update sales set epoch = 77 where id = $1`, sale)
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

	// The second transaction waits for the first, sees its changes, and reads the clock after the
	// wait.
	var second Locked
	done := make(chan error, 1)
	go func() {
		done <- inTx(t.Context(), db, func(tx pgx.Tx) error {
			var err error
			second, err = Lock(t.Context(), tx, sale)
			return err
		})
	}()
	awaitLockWaiter(t, db)
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
	if err := <-done; err != nil || second.Stock != 3 {
		t.Errorf("the second finds %d units, %v; want 3", second.Stock, err)
	}
	if second.Now.Before(before) {
		t.Errorf("the second reads the clock at %v, want not before %v", second.Now, before)
	}

	err = inTx(t.Context(), db, func(tx pgx.Tx) error {
		_, err := Lock(t.Context(), tx, sale+1)
		return err
	})
	if !errors.Is(err, ErrNoSale) {
		t.Errorf("lock an unknown sale: %v, want ErrNoSale", err)
	}
}

// awaitLockWaiter returns when a connection to the database waits for a lock.
func awaitLockWaiter(t *testing.T, db *pgxpool.Pool) {
	t.Helper()
	sandboxtest.Until(t, "a connection waits for a lock", func() bool {
		return number(t, db, `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) > 0
	})
}

func TestEpochsAreUnique(t *testing.T) {
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
			err := inTx(t.Context(), db, func(tx pgx.Tx) error {
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

func TestSaleStatesListsTheSalesToReconcile(t *testing.T) {
	db := sandboxtest.DB(t)
	now := time.Now()
	want := map[int64]bool{} // id -> open
	for _, s := range []struct {
		state    string
		from, to time.Duration
		listed   bool
		open     bool
	}{
		{Published, -time.Minute, time.Hour, true, true},
		{Paused, -time.Minute, time.Hour, true, true},
		{Closed, -time.Minute, time.Hour, true, true},
		{Draft, -time.Minute, time.Hour, false, false},
		{Published, 9 * time.Minute, time.Hour, true, false},
		{Published, 20 * time.Minute, time.Hour, false, false},
		{Published, -2 * time.Hour, -20 * time.Minute, true, false},
		{Published, -2 * time.Hour, -40 * time.Minute, false, false},
	} {
		id := sellFor(t, db, Terms{Total: 3, StartsAt: now.Add(s.from), EndsAt: now.Add(s.to)})
		exec(t, db, `update sales set state = $2 where id = $1`, id, s.state)
		if s.listed {
			want[id] = s.open
		}
	}
	// More sales that are not near, and have smaller ids, than are read at once.
	far := []int64{}
	exec(t, db, `insert into sales (id, goods_id, price, total, stock, state, starts_at, ends_at) overriding system value
		select -n, (select min(id) from goods), 1, 1, 1, 'published', now() + '1 day', now() + '2 days' from generate_series(1, 5001) n`)
	for n := range int64(5001) {
		far = append(far, -n-1)
	}
	states, err := New(db).SaleStates(t.Context(), 30*time.Minute, far)
	if err != nil {
		t.Fatal(err)
	}
	got := map[int64]bool{}
	for _, s := range states {
		if s.Near {
			got[s.ID] = s.Open
		}
	}
	if len(states) != 5000 {
		t.Errorf("%d sales are read, want 5,000 of the near and the far ones", len(states))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// Now they are near: a sale behind them is beyond, and one that is not near is not.
	exec(t, db, `update sales set starts_at = now() - interval '1 minute' where id < 0`)
	for id, open := range want {
		s, beyond, err := New(db).StateOf(t.Context(), id)
		if err != nil || s.ID != id || s.Open != open || beyond != s.Near {
			t.Errorf("sale %d: %+v, beyond %v, %v", id, s, beyond, err)
		}
	}
	if s, beyond, err := New(db).StateOf(t.Context(), -4000); err != nil || beyond || !s.Near {
		t.Errorf("one of the first: %+v, beyond %v, %v", s, beyond, err)
	}
	if _, _, err := New(db).StateOf(t.Context(), 1<<40); !errors.Is(err, ErrNoSale) {
		t.Errorf("no sale: %v", err)
	}
}
