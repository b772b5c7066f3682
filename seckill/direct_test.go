package seckill_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/gate"
	"miaosha/seckill/sandbox/sandboxtest"

	"github.com/redis/go-redis/v9"
)

func TestDirectReplyIsFinal(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1)
	e := s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.Gate = "off" })
	b, err := s.retryBuy(e, 1)
	if err != nil || b.Status.State != seckill.Ordered {
		t.Fatalf("%+v, %v, want an order", b, err)
	}
	if b.Status.NextPoll != 0 {
		t.Errorf("the reply asks for a poll in %v, but it is final", b.Status.NextPoll)
	}
	if again, err := s.retryBuy(e, 1); err != nil || again.Status.OrderID != b.Status.OrderID {
		t.Errorf("%+v, %v, want the same order", again, err)
	}
	if b, err := e.Buy(t.Context(), s.sale, 2); !errors.Is(err, goods.ErrSoldOut) {
		t.Errorf("%+v, %v, want sold out", b, err)
	}
	s.setState(goods.Paused)
	if b, err := e.Buy(t.Context(), s.sale, 3); !errors.Is(err, goods.ErrPaused) {
		t.Errorf("%+v, %v, want paused", b, err)
	}
	s.setState(goods.Closed)
	if b, err := e.Buy(t.Context(), s.sale, 3); !errors.Is(err, goods.ErrEnded) {
		t.Errorf("%+v, %v, want ended", b, err)
	}
	if b, err := e.Buy(t.Context(), s.sale+1, 3); !errors.Is(err, goods.ErrNoSale) {
		t.Errorf("%+v, %v, want no sale", b, err)
	}
	s.wantCleanAudit()
}

// Redis goes away during the sale and keeps its data. The sale goes on without it and sells exactly what there is. No
// buyer is told "sold out" while units are left. When Redis is back, its gate learns of the orders made meanwhile.
func TestSaleGoesOnWithoutRedis(t *testing.T) {
	t.Parallel()
	s := newShop(t, 60)
	rdb, proxy := s.proxied()
	e := s.start(func(cfg *seckill.Config, d *seckill.Deps) { d.Redis = rdb })
	sums := s.sums(e.Engine)
	s.awaitGate()
	id := s.mustBuy(e, 1)
	if err := s.rdb.HSet(t.Context(), gate.TicketsKey(s.sale), "2", "Xsold_out").Err(); err != nil { // user 2 was refused before, and buys now
		t.Fatal(err)
	}
	proxy.Cut()
	s.wantSold(60, s.runRush(60, e)) // as many users as units: all of them buy
	if st, err := e.Result(t.Context(), s.sale, 1); err != nil || st.OrderID != id {
		t.Errorf("the buyer from before: %+v, %v, want order %s", st, err, id)
	}
	if st, err := e.Result(t.Context(), s.sale, 70); !errors.Is(err, seckill.ErrBusy) {
		t.Errorf("a user without an order: %+v, %v, want busy", st, err)
	}
	if _, _, err := sums.Draw(t.Context(), s.sale, 1, "token"); !errors.Is(err, seckill.ErrBusy) {
		t.Errorf("captcha: %v, want busy", err)
	}
	if _, _, err := e.Address(t.Context(), s.sale, 70, "token", sums.Answer(s.sale, 70, "token", "1")); !errors.Is(err, seckill.ErrBusy) {
		t.Errorf("address: %v, want busy", err)
	}
	if _, err := s.retryBuy(e, 70); !errors.Is(err, goods.ErrSoldOut) {
		t.Errorf("user 70: %v, want sold out", err)
	}
	s.reconnect(proxy)
	sandboxtest.Until(t, "results are read from the gate again", func() bool {
		if st, err := e.Result(t.Context(), s.sale, 2); err == nil && st.State != seckill.Ordered {
			t.Errorf("user 2 bought while Redis was away, and has the status %+v", st)
		}
		st, err := e.Result(t.Context(), s.sale, 71)
		return err == nil && st.NoTicket()
	})
	for user, id := range s.owners() {
		if st, err := e.Result(t.Context(), s.sale, user); err != nil || st.OrderID != id {
			t.Errorf("user %d has order %s, and the status %+v, %v", user, id, st, err)
		}
	}
	s.wantConsistent()
	sandboxtest.Until(t, "the gate has 60 users and the field that CreateTickets wrote", func() bool {
		return s.rdb.HLen(t.Context(), gate.TicketsKey(s.sale)).Val() == 61
	})
}

