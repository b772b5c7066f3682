package seckill_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/gate"
	"miaosha/seckill/sandbox/sandboxtest"
)

// With Config.SettlePause, the queue pauses before each transaction and then settles as usual.
func TestSettlePause(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	e := s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.SettlePause = 300 * time.Millisecond })
	s.awaitGate()
	began := time.Now()
	s.mustBuy(e, 1)
	if took := time.Since(began); took < 300*time.Millisecond { //timing: at least: the clock starts before
		t.Errorf("bought after %v, want the pause of 300 ms", took)
	}
	s.wantConsistent()
}

// An order that was written without the row's lock is met by the unique index. The next try finds it.
func TestATicketWaitsForAnOrderWithoutTheLock(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	e := s.engine(nil)
	tx, err := s.db.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), `insert into orders (id, user_id, sale_id, ticket, title, price, expires_at)
			values (gen_random_uuid(), 1, $1, 'another', 'tea', 1, now() + interval '1 h')`, s.sale)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), sandboxtest.Hang)
	defer cancel()
	var settling sync.WaitGroup
	settling.Go(func() { e.Settle(ctx, s.sale, order.Ticket{ID: "1:1-1:late", UserID: 1}) })
	sandboxtest.Until(t, "it waits for the order", func() (waits bool) {
		err := s.db.QueryRow(t.Context(), `select exists (select from pg_stat_activity where datname = current_database() and wait_event = 'transactionid')`).Scan(&waits)
		return err == nil && waits
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	settling.Wait()
	var outcome string
	if err := s.db.QueryRow(t.Context(), `select outcome from ticket_results where ticket = '1:1-1:late'`).Scan(&outcome); err != nil || outcome != order.Duplicate {
		t.Errorf("%q, %v; want duplicate", outcome, err)
	}
	if n := s.rdb.XLen(t.Context(), gate.DeadKey(s.sale)).Val(); n != 0 {
		t.Errorf("%d dead letters, want none", n)
	}
}

// Entries and tickets that cannot be settled become dead letters. The other tickets of their batch, and of their entry,
// are settled.
func TestPoisonedTickets(t *testing.T) {
	t.Parallel()
	s := newShop(t, 9)
	s.reclaimAfter = 20 * time.Millisecond
	first := s.stoppedWithGate()
	if granted, err := first.ReserveAll(t.Context(), s.sale, []int64{1, 0, 2}); err != nil || granted != 3 {
		t.Fatal(granted, err)
	}
	for _, user := range []int64{-5, 3} {
		if _, err := seckill.Reserve(t.Context(), s.rdb, "dead", s.sale, user); err != nil {
			t.Fatal(err)
		}
	}
	for _, garbage := range [][]string{{"x", "y"}, {"epoch", "1", "n", "1", "tickets", "4 " + uuid.NewString() + " 7 \x00"}, {"epoch", "1", "n", "1", "tickets", "8 " + strings.Repeat("n", 5000)}} {
		if err := s.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: gate.JournalKey(s.sale), Values: garbage}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	e := s.start(nil)
	s.untilReclaimed(e, "the journal is empty", func() bool { return s.gateState().Entries == 0 })
	s.wantConsistent()
	if owners := s.owners(); len(owners) != 4 {
		t.Errorf("owners %v, want users 1, 2, 3, and 4 of a damaged entry", owners)
	}
	dead, err := s.rdb.XRange(t.Context(), gate.DeadKey(s.sale), "-", "+").Result()
	if err != nil || len(dead) != 5 {
		t.Errorf("%d dead letters, %v, want 5: %v", len(dead), err, dead)
	}
	const week = 7 * 24 * time.Hour
	if life := s.rdb.PTTL(t.Context(), gate.DeadKey(s.sale)).Val(); life <= week-time.Minute || life > week {
		t.Errorf("the dead letters live for %v, want a week", life)
	}
	for user, want := range map[int64]string{1: seckill.Ordered, 2: seckill.Ordered, 3: seckill.Ordered, -5: seckill.Invalid} {
		if st, err := e.Result(t.Context(), s.sale, user); err != nil || st.State != want {
			t.Errorf("user %d: %+v, %v, want %s", user, st, err, want)
		}
	}

	// A ticket whose refusal cannot be stored either does not hold up its sale.
	news, stop := e.Watch(s.sale, 9)
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), sandboxtest.Hang)
	defer cancel()
	e.Settle(ctx, s.sale, order.Ticket{ID: "1:1-1:\x00", UserID: 9})
	if len(news) != 1 {
		t.Error("its owner receives no news")
	}
}

