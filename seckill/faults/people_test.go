//go:build faults && linux

package faults

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// people are the scenarios in which nothing is broken but the order in which people do things.
func people() []scenario {
	return []scenario{
		{name: "a crowd without a gate", gateless: true, setup: setup{env: []string{"MIAOSHA_GATE=off"}},
			crowd: plan{buyers: 300, units: 200, span: 50 * time.Millisecond, twice: 80, limit: 30 * time.Second}},
		{name: "cancelled here, bought there", crowd: plan{buyers: 20, units: 20, span: 200 * time.Millisecond, limit: 30 * time.Second},
			run: cancelledHereBoughtThere},
		{name: "pay, cancel and five sweepers", detail: "200 orders at the end of their time", setup: setup{shops: 5, payWithin: 3 * time.Second},
			crowd: plan{buyers: 200, units: 200, span: 500 * time.Millisecond, limit: 40 * time.Second}, run: race},
		{name: "notices repeated, late, reordered, forged, wrong", setup: setup{env: []string{"MIAOSHA_NOTIFY_SECRET=" + notifySecret, "MIAOSHA_CASHIER=sandbox"}},
			crowd: plan{buyers: 40, units: 40, span: 500 * time.Millisecond, limit: 30 * time.Second}, run: notices},
		{name: "poison in the journal by hand", poison: true, crowd: usual, run: func(w *World, c *Crowd) {
			for n := range 5 {
				c.Sold(20 * (n + 1))
				w.Strike("poison", w.poisonJournal)
			}
		}, after: func(w *World, c *Crowd) {
			if n := w.rdb.XLen(context.Background(), w.key("dead")).Val(); n != 5*int64(len(poisons)) {
				w.Violate("I4: %d dead letters, want %d", n, 5*len(poisons))
			}
		}},
		{name: "a clock five minutes ahead", detail: "of one process of two", long: true, setup: setup{clockAhead: true, env: []string{"MIAOSHA_PAY_WITHIN=4m"}}, crowd: usual},
	}
}

// cancelledHereBoughtThere: a unit that is cancelled at one process can be had at the other within a second, and never
// before it is cancelled, and once however often the cancel is repeated.
func cancelledHereBoughtThere(w *World, c *Crowd) {
	c.Sold(len(c.buyers))
	late := w.moreBuyers(len(c.buyers))
	for i, b := range c.buyers {
		path := "/api/orders/" + b.order + "/cancel"
		a := c.ledger.ask(w.Shops[0], b.id, b.token, "cancel", "POST", path, "")
		if a.Status != 200 {
			w.T.Errorf("cancel: %d %s", a.Status, a.Code)
			return
		}
		back := a.received()
		for range 3 { // again and again: it was cancelled already
			if a := c.ledger.ask(w.Shops[0], b.id, b.token, "cancel", "POST", path, ""); a.Code != "wrong_status" {
				w.Violate("I8: cancelled once more: %d %s", a.Status, a.Code)
			}
		}
		w.gateNeverAhead(600 * time.Millisecond)
		for bought := false; !bought; {
			a := c.ledger.ask(w.Shops[1], late[i].id, late[i].token, "late buy", "POST", w.salePath()+"/buy/"+late[i].path, "")
			if bought = a.Data.State != ""; !bought && time.Since(back) > 2*time.Second {
				w.Violate("I5: a unit that was cancelled at one process can't be had at the other after 2 s: %d %s", a.Status, a.Code)
				return
			}
			if took := a.received().Sub(back); bought && took > time.Second+100*time.Millisecond {
				w.Violate("I5: a unit that was cancelled at one process was had at the other after %v", took)
			}
		}
	}
}

// gateNeverAhead: while nobody buys, the gate never offers more than Postgres has (I6). Postgres is read after it.
func (w *World) gateNeverAhead(d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	looks := 0
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		g, err := w.readGate(ctx)
		var stock int
		if err == nil {
			err = w.pool.QueryRow(ctx, `select stock from sales where id = $1`, w.Sale).Scan(&stock)
		}
		if err != nil {
			w.T.Error(err)
			return
		}
		if looks++; g.stock > stock {
			w.Violate("I6: the gate offers %d units, Postgres has %d", g.stock, stock)
			return
		}
	}
	if looks < 5 {
		w.T.Errorf("the gate was looked at %d times only", looks)
	}
}

// latecomer is a buyer with a session and an address, who is not of the crowd.
type latecomer struct {
	id          int64
	token, path string
}

