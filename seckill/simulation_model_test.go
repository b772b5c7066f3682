package seckill

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/sandbox/sandboxtest"
)

// pgSide is one of the two databases that are compared: the real Postgres, or the model.
type pgSide struct {
	pool          *pgxpool.Pool
	sales         *goods.Store
	orders        *order.Store
	overdueOrders *order.Store // whose orders are overdue at once
	sale          int64
	dump          func() []string     // the rows of the sale, with users in place of order ids
	ids           map[int64]uuid.UUID // the order of each user
	users         map[uuid.UUID]int64 // the user of each order
}

func newPgSide(pool *pgxpool.Pool) *pgSide {
	return &pgSide{pool: pool, sales: goods.New(pool), orders: order.New(pool, order.Config{PayWithin: time.Hour}),
		overdueOrders: order.New(pool, order.Config{PayWithin: -time.Second})}
}

// readOwners reads which user has which order: the ids are random.
func (d *pgSide) readOwners(ctx context.Context) error {
	owners, err := d.orders.Owners(ctx, d.sale, "", 0, 100)
	d.ids, d.users = map[int64]uuid.UUID{}, map[uuid.UUID]int64{}
	for _, o := range owners {
		d.ids[o.UserID], d.users[o.OrderID] = o.OrderID, o.UserID
	}
	return err
}

// text returns results in a form that is the same in both databases.
func (d *pgSide) text(results []order.Result, err error) []string {
	lines := []string{"error " + errorName(err)}
	for _, r := range results {
		lines = append(lines, fmt.Sprint(r.Ticket, " ", r.UserID, " ", r.Outcome, " ", d.users[r.OrderID]))
	}
	slices.Sort(lines)
	return lines
}

// errorName returns a SQLSTATE, or the name of a refusal.
func errorName(err error) string {
	if pg := new(pgconn.PgError); errors.As(err, &pg) {
		return pg.Code
	}
	for _, known := range []error{goods.ErrNoSale, goods.ErrSoldOut, goods.ErrEnded, goods.ErrPaused, order.ErrNotFound, order.ErrWrongStatus,
		order.ErrWrongAmount, order.ErrReusedRef, errRolledBack} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if errors.As(err, new(goods.NotStartedError)) {
		return "not started"
	}
	return fmt.Sprint(err)
}

var errRolledBack = errors.New("the transaction is rolled back")

// sharedWire is a wire for a client with more than one goroutine: where the clock is real, pgx reads
// beside a write that takes longer than 15 ms.
type sharedWire struct {
	*wire
	mu     sync.Mutex
	change sync.Cond
	ended  bool
}

func newSharedWire(w *wire) *sharedWire {
	c := &sharedWire{wire: w}
	c.change.L = &c.mu
	return c
}

func (c *sharedWire) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.change.Broadcast()
	return c.wire.Write(b)
}

func (c *sharedWire) Read(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.in.Len() == 0 && c.out.Len() == 0 && !c.ended {
		c.change.Wait()
	}
	return c.wire.Read(b)
}

func (c *sharedWire) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.change.Broadcast()
	c.ended = true
	return c.wire.Close()
}

