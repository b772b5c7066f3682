package admin

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/goods"
	"miaosha/seckill/sandbox/sandboxtest"
)

// planDue adds a plan whose time has come.
func planDue(t *testing.T, s *Store, db *pgxpool.Pool, sale int64, do string) (id int64) {
	t.Helper()
	_, err := db.Exec(t.Context(), `
		insert into users (id, phone, role) overriding system value values ($1, '13900000007', 'admin') on conflict do nothing`, keeper.UserID)
	if err != nil {
		t.Fatal(err)
	}
	id, err = s.AddPlan(t.Context(), keeper, sale, do, time.Now().Add(time.Hour))
	if err == nil {
		_, err = db.Exec(t.Context(), `update sale_plans set at = now() - interval '1 minute' where id = $1`, id)
	}
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// plans returns the plans of a sale, newest first, without their times.
func plans(t *testing.T, s *Store, sale int64) []Plan {
	t.Helper()
	all, err := s.Plans(t.Context(), sale)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if (all[i].DoneAt == nil) != (all[i].State == "planned") {
			t.Errorf("plan %d is %s, done at %v", all[i].ID, all[i].State, all[i].DoneAt)
		}
		all[i].At, all[i].DoneAt, all[i].CreatedAt, all[i].ByUser = time.Time{}, nil, time.Time{}, nil
	}
	return all
}

func TestPlansAreCarriedOutInTheirOrder(t *testing.T) {
	s, db, sale := newShop(t)
	planDue(t, s, db, sale, "pause")
	planDue(t, s, db, sale, "publish") // the sale refuses it: it is paused
	planDue(t, s, db, sale, "resume")
	if _, err := s.AddPlan(t.Context(), keeper, sale, "close", time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if did, err := s.runPlan(t.Context()); !did || err != nil {
			t.Fatal(did, err)
		}
	}
	if did, err := s.runPlan(t.Context()); did || err != nil {
		t.Errorf("a plan of the future: %v, %v", did, err)
	}
	want := []Plan{{ID: 4, Action: "close", State: "planned"}, {ID: 3, Action: "resume", State: "done"},
		{ID: 2, Action: "publish", State: "failed", Why: goods.Paused}, {ID: 1, Action: "pause", State: "done"}}
	if diff := cmp.Diff(want, plans(t, s, sale)); diff != "" {
		t.Error(diff)
	}
	log := []string{"sale.resume sale 1 plan 3", "plan.fail sale 1 plan 2", "sale.pause sale 1 plan 1"}
	if diff := cmp.Diff(log, lines(t, s)[:3]); diff != "" {
		t.Error(diff)
	}
	if line, _, err := s.Log(t.Context(), whole, LogFilter{Action: "sale.resume"}); err != nil || len(line) != 1 || line[0].ByUser == nil || *line[0].ByUser != keeper.UserID {
		t.Errorf("%+v, %v: want a line of who planned it", line, err)
	}
}

