package sandboxtest

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Buyer is a user with a session who wants one unit of a sale. Its steps speak HTTP: AskPath,
// Click, AskResult, Pay and Cancel. Buy does the steps up to the order like an impatient person,
// Order like a test that must have an order.
//
// A Buyer may be embedded: a harness which records every reply sets Send.
type Buyer struct {
	ID    int64
	Token string
	Sale  string
	Path  string // the hidden address; "" if the buyer has none yet

	// Send makes one request; kind names the step: path, buy, result, order, pay, confirm or
	// cancel. Click calls it from several goroutines.
	Send func(kind, method, path, body string) Reply

	// The state after Buy.
	Queued    bool   // a click got a ticket, and the result is not final
	Forgotten bool   // the shop denied a ticket that it had granted
	State     string // the final state: ordered, sold_out, closed or invalid; "" if there is none yet
	OrderID   string
}

// Buyers creates n users with sessions and with the hidden address of a sale, by the command
// miaosha users. Without a sale ("") they have no address. They need a shop: see At. Shop.Buyers
// does both.
func Buyers(t testing.TB, env []string, n int, sale string) []*Buyer {
	t.Helper()
	args := []string{"users", "-n", strconv.Itoa(n)}
	if sale != "" {
		args = append(args, "--sale", sale)
	}
	buyers, err := ReadBuyers(MustCommand(t, env, args...), sale)
	if err != nil {
		t.Fatal(err)
	}
	if len(buyers) != n {
		t.Fatalf("miaosha users -n %d made %d", n, len(buyers))
	}
	return buyers
}

// Buyers is Buyers at this shop.
func (s *Shop) Buyers(t testing.TB, n int, sale string) []*Buyer {
	t.Helper()
	buyers := Buyers(t, s.env, n, sale)
	for _, b := range buyers {
		b.At(func() string { return s.URL })
	}
	return buyers
}

// ReadBuyers reads what the command miaosha users has printed for a sale.
func ReadBuyers(printed, sale string) ([]*Buyer, error) {
	rows, err := csv.NewReader(strings.NewReader(printed)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read buyers: %w", err)
	}
	buyers := make([]*Buyer, 0, len(rows))
	for _, row := range rows[1:] {
		b := &Buyer{Token: row[2], Sale: sale}
		if b.ID, err = strconv.ParseInt(row[0], 10, 64); err != nil {
			return nil, fmt.Errorf("read buyers: %w", err)
		}
		if len(row) > 3 {
			b.Path = row[3]
		}
		buyers = append(buyers, b)
	}
	return buyers, nil
}

// At sends the buyer to the shop at url, which may change between two requests.
func (b *Buyer) At(url func() string) *Buyer {
	b.Send = func(_, method, path, body string) Reply { return Call(method, url()+path, b.Token, body) }
	return b
}

// Purchase is the data of a reply to a step of a purchase. Fields that the reply does not have are
// zero.
type Purchase struct {
	Path      string `json:"path"`
	Ticket    string `json:"ticket"`
	State     string `json:"state"`
	OrderID   string `json:"order_id"`
	NextPoll  int    `json:"next_poll_ms"`
	StartsIn  int    `json:"starts_in_ms"`
	PaymentID string `json:"payment_id"`
	Status    string `json:"status"` // of an order or of a payment
	ExpiresAt string `json:"expires_at"`
}

// Purchase returns the data of a reply to a step of a purchase; the zero value if it has none.
func (r Reply) Purchase() (p Purchase) {
	json.Unmarshal(r.Data, &p) // another kind of data has none of it
	return p
}

// NoTicket reports whether a result says that the buyer has no ticket and no order: none, or sold out for now.
func (p Purchase) NoTicket() bool {
	return p.State == "none" || p.State == "sold_out" && p.NextPoll > 0
}

func (b *Buyer) salePath() string { return "/api/sales/" + b.Sale }

// AskPath asks for the hidden address, and keeps it.
func (b *Buyer) AskPath() Reply {
	r := b.Send("path", "POST", b.salePath()+"/path", "")
	b.Path = r.Purchase().Path
	return r
}

// Click clicks n times at once on the hidden address.
func (b *Buyer) Click(n int) []Reply {
	replies := make([]Reply, n)
	var clicks sync.WaitGroup
	for i := range replies {
		clicks.Go(func() { replies[i] = b.Send("buy", "POST", b.salePath()+"/buy/"+b.Path, "") })
	}
	clicks.Wait()
	return replies
}