// Without Redis no address is granted, with or without a sum: all processes count the live addresses together, and a process alone would
// be a way around the big gate. A buyer who has one buys, and Redis is back before the other does.
func TestWithoutRedisNoAddressIsGranted(t *testing.T) {
	t.Parallel()
	s := newShop(t, 10)
	rdb, proxy := s.proxied()
	e := s.start(func(_ *seckill.Config, d *seckill.Deps) { d.Redis = rdb })
	s.awaitGate()
	address, _, err := e.Address(t.Context(), s.sale, 1, "token", nil)
	if err != nil {
		t.Fatal(err)
	}
	proxy.Cut()
	sandboxtest.Until(t, "the breaker is open", func() bool { return !e.GateAvailable() })
	if address, _, err := e.Address(t.Context(), s.sale, 2, "token", nil); !errors.Is(err, seckill.ErrBusy) {
		t.Errorf("a user without an address: %q, %v, want busy", address, err)
	}
	if user, err := e.CheckAddress(s.sale, "token", address); err != nil || user != 1 {
		t.Errorf("the address of user 1 is of %d, %v", user, err)
	}
	if b, err := s.retryBuy(e, 1); err != nil || b.Status.State != seckill.Ordered {
		t.Errorf("user 1, who has an address: %+v, %v, want an order", b, err)
	}
	s.reconnect(proxy)
	sandboxtest.Until(t, "the other user is granted an address", func() bool {
		_, _, err := e.Address(t.Context(), s.sale, 2, "token", nil)
		return err == nil
	})
	s.wantConsistent()
}

// While all direct slots are taken, a click without a gate waits for one, and only until its time limit.
func TestAClickWaitsForADirectSlotUntilItsLimit(t *testing.T) {
	t.Parallel()
	s := newShop(t, 50)
	e := s.start(nil)
	s.awaitGate()
	free := e.OccupyDirectSlots()
	defer free()
	began := time.Now()
	errs := e.ServeDirectlyAfterWaiting(t.Context(), s.sale, 2500*time.Millisecond)
	if !errors.Is(errs[0], seckill.ErrBusy) {
		t.Errorf("%v, want busy", errs[0])
	}
	// of the three seconds
	if took := time.Since(began); took < 500*time.Millisecond { //timing: at least: the clock starts before
		t.Errorf("refused after %v, want half a second", took)
	}
}

// Without a gate, as with one, a buyer with an order is told of it after the sale is over.
func TestDirectOwnerSeesTheOrderAfterTheSale(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	e := s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.Gate = "off" })
	id := s.mustBuy(e, 1)
	s.setState(goods.Closed)
	if b, err := e.Buy(t.Context(), s.sale, 1); err != nil || b.Status.OrderID != id {
		t.Errorf("the owner: %+v, %v, want the order", b.Status, err)
	}
	if b, err := e.Buy(t.Context(), s.sale, 2); !errors.Is(err, goods.ErrEnded) {
		t.Errorf("another user: %+v, %v, want ended", b.Status, err)
	}
}

// One process has lost Redis and sells without the gate. A buyer whom it has told of an order clicks at another process, whose
// gate does not know the buyer yet, and hears of the same order, or busy: never of a new ticket.
func TestOrderedIsNotFollowedByQueued(t *testing.T) {
	t.Parallel()
	s := newShop(t, 100)
	rdb, proxy := s.proxied()
	direct := s.start(func(_ *seckill.Config, d *seckill.Deps) { d.Redis = rdb })
	gated := s.start(nil)
	s.awaitGate()
	if b, err := s.retryBuy(gated, 1000); err != nil || b.Status.State != seckill.Queued {
		t.Fatalf("%+v, %v, want a queued ticket", b, err)
	}
	proxy.Cut()
	for user := int64(1); user <= 30; user++ {
		id := s.mustBuy(direct, user)
		b, err := gated.Buy(t.Context(), s.sale, user)
		if err == nil && b.Status.OrderID != id || err != nil && !errors.Is(err, seckill.ErrBusy) {
			t.Errorf("user %d has order %s, and hears %s %s, %v", user, id, b.Status.State, b.Status.OrderID, err)
		}
	}
	s.wantConsistent()
	sandboxtest.Until(t, "the mark is taken off", func() bool { return !s.bypass().Bypassed() })
	for user, id := range s.owners() {
		if got := s.rdb.HGet(t.Context(), gate.TicketsKey(s.sale), fmt.Sprint(user)).Val(); got != "O"+id.String() {
			t.Errorf("the mark is off, and the gate has %q for user %d, want order %s", got, user, id)
		}
	}
}

