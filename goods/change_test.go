package goods

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

// Every change in every state of a sale and at every side of its window: done, or refused with a reason, and then nothing is
// changed. What is done takes one new epoch.
func TestChangesOfASale(t *testing.T) {
	db := sandboxtest.DB(t)
	s, now := New(db), time.Now().Truncate(time.Microsecond)
	change := map[string]func(id int64) (int64, error){
		"publish": func(id int64) (int64, error) { return s.PublishDraft(t.Context(), id) },
		"pause":   func(id int64) (int64, error) { return s.Pause(t.Context(), id) },
		"resume":  func(id int64) (int64, error) { return s.Resume(t.Context(), id) },
		"close":   func(id int64) (int64, error) { return s.Close(t.Context(), id) },
		"add 2":   func(id int64) (int64, error) { return s.AddUnits(t.Context(), id, 2) },
		"add -3":  func(id int64) (int64, error) { return s.AddUnits(t.Context(), id, -3) },
		"add -4":  func(id int64) (int64, error) { return s.AddUnits(t.Context(), id, -4) },
		"add max": func(id int64) (int64, error) { return s.AddUnits(t.Context(), id, 1<<31-1) },
		"move the start": func(id int64) (int64, error) {
			return s.Move(t.Context(), id, now.Add(time.Hour), now.Add(5*time.Hour))
		},
		"move the end": func(id int64) (int64, error) {
			var from time.Time
			db.QueryRow(t.Context(), `select starts_at from sales where id = $1`, id).Scan(&from)
			return s.Move(t.Context(), id, from, now.Add(5*time.Hour))
		},
		"end it": func(id int64) (int64, error) {
			return s.Move(t.Context(), id, now.Add(-3*time.Hour), now.Add(-time.Minute))
		},
	}
	const done, few, past, open = "", "3 of its units are unsold, and it has 1 to 2147483647 in all",
		"the end has to be in the future; close the sale to end it now", "it is open, or opens within three seconds, so its start stays"
	const draft, published, paused, closed, ended = "it is a draft", "it is published", "it is paused", "it is closed", "it has ended"
	for _, test := range []struct {
		state, window string
		why           map[string]string // of the changes that are refused
	}{
		{Draft, "upcoming", map[string]string{"pause": draft, "resume": draft, "add -4": few, "add max": few, "end it": past}},
		{Draft, "ended", map[string]string{"publish": ended, "pause": draft, "resume": draft, "add 2": ended, "add -3": ended, "add -4": ended,
			"add max": ended, "end it": past}},
		{Published, "upcoming", map[string]string{"publish": published, "resume": published, "add -4": few, "add max": few, "end it": past}},
		{Published, "open", map[string]string{"publish": published, "resume": published, "add -4": few, "add max": few, "end it": past,
			"move the start": open}},
		{Published, "ended", map[string]string{"publish": published, "pause": ended, "resume": published, "add 2": ended, "add -3": ended,
			"add -4": ended, "add max": ended, "end it": past, "move the start": ended, "move the end": ended}},
		{Paused, "open", map[string]string{"publish": paused, "pause": paused, "add -4": few, "add max": few, "end it": past, "move the start": open}},
		{Paused, "ended", map[string]string{"publish": paused, "pause": paused, "resume": ended, "add 2": ended, "add -3": ended, "add -4": ended,
			"add max": ended, "end it": past, "move the start": ended, "move the end": ended}},
		{Closed, "open", map[string]string{"publish": closed, "pause": closed, "resume": closed, "close": closed, "add 2": closed, "add -3": closed,
			"add -4": closed, "add max": closed, "end it": closed, "move the start": closed, "move the end": closed}},
	} {
		hours := map[string][2]time.Duration{"upcoming": {2, 4}, "open": {-2, 2}, "ended": {-4, -2}}[test.window]
		for name, do := range change {
			t.Run(fmt.Sprint(name, ", ", test.state, ", ", test.window), func(t *testing.T) {
				id := sellFor(t, db, Terms{Total: 5, StartsAt: now.Add(hours[0] * time.Hour), EndsAt: now.Add(hours[1] * time.Hour)})
				exec(t, db, `update sales set stock = 3, state = $2 where id = $1`, id, test.state)
				before, last := row(t, db, id), number(t, db, `select last_value from gate_epoch`)
				epoch, err := do(id)
				if want := test.why[name]; want != done {
					refused := TransitionError{}
					if diff := cmp.Diff(before, row(t, db, id)); !errors.As(err, &refused) || refused.Why() != want || diff != "" {
						t.Fatalf("%v, want %q; changed: %s", err, want, diff)
					}
					return
				}
				if err != nil || row(t, db, id) == before {
					t.Fatalf("%v, and the sale is %s", err, row(t, db, id))
				}
				if got := number(t, db, `select epoch from sales where id = $1`, id); epoch != got || epoch != last+1 {
					t.Errorf("returned epoch %d, the row has %d, want %d for both", epoch, got, last+1)
				}
			})
		}
	}
}