func (w *World) moreBuyers(n int) (all []latecomer) {
	out, err := w.command("users", "-n", strconv.Itoa(n), "--sale", strconv.FormatInt(w.Sale, 10))
	if err != nil {
		w.T.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || len(rows) != n+1 {
		w.T.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, r := range rows[1:] {
		id, _ := strconv.ParseInt(r[0], 10, 64)
		all = append(all, latecomer{id, r[2], r[3]})
	}
	return all
}

// race has everybody pay and cancel at once in the moment in which his time runs out and five sweepers come by.
func race(w *World, c *Crowd) {
	c.Sold(len(c.buyers))
	var all sync.WaitGroup
	var paid, cancelled, swept atomic.Int64
	for i, b := range c.buyers {
		all.Go(func() {
			at := "/api/orders/" + b.order
			a := b.insist("order", "GET", at, "")
			expiry, err := time.Parse(time.RFC3339, a.Data.ExpiresAt)
			if err != nil {
				w.T.Errorf("order of %v: %d %s %v", b, a.Status, a.Code, err)
				return
			}
			payment := b.insist("pay", "POST", at+"/pay", "").Data.PaymentID
			// The time that is told has no fractions, so the real one is up to a second later.
			time.Sleep(time.Until(expiry.Add(time.Duration(i%36-6) * 50 * time.Millisecond)))
			var both sync.WaitGroup
			both.Go(func() {
				if b.insist("confirm", "POST", "/api/cashier/"+payment, `{"action":"confirm"}`).Data.Status == "captured" {
					paid.Add(1)
				}
			})
			both.Go(func() {
				time.Sleep(time.Duration(i%3) * 8 * time.Millisecond) // paying goes a longer way
				if b.insist("cancel", "POST", at+"/cancel", "").Status == 200 {
					cancelled.Add(1)
				}
			})
			both.Wait()
			if s := b.insist("order", "GET", at, "").Data.Status; s == "cancelled" {
				swept.Add(1)
			}
		})
	}
	all.Wait()
	w.T.Logf("of %d: paid %d, cancelled by the buyer %d, in all %d", len(c.buyers), paid.Load(), cancelled.Load(), swept.Load())
	if paid.Load()+swept.Load() != int64(len(c.buyers)) {
		w.Violate("I8: of %d orders %d are paid and %d cancelled", len(c.buyers), paid.Load(), swept.Load())
	}
	if paid.Load() == 0 || cancelled.Load() == 0 || swept.Load() == cancelled.Load() {
		w.T.Errorf("not everybody won once: paid %d, cancelled %d, run out %d", paid.Load(), cancelled.Load(), swept.Load()-cancelled.Load())
	}
}

const notifySecret = "a provider's key of 32 bytes ..."

// notify sends a notice as the provider does; change may spoil it.
func (w *World) notify(c *Crowd, shop int, body string, at time.Time, key string) answer {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(stamp + "." + body))
	sign := http.Header{"X-Timestamp": {stamp}, "X-Signature": {hex.EncodeToString(mac.Sum(nil))}}
	return c.ledger.askWith(w.Shops[shop], 0, "", "notify", "POST", "/api/payments/notify", body, sign)
}

// notices: one capture per order, and every fen that is not one goes back.
func notices(w *World, c *Crowd) {
	c.Sold(len(c.buyers))
	say := func(order, ref string, amount int) string {
		return fmt.Sprintf(`{"order_id":%q,"amount":%d,"provider_ref":%q}`, order, amount, ref)
	}
	want := func(what string, a answer, status int, word string) {
		if a.Status != status || a.Data.Status != word && a.Code != word {
			w.Violate("I7: a notice %s: %d %s %s, want %d %s", what, a.Status, a.Code, a.Data.Status, status, word)
		}
	}
	now := time.Now()
	for i := 0; i < len(c.buyers); i += 4 {
		id, ref := c.buyers[i].order, fmt.Sprintf("r-%d", i)
		// Forged, old, of another amount, of no order: refused, and nothing is kept of it.
		want("forged", w.notify(c, 0, say(id, ref, 990), now, "another key of 32 bytes ........"), 403, "forbidden")
		want("of an hour ago", w.notify(c, 1, say(id, ref, 990), now.Add(-time.Hour), notifySecret), 403, "forbidden")
		want("of a wrong amount", w.notify(c, 0, say(id, ref, 989), now, notifySecret), 400, "bad_request")
		want("of no order", w.notify(c, 1, say("01a1fcde-b4cc-7e32-a2ab-8b8f9f201656", ref, 990), now, notifySecret), 404, "not_found")
		// Repeated at both processes at once: one capture, one answer.
		var all sync.WaitGroup
		for n := range 6 {
			all.Go(func() { want("repeated", w.notify(c, n%2, say(id, ref, 990), now, notifySecret), 200, "captured") })
		}
		all.Wait()
		// A second capture of the same order goes back; the reference of one can't pay another.
		want("of a second capture", w.notify(c, 0, say(id, ref+"-again", 990), now, notifySecret), 200, "refund_due")
		other := c.buyers[i+1]
		want("with another's reference", w.notify(c, 1, say(other.order, ref, 990), now, notifySecret), 409, "wrong_status")
		// Late: the order is cancelled first.
		if a := other.insist("cancel", "POST", "/api/orders/"+other.order+"/cancel", ""); a.Status != 200 {
			w.T.Errorf("cancel: %d %s", a.Status, a.Code)
		}
		want("too late", w.notify(c, 0, say(other.order, ref+"-late", 990), now, notifySecret), 200, "refund_due")
		// Reordered: the confirm of an older payment comes after another capture has paid.
		third := c.buyers[i+2]
		payment := third.insist("pay", "POST", "/api/orders/"+third.order+"/pay", "").Data.PaymentID
		want("that overtakes", w.notify(c, 1, say(third.order, ref+"-second", 990), now, notifySecret), 200, "captured")
		want("overtaken", w.notify(c, 0, say(third.order, "sandbox-"+payment, 990), now, notifySecret), 200, "refund_due")
	}
}

// poisons are journal entries that no ticket can be made of, or none that can be settled.
var poisons = []map[string]any{
	{"x": "y"},
	{"user": "7", "epoch": "1", "nonce": "\x00"},
	{"user": "-5", "epoch": "1", "nonce": "7c6f1d9e-0f0a-4a52-9f1e-2b8a3a1f0c11"},
	{"user": "99999999999999999999", "epoch": "1", "nonce": "7c6f1d9e-0f0a-4a52-9f1e-2b8a3a1f0c11"},
}

func (w *World) poisonJournal() {
	for _, p := range poisons {
		if err := w.rdb.XAdd(context.Background(), &redis.XAddArgs{Stream: w.key("journal"), Values: p}).Err(); err != nil {
			w.T.Error(err)
		}
	}
}
