//go:build faults && linux

package faults

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/Shopify/toxiproxy/v2/toxics"
	"golang.org/x/sys/unix"
)

func init() {
	// Children inherit it: a file at its limit is then an error that Redis is told of, as a full disk is, and not its end.
	signal.Ignore(syscall.SIGXFSZ)
	toxics.Register("swallow", new(swallow))
}

// moreRedisFaults break Redis in the ways that redisFaults doesn't.
func moreRedisFaults() []scenario {
	// While a gate is gone for seconds, tickets and orders must go on: there is a unit for everybody, and so nobody may hear
	// that it is sold out. The shops know them, or a Redis without sessions would let no buyer get as far as the gate.
	enough := plan{buyers: 300, units: 400, span: 7 * time.Second, twice: 30, pays: 40, cancels: 5,
		payAfter: 300 * time.Millisecond, known: true, limit: 40 * time.Second}
	return []scenario{
		{name: "Redis killed and started again (appendfsync everysec)", detail: "with a process that held a queue, so that only the journal has it",
			realRedis: true, mayLose: true, crowd: usual,
			run: func(w *World, c *Crowd) {
				c.Sold(10)
				w.lockSale(func() { // so that the queue is older than what may be lost
					c.For(3 * time.Second)
					w.Strike("Redis and a shop killed", func() {
						w.Shops[0].Kill()
						w.Redis.Kill()
						c.For(500 * time.Millisecond)
						w.restartRedis()
						w.restart(0)
					})
				})
			},
			after: lostOnlyTheLatest},
		{name: "Redis set back to an older journal", realRedis: true, mayLose: true,
			crowd: plan{buyers: 300, units: 260, span: 7 * time.Second, twice: 20, pays: 40, cancels: 5,
				payAfter: 300 * time.Millisecond, limit: 40 * time.Second},
			run: setBack,
			after: func(w *World, c *Crowd) {
				w.scrape()
				if w.total(`miaosha_gate_fixes_total{direction="down"}`) == 0 {
					w.T.Error("no gate was too high: the old journal was none")
				}
			}},
		{name: "Redis slow by 2 s", long: true, hurtsRedis: true, settles: true, crowd: enough,
			run: func(w *World, c *Crowd) {
				c.For(1500 * time.Millisecond)
				w.Strike("Redis slow", func() {
					for _, s := range w.Shops {
						s.ToRedis.Hurt("latency", "downstream", `{"latency": 2000}`)
					}
					c.For(5 * time.Second)
					for _, s := range w.Shops {
						s.ToRedis.Heal()
					}
				})
			},
			after: func(w *World, c *Crowd) { w.answersWithin(c, 40, 0.9, time.Second) }},
		{name: "connections to Redis reset every 200 ms", long: true, hurtsRedis: true, crowd: enough,
			run: func(w *World, c *Crowd) {
				c.For(1500 * time.Millisecond)
				w.Strike("connections reset", func() {
					for range 20 {
						for _, s := range w.Shops { // with the next reply, which is lost
							s.ToRedis.Hurt("reset_peer", "downstream", `{"timeout": 0}`)
						}
						c.For(20 * time.Millisecond)
						for _, s := range w.Shops {
							s.ToRedis.Heal()
						}
						c.For(180 * time.Millisecond)
					}
				})
			},
			after: func(w *World, c *Crowd) { w.answersWithin(c, 40, 0.9, time.Second) }},
		{name: "a reply swallowed", detail: "20 buyers, each alone in a sale of their own, while a crowd buys in another",
			crowd: plan{buyers: 200, units: 80, span: 6 * time.Second, pays: 40, cancels: 15, asksPath: 20,
				payAfter: 300 * time.Millisecond, limit: 40 * time.Second},
			run: func(w *World, c *Crowd) { w.Strike("replies swallowed", func() { swallowReplies(w, c) }) }},
		{name: "a reply swallowed, and then silence", detail: "8 buyers, each alone in a sale of their own; the connection stays", long: true,
			hurtsRedis: true, crowd: plan{buyers: 200, units: 250, span: 12 * time.Second, pays: 40, payAfter: 300 * time.Millisecond,
				known: true, limit: 40 * time.Second},
			run: func(w *World, c *Crowd) { w.Strike("replies swallowed", func() { silentReplies(w, c) }) }},
		{name: "Redis out of memory", long: true, realRedis: true, hurtsRedis: true, crowd: enough,
			run: func(w *World, c *Crowd) {
				c.For(1500 * time.Millisecond)
				w.Strike("out of memory", func() {
					w.configRedis("maxmemory", "100kb") // less than an empty one uses
					c.For(3 * time.Second)
					w.configRedis("maxmemory", "0")
				})
			},
			after: func(w *World, c *Crowd) { w.answersWithin(c, 40, 0.9, time.Second) }},
		{name: "Redis's disk full (appendfsync everysec)", long: true, realRedis: true, hurtsRedis: true, crowd: enough,
			run: func(w *World, c *Crowd) {
				c.For(1500 * time.Millisecond)
				w.Strike("disk full", func() {
					w.fillDisk()
					if err := until(3*time.Second, "Redis refuses to write", func() bool {
						err := w.rdb.Set(context.Background(), "full", 1, time.Minute).Err()
						return err != nil && strings.HasPrefix(err.Error(), "MISCONF")
					}); err != nil {
						w.T.Error(err)
					}
					c.For(3 * time.Second)
					w.limitFiles(unix.RLIM_INFINITY)
					// It tries again each second; the fault lasts until then.
					if err := until(5*time.Second, "Redis writes again", func() bool {
						return w.rdb.Set(context.Background(), "full", 1, time.Minute).Err() == nil
					}); err != nil {
						w.T.Error(err)
					}
				})
			},
			after: func(w *World, c *Crowd) { w.answersWithin(c, 40, 0.9, time.Second) }},
		{name: "Redis's disk full (appendfsync always)", detail: "it ends, and is started again when there is room", long: true,
			realRedis: true, hurtsRedis: true, setup: setup{fsync: "always"}, crowd: enough,
			run: func(w *World, c *Crowd) {
				c.For(1500 * time.Millisecond)
				w.Strike("disk full", func() {
					w.fillDisk()
					if err := until(5*time.Second, "Redis ends for want of room", w.Redis.Ended); err != nil {
						w.T.Error(err)
						w.Redis.Kill()
					}
					c.For(2 * time.Second)
					w.restartRedis() // the limit was the old one's
				})
			},
			after: func(w *World, c *Crowd) { w.answersWithin(c, 40, 0.9, time.Second) }},
		{name: "five processes on an empty Redis", hurtsRedis: true,
			setup: setup{shops: 5, startsIn: 4 * time.Second, sessionsApart: true},
			crowd: plan{buyers: 200, units: 80, span: 4 * time.Second, twice: 30, pays: 40, cancels: 15,
				payAfter: 300 * time.Millisecond, limit: 40 * time.Second},
			run: func(w *World, c *Crowd) {
				w.rebuilt(1)
				w.Strike("FLUSHALL", w.flush) // nobody has a ticket yet
				c.storm()                     // so that all find at once that there is no gate
			},
			after: func(w *World, c *Crowd) { w.rebuilt(2) }},
		{name: "10 s without Redis and Postgres, then a retry storm", long: true, hurtsRedis: true, settles: true,
			crowd: plan{buyers: 300, units: 400, span: 11 * time.Second, pays: 40, payAfter: 300 * time.Millisecond, known: true,
				limit: 45 * time.Second},
			run: func(w *World, c *Crowd) {
				c.For(2 * time.Second)
				w.Strike("both away", func() {
					for _, s := range w.Shops {
						s.ToRedis.Cut()
						s.ToPostgres.Cut()
					}
					c.For(10 * time.Second)
					for _, s := range w.Shops {
						w.join(s.ToRedis)
						w.join(s.ToPostgres)
					}
				})
				c.storm()
			},
			after: func(w *World, c *Crowd) { w.answersWithin(c, 100, 0.99, time.Second) }},
	}
}

