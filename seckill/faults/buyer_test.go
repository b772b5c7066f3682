//go:build faults && linux

package faults

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// buyer is one of the crowd. What he will do is drawn before he arrives.
type buyer struct {
	c                     *Crowd
	rng                   *rand.Rand // of his own goroutine
	id                    int64
	token, path           string
	arrives               time.Duration
	twice, pays, cancels  bool
	state, order, payment string // his last word, once he has one
}

func (b *buyer) ask(kind, method, path, body string) answer {
	return b.c.ledger.ask(b.c.w.anyShop(b.rng.IntN(1<<30)), b.id, b.token, kind, method, path, body)
}

// wait is d with jitter.
func (b *buyer) wait(d time.Duration) { time.Sleep(d/2 + time.Duration(b.rng.Int64N(int64(d)))) }

// shop does what a person does: click, perhaps twice at once, and ask until he knows; after sold out again and again,
// until nothing can come back.
func (b *buyer) shop() {
	for b.c.goesOn() {
		if b.path == "" {
			if b.askPath(); b.path == "" {
				if b.state == "sold_out" {
					if b.c.over() {
						return
					}
					b.wait(250 * time.Millisecond)
				}
				continue
			}
		}
		a := b.click()
		switch {
		case a.Data.State == "queued":
			b.state = b.poll()
		case a.Data.State != "":
			b.state, b.order = a.Data.State, a.Data.OrderID
		default:
			b.refused(a)
		}
		switch b.state {
		case "ordered":
			return
		case "closed", "invalid", "ended":
			return // judged later
		case "sold_out":
			if b.c.over() {
				return
			}
			b.wait(250 * time.Millisecond)
		}
	}
}

// refused takes a refusal in, and waits as it asks.
func (b *buyer) refused(a answer) {
	b.state = ""
	switch {
	case a.Code == "sold_out", a.Code == "ended":
		b.state = a.Code
	case a.Code == "bad_path":
		b.path = ""
	case a.Code == "not_started":
		b.wait(min(time.Duration(max(a.Data.StartsIn, 50))*time.Millisecond, time.Second))
	default:
		b.wait(150 * time.Millisecond) // an impatient one
	}
}

func (b *buyer) askPath() {
	a := b.ask("path", "POST", b.c.w.salePath()+"/path", "")
	if b.path = a.Data.Path; b.path == "" {
		b.refused(a)
	}
}

// click buys. Of two clicks at once the better answer counts.
func (b *buyer) click() answer {
	at := b.c.w.salePath() + "/buy/" + b.path
	if !b.twice {
		return b.ask("buy", "POST", at, "")
	}
	var both [2]answer
	var clicks sync.WaitGroup
	first := b.rng.IntN(1 << 30)
	for i := range both {
		clicks.Go(func() {
			both[i] = b.c.ledger.ask(b.c.w.anyShop(first+i), b.id, b.token, "buy", "POST", at, "")
		})
	}
	clicks.Wait()
	b.twice = b.rng.IntN(4) > 0 // he tires
	for _, want := range []string{"ordered", "queued"} {
		for _, a := range both {
			if a.Data.State == want {
				return a
			}
		}
	}
	return both[0]
}

// poll asks until there is a final word; "" if the crowd's time is over, or if his ticket is gone and he has to click again.
func (b *buyer) poll() string {
	next := 20
	for b.c.goesOn() {
		time.Sleep(time.Duration(max(20, next)) * time.Millisecond)
		a := b.ask("result", "GET", b.c.w.salePath()+"/result", "")
		if a.Status != 200 {
			b.wait(100 * time.Millisecond)
			continue
		}
		switch a.Data.State {
		case "queued":
			next = a.Data.Next
		case "none":
			return ""
		default:
			b.order = a.Data.OrderID
			return a.Data.State
		}
	}
	return ""
}

// after is what a buyer does with his order: look at it, ask again, and pay or cancel.
func (b *buyer) after() {
	if b.order == "" {
		return
	}
	at := "/api/orders/" + b.order
	b.insist("order", "GET", at, "")
	b.wait(200 * time.Millisecond)
	b.ask("result", "GET", b.c.w.salePath()+"/result", "")
	switch {
	case b.cancels:
		b.insist("cancel", "POST", at+"/cancel", "")
	case b.pays:
		b.wait(b.c.plan.payAfter)
		if a := b.insist("pay", "POST", at+"/pay", ""); a.Status == 200 {
			b.payment = a.Data.PaymentID
			b.insist("confirm", "POST", "/api/cashier/"+b.payment, `{"action":"confirm"}`)
		}
	}
}

// insist asks until it is told something else than busy.
func (b *buyer) insist(kind, method, path, body string) (a answer) {
	for b.c.goesOn() {
		if a = b.ask(kind, method, path, body); a.Status != 0 && a.Status != 503 && a.Status != 429 {
			return a
		}
		b.wait(150 * time.Millisecond)
	}
	return a
}

func (b *buyer) String() string { return fmt.Sprintf("buyer %d", b.id) }