// The tickets of a paused sale are settled. Those of a closed sale are refused.
func TestTicketsOfAPausedOrClosedSale(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{goods.Paused: seckill.Ordered, goods.Closed: seckill.Closed} {
		t.Run(state, func(t *testing.T) {
			s := newShop(t, 5)
			s.reclaimAfter = 20 * time.Millisecond
			first := s.start(nil)
			s.awaitGate()
			first.stop()
			if _, err := seckill.Reserve(t.Context(), s.rdb, "dead", s.sale, 1); err != nil {
				t.Fatal(err)
			}
			s.setState(state)
			e := s.start(nil)
			s.untilReclaimed(e, "the ticket has a result", func() bool { return s.gateState().Entries == 0 })
			if st := s.awaitFinal(e, 1); st.State != want {
				t.Errorf("%s, want %s", st.State, want)
			}
			s.wantConsistent()
		})
	}
}

// A batch that Postgres cannot settle within the time limit is settled in smaller ones. Here it settles 15 tickets at
// once, and no more in any time.
func TestSlowBatchIsHalved(t *testing.T) {
	t.Parallel()
	const users = 25
	s := newShop(t, users)
	if _, err := s.db.Exec(t.Context(), `
		create function slowly() returns trigger language plpgsql as $$
		begin
			if (select count(*) from placed) > 15 then perform pg_sleep(3600); end if;
			return null;
		end $$;
		create trigger slowly after insert on orders referencing new table as placed for each statement execute function slowly()`); err != nil {
		t.Fatal(err)
	}
	first := s.stoppedWithGate()
	for user := range int64(users) {
		if granted, err := first.ReserveAll(t.Context(), s.sale, []int64{user + 1}); err != nil || granted != 1 { // an entry each
			t.Fatal(granted, err)
		}
	}
	s.reclaimAfter = 20 * time.Millisecond
	e := s.start(func(_ *seckill.Config, d *seckill.Deps) { d.DB = s.pool("settle", "statement_timeout", "400") })
	s.untilReclaimed(e, "all have an order", func() bool { return len(s.owners()) == users })
	s.wantConsistent()
}

// Postgres ends connections of the settler again and again, inside transactions and at their commit.
func TestPostgresEndsConnections(t *testing.T) {
	t.Parallel()
	s := newShop(t, 200)
	a, b := s.start(nil), s.start(nil)
	s.awaitGate()
	terminate := func() (n int, err error) {
		err = s.db.QueryRow(t.Context(), `select count(pg_terminate_backend(pid)) from pg_stat_activity
			where datname = current_database() and application_name = 'settle' and state <> 'idle'`).Scan(&n)
		return n, err
	}
	letCommit := s.holdCommits()
	var terminator errgroup.Group
	sold := make(chan struct{}, 1)
	terminator.Go(func() error {
		if !sandboxtest.Poll(func() bool { return s.heldCommits("settle") > 0 }) {
			t.Error("no settle transaction is at its commit")
		}
		ended, err := terminate()
		letCommit()
		for rounds := 0; rounds < 150 && len(sold) == 0 && err == nil; rounds++ {
			var n int
			n, err = terminate()
			ended += n
		}
		if t.Logf("%d connections ended", ended); ended == 0 {
			t.Error("no connection was ended")
		}
		return err
	})
	statuses := s.runRush(300, a, b)
	sold <- struct{}{}
	if err := terminator.Wait(); err != nil {
		t.Error(err)
	}
	s.wantSold(200, statuses)
	s.wantConsistent()
	// On a busy machine a reserve call may have no reply; then its tickets are claimed without ever having been queued.
	if log := s.log.String(); strings.Contains(log, "claimed") && !strings.Contains(log, "doing=reserve") {
		t.Error("a batch was abandoned, and claimed again later")
	}
}