// Many processes carry out each plan once. One that dies in the middle has done nothing.
func TestEachPlanIsDoneOnce(t *testing.T) {
	s, db, sale := newShop(t)
	const n = 10
	for range n {
		planDue(t, s, db, sale, "pause")
		planDue(t, s, db, sale, "resume")
	}
	dead, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Rollback(context.Background()) // the database is dropped at the end, which waits for it
	if _, err := dead.Exec(t.Context(), `select from sale_plans where id = 1 for update`); err != nil {
		t.Fatal(err)
	}
	if did, err := s.runPlan(t.Context()); did || err != nil { // the resume would fail, and the pause come after it
		t.Errorf("a plan behind one that a process has: %v, %v", did, err)
	}
	other, err := s.AddSale(t.Context(), keeper, NewSale{GoodsID: 1, State: goods.Draft,
		Terms: goods.Terms{Price: 9900, Total: 5, StartsAt: time.Now(), EndsAt: time.Now().Add(time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	planDue(t, s, db, other, "publish")
	if did, err := s.runPlan(t.Context()); !did || err != nil {
		t.Errorf("a plan of another sale: %v, %v", did, err)
	}
	if err := dead.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	background, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var processes []*Store
	for range 4 {
		process := New(db, s.orders, nil)
		running.Go(func() {
			process.RunPlans(background, func(err error) {
				if !errors.Is(err, context.DeadlineExceeded) { // a slow machine tries again
					t.Error(err)
				}
			})
		})
		processes = append(processes, process)
	}
	sandboxtest.Until(t, "no plan is left", func() bool {
		for _, process := range processes {
			process.plans.Soon()
		}
		var open int
		if err := db.QueryRow(t.Context(), `select count(*) from sale_plans where state = 'planned'`).Scan(&open); err != nil {
			t.Fatal(err)
		}
		return open == 0
	})
	stop()
	running.Wait()
	var done, changes int
	if err := db.QueryRow(t.Context(), `
		select (select count(*) from sale_plans where state = 'done'), (select count(*) from admin_log where origin like 'plan %' and action like 'sale.%')`).Scan(&done, &changes); err != nil {
		t.Fatal(err)
	}
	if done != changes || done != 2*n+1 {
		t.Errorf("%d plans are done, and the log has %d changes; want %d", done, changes, 2*n+1)
	}
}

// A plan has the rights that its planner has when it is due.
func TestAPlanNeedsItsPlanner(t *testing.T) {
	for name, change := range map[string]string{"demoted": `update users set role = 'viewer'`, "disabled": `update users set disabled_at = now()`} {
		t.Run(name, func(t *testing.T) {
			s, db, sale := newShop(t)
			planDue(t, s, db, sale, "pause")
			if _, err := db.Exec(t.Context(), change); err != nil {
				t.Fatal(err)
			}
			if did, err := s.runPlan(t.Context()); !did || err != nil {
				t.Fatal(did, err)
			}
			want := []Plan{{ID: 1, Action: "pause", State: "failed", Why: NotStaff}}
			if diff := cmp.Diff(want, plans(t, s, sale)); diff != "" {
				t.Error(diff)
			}
			if now, err := s.Sale(t.Context(), sale); err != nil || now.State != goods.Published {
				t.Errorf("the sale is %s, %v; want published", now.State, err)
			}
			if got := lines(t, s)[0]; got != "plan.fail sale 1 plan 1" {
				t.Errorf("the log ends with %s", got)
			}
		})
	}
}

// What was planned at a terminal has no planner, and is done.
func TestAPlanOfACommandIsDone(t *testing.T) {
	s, db, sale := newShop(t)
	planDue(t, s, db, sale, "pause")
	if _, err := db.Exec(t.Context(), `update sale_plans set by_user = null`); err != nil {
		t.Fatal(err)
	}
	if did, err := s.runPlan(t.Context()); !did || err != nil {
		t.Fatal(did, err)
	}
	if got := plans(t, s, sale)[0].State; got != "done" {
		t.Errorf("the plan is %s", got)
	}
}

func TestPlansThatCannotBe(t *testing.T) {
	s, db, sale := newShop(t)
	later := time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		sale int64
		do   string
		at   time.Time
		want error
	}{
		"no such sale":   {99, "pause", later, goods.ErrNoSale},
		"no such change": {sale, "draft", later, PlanError{"action", "value"}},
		"over":           {sale, "pause", time.Now().Add(-time.Second), PlanError{"at", "past"}},
	} {
		if _, err := s.AddPlan(t.Context(), keeper, c.sale, c.do, c.at); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	id := planDue(t, s, db, sale, "pause")
	if err := s.CancelPlan(t.Context(), keeper, id); err != nil {
		t.Fatal(err)
	}
	if did, err := s.runPlan(t.Context()); did || err != nil {
		t.Errorf("a cancelled plan: %v, %v", did, err)
	}
	if err := s.CancelPlan(t.Context(), keeper, id); !errors.Is(err, ErrNotPlanned) {
		t.Errorf("cancelled twice: %v", err)
	}
	if err := s.CancelPlan(t.Context(), keeper, 99); !errors.Is(err, ErrNoPlan) {
		t.Errorf("no plan: %v", err)
	}
	want := []Plan{{ID: id, Action: "pause", State: "cancelled"}}
	if diff := cmp.Diff(want, plans(t, s, sale), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"plan.cancel sale 1 127.0.0.1", "plan.create sale 1 127.0.0.1"}, lines(t, s)); diff != "" {
		t.Error(diff)
	}
}

// Four of twenty sales are locked. What is planned for the others is done meanwhile, what the staff does to them too, and what
// is planned for the four when the lock is gone.
func TestLockedSalesDoNotStopThePlans(t *testing.T) {
	s, db, sale := newShop(t)
	sales, now := []int64{sale}, time.Now()
	for len(sales) < 20 {
		sale, err := goods.New(db).Sell(t.Context(), goods.Item{Title: "kettle"}, goods.Terms{Price: 9900, Total: 5, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		sales = append(sales, sale)
	}
	for _, sale := range sales {
		planDue(t, s, db, sale, "pause")
	}
	tx, err := db.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), `select from sales where id = any($1) for no key update`, sales[:4])
	}
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	paused := func() (n int) {
		if _, err := s.runPlan(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := db.QueryRow(t.Context(), `select count(*) from sales where state = 'paused'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	sandboxtest.Until(t, "the others are paused", func() bool { return paused() == 16 })
	busy := make(chan error, 8)
	for range cap(busy) {
		go func() {
			_, err := s.Pause(t.Context(), keeper, sales[0])
			busy <- err
		}()
	}
	if _, err := s.Resume(t.Context(), keeper, sales[4]); err != nil {
		t.Error(err)
	}
	for range cap(busy) {
		if err := <-busy; !errors.Is(err, goods.ErrLocked) {
			t.Errorf("a change of a locked sale: %v, want ErrLocked", err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	sandboxtest.Until(t, "the four are paused", func() bool { return paused() == 19 })
}
