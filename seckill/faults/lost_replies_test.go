//go:build faults && linux

package faults

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/Shopify/toxiproxy/v2/toxics"
)

func init() { toxics.Register("swallow", new(swallow)) }

// lostReplies are the scenarios in which Redis does what it is asked to, and its answer gets lost.
func lostReplies() []scenario {
	return []scenario{
		{name: "a reply swallowed", detail: "20 buyers, each alone in a sale of their own, while a crowd buys in another",
			crowd: plan{buyers: 200, units: 80, span: 6 * time.Second, pays: 40, cancels: 15, asksPath: 20,
				payAfter: 300 * time.Millisecond, limit: 40 * time.Second},
			run: func(w *World, c *Crowd) { w.Strike("replies swallowed", func() { swallowReplies(w, c) }) }},
		{name: "a reply swallowed, and then silence", detail: "8 buyers, each alone in a sale of their own; the connection stays", long: true,
			crowd: plan{buyers: 200, units: 250, span: 12 * time.Second, pays: 40, payAfter: 300 * time.Millisecond,
				known: true, limit: 40 * time.Second},
			run: func(w *World, c *Crowd) { w.Strike("replies swallowed", func() { silentReplies(w, c) }) }},
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