// The price that was shown is the price that is charged: it changes only while no page that shows the old one can be used to buy.
func TestPriceStaysBeforeTheOpening(t *testing.T) {
	db := sandboxtest.DB(t)
	s, now := New(db), time.Now()
	for _, test := range []struct {
		name, state string
		opens       time.Duration // from now
		reason      string        // why the price stays
	}{
		{"far ahead", Published, 2 * time.Minute, ""},
		{"paused and far ahead", Paused, 2 * time.Minute, ""},
		{"soon", Published, 50 * time.Second, "soon"},
		{"open", Published, -time.Minute, "soon"},
		{"paused and open", Paused, -time.Minute, "soon"},
		{"a draft, soon", Draft, time.Second, ""},
		{"closed", Closed, time.Hour, "closed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			id := sellFor(t, db, Terms{Price: 5, Total: 5, StartsAt: now.Add(test.opens), EndsAt: now.Add(4 * time.Hour)})
			exec(t, db, `update sales set state = $2 where id = $1`, id, test.state)
			_, err := s.SetPrice(t.Context(), id, 7)
			refused := TransitionError{}
			if errors.As(err, &refused); refused.Reason != test.reason || (err == nil) != (test.reason == "") {
				t.Fatalf("%v, want the reason %q", err, test.reason)
			}
			want := int64(5)
			if err == nil {
				want = 7
			}
			if got := number(t, db, `select price from sales where id = $1`, id); got != want {
				t.Errorf("the price is %d, want %d", got, want)
			}
			if err != nil {
				return
			}
			_, err = s.Move(t.Context(), id, now, now.Add(time.Hour)) // a page may still show the old price
			if errors.As(err, &refused); (refused.Reason == "shown") != (test.state != Draft) {
				t.Errorf("opened at once: %v", err)
			}
			if _, err = s.Move(t.Context(), id, now.Add(90*time.Second), now.Add(time.Hour)); err != nil {
				t.Errorf("opened in 90 s: %v", err)
			}
		})
	}
	if _, err := s.SetPrice(t.Context(), 1, -1); !errors.As(err, new(InvalidError)) {
		t.Errorf("a negative price: %v", err)
	}
}

func TestEditDraft(t *testing.T) {
	db := sandboxtest.DB(t)
	s, now := New(db), time.Now().Truncate(time.Microsecond)
	terms := Terms{Price: 7, Total: 9, StartsAt: now.Add(time.Hour), EndsAt: now.Add(2 * time.Hour)}
	id := sellFor(t, db, Terms{Price: 5, Total: 5, StartsAt: now, EndsAt: now.Add(time.Minute)})
	if _, err := s.EditDraft(t.Context(), id, terms); !errors.As(err, new(TransitionError)) {
		t.Errorf("a published sale: %v", err)
	}
	exec(t, db, `update sales set state = 'draft' where id = $1`, id)
	if _, err := s.EditDraft(t.Context(), id, Terms{Price: 1}); !errors.As(err, new(InvalidError)) {
		t.Errorf("no units: %v", err)
	}
	if _, err := s.EditDraft(t.Context(), id, terms); err != nil {
		t.Fatal(err)
	}
	rows, _ := db.Query(t.Context(), `select price, total, starts_at, ends_at from sales where id = $1 and stock = total`, id)
	if got, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Terms]); err != nil || !cmp.Equal(got, terms) {
		t.Error(err, cmp.Diff(terms, got))
	}
}