// lostOnlyTheLatest: a Redis that syncs each second may have lost the last two before the kill: it postpones for so long.
// What is older has its outcome.
func lostOnlyTheLatest(w *World, c *Crowd) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	tr, err := w.readTruth(ctx)
	if err != nil {
		w.T.Error(err)
		return
	}
	strikes, _ := w.struck()
	from, to := strikes[0].begin.Add(-2*time.Second), strikes[0].end
	lost, waited := map[string]bool{}, 0
	for _, a := range c.ledger.all(of("buy")) {
		if a.Data.State != "queued" {
			continue
		}
		at := granted(a.Data.Ticket)
		r, ok := tr.tickets[a.Data.Ticket]
		if ok && at.Before(from) && r.at.After(to) {
			waited++
		}
		if ok {
			continue
		}
		if lost[a.Data.Ticket] = true; at.Before(from) || at.After(to) {
			w.Violate("I4: ticket %s is lost: granted %v after the kill, it is not of the two seconds before it", a.Data.Ticket, at.Sub(strikes[0].begin))
		}
	}
	w.T.Logf("tickets lost: %d; of those older than two seconds %d were settled after the kill", len(lost), waited)
}

// setBack gives Redis its journal of an earlier moment, at which tickets were queued that have their order since.
func setBack(w *World, c *Crowd) {
	c.Sold(15)
	w.lockSale(func() {
		c.For(400 * time.Millisecond)
		if err := w.Redis.SaveAOF(); err != nil {
			w.T.Error(err)
		}
	})
	c.Sold(100)
	owners := c.owners()
	if len(owners) < 50 {
		w.T.Errorf("only %d buyers have an order", len(owners))
	}
	// They look at what they have all the time, so that a word that is false for a moment is heard: until 2 s after.
	back := make(chan struct{})
	for n := range 4 {
		c.looks.Go(func() {
			back := back
			for i, end := n, time.Now().Add(time.Minute); time.Now().Before(end); i++ {
				select {
				case <-back:
					back, end = nil, time.Now().Add(2*time.Second)
				case <-time.After(2 * time.Millisecond):
				}
				b := owners[i*7%len(owners)]
				c.ledger.ask(w.anyShop(i), b.id, b.token, "result", "GET", w.salePath()+"/result", "")
			}
		})
	}
	w.Strike("Redis set back", func() {
		w.Redis.Kill()
		if err := w.Redis.RestoreAOF(); err != nil {
			w.T.Error(err)
		}
		w.restartRedis()
	})
	close(back)
}

