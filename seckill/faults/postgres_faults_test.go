//go:build faults && linux

package faults

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgresFaults break Postgres, or keep it from its work.
func postgresFaults() []scenario {
	return []scenario{
		{name: "Postgres backends killed every 10 ms for 3 s", crowd: usual,
			run: func(w *World, c *Crowd) {
				c.Sold(20)
				w.Strike("backends killed", func() {
					for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
						w.killBackends()
					}
				})
			},
			after: func(w *World, c *Crowd) {
				if w.scrape(); w.total("miaosha_settle_retries_total") == 0 {
					w.T.Error("no settle was hit")
				}
			}},
		{name: "Postgres restarted three times", detail: "the immediate shutdown, fsync on", setup: setup{postgres: []string{"fsync=on"}}, crowd: usual,
			run: func(w *World, c *Crowd) {
				for n := range 3 {
					c.Sold(20 * (n + 1))
					w.Strike("Postgres restarted", func() {
						w.DB.End(syscall.SIGQUIT)
						if err := w.DB.Start(); err != nil {
							w.T.Errorf("start Postgres again: %v", err)
						}
					})
				}
			}},
		{name: "Postgres away for 30 s", long: true,
			crowd: plan{buyers: 300, units: 400, span: 37 * time.Second, twice: 20, pays: 40, cancels: 10, payAfter: 300 * time.Millisecond, limit: 55 * time.Second},
			run: func(w *World, c *Crowd) {
				c.For(3 * time.Second)
				w.Strike("Postgres away", func() {
					for _, s := range w.Shops {
						s.ToPostgres.Cut()
					}
					c.For(30 * time.Second)
					for _, s := range w.Shops {
						w.join(s.ToPostgres)
					}
				})
			},
			after: queueThenBusy},
		{name: "the sale's row locked for 5 s", alone: true,
			crowd: plan{buyers: 300, units: 120, span: 7 * time.Second, twice: 30, pays: 40, cancels: 15, asksPath: 20,
				payAfter: 300 * time.Millisecond, limit: 40 * time.Second},
			run: func(w *World, c *Crowd) {
				c.Sold(20)
				w.Strike("row locked", func() { w.lockSale(func() { c.For(5 * time.Second) }) })
			},
			after: func(w *World, c *Crowd) {
				w.scrape()
				if w.total("miaosha_settle_retries_total") == 0 {
					w.T.Error("nothing was tried again: the row was not locked")
				}
				w.goesOn(c, 30, "buy")
				w.goesOn(c, 30, "result")
			}},
		{name: "the web pool starved", detail: "twice 80 log-ins come to a table that is locked for 7 s, and the door lets 8 to each process wait", long: true, alone: true,
			crowd: plan{buyers: 300, units: 400, span: 9 * time.Second, twice: 20, pays: 60, cancels: 5,
				payAfter: 300 * time.Millisecond, limit: 40 * time.Second},
			run: func(w *World, c *Crowd) {
				c.For(2 * time.Second)
				var logins sync.WaitGroup
				w.Strike("users locked", func() {
					w.locked(`lock table users in access exclusive mode`, func() {
						for wave := range 2 {
							for i := range 80 {
								logins.Go(func() {
									c.ledger.ask(w.Shops[i%len(w.Shops)], 0, "", "login", "POST", "/api/login",
										fmt.Sprintf(`{"phone":"139%08d","password":"whatever it was"}`, 80*wave+i))
								})
							}
							c.For(3400 * time.Millisecond) // who waits for a lock is given up after three seconds
						}
					})
				})
				logins.Wait()
			},
			after: func(w *World, c *Crowd) {
				for _, kind := range []string{"buy", "result", "pay", "list", "detail"} {
					w.goesOn(c, 20, kind)
				}
				hung := 0
				for _, a := range c.ledger.all(of("login")) {
					if a.Took > time.Second {
						hung++
					}
				}
				// Each process has a pool of 8 for accounts.
				if want := 2 * 8 * len(w.Shops); hung < want {
					w.T.Errorf("%d log-ins hung, want %d: the pool was not starved", hung, want)
				}
			}},
	}
}

