package seckill_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/sandbox/sandboxtest"
)

// Six of twenty sales are locked, as many as there are workers: someone's transaction is open. The buyers of the others get
// their orders meanwhile, with the gate and without it. No ticket of the locked sales is lost.
func TestLockedSalesLeaveTheOthersTheirPlaces(t *testing.T) {
	t.Parallel()
	for _, gate := range []string{"redis", "off"} {
		t.Run(gate, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, 5)
			sales, now := []*shop{s}, time.Now()
			for len(sales) < 20 {
				sale, err := s.sales.Sell(t.Context(), goods.Item{Title: "tea"}, goods.Terms{Price: 1, Total: 5, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour)})
				if err != nil {
					t.Fatal(err)
				}
				other := *s
				other.sale = sale
				sales = append(sales, &other)
			}
			e := s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.Gate = gate })
			locked, free := sales[:6], sales[6:]
			if gate == "redis" {
				for _, s := range sales {
					s.awaitGate()
				}
			}
			tx, err := s.db.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(context.WithoutCancel(t.Context()))
			for _, s := range locked {
				if _, err := goods.Lock(t.Context(), tx, s.sale); err != nil {
					t.Fatal(err)
				}
			}
			for _, s := range locked {
				for user := range int64(3) {
					if gate == "redis" {
						_, err = s.retryBuy(e, 1+user)
					} else if _, err = e.Buy(t.Context(), s.sale, 1+user); errors.Is(err, seckill.ErrBusy) {
						err = nil
					}
					if err != nil {
						t.Error(err)
					}
				}
			}
			for _, s := range free {
				s.mustBuy(e, 1)
			}
			for _, s := range locked {
				if owners := s.owners(); len(owners) != 0 {
					t.Errorf("sale %d is locked and sold: %v", s.sale, owners)
				}
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, s := range locked {
				for user := range int64(3) {
					s.mustBuy(e, 1+user)
				}
				if gate == "redis" {
					s.wantConsistent()
				}
			}
		})
	}
}

// A gate that has to be set up while its sale is locked delays no other one. Only the first try reads the owners before it misses.
func TestARebuildOfALockedSaleGivesUp(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	e := s.engine(nil)
	release := s.lockSale()
	for try := range 3 { // the third time the sale rests
		if err := e.Rebuild(t.Context(), s.sale); !errors.Is(err, goods.ErrLocked) {
			t.Errorf("%v, want ErrLocked", err)
		}
		if n := s.rdb.DBSize(t.Context()).Val(); n > 0 != (try == 0) {
			t.Errorf("try %d wrote %d keys, want the owners from the first alone", try, n)
		}
		if err := s.rdb.FlushDB(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	release()
	sandboxtest.Until(t, "the gate is set up", func() bool { return e.Rebuild(t.Context(), s.sale) == nil })
	s.wantConsistent()
}

// A batch is divided because of a ticket that Postgres refuses, and someone locks the sale between its parts. What is settled until
// then is settled, and is not tried again.
func TestADividedBatchKeepsItsProgress(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	e := s.engine(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.SettlePause = time.Second }) // so long someone has to take the lock that is free
	batch := []order.Ticket{{ID: "1:1-1:a", UserID: 1}, {ID: "1:1-1:b", UserID: 2}, {ID: "1:1-2:c", UserID: 0}, {ID: "1:1-2:d", UserID: 3}}
	locked, open := make(chan error, 1), make(chan struct{})
	n, err := e.SettleBatch(t.Context(), s.sale, batch, sync.OnceFunc(func() { // before the COMMIT of the first entry
		go func() {
			locked <- pgx.BeginFunc(t.Context(), s.db, func(tx pgx.Tx) error {
				_, err := goods.Lock(t.Context(), tx, s.sale)
				<-open
				return err
			})
		}()
		sandboxtest.Until(t, "someone waits for the sale", func() bool {
			var waits bool
			err := s.db.QueryRow(t.Context(), `select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`).Scan(&waits)
			return err == nil && waits
		})
	}))
	if n != 2 || !errors.Is(err, goods.ErrLocked) || len(s.owners()) != 2 {
		t.Errorf("%d tickets settled, %v, owners %v; want those of the first entry, and ErrLocked", n, err, s.owners())
	}
	close(open)
	if err := <-locked; err != nil {
		t.Fatal(err)
	}
	e.Settle(t.Context(), s.sale, batch[n:]...)
	if owners := s.owners(); len(owners) != 3 {
		t.Errorf("owners %v, want three", owners)
	}
}

// A click that finds no gate, and the sale locked, leaves nothing in doubt. The second one has no time to wait for the lock to its end.
func TestALockedRebuildIsNotInDoubt(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	e := s.start(nil)
	s.awaitGate()
	release := s.lockSale()
	if err := s.rdb.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for user := range int64(3) {
		if _, err := e.Buy(t.Context(), s.sale, 1+user); !errors.Is(err, seckill.ErrBusy) {
			t.Errorf("%v, want busy", err)
		}
		if until := e.DoubtUntil(s.sale); !until.IsZero() {
			t.Errorf("click %d is in doubt until %v", 1+user, until)
		}
	}
	release()
	s.mustBuy(e, 1)
	s.wantConsistent()
}