// owners are the buyers who were told of an order so far.
func (c *Crowd) owners() (owners []*buyer) {
	told := map[int64]bool{}
	for _, a := range c.ledger.all(of("buy", "result")) {
		if a.Data.State == "ordered" {
			told[a.User] = true
		}
	}
	for _, b := range c.buyers {
		if told[b.id] {
			owners = append(owners, b)
		}
	}
	return owners
}

// storm has everybody who has no order click at once, at every shop. Nobody of the crowd may be asking for addresses.
func (c *Crowd) storm() {
	owners := c.owners()
	var clicks sync.WaitGroup
	for _, b := range c.buyers {
		if slices.Contains(owners, b) {
			continue
		}
		for _, s := range c.w.Shops {
			clicks.Go(func() { c.ledger.ask(s, b.id, b.token, "buy", "POST", c.w.salePath()+"/buy/"+b.path, "") })
		}
	}
	clicks.Wait()
}

// answersWithin: while it is broken a share of the buys is answered within a limit, and what isn't an order or a place
// in the queue is a clear refusal that says when to come again. There must have been some, or it proves nothing.
func (w *World) answersWithin(c *Crowd, some int, share float64, limit time.Duration) {
	buys := w.during(c.ledger.all(of("buy")))
	if len(buys) < some {
		w.T.Errorf("only %d buys during the fault", len(buys))
	}
	if p := quantile(latencies(buys), share); p > limit {
		w.Violate("I10: during the fault %.0f%% of the buys are answered only after %v", 100*share, p)
	}
	for _, a := range buys {
		switch {
		case a.Status == http.StatusServiceUnavailable && a.RetryAfter > 0, a.Status == http.StatusAccepted:
		default:
			w.Violate("I10: during the fault a buy heard %d %s %s, Retry-After %v", a.Status, a.Code, a.Data.State, a.RetryAfter)
		}
	}
}

// swallow is a toxic that drops one downstream chunk with a text in it each time it is armed, and with it the connection
// if it is to.
type swallow struct {
	Text  string `json:"text"`
	Cut   bool   `json:"cut"`
	armed atomic.Bool
	drops atomic.Int32
}

// Pipe implements toxics.Toxic.
func (t *swallow) Pipe(stub *toxics.ToxicStub) {
	for {
		select {
		case <-stub.Interrupt:
			return
		case c := <-stub.Input:
			if c == nil {
				stub.Close()
				return
			}
			if !bytes.Contains(c.Data, []byte(t.Text)) || !t.armed.CompareAndSwap(true, false) {
				stub.Output <- c
				continue
			}
			if t.drops.Add(1); t.Cut {
				stub.Close()
				return
			}
		}
	}
}

// lone is a sale of its own, in which one buyer at a time buys while the gate's word to him is swallowed.
type lone struct {
	w      *World
	c      *Crowd
	sale   int64
	at     string // of its requests
	units  int
	buyers []latecomer
	toxics []*swallow // by shop
}

