package goods

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// sell publishes an open sale of total units and returns its id.
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

// inTx runs do in a transaction, which is committed if do returns no error.
func inTx(ctx context.Context, db *pgxpool.Pool, do func(pgx.Tx) error) error {
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

// refusedBy returns the name of the constraint that refused a statement, or else the SQLSTATE.
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

func TestTheSchemaRefusesImpossibleSales(t *testing.T) {
	db := sandboxtest.DB(t)
	sale := sell(t, db, 10)
	for _, test := range []struct{ name, set, refused string }{
		{"no stock left", `stock = 0`, ""},
		{"all of the stock", `stock = total`, ""},
		{"price of zero", `price = 0`, ""},
		{"negative stock", `stock = -1`, "stock_within_total"},
		{"stock above the total", `stock = total + 1`, "stock_within_total"},
		{"total below the stock", `total = 9, stock = 11`, "stock_within_total"},
		{"total of zero", `total = 0, stock = 0`, "sales_total_check"},
		{"empty window", `ends_at = starts_at`, "window_not_empty"},
		{"window that ends before it starts", `ends_at = starts_at - interval '1 s'`, "window_not_empty"},
		{"negative price", `price = -1`, "sales_price_check"},
		{"unknown state", `state = 'open'`, "sales_state_check"},
		{"unknown goods", `goods_id = goods_id + 1000`, "sales_goods_id_fkey"},
		{"no epoch", `epoch = null`, "23502"},
	} {
		t.Run(test.name, func(t *testing.T) {
			undo := errors.New("undo")
			err := inTx(t.Context(), db, func(tx pgx.Tx) error {
				tag, err := tx.Exec(t.Context(), `update sales set `+test.set+` where id = $1`, sale)
				if err == nil && tag.RowsAffected() == 1 {
					return undo
				}
				return err
			})
			if got := refusedBy(err); got != test.refused {
				t.Errorf("refused by %q (%v), want %q", got, err, test.refused)
			}
			if changed := errors.Is(err, undo); changed != (test.refused == "") {
				t.Errorf("the row changed: %v (%v), want %v", changed, err, test.refused == "")
			}
		})
	}
	for _, test := range []struct{ name, sql, refused string }{
		{"goods without a title", `insert into goods (title) values ('')`, "goods_title_check"},
		{"goods of a negative price", `insert into goods (title, list_price) values ('x', -1)`, "goods_list_price_check"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := db.Exec(t.Context(), test.sql); refusedBy(err) != test.refused {
				t.Errorf("got %v, want a refusal by %s", err, test.refused)
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
		{"paused and upcoming", Paused, opens.Add(-time.Second), NotStartedError{In: time.Second}},
		{"paused and ended", Paused, ends, ErrEnded},
		{"closed", Closed, opens, ErrEnded},
		{"closed and upcoming", Closed, opens.Add(-1), ErrEnded},
		{"draft", Draft, opens, ErrNoSale},
	} {
		t.Run(test.name, func(t *testing.T) {
			sale := Sale{State: test.state, StartsAt: opens, EndsAt: ends}
			locked := Locked{State: test.state, StartsAt: opens, EndsAt: ends, Now: test.now}
			if a, b := sale.Window(test.now), locked.Window(); a != test.want || b != test.want {
				t.Errorf("Sale.Window: %v, Locked.Window: %v; want %v", a, b, test.want)
			}
		})
	}
}
