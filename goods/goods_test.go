package goods

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// sell publishes an open sale of total units and gives its id.
func sell(t *testing.T, db *pgxpool.Pool, total int) int64 {
	t.Helper()
	now := time.Now()
	return sellFor(t, db, Terms{Price: 100, Total: total, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour)})
}

func sellFor(t *testing.T, db *pgxpool.Pool, terms Terms) int64 {
	t.Helper()
	id, err := New(db).Sell(t.Context(), Item{Title: "kettle", ListPrice: 200}, terms)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// in runs do in a transaction that is committed if do gives no error.
func in(ctx context.Context, db *pgxpool.Pool, do func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, db, do)
}

func exec(t *testing.T, db *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func number(t *testing.T, db *pgxpool.Pool, sql string, args ...any) (n int64) {
	t.Helper()
	if err := db.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func stockOf(t *testing.T, db *pgxpool.Pool, sale int64) int64 {
	t.Helper()
	return number(t, db, `select stock from sales where id = $1`, sale)
}

// refusedBy gives the constraint that refused a statement, or the SQLSTATE where it has no name.
func refusedBy(err error) string {
	pg := new(pgconn.PgError)
	if !errors.As(err, &pg) {
		return ""
	}
	if pg.ConstraintName != "" {
		return pg.ConstraintName
	}
	return pg.Code
}

func TestTheSchemaRefusesSalesThatCannotBe(t *testing.T) {
	db := sandboxtest.DB(t)
	sale := sell(t, db, 10)
	for _, test := range []struct{ name, set, refused string }{
		{"no stock left", `stock = 0`, ""},
		{"all of the stock", `stock = total`, ""},
		{"price of nothing", `price = 0`, ""},
		{"stock below nothing", `stock = -1`, "stock_within_total"},
		{"stock above the total", `stock = total + 1`, "stock_within_total"},
		{"total below the stock", `total = 9`, "stock_within_total"},
		{"total of nothing", `total = 0, stock = 0`, "sales_total_check"},
		{"empty window", `ends_at = starts_at`, "window_not_empty"},
		{"window the wrong way round", `ends_at = starts_at - interval '1 s'`, "window_not_empty"},
		{"negative price", `price = -1`, "sales_price_check"},
		{"unknown state", `state = 'open'`, "sales_state_check"},
		{"unknown goods", `goods_id = goods_id + 1000`, "sales_goods_id_fkey"},
		{"no epoch", `epoch = null`, "23502"},
	} {
		t.Run(test.name, func(t *testing.T) {
			undo := errors.New("undo")
			err := in(t.Context(), db, func(tx pgx.Tx) error {
				tag, err := tx.Exec(t.Context(), `update sales set `+test.set+` where id = $1`, sale)
				if err == nil && tag.RowsAffected() == 1 {
					return undo
				}
				return err
			})
			if got := refusedBy(err); got != test.refused || (test.refused == "") != errors.Is(err, undo) {
				t.Errorf("refused by %q (%v), want %q", got, err, test.refused)
			}
		})
	}
	for _, test := range []struct{ name, sql, refused string }{
		{"goods without a title", `insert into goods (title) values ('')`, "goods_title_check"},
		{"goods of a negative price", `insert into goods (title, list_price) values ('x', -1)`, "goods_list_price_check"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := db.Exec(t.Context(), test.sql); refusedBy(err) != test.refused {
				t.Errorf("got %v, want it refused by %s", err, test.refused)
			}
		})
	}
}

func TestWhatIsSoldReadsBack(t *testing.T) {
	db := sandboxtest.DB(t)
	starts := time.Now().Add(-time.Minute).Truncate(time.Microsecond)
	item := Item{Title: "壶", TitleEN: "kettle", Image: "goods/kettle.svg", Detail: "好", DetailEN: "good", ListPrice: 26900}
	id, err := New(db).Sell(t.Context(), item, Terms{Price: 9900, Total: 7, StartsAt: starts, EndsAt: starts.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	got, old, err := NewCache(New(db)).Sale(t.Context(), id)
	if err != nil || old != 0 {
		t.Fatalf("%v, %v old", err, old)
	}
	want := Sale{ID: id, Title: "壶", TitleEN: "kettle", Image: "goods/kettle.svg", Detail: "好", DetailEN: "good",
		ListPrice: 26900, Price: 9900, Total: 7, Stock: 7, State: Published, StartsAt: starts, EndsAt: starts.Add(time.Hour)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestASaleThatIsRefusedLeavesNoGoods(t *testing.T) {
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
		{"no stock", Item{Title: "x"}, Terms{EndsAt: now}, "stock"},
		{"no window", Item{Title: "x"}, Terms{Total: 1, StartsAt: now, EndsAt: now}, "end"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := New(db).Sell(t.Context(), test.item, test.terms)
			if invalid := (InvalidError{}); !errors.As(err, &invalid) || invalid.Field != test.field {
				t.Errorf("got %v, want one that names %s", err, test.field)
			}
			if n := number(t, db, `select count(*) from goods`); n != 0 {
				t.Errorf("%d goods were left", n)
			}
		})
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
		{"the least", func(*Terms) {}, ""},
		{"the most", func(t *Terms) { t.Total, t.Price = 1<<31-1, 1<<63-1 }, ""},
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
				t.Errorf("got %v, want one that names %q", err, test.field)
			}
		})
	}
}

