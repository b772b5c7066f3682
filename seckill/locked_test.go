package seckill_test

import (
	"context"
	"errors"
	"strings"
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
			sales := []*shop{s}
			for len(sales) < 20 {
				other := *s
				other.sale = s.sell(5)
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
	if log := s.log.String(); strings.Contains(log, "did not answer") {
		t.Errorf("to miss the lock once is no fault: %s", log)
	}
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

// A click that finds no gate, and the sale locked, is answered "busy". The second one has no time to wait for the lock to its end.
func TestAClickWaitsForNoLockedRebuild(t *testing.T) {
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
	}
	release()
	s.mustBuy(e, 1)
	s.wantConsistent()
}

// Whatever needs a sale's row lets the sale rest while someone keeps it.
func TestALockedSaleRests(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	e := s.engine(nil)
	ticket := order.Ticket{ID: "1:1-1:a", UserID: 1}
	for name, try := range map[string]func(sale int64){
		"set up its gate":      func(sale int64) { e.Rebuild(t.Context(), sale) },
		"take its mark off":    func(sale int64) { e.TakeMarkOff(t.Context(), sale) },
		"buy without its gate": func(sale int64) { e.ServeDirectlyAfterWaiting(t.Context(), sale, 0) },
		"settle one ticket":    func(sale int64) { e.SettleAlone(t.Context(), sale, ticket) },
		"reject a ticket":      func(sale int64) { e.RejectOne(t.Context(), sale, ticket) },
	} {
		other := *s
		other.sale = s.sell(5)
		release := other.lockSale()
		sandboxtest.Until(t, name, func() bool {
			try(other.sale)
			return e.Rests(other.sale)
		})
		release()
	}
	if log := s.log.String(); strings.Contains(log, "doing=\"take the mark off the sale\" err=\"take the mark off the sale of") {
		t.Errorf("the tick's own end is no fault: %s", log)
	}
}

// A tick of reconcile does not wait for the gate of a sale that missed its lock.
func TestATickGoesOnBesideALockedSale(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	e := s.engine(nil)
	release := s.lockSale()
	if err := e.Rebuild(t.Context(), s.sale); !errors.Is(err, goods.ErrLocked) {
		t.Fatal(err)
	}
	defer e.HoldRebuild(t.Context(), s.sale)()
	goesOn := make(chan struct{})
	go func() { e.RepairGate(t.Context(), s.sale); close(goesOn) }()
	select {
	case <-goesOn:
	case <-time.After(sandboxtest.Hang):
		t.Error("the tick waits")
	}
	release()
}

// While the queue has no room for the tickets of a process that has died, it is not asked for again and again.
func TestTheTicketsOfADeadProcessWaitForRoom(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	e := s.engine(nil)
	if err := e.Rebuild(t.Context(), s.sale); err != nil {
		t.Fatal(err)
	}
	dead, err := seckill.DeadProcess(s.secret())
	if err == nil {
		_, err = seckill.Reserve(t.Context(), s.rdb, dead, s.sale, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	free := e.FillQueue()
	e.Inherit(t.Context())
	free()
	if e.InheritBusy()[dead].IsZero() {
		t.Fatal("it is not noted that there was no room")
	}
	e.InheritBusy()[dead] = time.Now().Add(time.Hour)
	if e.Inherit(t.Context()); e.Queued() != 0 {
		t.Error("the tickets are asked for again")
	}
	delete(e.InheritBusy(), dead)
	if e.Inherit(t.Context()); e.Queued() != 1 || len(e.InheritBusy()) != 0 {
		t.Errorf("%d tickets are queued after the pause, want 1", e.Queued())
	}
}