// The model answers every statement of the project as Postgres does, and has the same rows after
// it. Both receive the same calls of the same functions, in a random order. Waiting for locks is
// not compared: one client calls both.
func TestModelFollowsPostgres(t *testing.T) {
	ctx := t.Context()
	pool, err := pgxpool.New(ctx, sandboxtest.DatabaseURL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	model := newPgModel()
	modelPool := newPgPool(func() (net.Conn, error) { return newSharedWire(model.dial(nil, nil)), nil })
	t.Cleanup(modelPool.Close)
	postgres, modelled := newPgSide(pool), newPgSide(modelPool)
	postgres.dump = func() []string { return dumpPostgres(t, pool, postgres) }
	modelled.dump = func() []string { return dumpModel(model, modelled) }
	rapid.Check(t, func(r *rapid.T) {
		total := rapid.IntRange(1, 4).Draw(r, "total")
		starts, ends := now().Add(-time.Minute), now().Add(time.Hour)
		postgres.sale, err = postgres.sales.Sell(ctx, goods.Item{Title: "tea"}, goods.Terms{Price: 100, Total: total, StartsAt: starts, EndsAt: ends})
		if err != nil {
			r.Fatal(err)
		}
		if err := pool.QueryRow(ctx, `select epoch - 1 from sales where id = $1`, postgres.sale).Scan(&model.epoch); err != nil {
			r.Fatal(err)
		}
		modelled.sale = postgres.sale
		model.sell(saleRow{id: postgres.sale, price: 100, total: int64(total), stock: int64(total), title: "tea", state: goods.Published,
			starts: starts, ends: ends})

		// both calls f for both databases and compares what it returns, and all rows.
		both := func(r *rapid.T, f func(d *pgSide) []string) {
			got := map[*pgSide][]string{}
			for _, d := range []*pgSide{postgres, modelled} {
				if err := d.readOwners(ctx); err != nil {
					r.Fatal(err)
				}
				lines := f(d)
				if err := d.readOwners(ctx); err != nil {
					r.Fatal(err)
				}
				got[d] = append(append(lines, "rows:"), d.dump()...)
			}
			if diff := cmp.Diff(got[postgres], got[modelled]); diff != "" {
				r.Fatalf("Postgres (-) and the model (+) differ:\n%s", diff)
			}
		}
		user := rapid.SampledFrom([]int64{1, 2, 3, 4, 5, 6, -1})
		ticket := rapid.Custom(func(r *rapid.T) order.Ticket {
			u := user.Draw(r, "user")
			return order.Ticket{ID: fmt.Sprintf("%s%d:%d:%d", rapid.SampledFrom([]string{"", "direct:"}).Draw(r, "kind"), postgres.sale, u,
				rapid.IntRange(1, 2).Draw(r, "n")), UserID: u}
		})
		tickets := rapid.SliceOfNDistinct(ticket, 1, 5, func(t order.Ticket) string { return t.ID })
		users := rapid.SliceOfN(user, 1, 4)
		// inTx runs f in a transaction on the sale's locked row, and commits or rolls back.
		inTx := func(d *pgSide, commit bool, f func(tx pgx.Tx, l goods.Locked) error) error {
			return pgx.BeginTxFunc(ctx, d.pool, goods.ReadCommitted, func(tx pgx.Tx) error {
				l, err := goods.Lock(ctx, tx, d.sale)
				if err == nil {
					err = f(tx, l)
				}
				if err == nil && !commit {
					err = errRolledBack
				}
				return err
			})
		}
		r.Repeat(map[string]func(*rapid.T){
			"place": func(r *rapid.T) {
				batch, overdue, commit := tickets.Draw(r, "tickets"), rapid.Bool().Draw(r, "overdue"), rapid.IntRange(0, 3).Draw(r, "commit") > 0
				atOnce := rapid.Bool().Draw(r, "at once")
				both(r, func(d *pgSide) []string {
					store := d.orders
					if overdue {
						store = d.overdueOrders
					}
					var results []order.Result
					err := inTx(d, commit, func(tx pgx.Tx, l goods.Locked) (err error) {
						place := store.Place
						if atOnce {
							place = store.PlaceAtOnce
						}
						results, err = place(ctx, tx, l, batch)
						return err
					})
					d.readOwners(ctx)
					if err != nil {
						results = nil
					}
					return d.text(results, err)
				})
			},
			"reject": func(r *rapid.T) {
				batch := tickets.Draw(r, "tickets")
				both(r, func(d *pgSide) []string {
					var results []order.Result
					err := inTx(d, true, func(tx pgx.Tx, _ goods.Locked) (err error) {
						results, err = d.orders.Reject(ctx, tx, d.sale, batch)
						return err
					})
					return d.text(results, err)
				})
			},
			"read": func(r *rapid.T) {
				among, prefix := users.Draw(r, "users"), rapid.SampledFrom([]string{"", "direct:", "x"}).Draw(r, "prefix")
				both(r, func(d *pgSide) (lines []string) {
					var buyers []order.Buyer
					for _, u := range among {
						buyers = append(buyers, order.Buyer{SaleID: d.sale, UserID: u})
					}
					outcomes, err := d.orders.Outcomes(ctx, buyers)
					for b, result := range outcomes {
						if result.OrderID == uuid.Nil {
							result.Ticket = "" // the newest one of several in a transaction is any of them
						}
						lines = append(lines, fmt.Sprint("outcome ", b.UserID, d.text([]order.Result{result}, err)))
					}
					for _, read := range []func() ([]order.Owner, error){
						func() ([]order.Owner, error) { return d.orders.Owners(ctx, d.sale, prefix, 0, 100) },
						func() ([]order.Owner, error) { return d.orders.OwnersAmong(ctx, d.sale, among) },
					} {
						owners, err := read()
						for _, o := range owners {
							lines = append(lines, fmt.Sprint("owner ", o.UserID, d.users[o.OrderID], err))
						}
					}
					states, err := d.sales.SaleStates(ctx, time.Hour, []int64{d.sale})
					for _, s := range states {
						if s.ID == d.sale {
							lines = append(lines, fmt.Sprint(s.Stock, s.State, s.Epoch, s.Open, s.Near, s.StartsAt.UTC(), s.EndsAt.UTC(), s.Bypass, err))
						}
					}
					changed, err := d.sales.Changed(ctx)
					lines = append(lines, fmt.Sprint("changed ", slices.Contains(changed, d.sale), err))
					slices.Sort(lines)
					return lines
				})
			},
			"lock": func(r *rapid.T) {
				both(r, func(d *pgSide) (lines []string) {
					err := inTx(d, true, func(_ pgx.Tx, l goods.Locked) error {
						if age := time.Since(l.Now); age < -time.Minute || age > time.Minute { //timing: a clock that is a minute off is wrong
							return errors.New("a wrong clock")
						}
						lines = append(lines, fmt.Sprint(l.Title, l.Price, l.Stock, l.State, l.Epoch, l.StartsAt.UTC(), l.EndsAt.UTC(), errorName(l.Window()), l.Bypass))
						return nil
					})
					return append(lines, errorName(err))
				})
			},
			"take": func(r *rapid.T) {
				n, commit := rapid.IntRange(-1, 3).Draw(r, "n"), false // without orders it must not stay
				both(r, func(d *pgSide) []string {
					return []string{errorName(inTx(d, commit, func(tx pgx.Tx, _ goods.Locked) error { return goods.Take(ctx, tx, d.sale, n) }))}
				})
			},
			"give back": func(r *rapid.T) {
				n := rapid.IntRange(0, 3).Draw(r, "n")
				both(r, func(d *pgSide) []string {
					return []string{errorName(inTx(d, false, func(tx pgx.Tx, _ goods.Locked) error { return goods.GiveBack(ctx, tx, d.sale, n) }))}
				})
			},
			"state": func(r *rapid.T) {
				state, commit := rapid.SampledFrom([]string{goods.Published, goods.Paused, goods.Closed, goods.Draft}).Draw(r, "state"), rapid.Bool().Draw(r, "commit")
				both(r, func(d *pgSide) []string {
					return []string{errorName(inTx(d, commit, func(tx pgx.Tx, _ goods.Locked) error {
						_, err := tx.Exec(ctx, `update sales set state = $2 where id = $1`, d.sale, state)
						return err
					}))}
				})
			},
			"epoch": func(r *rapid.T) {
				both(r, func(d *pgSide) []string {
					return []string{errorName(inTx(d, true, func(tx pgx.Tx, _ goods.Locked) error {
						_, err := goods.NextEpoch(ctx, tx, d.sale)
						return err
					}))}
				})
			},
			"total": func(r *rapid.T) {
				n, byHand := rapid.IntRange(-3, 3).Draw(r, "n"), rapid.Bool().Draw(r, "by hand")
				both(r, func(d *pgSide) []string {
					if !byHand {
						_, err := d.sales.AddUnits(ctx, d.sale, n)
						return []string{errorName(err)}
					}
					return []string{errorName(inTx(d, true, func(tx pgx.Tx, _ goods.Locked) error {
						_, err := tx.Exec(ctx, `update sales set total = total + $2 where id = $1`, d.sale, n)
						return err
					}))}
				})
			},
			"window": func(r *rapid.T) {
				starts = starts.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 0, -30, 30}).Draw(r, "start")) * time.Minute)
				ends = starts.Add(time.Duration(rapid.SampledFrom([]int{1, 1, 120, -1}).Draw(r, "end")) * time.Minute)
				both(r, func(d *pgSide) []string {
					return []string{errorName(inTx(d, true, func(tx pgx.Tx, _ goods.Locked) error {
						_, err := tx.Exec(ctx, `update sales set starts_at = $2, ends_at = $3 where id = $1`, d.sale, starts, ends)
						return err
					}))}
				})
			},
			"bypass": func(r *rapid.T) {
				known, commit := rapid.Int64Range(0, 3).Draw(r, "known"), rapid.Bool().Draw(r, "commit")
				both(r, func(d *pgSide) []string {
					err := inTx(d, commit, func(tx pgx.Tx, _ goods.Locked) error { return goods.CountBypass(ctx, tx, d.sale) })
					return []string{errorName(err), errorName(d.sales.GateKnows(ctx, d.sale, known, goods.LockWait))}
				})
			},
			"cancel": func(r *rapid.T) {
				u, other := user.Draw(r, "user"), rapid.IntRange(0, 5).Draw(r, "other") == 0
				both(r, func(d *pgSide) []string {
					caller := u
					if other {
						caller++
					}
					return []string{errorName(d.orders.Cancel(ctx, caller, d.ids[u]))}
				})
			},
			"expire": func(r *rapid.T) {
				both(r, func(d *pgSide) []string {
					n, err := d.orders.Expire(ctx)
					return []string{fmt.Sprint(n), errorName(err)}
				})
			},
			"pay": func(r *rapid.T) {
				u := user.Draw(r, "user")
				amount := int64(rapid.SampledFrom([]int{100, 100, 100, 99}).Draw(r, "amount"))
				ref := fmt.Sprint(postgres.sale, "-", rapid.IntRange(1, 4).Draw(r, "ref"))
				both(r, func(d *pgSide) []string {
					status, err := d.orders.Capture(ctx, order.Captured{Provider: order.Cashier, OrderID: d.ids[u], Amount: amount, Ref: ref})
					return []string{status, errorName(err)}
				})
			},
			"refund": func(r *rapid.T) {
				u := user.Draw(r, "user")
				both(r, func(d *pgSide) []string { return []string{errorName(d.orders.Refund(ctx, d.ids[u]))} })
			},
		})
	})
}