func TestWindow(t *testing.T) {
	opens := time.Date(2026, 11, 11, 20, 0, 0, 0, time.UTC)
	ends := opens.Add(time.Hour)
	for _, test := range []struct {
		name, state string
		now         time.Time
		want        error
	}{
		{"the first instant", Published, opens, nil},
		{"the last instant", Published, ends.Add(-1), nil},
		{"just before", Published, opens.Add(-1), NotStartedError{In: 1}},
		{"just after", Published, ends, ErrEnded},
		{"paused", Paused, opens, ErrPaused},
		{"paused and to come", Paused, opens.Add(-time.Second), NotStartedError{In: time.Second}},
		{"paused and over", Paused, ends, ErrEnded},
		{"closed", Closed, opens, ErrEnded},
		{"closed and to come", Closed, opens.Add(-1), ErrEnded},
		{"draft", Draft, opens, ErrNoSale},
	} {
		t.Run(test.name, func(t *testing.T) {
			sale := Sale{State: test.state, StartsAt: opens, EndsAt: ends}
			locked := Locked{State: test.state, StartsAt: opens, EndsAt: ends, Now: test.now}
			if a, b := sale.Window(test.now), locked.Window(); a != test.want || b != test.want {
				t.Errorf("got %v and under lock %v, want %v", a, b, test.want)
			}
		})
	}
}

func TestParseWindow(t *testing.T) {
	now := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	at := time.Date(2026, 11, 11, 20, 0, 0, 0, time.FixedZone("", 8*3600)) // the same instant
	for _, test := range []struct {
		start, end string
		from, to   time.Time
		field      string
	}{
		{"now", "1h", now, now.Add(time.Hour), ""},
		{"30s", "1h30m", now.Add(30 * time.Second), now.Add(time.Hour + 30*time.Minute + 30*time.Second), ""},
		{"-1m", "5m", now.Add(-time.Minute), now.Add(4 * time.Minute), ""},
		{"2026-11-11T20:00:00+08:00", "10m", at, at.Add(10 * time.Minute), ""},
		{"now", "2026-11-11T13:00:00Z", now, now.Add(time.Hour), ""},
		{"2026-11-12T00:00:00Z", "2026-11-13T00:00:00Z", now.Add(12 * time.Hour), now.Add(36 * time.Hour), ""},
		{"", "1h", time.Time{}, time.Time{}, "start"},
		{"tomorrow", "1h", time.Time{}, time.Time{}, "start"},
		{"2026-11-11", "1h", time.Time{}, time.Time{}, "start"},
		{"2026-11-11T20:00:00", "1h", time.Time{}, time.Time{}, "start"}, // in which zone?
		{"5", "1h", time.Time{}, time.Time{}, "start"},                   // of what?
		{"now", "", time.Time{}, time.Time{}, "end"},
		{"now", "now", time.Time{}, time.Time{}, "end"},
		{"now", "60", time.Time{}, time.Time{}, "end"},
	} {
		t.Run(test.start+" to "+test.end, func(t *testing.T) {
			from, to, err := ParseWindow(test.start, test.end, now)
			invalid := InvalidError{}
			if errors.As(err, &invalid); invalid.Field != test.field || (err == nil) != (test.field == "") {
				t.Fatalf("got %v, want one that names %q", err, test.field)
			}
			if err == nil && !(from.Equal(test.from) && to.Equal(test.to)) {
				t.Errorf("got %v to %v, want %v to %v", from, to, test.from, test.to)
			}
		})
	}
}
