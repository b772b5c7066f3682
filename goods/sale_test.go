package goods

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestASaleReadsBackAsWritten(t *testing.T) {
	db := sandboxtest.DB(t)
	starts := time.Now().Add(-time.Minute).Truncate(time.Microsecond)
	item := Item{Title: "壶", TitleEN: "kettle", Image: "goods/kettle.svg", Detail: "好", DetailEN: "good", ListPrice: 26900}
	id, err := New(db).Sell(t.Context(), item, Terms{Price: 9900, Total: 7, StartsAt: starts, EndsAt: starts.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	got, old, err := NewCache(New(db)).Sale(t.Context(), id)
	if err != nil || old != 0 {
		t.Fatalf("error %v, age %v; want none and 0", err, old)
	}
	want := Sale{ID: id, Title: "壶", TitleEN: "kettle", Image: "goods/kettle.svg", Detail: "好", DetailEN: "good",
		ListPrice: 26900, Price: 9900, Total: 7, Stock: 7, State: Published, StartsAt: starts, EndsAt: starts.Add(time.Hour)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestARefusedSaleLeavesNoGoods(t *testing.T) {
	db := sandboxtest.DB(t)
	now := time.Now()
	for _, test := range []struct {
		name  string
		item  Item
		terms Terms
		field string
	}{
		{"no title", Item{}, Terms{Total: 1, EndsAt: now}, "title"},
		{"negative list price", Item{Title: "x", ListPrice: -1}, Terms{Total: 1, EndsAt: now}, "list-price"},
		{"a list price out of range", Item{Title: "x", ListPrice: PriceMax + 1}, Terms{Total: 1, StartsAt: now, EndsAt: now.Add(1)}, "list-price"},
		{"no stock", Item{Title: "x"}, Terms{EndsAt: now}, "stock"},
		{"no window", Item{Title: "x"}, Terms{Total: 1, StartsAt: now, EndsAt: now}, "end"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := New(db).Sell(t.Context(), test.item, test.terms)
			if invalid := (InvalidError{}); !errors.As(err, &invalid) || invalid.Field != test.field {
				t.Errorf("got %v, want an InvalidError of field %s", err, test.field)
			}
			if n := number(t, db, `select count(*) from goods`); n != 0 {
				t.Errorf("%d goods are left, want none", n)
			}
		})
	}
}

// The money for all units of the largest sale is an int64.
func TestASumOfTheLargestSaleFits(t *testing.T) {
	db := sandboxtest.DB(t)
	var sum int64
	if err := db.QueryRow(t.Context(), `select $1::bigint * $2::bigint`, int64(StockMax), int64(PriceMax)).Scan(&sum); err != nil || sum/PriceMax != StockMax {
		t.Errorf("%d, %v", sum, err)
	}
}

func TestTermsValidate(t *testing.T) {
	now := time.Now()
	good := Terms{Price: 0, Total: 1, StartsAt: now, EndsAt: now.Add(1)}
	for _, test := range []struct {
		name  string
		spoil func(*Terms)
		field string
	}{
		{"smallest terms", func(*Terms) {}, ""},
		{"largest terms", func(t *Terms) {
			t.Total, t.Price, t.EndsAt = StockMax, PriceMax, time.Date(2099, 12, 31, 23, 59, 59, 0, time.UTC)
		}, ""},
		{"a price of ten million yuan", func(t *Terms) { t.Price = PriceMax + 1 }, "price"},
		{"the largest price of the column", func(t *Terms) { t.Price = 1<<63 - 1 }, "price"},
		{"starts in the last century", func(t *Terms) { t.StartsAt = time.Date(1999, 12, 31, 23, 59, 59, 0, time.UTC) }, "start"},
		{"ends in the next one", func(t *Terms) {
			t.EndsAt = time.Date(2100, 1, 1, 7, 0, 0, 0, time.FixedZone("Shanghai", 8*3600)).Add(time.Hour)
		}, "end"},
		{"negative price", func(t *Terms) { t.Price = -1 }, "price"},
		{"no units", func(t *Terms) { t.Total = 0 }, "stock"},
		{"negative units", func(t *Terms) { t.Total = -5 }, "stock"},
		{"more units than the column holds", func(t *Terms) { t.Total = 1 << 31 }, "stock"},
		{"ends as it starts", func(t *Terms) { t.EndsAt = t.StartsAt }, "end"},
		{"ends before it starts", func(t *Terms) { t.EndsAt = t.StartsAt.Add(-1) }, "end"},
	} {
		t.Run(test.name, func(t *testing.T) {
			terms := good
			test.spoil(&terms)
			err, invalid := terms.Validate(), InvalidError{}
			if errors.As(err, &invalid); invalid.Field != test.field || (test.field == "") != (err == nil) {
				t.Errorf("got %v, want an InvalidError of field %q", err, test.field)
			}
		})
	}
}
