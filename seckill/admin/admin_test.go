package admin

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

var keeper = By{UserID: 7, From: "127.0.0.1"}

// newShop returns a Store on a fresh database, with one open sale of 5 units.
func newShop(t *testing.T) (s *Store, db *pgxpool.Pool, sale int64) {
	t.Helper()
	db = sandboxtest.DB(t)
	now := time.Now()
	sale, err := goods.New(db).Sell(t.Context(), goods.Item{Title: "kettle"},
		goods.Terms{Price: 9900, Total: 5, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return New(db, order.Config{PayWithin: time.Hour}, nil), db, sale
}

// lines returns the actions in the log, newest first, each with its before and after.
func lines(t *testing.T, s *Store) (all []string) {
	t.Helper()
	log, _, err := s.Log(t.Context(), whole, LogFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range log {
		all = append(all, l.Action+" "+l.Subject+" "+l.Origin)
	}
	return all
}

func TestAnActionIsInTheLogOrDidNotHappen(t *testing.T) {
	s, db, sale := newShop(t)
	if _, err := s.Pause(t.Context(), keeper, sale); err != nil {
		t.Fatal(err)
	}
	var refused goods.TransitionError
	if _, err := s.Pause(t.Context(), keeper, sale); !errors.As(err, &refused) {
		t.Errorf("a second pause: %v", err)
	}
	if got, want := lines(t, s), []string{"sale.pause sale 1 127.0.0.1"}; !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	if _, err := db.Exec(t.Context(), `alter table admin_log add check (origin <> '10.0.0.1')`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Resume(t.Context(), By{UserID: 7, From: "10.0.0.1"}, sale); err == nil {
		t.Error("a line that cannot be written did not stop its action")
	}
	var state string
	if err := db.QueryRow(t.Context(), `select state from sales where id = $1`, sale).Scan(&state); err != nil || state != "paused" {
		t.Errorf("the sale is %s, %v; want paused: its line was refused", state, err)
	}
}

func TestTheLogIsAppendOnly(t *testing.T) {
	s, db, sale := newShop(t)
	if _, err := s.Pause(t.Context(), keeper, sale); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{`update admin_log set by_user = 1`, `delete from admin_log`, `truncate admin_log`} {
		if _, err := db.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s was possible", sql)
		}
	}
}

func TestLogFilters(t *testing.T) {
	s, _, sale := newShop(t)
	begun := time.Now()
	for range logPage/2 + 1 {
		for _, change := range []func() (int64, error){
			func() (int64, error) { return s.Pause(t.Context(), keeper, sale) },
			func() (int64, error) { return s.Resume(t.Context(), By{From: "miaosha sale resume"}, sale) },
		} {
			if _, err := change(); err != nil {
				t.Fatal(err)
			}
		}
	}
	const all = 2 * (logPage/2 + 1)
	for name, c := range map[string]struct {
		f    LogFilter
		want int
	}{
		"all":          {LogFilter{}, all},
		"by the user":  {LogFilter{ByUser: 7}, all / 2},
		"a kind":       {LogFilter{Action: "sale"}, all},
		"an action":    {LogFilter{Action: "sale.resume"}, all / 2},
		"no action":    {LogFilter{Action: "sal"}, 0},
		"a subject":    {LogFilter{Subject: "sale 1"}, all},
		"no subject":   {LogFilter{Subject: "sale 2"}, 0},
		"before":       {LogFilter{To: begun.Add(-time.Minute)}, 0},
		"after":        {LogFilter{From: begun.Add(-time.Minute)}, all},
		"in a second ": {LogFilter{From: begun.Add(-time.Minute), To: begun.Add(time.Hour)}, all},
	} {
		n := 0
		for f := c.f; ; {
			page, next, err := s.Log(t.Context(), whole, f)
			if err != nil {
				t.Fatal(err)
			}
			n += len(page)
			if next == 0 {
				break
			}
			f.Cursor = next
		}
		inARow := 0
		for _, err := range s.WholeLog(t.Context(), whole, c.f) {
			if err != nil {
				t.Fatal(err)
			}
			inARow++
		}
		if n != c.want || inARow != c.want {
			t.Errorf("%s: %d lines in pages, %d in a row, want %d", name, n, inARow, c.want)
		}
	}
}
