package goods

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/seckill/sandbox/sandboxtest"
)

// figures are the demo shop as a visitor finds it: Soon opens within a minute, Later waits in a slot.
type figures struct{ Goods, Sales, Open, Soon, Later int64 }

func look(t *testing.T, db *pgxpool.Pool) (f figures) {
	t.Helper()
	err := db.QueryRow(t.Context(), `
		select (select count(*) from goods where demo), count(*),
		       count(*) filter (where starts_at <= now() and ends_at > now() and stock > 0),
		       count(*) filter (where starts_at > now() and starts_at <= now() + interval '1 minute' and ends_at - starts_at <> $1::interval),
		       count(*) filter (where starts_at > now() and ends_at - starts_at = $1::interval)
		from   sales
		where  state = 'published'`, SlotLength).Scan(&f.Goods, &f.Sales, &f.Open, &f.Soon, &f.Later)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func fill(t *testing.T, s *Store, start bool) {
	t.Helper()
	if err := s.fillDemo(t.Context(), zone(t, "Asia/Shanghai"), start); err != nil {
		t.Fatal(err)
	}
}

func TestTheDemoShopIsOpen(t *testing.T) {
	db := sandboxtest.DB(t)
	s := New(db)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- s.Demo(ctx, zone(t, "Asia/Shanghai"), func() { close(ready) }, func(err error) { t.Error(err) })
	}()
	<-ready
	got := look(t, db)
	stop()
	if err := <-ended; err != nil {
		t.Errorf("stopped by its context: %v", err)
	}
	if got.Open < 3 || got.Soon != 1 || got.Later < 3 || got.Goods != got.Sales {
		t.Errorf("the shop has %+v; want some open, one that opens within a minute, some later", got)
	}
	// Those that come later wait in slots of the menu.
	slots := map[time.Time]bool{}
	for _, slot := range Slots(time.Now().In(zone(t, "Asia/Shanghai"))) {
		slots[slot.StartAt.UTC()] = true
	}
	sales, err := s.live(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sale := range sales {
		if sale.EndsAt.Sub(sale.StartsAt) == SlotLength && !slots[sale.StartsAt.UTC()] {
			t.Errorf("sale %d begins at %v, which is no slot", sale.ID, sale.StartsAt)
		}
		if sale.Price <= 0 || sale.Price > sale.ListPrice || sale.Title == "" || sale.TitleEN == "" || sale.Image == "" {
			t.Errorf("not much of an offer: %+v", sale)
		}
	}
}

func TestFillingTheDemoShopAgainMakesNothingTwice(t *testing.T) {
	db := sandboxtest.DB(t)
	s := New(db)
	fill(t, s, true)
	want := look(t, db)
	if want.Sales == 0 {
		t.Fatal("nothing was filled in")
	}
	for _, start := range []bool{false, true, true, false} { // true: a process that starts
		fill(t, s, start)
		if diff := cmp.Diff(want, look(t, db)); diff != "" {
			t.Errorf("starting %v: %s", start, diff)
		}
	}
}

func TestProcessesThatFillTheDemoShopAtOnceMakeNoDoubles(t *testing.T) {
	alone := sandboxtest.DB(t)
	fill(t, New(alone), true)
	want := look(t, alone)

	url := sandboxtest.DatabaseURL(t)
	var processes sync.WaitGroup
	var last *pgxpool.Pool
	for range 5 {
		db, err := pgxpool.New(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(db.Close)
		last = db
		processes.Go(func() {
			if err := New(db).fillDemo(t.Context(), time.UTC, true); err != nil {
				t.Error(err)
			}
		})
	}
	processes.Wait()
	got := look(t, last)
	if got.Goods != want.Goods || got.Sales != want.Sales {
		t.Errorf("five at once made %+v, one alone %+v", got, want)
	}
}

func TestWhenDemoSalesEndNewOnesBegin(t *testing.T) {
	db := sandboxtest.DB(t)
	s := New(db)
	fill(t, s, true)
	first := look(t, db)
	exec(t, db, `update sales set starts_at = now() - interval '2 hours', ends_at = now() - interval '1 second'`)
	fill(t, s, false)
	got := look(t, db)
	if want := (figures{first.Goods, 2 * first.Sales, first.Open, first.Soon, first.Later}); got != want {
		t.Errorf("after all sales ended the shop has %+v, want %+v", got, want)
	}
}

func TestWhenADemoSaleIsSoldOutAnotherOpensSoon(t *testing.T) {
	db := sandboxtest.DB(t)
	s := New(db)
	fill(t, s, true)
	first := look(t, db)
	exec(t, db, `update sales set stock = 0 where starts_at <= now()`)
	fill(t, s, false)
	if got := look(t, db); got.Sales != first.Sales {
		t.Errorf("at once there are %d more, want none yet", got.Sales-first.Sales)
	}
	exec(t, db, `update sales set starts_at = now() - $1::interval where starts_at <= now()`, soonAgain+time.Second)
	for range 2 {
		fill(t, s, false)
		if got := look(t, db); got.Sales != first.Sales+first.Open || got.Soon != first.Soon+first.Open {
			t.Errorf("three minutes on the shop has %+v, want another soon for each of the %d", got, first.Open)
		}
	}
}

func TestTheOpeningDemoSaleOpensAgainAndAgain(t *testing.T) {
	db := sandboxtest.DB(t)
	s := New(db)
	fill(t, s, true)
	first := look(t, db)
	exec(t, db, `update sales set starts_at = now() - $1::interval where starts_at between now() and now() + interval '1 minute'`, soonAgain+time.Second)
	for range 2 {
		fill(t, s, false)
		if got := look(t, db); got.Soon != 1 || got.Sales != first.Sales+1 {
			t.Errorf("three minutes after it opened the shop has %+v, want one more that opens soon", got)
		}
	}
}

// While Postgres is away Demo says so and goes on; the sandbox's may take a while to come.
func TestDemoReportsFaultsAndStopsInPeace(t *testing.T) {
	db := sandboxtest.DB(t)
	db.Close()
	ctx, stop := context.WithCancel(t.Context())
	faults := 0
	err := New(db).Demo(ctx, time.UTC, func() { t.Error("ready, without a database") }, func(err error) {
		faults++
		stop()
	})
	if err != nil || faults != 1 {
		t.Errorf("%d faults, %v; want one and no error", faults, err)
	}
}