// dumpPostgres returns the rows of the sale, in a form that is the same in both databases.
func dumpPostgres(t *testing.T, pool *pgxpool.Pool, d *pgSide) []string {
	rows, _ := pool.Query(t.Context(), `
		select 'sale ' || stock || ' ' || total || ' ' || state || ' ' || epoch || ' ' || bypasses || ' ' || bypasses_known from sales where id = $1
		union all
		select 'order ' || user_id || ' ' || ticket || ' ' || status || ' ' || (paid_at is not null) || ' ' || price || ' ' || (expires_at < now())
		from orders where sale_id = $1
		union all
		select 'result ' || r.ticket || ' ' || r.user_id || ' ' || r.outcome || ' ' || coalesce(o.user_id, 0)
		from ticket_results r left join orders o on o.id = r.order_id where r.sale_id = $1
		union all
		select 'payment ' || o.user_id || ' ' || p.amount || ' ' || p.status || ' ' || coalesce(p.provider_ref, '')
		from payments p join orders o on o.id = p.order_id where o.sale_id = $1`, d.sale)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return lines
}

func dumpModel(m *pgModel, d *pgSide) (lines []string) {
	s := m.sales[d.sale].committed
	lines = append(lines, fmt.Sprint("sale ", s.stock, " ", s.total, " ", s.state, " ", s.epoch, " ", s.bypasses, " ", s.known))
	for _, o := range m.inSale(nil, d.sale) {
		lines = append(lines, fmt.Sprint("order ", o.user, " ", o.ticket, " ", o.status, " ", !o.paidAt.IsZero(), " ", o.price, " ", o.expires.Before(now())))
	}
	for _, row := range m.results {
		if r := row.committed; r.sale == d.sale {
			lines = append(lines, fmt.Sprint("result ", r.ticket, " ", r.user, " ", r.outcome, " ", d.users[r.order]))
		}
	}
	for _, row := range m.payments {
		if p := row.committed; m.order(nil, p.order).committed.sale == d.sale {
			lines = append(lines, fmt.Sprint("payment ", d.users[p.order], " ", p.amount, " ", p.status, " ", p.ref))
		}
	}
	slices.Sort(lines)
	return lines
}