// AskResult asks for the state of the buyer's ticket.
func (b *Buyer) AskResult() Reply { return b.Send("result", "GET", b.salePath()+"/result", "") }

// Insist repeats a request for as long as the reply is Busy, until deadline. Between two requests
// it waits half as long as the shop asks for, or a moment. It makes at least one request.
func (b *Buyer) Insist(deadline time.Time, kind, method, path, body string) Reply {
	for {
		r := b.Send(kind, method, path, body)
		if !r.Busy() || time.Now().After(deadline) { //timing: the caller's deadline: the fault suite has its own
			return r
		}
		pause(r, deadline)
	}
}

// Pay pays an order at the sandbox's cashier, and returns the reply to the first step that failed,
// or to the last. Each step is repeated as Insist does.
func (b *Buyer) Pay(deadline time.Time, order string) Reply {
	r := b.Insist(deadline, "pay", "POST", "/api/orders/"+order+"/pay", "")
	if r.Code != "ok" {
		return r
	}
	return b.Insist(deadline, "confirm", "POST", "/api/cashier/"+r.Purchase().PaymentID, `{"action":"confirm"}`)
}

// Cancel cancels an order. It is repeated as Insist does.
func (b *Buyer) Cancel(deadline time.Time, order string) Reply {
	return b.Insist(deadline, "cancel", "POST", "/api/orders/"+order+"/cancel", "")
}

// Buy goes on until the buyer has a final state, or until deadline: it asks for an address unless
// the buyer has one, clicks twice at once, and polls. A buyer who is refused asks for a new
// address. State, OrderID, Queued and Forgotten tell the end.
func (b *Buyer) Buy(deadline time.Time) {
	for time.Now().Before(deadline) { //timing: the caller's deadline: the fault suite has its own
		if !b.Queued {
			if b.Path == "" {
				r := b.AskPath()
				if r.Code == "sold_out" {
					b.State = r.Code
					return
				}
				if r.Code != "ok" {
					pause(r, deadline)
					continue
				}
			}
			for _, r := range b.Click(2) {
				b.Queued = b.Queued || r.Status == http.StatusAccepted
			}
			b.Path = ""
		}
		p := b.AskResult().Purchase()
		switch {
		case p.NoTicket():
			b.Forgotten = b.Forgotten || b.Queued
			b.Queued = false
		case slices.Contains([]string{"ordered", "sold_out", "closed", "invalid"}, p.State):
			b.State, b.OrderID, b.Queued = p.State, p.OrderID, false
			return
		}
		time.Sleep(time.Duration(max(20, p.NextPoll)) * time.Millisecond) //timing: a page polls as the shop asks
	}
}

// Order buys one unit with one click and returns the order's id. The test fails at once on a
// refusal. A busy shop is asked again.
func (b *Buyer) Order(t testing.TB) string {
	t.Helper()
	deadline := time.Now().Add(Hang)
	if b.Path == "" {
		r := b.Insist(deadline, "path", "POST", b.salePath()+"/path", "")
		if r.Code != "ok" {
			t.Fatalf("buyer %d: hidden address: %d %s", b.ID, r.Status, r.Raw)
		}
		b.Path = r.Purchase().Path
	}
	r := b.Insist(deadline, "buy", "POST", b.salePath()+"/buy/"+b.Path, "")
	if r.Status != http.StatusAccepted {
		t.Fatalf("buyer %d: buy: %d %s", b.ID, r.Status, r.Raw)
	}
	return b.WaitOrdered(t)
}

// WaitOrdered polls the result of a buyer who has a ticket, and returns the order's id.
func (b *Buyer) WaitOrdered(t testing.TB) (order string) {
	t.Helper()
	var last Reply
	if !Poll(func() bool {
		last = b.AskResult()
		p := last.Purchase()
		order = p.OrderID
		return p.State == "ordered"
	}) {
		t.Fatalf("buyer %d has no order: %d %s", b.ID, last.Status, last.Raw)
	}
	return order
}

// pause waits half as long as the shop asks for, or a moment, and not beyond the deadline.
func pause(r Reply, deadline time.Time) {
	d := 50 * time.Millisecond
	if asked := r.RetryAfter(); asked > 0 {
		d = asked / 2
	}
	time.Sleep(min(d, time.Until(deadline))) //timing: a buyer waits as the shop asks
}