// locked runs f while a stranger's transaction holds a lock, and lets go of it then.
func (w *World) locked(sql string, f func(), args ...any) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err := pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sql, args...); err != nil {
			return err
		}
		f()
		return nil
	})
	if err != nil {
		w.T.Errorf("%s: %v", sql, err)
	}
}

func (w *World) lockSale(f func()) { w.locked(`select from sales where id = $1 for update`, f, w.Sale) }

// goesOn: what this fault doesn't touch is answered as fast as before it, and never with a fault.
func (w *World) goesOn(c *Crowd, some int, kind string) {
	strikes, _ := w.struck()
	before := latencies(c.ledger.all(func(a answer) bool { return a.Kind == kind && a.received().Before(strikes[0].begin) }))
	lines := w.during(c.ledger.all(of(kind)))
	if len(lines) < some || len(before) < 5 {
		w.T.Errorf("only %d and %d answers to %s before and during the fault", len(before), len(lines), kind)
	}
	// A machine that does other work too is allowed its hiccups.
	if p, was := quantile(latencies(lines), 0.99), quantile(before, 0.99); p > 2*was+150*time.Millisecond {
		w.Violate("I11: during the fault the p99 of %s is %v, before it was %v", kind, p, was)
	}
	for _, a := range lines {
		if a.Status >= 500 || a.Status == 0 {
			w.Violate("I11: during the fault %s heard %d %s", kind, a.Status, a.Code)
		}
	}
}

// queueThenBusy: without Postgres tickets are taken until the oldest has waited for 10 s, and then nobody is let in. Who
// has one hears that it is queued, and what needs Postgres is refused at once.
func queueThenBusy(w *World, c *Crowd) {
	strikes, _ := w.struck()
	begin, end := strikes[0].begin, strikes[0].end
	const cutting = 50 * time.Millisecond // from the first wire's end to the last one's
	has := map[int64]bool{}               // a ticket or an order, as he was told
	taken, refused := 0, 0
	for _, a := range c.ledger.all(of("buy", "result", "order", "pay", "cancel", "confirm")) {
		since := a.Sent.Sub(begin)
		within := since > cutting && a.received().Before(end)
		switch {
		case !within:
		case a.Kind == "buy" && a.Status == http.StatusServiceUnavailable:
			if refused++; since < 8*time.Second {
				w.Violate("I4: %v after Postgres went a buy was refused: %s", since, a.Code)
			} else if a.RetryAfter == 0 {
				w.Violate("I10: a refusal doesn't say when to come again")
			}
		case a.Kind == "buy" && a.Data.State == "queued":
			taken++
			if late := granted(a.Data.Ticket).Sub(begin); late > 12*time.Second {
				w.Violate("I10: %v after Postgres went a ticket was granted", late)
			}
		case a.Kind == "buy" && a.Data.State != "ordered":
			w.Violate("I4: without Postgres a buy heard %d %s %s", a.Status, a.Code, a.Data.State)
		case a.Kind == "result" && has[a.User] && a.Data.State != "queued" && a.Data.State != "ordered":
			w.Violate("I4: without Postgres a ticket's owner heard %d %s %s", a.Status, a.Code, a.Data.State)
		case a.Kind != "buy" && a.Kind != "result" && (a.Status != http.StatusServiceUnavailable || a.Took > time.Second):
			w.Violate("I11: without Postgres %s heard %d %s after %v", a.Kind, a.Status, a.Code, a.Took)
		}
		if a.Data.State == "queued" || a.Data.State == "ordered" {
			has[a.User] = true
		}
	}
	if taken < 20 || refused < 100 {
		w.T.Errorf("without Postgres only %d tickets were taken and %d refused", taken, refused)
	}
}

// killBackends ends the connections of the shop that are at work just now.
func (w *World) killBackends() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := w.pool.Exec(ctx, `
		select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'miaosha' and state <> 'idle'`); err != nil {
		w.T.Errorf("kill backends: %v", err)
	}
}