// The first batch without the gate waits until every process has seen the mark. The next does not.
func TestFirstDirectReplyWaitsForTheMark(t *testing.T) {
	t.Parallel()
	s := newShop(t, 10)
	rdb, proxy := s.proxied()
	e := s.start(func(_ *seckill.Config, d *seckill.Deps) { d.Redis = rdb })
	s.awaitGate()
	proxy.Cut()
	sandboxtest.Until(t, "the breaker is open", func() bool { return !e.GateAvailable() })
	began := time.Now()
	go s.retryBuy(e, 1)
	sandboxtest.Until(t, "the sale is marked", func() bool { return s.bypass().Bypassed() })
	marked := time.Now()
	sandboxtest.Until(t, "a unit is sold", func() bool { return len(s.owners()) == 1 })
	if took := time.Since(began); took < seckill.SureFor { //timing: at least: the clock starts before
		t.Errorf("the first unit is sold after %v, and the mark %v after the click; want at least %v", took, marked.Sub(began), seckill.SureFor)
	}
	if wait := e.DirectWait(s.sale, s.bypass()); wait > 0 {
		t.Errorf("the second buyer would wait for %v", wait)
	}
	s.mustBuy(e, 2)
}

// What stays possible: one process has lost only Redis, another only Postgres. The second has the users' tickets in its queue
// and cannot know that the first has sold past the gate. It says queued of a ticket that waits, until its Postgres is back, and
// then the order. Of a ticket whose COMMIT it has sent it says busy, and so does a third process, which has no ticket.
func TestTwoDifferentOutagesMayContradict(t *testing.T) {
	t.Parallel()
	s := newShop(t, 10)
	rdb, noRedis := s.proxied()
	noPostgres, url := sandboxtest.ProxyTo(s, s.url)
	direct := s.start(func(_ *seckill.Config, d *seckill.Deps) { d.Redis = rdb })
	withoutPostgres := func(_ *seckill.Config, d *seckill.Deps) {
		db := s.poolAt(url, "no Postgres")
		d.DB, d.Sales, d.Orders = db, goods.New(db), order.New(db, order.Config{PayWithin: time.Hour})
		d.Cache = goods.NewCache(d.Sales)
	}
	gated, third := s.start(withoutPostgres), s.start(withoutPostgres)
	s.awaitGate()
	s.mustBuy(gated, 2)
	s.awaitFinal(third, 2)
	queue := func(user int64) {
		if b, err := s.retryBuy(gated, user); err != nil || b.Status.State != seckill.Queued {
			t.Fatalf("user %d: %+v, %v, want a queued ticket", user, b, err)
		}
	}
	letCommit := s.holdCommits()
	queue(1)
	sandboxtest.Until(t, "the COMMIT of user 1 is held", func() bool { return s.heldCommits("no Postgres") > 0 })
	noPostgres.Cut()
	queue(3)
	letCommit()
	sandboxtest.Until(t, "the order of user 1 is there", func() bool { _, has := s.owners()[1]; return has })
	noRedis.Cut()
	id := s.mustBuy(direct, 1)
	s.mustBuy(direct, 3)
	if st, err := gated.Result(t.Context(), s.sale, 1); !errors.Is(err, seckill.ErrBusy) {
		t.Errorf("of a ticket whose COMMIT is sent: %+v, %v, want busy", st, err)
	}
	if st, err := gated.Result(t.Context(), s.sale, 3); err != nil || st.State != seckill.Queued {
		t.Errorf("%+v, %v: the queue's own process knows more than it can", st, err)
	}
	if st, err := third.Result(t.Context(), s.sale, 1); !errors.Is(err, seckill.ErrBusy) {
		t.Errorf("%+v, %v, want busy", st, err)
	}
	s.rdb.HDel(t.Context(), gate.TicketsKey(s.sale), "3")
	if st, err := gated.Result(t.Context(), s.sale, 3); !errors.Is(err, seckill.ErrBusy) {
		t.Errorf("of a ticket that the gate has lost: %+v, %v, want busy", st, err)
	}
	if err := noPostgres.Join(); err != nil {
		t.Fatal(err)
	}
	if st := s.awaitFinal(gated, 1); st.OrderID != id {
		t.Errorf("%+v, want order %s", st, id)
	}
}

