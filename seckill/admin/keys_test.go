package admin

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/sandbox/sandboxtest"
)

// withKey returns the keeper with a new key, for a request of this text.
func withKey(text string) By {
	by := keeper
	by.Key, by.Digest = uuid.New(), sha256.Sum256([]byte(text))
	return by
}

// add adds units to a sale.
func add(n int) SaleChange {
	return func(g *goods.Store, ctx context.Context, id int64) (int64, error) { return g.AddUnits(ctx, id, n) }
}

func count(t *testing.T, db *pgxpool.Pool, sql string) (n int) {
	t.Helper()
	if err := db.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Twenty requests with one key at two stores at once are one change, and all receive its result.
func TestOneKeyIsOneAction(t *testing.T) {
	s, db, sale := newShop(t)
	other := New(db, order.Config{}, nil) // of another process
	by, term := withKey("units 10"), goods.Terms{Price: 1, Total: 3, StartsAt: time.Now(), EndsAt: time.Now().Add(time.Hour)}
	create := withKey("sale")
	epochs, ids := make([]int64, 20), make([]int64, 20)
	var all sync.WaitGroup
	for i := range epochs {
		all.Go(func() {
			store := s
			if i%2 == 1 {
				store = other
			}
			var err, e error
			epochs[i], err = store.ChangeSale(t.Context(), by, "units", sale, add(10))
			ids[i], e = store.AddSale(t.Context(), create, NewSale{Item: goods.Item{Title: "tea"}, Terms: term, State: goods.Draft})
			if err != nil || e != nil {
				t.Error(err, e)
			}
		})
	}
	all.Wait()
	for i := range epochs {
		if epochs[i] != epochs[0] || ids[i] != ids[0] {
			t.Fatalf("the results differ: %v %v", epochs, ids)
		}
	}
	if n := count(t, db, `select total from sales where id = 1`); n != 15 {
		t.Errorf("the sale has %d units, want 15", n)
	}
	if n := count(t, db, `select count(*) from sales`); n != 2 {
		t.Errorf("there are %d sales, want 2", n)
	}
	if n := count(t, db, `select count(*) from goods`); n != 2 {
		t.Errorf("there are %d goods, want 2", n)
	}
	if n := count(t, db, `select count(*) from admin_log`); n != 2 {
		t.Errorf("the log has %d lines, want 2", n)
	}
}

// A key belongs to one request of one user; a refused one leaves it free.
func TestWhomAKeyBelongsTo(t *testing.T) {
	s, db, sale := newShop(t)
	by := withKey("units 10")
	var refused goods.TransitionError
	if _, err := s.ChangeSale(t.Context(), by, "units", sale, add(-10)); !errors.As(err, &refused) {
		t.Fatalf("ten units of five were taken back: %v", err)
	}
	if _, err := s.ChangeSale(t.Context(), by, "units", sale, add(10)); err != nil {
		t.Fatalf("a refused request has kept its key: %v", err)
	}
	changed := by
	changed.Digest = sha256.Sum256([]byte("units 11"))
	var otherwise DoneOtherwiseError
	if _, err := s.ChangeSale(t.Context(), changed, "units", sale, add(11)); !errors.As(err, &otherwise) || otherwise.Subject != "sale 1" {
		t.Errorf("another request with the same key: %v", err)
	}
	if _, err := s.Came(t.Context(), changed); !errors.As(err, &otherwise) {
		t.Errorf("another request with the same key comes: %v", err)
	}
	stranger := changed
	stranger.UserID = 8
	if _, err := s.ChangeSale(t.Context(), stranger, "units", sale, add(1)); err != nil {
		t.Errorf("another user has the same key: %v", err)
	}
	if n := count(t, db, `select total from sales where id = 1`); n != 16 {
		t.Errorf("the sale has %d units, want 16", n)
	}
	// What is refused the second time was done the first time.
	pause := withKey("pause")
	for range 2 {
		if _, err := s.Pause(t.Context(), pause, sale); err != nil {
			t.Errorf("pause: %v", err)
		}
	}
	first, err := s.Came(t.Context(), pause)
	if err != nil || first.At.IsZero() {
		t.Errorf("the first request came at %v, %v", first.At, err)
	}
}

// Keys with the same first half are different keys, also for the refunds of many.
func TestKeysThatBeginAlike(t *testing.T) {
	s := newOrderShop(t, 3)
	s.pay(t, 3)
	keys := make([]By, 4)
	for i := range keys {
		keys[i] = withKey(strconv.Itoa(i))
		keys[i].Key = uuid.MustParse(fmt.Sprintf("00000000-0000-4000-8000-%012d", i+1))
		if _, err := s.Came(t.Context(), keys[i]); err != nil {
			t.Errorf("key %d comes: %v", i+1, err)
		}
		switch before, err := s.RefundedBefore(t.Context(), keys[i]); {
		case len(before) > 0 || err != nil:
			t.Errorf("key %d has refunded %v, %v", i+1, before, err)
		case i == 0:
			_, err := s.AddItem(t.Context(), keys[i], goods.Item{Title: "tea"})
			expect(t, err)
		case i == 1:
			expect(t, s.Refund(t.Context(), keys[i], s.ids[0]))
		default:
			expect(t, s.RefundAll(t.Context(), keys[i], s.ids[i-1:i])[0].Err)
		}
	}
	for i, by := range keys {
		again, err := s.Came(t.Context(), by)
		if err != nil || again.At.IsZero() {
			t.Errorf("key %d comes again: %v, first at %v", i+1, err, again.At)
		}
		by.Digest[0]++
		if _, err := s.Came(t.Context(), by); !errors.As(err, new(DoneOtherwiseError)) {
			t.Errorf("key %d comes with something else: %v", i+1, err)
		}
	}
}

// When Postgres commits and its answer is lost, the action with a key finds its line and has its result.
func TestALostAnswerOfPostgres(t *testing.T) {
	_, db, sale := newShop(t)
	proxy, through := sandboxtest.ProxyTo(t, db.Config().ConnString())
	unsure, err := pgxpool.New(t.Context(), through)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unsure.Close)
	s := New(unsure, order.Config{}, nil)
	proxy.Lose("COMMIT", 1)
	if _, err := s.ChangeSale(t.Context(), keeper, "units", sale, add(10)); !errors.Is(err, ErrUnsure) {
		t.Errorf("an action without a key: %v", err)
	}
	proxy.Lose("COMMIT", 1)
	id, err := s.AddItem(t.Context(), withKey("item"), goods.Item{Title: "tea"})
	if err != nil || id != 2 || proxy.Lost() != 2 {
		t.Errorf("item %d was added, %v; %d answers were lost", id, err, proxy.Lost())
	}
	if n := count(t, db, `select count(*) from goods`); n != 2 {
		t.Errorf("there are %d goods, want 2", n)
	}
}

