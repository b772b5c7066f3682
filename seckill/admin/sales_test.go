package admin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"miaosha/goods"
)

func TestASaleIsMadeAndListed(t *testing.T) {
	s, _, first := newShop(t)
	now := time.Now().Truncate(time.Microsecond)
	terms := goods.Terms{Price: 5, Total: 7, StartsAt: now.Add(time.Hour), EndsAt: now.Add(2 * time.Hour)}
	item := goods.Item{Title: "茶", TitleEN: "Tea", Image: "goods/teaset.svg", ListPrice: 9}
	id, err := s.AddSale(t.Context(), keeper, NewSale{Item: item, Terms: terms, State: goods.Draft})
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.AddSale(t.Context(), keeper, NewSale{GoodsID: 2, Terms: terms, State: goods.Published})
	if err != nil {
		t.Fatal(err)
	}
	want := Sale{ID: id, GoodsID: 2, Title: "茶", TitleEN: "Tea", Image: "goods/teaset.svg", Price: 5, ListPrice: 9, State: goods.Draft,
		StartsAt: terms.StartsAt, EndsAt: terms.EndsAt, Total: 7, Left: 7}
	got, err := s.Sale(t.Context(), id)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Sale{}, "CreatedAt")); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if _, err := s.AddSale(t.Context(), keeper, NewSale{GoodsID: 99, Terms: terms, State: goods.Draft}); !errors.As(err, new(goods.InvalidError)) {
		t.Errorf("goods that do not exist: %v", err)
	}
	if _, err := s.Sale(t.Context(), 99); !errors.Is(err, goods.ErrNoSale) {
		t.Errorf("a sale that does not exist: %v", err)
	}
	for name, c := range map[string]struct {
		f    SaleFilter
		want []int64
	}{
		"all":          {SaleFilter{}, []int64{again, id, first}},
		"drafts":       {SaleFilter{State: goods.Draft}, []int64{id}},
		"of the goods": {SaleFilter{GoodsID: 2}, []int64{again, id}},
		"older ones":   {SaleFilter{Cursor: id}, []int64{first}},
		"none":         {SaleFilter{State: goods.Closed}, nil},
	} {
		sales, next, err := s.Sales(t.Context(), c.f)
		var ids []int64
		for _, sale := range sales {
			ids = append(ids, sale.ID)
		}
		if err != nil || next != 0 || !cmp.Equal(ids, c.want) {
			t.Errorf("%s: %v, next %d, %v; want %v", name, ids, next, err, c.want)
		}
	}
}

// The orders of a page of sales are counted in one read of the orders, however many sales there are. A unit that came back is neither
// pending nor paid.
func TestOrdersOfSalesAreCountedTogether(t *testing.T) {
	s := newOrderShop(t, 6)
	s.pay(t, 3)
	for n, do := range map[int]func(context.Context, By, uuid.UUID) error{0: s.Refund, 5: s.Cancel} {
		if err := do(t.Context(), keeper, s.ids[n]); err != nil {
			t.Fatal(err)
		}
	}
	sales, _, err := s.Sales(t.Context(), SaleFilter{})
	if err != nil || len(sales) != 2 {
		t.Fatal(sales, err)
	}
	one, err := s.Sale(t.Context(), s.sale)
	for _, sale := range []Sale{sales[0], one} {
		if sale.ID != s.sale || sale.Pending != 2 || sale.Paid != 2 || sale.Left != 7 || err != nil {
			t.Errorf("%+v, %v; want 2 pending and 2 paid orders, and 7 units left", sale, err)
		}
	}
	if other := sales[1]; other.Pending != 0 || other.Paid != 0 {
		t.Errorf("a sale without orders has %+v", other)
	}
	rows, _ := s.db.Query(t.Context(), "explain (analyze, costs off, timing off) "+pageOfSales, pgx.QueryExecModeCacheDescribe, "", int64(0), int64(0), salePage)
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	plan = slices.DeleteFunc(plan, func(line string) bool { return !strings.Contains(line, " on orders (") })
	if len(plan) != 1 || !strings.Contains(plan[0], "loops=1)") {
		t.Errorf("the orders are read by %q, want one read", plan)
	}
}

func TestSalesComeInPages(t *testing.T) {
	s, _, _ := newShop(t)
	now := time.Now()
	for range 2 * salePage {
		if _, err := s.AddSale(t.Context(), keeper, NewSale{GoodsID: 1, State: goods.Draft,
			Terms: goods.Terms{Total: 1, StartsAt: now, EndsAt: now.Add(time.Hour)}}); err != nil {
			t.Fatal(err)
		}
	}
	var sizes []int
	last := int64(1 << 60)
	for f := (SaleFilter{}); ; {
		sales, next, err := s.Sales(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, sale := range sales {
			if sale.ID >= last {
				t.Errorf("sale %d comes after %d", sale.ID, last)
			}
			last = sale.ID
		}
		sizes = append(sizes, len(sales))
		if f.Cursor = next; next == 0 {
			break
		}
	}
	if want := []int{salePage, salePage, 1}; !cmp.Equal(sizes, want) {
		t.Errorf("the pages have %v sales, want %v", sizes, want)
	}
}

// Two of the staff add and take units, pause and resume, while many buy: no unit appears or is lost, and the log's lines follow
// each other without a gap.
func TestTheStaffActsInARush(t *testing.T) {
	s, db, sale := newShop(t)
	var bought atomic.Int64
	var buyers, staff sync.WaitGroup
	stop, cancel := context.WithCancel(t.Context())
	for range 3 {
		buyers.Go(func() {
			for stop.Err() == nil {
				err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
					if _, err := goods.Lock(t.Context(), tx, sale); err != nil {
						return err
					}
					return goods.Take(t.Context(), tx, sale, 1)
				})
				if err == nil {
					bought.Add(1)
				} else if !errors.Is(err, goods.ErrSoldOut) {
					t.Error(err)
				}
			}
		})
	}
	for _, delta := range []int{3, -2} {
		staff.Go(func() {
			for range 12 {
				_, err := s.ChangeSale(t.Context(), keeper, "units", sale, func(g *goods.Store, ctx context.Context, id int64) (int64, error) {
					return g.AddUnits(ctx, id, delta)
				})
				_, paused := s.Pause(t.Context(), keeper, sale)
				_, resumed := s.Resume(t.Context(), keeper, sale)
				for _, err := range []error{err, paused, resumed} {
					if err != nil && !errors.As(err, new(goods.TransitionError)) {
						t.Error(err)
					}
				}
			}
		})
	}
	staff.Wait()
	cancel()
	buyers.Wait()
	var total, left int64
	if err := db.QueryRow(t.Context(), `select total, stock from sales where id = $1`, sale).Scan(&total, &left); err != nil {
		t.Fatal(err)
	}
	if left+bought.Load() != total || bought.Load() == 0 {
		t.Errorf("%d units, %d left and %d bought", total, left, bought.Load())
	}
	var gaps int
	if err := db.QueryRow(t.Context(), `
		select count(*) from (select before->>'total' as was, before->>'state' as state, lag(after->>'total') over (order by id) as is_now,
		                             lag(after->>'state') over (order by id) as state_now from admin_log) l
		where  (was, state) is distinct from (is_now, state_now) and is_now is not null`).Scan(&gaps); err != nil || gaps > 0 {
		t.Errorf("%d lines do not begin where the one before ended, %v", gaps, err)
	}
}