// alone makes one, and puts the toxic on every shop's wire. heal takes it off.
func alone(w *World, c *Crowd, buyers, units int, cut bool) (l *lone, heal func(), err error) {
	l = &lone{w: w, c: c, units: units}
	heal = func() {
		for _, s := range w.Shops {
			s.ToRedis.Heal()
		}
	}
	if l.buyers, l.sale, err = w.anotherSale(buyers, units); err != nil {
		return nil, heal, err
	}
	l.at = "/api/sales/" + strconv.FormatInt(l.sale, 10)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := until(5*time.Second, "the other sale has a gate", func() bool { return w.rdb.Exists(ctx, l.key("gate")).Val() == 1 }); err != nil {
		return nil, heal, err
	}
	for _, s := range w.Shops {
		if err := until(5*time.Second, "every shop knows the other sale", func() bool {
			return c.ledger.ask(s, 0, "", "another", "GET", l.at, "").Status == http.StatusOK
		}); err != nil {
			return nil, heal, err
		}
	}
	// An epoch is one sale's: no reply of the other sale's gate has this text.
	text := "NEW " + w.rdb.HGet(ctx, l.key("gate"), "epoch").Val() + ":"
	for _, s := range w.Shops {
		s.ToRedis.Hurt("swallow", "downstream", fmt.Sprintf(`{"text": %q, "cut": %v}`, text, cut))
		l.toxics = append(l.toxics, s.ToRedis.proxy.Toxics.GetToxic("swallow_downstream").Toxic.(*swallow))
	}
	return l, heal, nil
}

func (l *lone) key(name string) string { return fmt.Sprintf("ms:{%d}:%s", l.sale, name) }

func (l *lone) gate(ctx context.Context) string {
	return l.w.rdb.HGet(ctx, l.key("gate"), "stock").Val()
}

func (l *lone) click(shop int, b latecomer) answer {
	return l.c.ledger.ask(l.w.Shops[shop], b.id, b.token, "buy", "POST", l.at+"/buy/"+b.path, "")
}

// order waits until he has one.
func (l *lone) order(shop int, b latecomer) (order string) {
	if err := until(8*time.Second, "he has his order", func() bool {
		order = l.c.ledger.ask(l.w.Shops[shop], b.id, b.token, "result", "GET", l.at+"/result", "").Data.OrderID
		return order != ""
	}); err != nil {
		l.w.Violate("I4: the buyer of a swallowed reply: %v", err)
	}
	return order
}

// rest holds, when all have bought, that each had one unit.
func (l *lone) rest(ctx context.Context) (tickets int) {
	want := strconv.Itoa(l.units - len(l.buyers))
	if err := until(12*time.Second, "the journal is empty and the gate right", func() bool {
		return l.w.rdb.XLen(ctx, l.key("journal")).Val() == 0 && l.gate(ctx) == want
	}); err != nil {
		l.w.Violate("I6: the other sale: %v: the gate offers %s, want %s", err, l.gate(ctx), want)
	}
	var stock, orders int
	if err := l.w.pool.QueryRow(ctx, `
		select stock, (select count(*) from orders where sale_id = $1), (select count(*) from ticket_results where sale_id = $1)
		from   sales where id = $1`, l.sale).Scan(&stock, &orders, &tickets); err != nil {
		l.w.T.Error(err)
	} else if stock != l.units-len(l.buyers) || orders != len(l.buyers) {
		l.w.Violate("I2: of %d units %d are left, with %d orders of %d buyers", l.units, stock, orders, len(l.buyers))
	}
	return tickets
}