// What was done to orders and is asked for again with its key is done once, and each order is answered as the first
// time.
func TestActionsOnOrdersWithAKey(t *testing.T) {
	s := newOrderShop(t, 4)
	s.pay(t, 3)
	refunds, extend, confirm := withKey("refunds"), withKey("extend"), withKey("confirm")
	for _, some := range [][]uuid.UUID{s.ids[:2], s.ids[:3]} { // the first answer is lost, and a third order comes in
		for _, r := range s.RefundAll(t.Context(), refunds, some) {
			expect(t, r.Err)
		}
	}
	if r := s.RefundAll(t.Context(), withKey("refunds"), s.ids[:1]); !errors.Is(r[0].Err, order.ErrWrongStatus) {
		t.Errorf("another request refunds it again: %v", r[0].Err)
	}
	together(10, func(int) { expect(t, s.Extend(t.Context(), extend, s.ids[3], time.Minute)) })
	if n := count(t, s.db, `select count(*) from orders where expires_at > created_at + interval '62 minutes'`); n != 0 {
		t.Error("an order was extended twice")
	}
	for range 2 {
		if money, err := s.Confirm(t.Context(), confirm, s.ids[3], "transfer 1"); err != nil || money != "captured" {
			t.Errorf("confirm: %s, %v", money, err)
		}
	}
	s.check(t, "at the end", map[string]int{"refunded": 3, "paid": 1, "order.refund": 3, "order.extend": 1, "order.confirm": 1, "money refund_due": 3, "money captured": 1})
}
