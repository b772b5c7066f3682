package goods

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/seckill/sandbox/sandboxtest"
)

// counts are the numbers of a demo shop: Soon are the sales that open within a minute, Later those
// in a slot.
type counts struct{ Goods, Sales, Open, Soon, Later int64 }

func countDemo(t *testing.T, db *pgxpool.Pool) counts {
	t.Helper()
	rows, _ := db.Query(t.Context(), `
		select (select count(*) from goods where demo) as goods, count(*) as sales,
		       count(*) filter (where starts_at <= now() and ends_at > now() and stock > 0) as open,
		       count(*) filter (where starts_at > now() and starts_at <= now() + interval '1 minute' and ends_at - starts_at <> $1::interval) as soon,
		       count(*) filter (where starts_at > now() and ends_at - starts_at = $1::interval) as later
		from   sales
		where  state = 'published'`, SlotLength)
	c, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[counts])
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func fill(t *testing.T, s *Store, start bool) {
	t.Helper()
	if err := s.fillDemo(t.Context(), zone(t, "Asia/Shanghai"), start); err != nil {
		t.Fatal(err)
	}
}

func TestDemoOpensTheShop(t *testing.T) {
	db := sandboxtest.DB(t)
	s := New(db)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- s.Demo(ctx, zone(t, "Asia/Shanghai"), func() { close(ready) }, func(err error) { t.Error(err) })
	}()
	<-ready
	got := countDemo(t, db)
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Demo returned %v after its context ended, want nil", err)
	}
	if got.Open < 3 || got.Later < 3 {
		t.Errorf("the shop has %+v; want at least 3 open and 3 later", got)
	}
	if got.Soon != 1 {
		t.Errorf("the shop has %+v; want one sale that opens within a minute", got)
	}
	if got.Goods != got.Sales {
		t.Errorf("the shop has %+v; want one sale of each of the goods", got)
	}
	// The later sales are in slots of the menu.
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
			t.Errorf("sale %d begins at %v, which is not the start of a slot", sale.ID, sale.StartsAt)
		}
		if sale.Price <= 0 || sale.Price > sale.ListPrice {
			t.Errorf("sale %d has price %d and list price %d", sale.ID, sale.Price, sale.ListPrice)
		}
		if slices.Contains([]string{sale.Title, sale.TitleEN, sale.Image}, "") {
			t.Errorf("a title or the image is missing: %+v", sale)
		}
	}
}

func TestFillingTheDemoShopAgainAddsNothing(t *testing.T) {
	db := sandboxtest.DB(t)
	s := New(db)
	fill(t, s, true)
	catalogue := func() (all string) {
		t.Helper()
		if err := db.QueryRow(t.Context(), `
			select coalesce((select string_agg(to_jsonb(g)::text, ' ' order by id) from goods g), '') || coalesce(string_agg(to_jsonb(s)::text, ' ' order by id), '')
			from   sales s`).Scan(&all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	if countDemo(t, db).Sales == 0 {
		t.Fatal("no sale was published")
	}
	want := catalogue()
	for _, start := range []bool{false, true, true, false} { // true: the first round of a process
		fill(t, s, start)
		if diff := cmp.Diff(want, catalogue()); diff != "" {
			t.Errorf("start %v: %s", start, diff)
		}
	}
}

func TestConcurrentProcessesFillTheDemoShopOnce(t *testing.T) {
	alone := sandboxtest.DB(t)
	fill(t, New(alone), true)
	want := countDemo(t, alone)

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
	got := countDemo(t, last)
	if got.Goods != want.Goods || got.Sales != want.Sales {
		t.Errorf("five processes made %+v, one process makes %+v", got, want)
	}
}

func TestDemoSalesThatEndAreReplaced(t *testing.T) {
	db := sandboxtest.DB(t)
	s := New(db)
	fill(t, s, true)
	first := countDemo(t, db)
	exec(t, db, `update sales set starts_at = now() - interval '2 hours', ends_at = now() - interval '1 second'`)
	fill(t, s, false)
	got := countDemo(t, db)
	if want := (counts{first.Goods, 2 * first.Sales, first.Open, first.Soon, first.Later}); got != want {
		t.Errorf("after all sales ended the shop has %+v, want %+v", got, want)
	}
}

func TestASoldOutDemoSaleIsFollowedByAnother(t *testing.T) {
	db := sandboxtest.DB(t)
	s := New(db)
	fill(t, s, true)
	first := countDemo(t, db)
	exec(t, db, `update sales set stock = 0 where starts_at <= now()`)
	fill(t, s, false)
	if got := countDemo(t, db); got.Sales != first.Sales {
		t.Errorf("%d sales were added at once, want none yet", got.Sales-first.Sales)
	}
	exec(t, db, `update sales set starts_at = now() - $1::interval where starts_at <= now()`, opensAgain+time.Second)
	for range 2 {
		fill(t, s, false)
		if got := countDemo(t, db); got.Sales != first.Sales+first.Open || got.Soon != first.Soon+first.Open {
			t.Errorf("three minutes later the shop has %+v, want one more that opens soon for each of the %d", got, first.Open)
		}
	}
}

func TestTheOpeningDemoSaleIsRepeated(t *testing.T) {
	db := sandboxtest.DB(t)
	s := New(db)
	fill(t, s, true)
	first := countDemo(t, db)
	exec(t, db, `update sales set starts_at = now() - $1::interval where starts_at between now() and now() + interval '1 minute'`, opensAgain+time.Second)
	for range 2 {
		fill(t, s, false)
		if got := countDemo(t, db); got.Soon != 1 || got.Sales != first.Sales+1 {
			t.Errorf("three minutes after it opened the shop has %+v, want one more that opens soon", got)
		}
	}
}

// While Postgres is unavailable, Demo reports faults and tries again: the sandbox's Postgres may
// start later.
func TestDemoReportsFaultsAndStops(t *testing.T) {
	db := sandboxtest.DB(t)
	db.Close()
	ctx, stop := context.WithCancel(t.Context())
	faults := 0
	err := New(db).Demo(ctx, time.UTC, func() { t.Error("ready was called without a database") }, func(err error) {
		faults++
		stop()
	})
	if err != nil || faults != 1 {
		t.Errorf("%d faults, %v; want one fault and no error", faults, err)
	}
}