// swallowReplies: the reply is lost with its connection. The same call again finds the place that was given, so the buyer
// notices nothing, and the gate has one place less.
func swallowReplies(w *World, c *Crowd) {
	l, heal, err := alone(w, c, 20, 25, true)
	defer heal()
	if err != nil {
		w.T.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for i, b := range l.buyers {
		shop := i % len(w.Shops)
		t := l.toxics[shop]
		t.armed.Store(true)
		a := l.click(shop, b)
		stock := l.gate(ctx)
		if int(t.drops.Load()) != i/len(w.Shops)+1 {
			w.T.Errorf("no reply was swallowed: %d %s", a.Status, a.Code)
		}
		if want := strconv.Itoa(l.units - 1 - i); stock != want {
			w.Violate("I2: a swallowed reply cost more than one place: the gate offers %s, want %s", stock, want)
			return // the next ones would only count on from there
		}
		if a.Status != http.StatusAccepted || a.Data.Ticket == "" {
			w.Violate("I4: the buyer of a swallowed reply heard %d %s %s", a.Status, a.Code, a.Data.State)
			continue
		}
		var kept string
		if err := w.pool.QueryRow(ctx, `select ticket from orders where id = $1 and user_id = $2`, l.order(shop, b), b.id).Scan(&kept); err != nil || kept != a.Data.Ticket {
			w.Violate("I4: he was told of ticket %s, and his order's is %q (%v)", a.Data.Ticket, kept, err)
		}
	}
	// A second place would have come out as a duplicate.
	if n := l.rest(ctx); n != len(l.buyers) {
		w.Violate("I2: %d buyers had %d tickets", len(l.buyers), n)
	}
}

// silentReplies: nothing comes, and the connection stays. Nobody can tell that from a Redis that is away, so the buyer may
// be sold past the gate while a ticket of his is in the journal: it costs one unit all the same.
func silentReplies(w *World, c *Crowd) {
	l, heal, err := alone(w, c, 8, 12, false)
	defer heal()
	if err != nil {
		w.T.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	for i, b := range l.buyers {
		shop := i % len(w.Shops)
		l.toxics[shop].armed.Store(true)
		if err := until(8*time.Second, "he is let in", func() bool {
			a := l.click(shop, b)
			if a.Status != http.StatusAccepted && a.Status != http.StatusServiceUnavailable {
				w.Violate("I5: the buyer of a swallowed reply heard %d %s", a.Status, a.Code)
			}
			return a.Status == http.StatusAccepted
		}); err != nil {
			w.Violate("I4: the buyer of a swallowed reply: %v", err)
			continue
		}
		l.order(shop, b)
		c.For(700 * time.Millisecond) // until the shop dares to ask Redis again
	}
	drops := 0
	for _, t := range l.toxics {
		drops += int(t.drops.Load())
	}
	if drops < len(l.buyers)/2 {
		w.T.Errorf("only %d replies were swallowed", drops)
	}
	l.rest(ctx)
}

// anotherSale makes one, open now, with buyers of its own.
func (w *World) anotherSale(buyers, units int) (all []latecomer, sale int64, err error) {
	out, err := w.command("sale", "--title", "Another", "--price", "990", "--stock", strconv.Itoa(units), "--start", "now", "--end", "1h")
	if err != nil {
		return nil, 0, err
	}
	if sale, err = strconv.ParseInt(strings.TrimSpace(out), 10, 64); err != nil {
		return nil, 0, err
	}
	if out, err = w.command("users", "-n", strconv.Itoa(buyers), "--sale", strconv.FormatInt(sale, 10)); err != nil {
		return nil, 0, err
	}
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil {
		return nil, 0, err
	}
	for _, r := range rows[1:] {
		id, err := strconv.ParseInt(r[0], 10, 64)
		if err != nil {
			return nil, 0, err
		}
		all = append(all, latecomer{id, r[2], r[3]})
	}
	return all, sale, nil
}

func (w *World) configRedis(name, value string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := w.rdb.ConfigSet(ctx, name, value).Err(); err != nil {
		w.T.Errorf("set %s of Redis: %v", name, err)
	}
}

// fillDisk lets Redis write a few bytes more to its journal, and then none: the last write is cut short, as by a disk
// that is full.
func (w *World) fillDisk() {
	parts, err := filepath.Glob(filepath.Join(w.Redis.aof(), "*.incr.aof"))
	if err != nil || len(parts) != 1 {
		w.T.Errorf("the journal of Redis has %d parts: %v", len(parts), err)
		return
	}
	is, err := os.Stat(parts[0])
	if err != nil {
		w.T.Error(err)
		return
	}
	w.limitFiles(uint64(is.Size()) + 10)
}

// limitFiles bounds the files that Redis writes. The hard limit stays open, so that it can be taken back.
func (w *World) limitFiles(size uint64) {
	if err := unix.Prlimit(w.Redis.cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: unix.RLIM_INFINITY}, nil); err != nil {
		w.T.Errorf("limit the files of Redis: %v", err)
	}
}

// rebuilt: so many gates were set up, by all processes together.
func (w *World) rebuilt(want float64) {
	w.scrape()
	if n := w.total("miaosha_gate_rebuilds_total"); n != want {
		w.Violate("I6: %d processes set up %.0f gates, want %.0f", len(w.Shops), n, want)
	}
}

func (w *World) join(wire *Wire) {
	if err := wire.Join(); err != nil {
		w.T.Errorf("join a wire: %v", err)
	}
}