// Another process's ticket holds the last unit at the gate. A process without Redis sells the unit. Its owner clicks where the
// gate is sold out and does not know the owner, and hears of the order.
func TestOwnerIsNotRefusedBySoldOutGate(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1)
	s.reclaimAfter = time.Hour
	rdb, proxy := s.proxied()
	direct := s.start(func(_ *seckill.Config, d *seckill.Deps) { d.Redis = rdb })
	gated := s.start(nil)
	s.awaitGate()
	if _, err := seckill.Reserve(t.Context(), s.rdb, "slow", s.sale, 1); err != nil {
		t.Fatal(err)
	}
	s.awaitMark(gated, 2)
	proxy.Cut()
	id := s.mustBuy(direct, 3)
	for range 20 {
		if gated.SoldOut(s.sale, 3) {
			t.Error("the owner is refused as sold out")
		}
		if b, err := gated.Buy(t.Context(), s.sale, 3); err == nil && b.Status.OrderID != id || err != nil && !errors.Is(err, seckill.ErrBusy) {
			t.Errorf("the owner hears %+v, %v, want order %s", b.Status, err, id)
		}
	}
	s.reclaimAll(gated)
	s.wantConsistent()
}

// The gate has lost the ticket of a sold-out sale that this process has in its queue. A click that is confirmed in Postgres
// hears of that ticket, with its id.
func TestAClickHearsOfTheTicketThatTheGateLost(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1)
	e := s.start(nil)
	s.awaitGate()
	if _, err := s.db.Exec(t.Context(), `update sales set bypasses = bypasses + 1 where id = $1`, s.sale); err != nil {
		t.Fatal(err)
	}
	release := s.lockSale() // nothing is settled, and no process becomes sure of the gate
	b, err := s.retryBuy(e, 1)
	if err != nil || b.Status.State != seckill.Queued || b.Ticket == "" {
		t.Fatalf("%+v, %v, want a ticket", b, err)
	}
	if err := s.rdb.HDel(t.Context(), gate.TicketsKey(s.sale), "1").Err(); err != nil {
		t.Fatal(err)
	}
	var again seckill.Bought
	sandboxtest.Until(t, "a click is confirmed", func() bool { // before the next tick the process is sure of the gate
		again, err = e.Buy(t.Context(), s.sale, 1)
		return err == nil
	})
	if again.Status.State != seckill.Queued || again.Ticket != b.Ticket {
		t.Errorf("%+v, want ticket %s", again, b.Ticket)
	}
	release()
	if st := s.awaitFinal(e, 1); st.State != seckill.Ordered {
		t.Errorf("%+v, want an order", st)
	}
}

// Redis goes back to data from before the owners of direct sales were seeded. They are seeded again before any process is sure
// of the gate.
func TestSeededOwnersThatRedisForgets(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	rdb, proxy := s.proxied()
	direct := s.start(func(_ *seckill.Config, d *seckill.Deps) { d.Redis = rdb })
	s.start(nil)
	s.awaitGate()
	keys := []string{gate.GateKey(s.sale), gate.TicketsKey(s.sale)}
	var older []map[string]string
	for _, k := range keys {
		older = append(older, s.rdb.HGetAll(t.Context(), k).Val())
	}
	proxy.Cut()
	id := s.mustBuy(direct, 1)
	knows := func() bool { return s.rdb.HGet(t.Context(), gate.TicketsKey(s.sale), "1").Val() == "O"+id.String() }
	sandboxtest.Until(t, "the owner is seeded", knows)
	for i, k := range keys {
		_, err := s.rdb.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
			p.Del(t.Context(), k)
			p.HSet(t.Context(), k, older[i])
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	sandboxtest.Until(t, "the owner is seeded again", knows)
	s.wantConsistent()
}