// row returns the changeable columns of a sale.
func row(t *testing.T, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, id int64) (text string) {
	t.Helper()
	if err := db.QueryRow(t.Context(), `select concat_ws(' ', state, stock, total, starts_at, ends_at) from sales where id = $1`, id).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAChangeOfNoSale(t *testing.T) {
	s, now := New(sandboxtest.DB(t)), time.Now()
	for _, do := range []func() (int64, error){
		func() (int64, error) { return s.PublishDraft(t.Context(), 9) },
		func() (int64, error) { return s.AddUnits(t.Context(), 9, 1) },
		func() (int64, error) { return s.Move(t.Context(), 9, now, now.Add(time.Hour)) },
	} {
		if _, err := do(); !errors.Is(err, ErrNoSale) {
			t.Errorf("%v, want ErrNoSale", err)
		}
	}
	for field, do := range map[string]func() (int64, error){
		"units": func() (int64, error) { return s.AddUnits(t.Context(), 9, 0) },
		"end":   func() (int64, error) { return s.Move(t.Context(), 9, now, now) },
	} {
		invalid := InvalidError{}
		if _, err := do(); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%v, want an InvalidError of %s", err, field)
		}
	}
}

// A sale that ends between the read of its row and the update has a reason: without one a plan would be taken for done.
func TestARefusalHasAReason(t *testing.T) {
	s, now := New(sandboxtest.DB(t)), time.Now()
	id, err := s.Sell(t.Context(), Item{Title: "kettle"}, Terms{Price: 100, Total: 3, StartsAt: now, EndsAt: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	refused := TransitionError{}
	_, err = s.change(t.Context(), id, "pause", `update sales set state = 'paused' where id = $1 and now() > ends_at returning epoch`, only(Published))
	if !errors.As(err, &refused) || refused.Reason != "ended" {
		t.Errorf("%v with the reason %q, want ended", err, refused.Reason)
	}
}

// A draft is seen by its operator only, until it is published.
func TestADraftIsNotSeen(t *testing.T) {
	db := sandboxtest.DB(t)
	s, now := New(db), time.Now()
	id, err := s.Draft(t.Context(), Item{Title: "kettle"}, Terms{Price: 100, Total: 3, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db, `insert into orders (id, user_id, sale_id, ticket, title, price, expires_at) values (gen_random_uuid(), 1, $1, 'a', '', 1, now())`, id)
	for _, seen := range []int{0, 1} {
		live, err := s.live(t.Context())
		if err != nil || len(live) != seen {
			t.Errorf("%v, %v, want %d sales", live, err, seen)
		}
		listed, err := s.List(t.Context())
		if err != nil || len(listed) != 1 || listed[0].ID != id || listed[0].Total != 3 || listed[0].Stock != 3 || listed[0].Pending != 1 || listed[0].Paid != 0 {
			t.Errorf("its operator sees %+v, %v", listed, err)
		}
		if seen == 0 {
			if _, err := s.PublishDraft(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A change by plain SQL takes a new epoch and is found for as long as an older gate can live. The total takes the stock
// along. What a purchase writes takes no epoch and fires no trigger.
func TestTheEpochOfPlainSQL(t *testing.T) {
	db := sandboxtest.DB(t)
	day := 24 * time.Hour
	for _, test := range []struct {
		set     string
		changed bool
		stock   int64
		lives   time.Duration // the gate
	}{
		{`state = 'draft'`, true, 4, day + time.Hour},
		{`total = total + 3`, true, 7, day + time.Hour},
		{`total = total - 4`, true, 0, day + time.Hour},
		{`total = total + 3, stock = stock + 1`, true, 5, day + time.Hour},
		{`starts_at = starts_at - interval '1 day'`, true, 4, day + time.Hour},
		{`ends_at = now() - interval '30 s'`, true, 4, day + time.Hour}, // by its former end, which is later
		{`ends_at = ends_at + interval '9 days'`, true, 4, day + time.Hour},
		{`state = state, total = total, starts_at = starts_at, ends_at = ends_at`, false, 4, 0},
		{`stock = stock - 1`, false, 3, 0},
		{`price = price + 1`, false, 4, 0},
	} {
		t.Run(test.set, func(t *testing.T) {
			sale := sell(t, db, 6)
			exec(t, db, `update sales set stock = 4 where id = $1`, sale)
			last := number(t, db, `select last_value from gate_epoch`)
			exec(t, db, `update sales set `+test.set+` where id = $1`, sale)
			took := number(t, db, `select last_value from gate_epoch`) - last
			if moved := number(t, db, `select epoch - $2 from sales where id = $1`, sale, last); took != moved || (took == 1) != test.changed || took > 1 {
				t.Errorf("%d epochs were taken, the row's moved by %d; changed: %v", took, moved, test.changed)
			}
			if got := stockOf(t, db, sale); got != test.stock {
				t.Errorf("%d units are left, want %d", got, test.stock)
			}
			lives := time.Duration(number(t, db, `select coalesce(extract(epoch from gate_until - now()), 0)::bigint from sales where id = $1`, sale)) * time.Second
			if lives > test.lives+time.Hour || lives < test.lives {
				t.Errorf("a former gate is expected for %v, want %v", lives, test.lives)
			}
			found, err := New(db).Changed(t.Context())
			if has := len(found) > 0 && found[0] == sale; err != nil || has != test.changed {
				t.Errorf("found: %v, %v", found, err)
			}
			exec(t, db, `delete from sales where id = $1`, sale)
		})
	}
	sale := sell(t, db, 6)
	exec(t, db, `update sales set stock = 2 where id = $1`, sale)
	if _, err := db.Exec(t.Context(), `update sales set total = total - 3 where id = $1`, sale); refusedBy(err) != "stock_within_total" {
		t.Errorf("taking back what is sold: %v", err)
	}
	exec(t, db, `update sales set state = 'draft' where id = $1`, sale)
	until := number(t, db, `select extract(epoch from gate_until)::bigint from sales where id = $1`, sale)
	exec(t, db, `update sales set ends_at = ends_at + interval '9 days' where id = $1`, sale)
	if again := number(t, db, `select extract(epoch from gate_until)::bigint from sales where id = $1`, sale); again != until {
		t.Error("a change of a draft prolongs the time in which a gate of it is expected")
	}
}

// The statements of a purchase take no epoch, and fire no trigger of the sale.
func TestAPurchaseFiresNoTrigger(t *testing.T) {
	db := sandboxtest.DB(t)
	sale := sell(t, db, 6)
	last := number(t, db, `select last_value from gate_epoch`)
	err := inTx(t.Context(), db, func(tx pgx.Tx) error {
		return errors.Join(Take(t.Context(), tx, sale, 2), GiveBack(t.Context(), tx, sale, 1), CountBypass(t.Context(), tx, sale))
	})
	if err := errors.Join(err, New(db).GateKnows(t.Context(), sale, 1, LockWait)); err != nil {
		t.Fatal(err)
	}
	if took := number(t, db, `select last_value from gate_epoch`) - last; took != 0 {
		t.Errorf("a purchase took %d epochs", took)
	}
	if err := inTx(t.Context(), db, func(tx pgx.Tx) error { _, err := NextEpoch(t.Context(), tx, sale); return err }); err != nil {
		t.Fatal(err)
	}
	if took := number(t, db, `select last_value from gate_epoch`) - last; took != 1 {
		t.Errorf("NextEpoch took %d epochs, want 1", took)
	}
	for set, fires := range map[string]bool{"stock = stock - 1": false, "bypasses = bypasses + 1": false, "epoch = nextval('gate_epoch')": false, "total = total + 1": true} {
		rows, _ := db.Query(t.Context(), `explain analyze update sales set `+set+` where id = $1`, sale)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if got := strings.Contains(strings.Join(plan, "\n"), "Trigger sales_changed"); err != nil || got != fires {
			t.Errorf("%s fires the trigger: %v, want %v: %v\n%s", set, got, fires, err, strings.Join(plan, "\n"))
		}
	}
}

// Until the gate has followed, it would open at the old time.
func TestTheStartStaysRightBeforeTheOpening(t *testing.T) {
	db := sandboxtest.DB(t)
	s, now := New(db), time.Now().Truncate(time.Microsecond)
	for _, c := range []struct {
		name, state string
		opens, to   time.Duration // from now
		refused     bool
	}{
		{"later", Published, 2 * time.Second, time.Minute, true},
		{"earlier", Published, 2 * time.Second, time.Second, true},
		{"of a paused sale", Paused, 2 * time.Second, time.Minute, true},
		{"only the end", Published, 2 * time.Second, 2 * time.Second, false},
		{"of a draft", Draft, 2 * time.Second, time.Minute, false},
		{"in time", Published, time.Minute, 2 * time.Minute, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := sellFor(t, db, Terms{Total: 5, StartsAt: now.Add(c.opens), EndsAt: now.Add(time.Hour)})
			exec(t, db, `update sales set state = $2 where id = $1`, id, c.state)
			_, err := s.Move(t.Context(), id, now.Add(c.to), now.Add(2*time.Hour))
			if refused := (TransitionError{}); errors.As(err, &refused) != c.refused || c.refused && refused.Reason != "open" || err != nil && !c.refused {
				t.Errorf("%v, want refused: %v", err, c.refused)
			}
		})
	}
}
