//go:build faults && linux

package faults

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

// paymentScenarios returns the scenarios in which payments, cancels and deadlines meet in every order.
func paymentScenarios() []scenario {
	return []scenario{
		{name: "pay, cancel and five sweepers", detail: "200 orders whose time to pay runs out",
			setup: setup{shops: 5, payWithin: 10 * time.Minute}, // until everything is ready: see payAndCancel
			crowd: plan{buyers: 200, units: 200, span: 500 * time.Millisecond, limit: 40 * time.Second}, run: payAndCancel},
		{name: "payment notices repeated, late, reordered, forged, wrong",
			setup: setup{env: []string{"MIAOSHA_CASHIER=sandbox"}},
			crowd: plan{buyers: 40, units: 40, span: 500 * time.Millisecond, limit: 30 * time.Second}, run: sendNotices},
	}
}

// Of the orders the first few are paid by one request alone, cancelled by one, left to the sweepers, paid while a
// sweeper waits to expire them, and cancelled while one waits. All others are raced for.
const (
	few       = 5
	paidAlone = few * (iota - 1)
	cancelledAlone
	leftAlone
	paidLate
	cancelledLate
	racedFor
)

// payAndCancel pays and cancels every order at once, at the moment when its time to pay runs out and five sweepers
// work. That moment is set when all orders exist and their payments are open, so it is the same on a slow machine.
func payAndCancel(env *Environment, c *Crowd) {
	c.WaitSold(len(c.buyers))
	deadline := c.deadline()
	each := func(from, to int, do func(i int, b *buyer)) {
		var all sync.WaitGroup
		for i := from; i < to; i++ {
			all.Go(func() { do(i, c.buyers[i]) })
		}
		all.Wait()
	}
	payments := make([]string, len(c.buyers))
	each(0, len(c.buyers), func(i int, b *buyer) {
		payments[i] = b.Insist(deadline, "pay", "POST", "/api/orders/"+b.OrderID+"/pay", "").Purchase().PaymentID
	})
	var paid, cancelled, allCancelled atomic.Int64
	confirm := func(i int) {
		reply := c.buyers[i].Insist(deadline, "confirm", "POST", "/api/cashier/"+payments[i], `{"action":"confirm"}`)
		if reply.Purchase().Status == "captured" {
			paid.Add(1)
		}
	}
	cancel := func(i int) {
		if b := c.buyers[i]; b.Cancel(deadline, b.OrderID).Status == 200 {
			cancelled.Add(1)
		}
	}
	each(paidAlone, cancelledAlone, func(i int, _ *buyer) { confirm(i) })
	each(cancelledAlone, leftAlone, func(i int, _ *buyer) { cancel(i) })
	env.meetSweepers(c, cancel)
	expiry := env.endTimeToPay(c.buyers[racedFor:])
	each(racedFor, len(c.buyers), func(i int, b *buyer) {
		time.Sleep(time.Until(expiry.Add(time.Duration(i%36-6) * 50 * time.Millisecond)))
		var both sync.WaitGroup
		both.Go(func() { confirm(i) })
		both.Go(func() {
			time.Sleep(time.Duration(i%3) * 8 * time.Millisecond) // a payment takes more steps
			cancel(i)
		})
		both.Wait()
	})
	each(0, len(c.buyers), func(_ int, b *buyer) {
		status := ""
		if !sandboxtest.Poll(func() bool {
			status = b.Insist(deadline, "order", "GET", "/api/orders/"+b.OrderID, "").Purchase().Status
			return status != "pending"
		}) {
			env.Report("I8: the order of %v is still pending %v after its time to pay", b, sandboxtest.Hang)
		}
		if status == "cancelled" {
			allCancelled.Add(1)
		}
	})
	expired := allCancelled.Load() - cancelled.Load()
	env.T.Logf("of %d orders: paid %d, cancelled by the buyer %d, by a sweeper %d", len(c.buyers), paid.Load(), cancelled.Load(), expired)
	if paid.Load()+allCancelled.Load() != int64(len(c.buyers)) {
		env.Report("I8: of %d orders %d are paid and %d cancelled", len(c.buyers), paid.Load(), allCancelled.Load())
	}
	for name, n := range map[string]int64{"payment": paid.Load(), "cancel": cancelled.Load(), "sweeper": expired} {
		if n == 0 {
			env.TooLittle("no %s was the first of the three", name)
		}
	}
}

// meetSweepers ends the time to pay of some orders, and keeps the sweepers from expiring them: they wait for the sale's
// row. Meanwhile some of the orders are paid, too late, and others are cancelled, which needs the row too.
func (env *Environment) meetSweepers(c *Crowd, cancel func(i int)) {
	var cancels sync.WaitGroup
	env.lockSale(func() {
		expiry := env.endTimeToPay(c.buyers[leftAlone:racedFor])
		// Later than the history allows: what waits for the row need not be a sweeper.
		sandboxtest.Until(env.T, "the time to pay is over", func() (over bool) {
			err := env.pool.QueryRow(context.Background(), `select clock_timestamp() > $1`, expiry.Add(2*paidWithin)).Scan(&over)
			return err == nil && over
		})
		if !env.waitLocked(1, lockOfSale) {
			return
		}
		for i := range few {
			cancels.Go(func() { cancel(cancelledLate + i) })
		}
		for i := range few { // not by the cashier, which takes nothing after that time
			b := c.buyers[paidLate+i]
			resp := env.notify(c, i%len(env.Shops), notice(b.OrderID, "late-"+b.OrderID, 990), time.Now(), notifySecret)
			if resp.Status != http.StatusOK || resp.Data.Status != "refund_due" {
				env.Report("I7: a payment after the time to pay: %d %s %s, want 200 refund_due", resp.Status, resp.Code, resp.Data.Status)
			}
		}
		env.waitLocked(few, "%") // a sweeper and the cancels
	})
	cancels.Wait()
}

// endTimeToPay lets the time to pay of orders run out in half a second, and returns when.
func (env *Environment) endTimeToPay(buyers []*buyer) (expiry time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
	defer cancel()
	var ids []string
	for _, b := range buyers {
		ids = append(ids, b.OrderID)
	}
	rows, _ := env.pool.Query(ctx, `
		with ends as (select clock_timestamp() + interval '500 ms' as at)
		update orders set expires_at = ends.at from ends where id::text = any($1) returning ends.at`, ids)
	ends, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err != nil || len(ends) != len(ids) {
		env.T.Errorf("set the time to pay of %d orders: %d, %v", len(ids), len(ends), err)
		return time.Now()
	}
	return ends[0]
}

// notifySecret is the cashier's key, which a shop makes from its secret.
var notifySecret = func() string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("miaosha payment notices"))
	return string(mac.Sum(nil))
}()

// notify sends a payment notice as the cashier does, signed with key.
func (env *Environment) notify(c *Crowd, shop int, body string, at time.Time, key string) response {
	seconds := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(seconds + "." + body))
	return c.ledger.request(env.Shops[shop], 0, "", "notify", "POST", "/api/payments/notify", body,
		"X-Timestamp", seconds, "X-Signature", hex.EncodeToString(mac.Sum(nil)))
}

func notice(order, ref string, amount int) string {
	return fmt.Sprintf(`{"order_id":%q,"amount":%d,"provider_ref":%q}`, order, amount, ref)
}

// sendNotices checks that each order has one capture, and that any other money is refunded.
func sendNotices(env *Environment, c *Crowd) {
	c.WaitSold(len(c.buyers))
	deadline := c.deadline()
	want := func(what string, resp response, status int, word string) {
		if resp.Status != status || resp.Data.Status != word && resp.Code != word {
			env.Report("I7: a notice %s: %d %s %s, want %d %s", what, resp.Status, resp.Code, resp.Data.Status, status, word)
		}
	}
	now := time.Now()
	for i := 0; i < len(c.buyers); i += 4 {
		id, ref := c.buyers[i].OrderID, fmt.Sprintf("r-%d", i)
		// A forged or old notice, or one with a wrong amount or order, is refused and leaves no row.
		want("with a forged signature", env.notify(c, 0, notice(id, ref, 990), now, "another key of 32 bytes ........"), 403, "forbidden")
		want("of an hour ago", env.notify(c, 1, notice(id, ref, 990), now.Add(-time.Hour), notifySecret), 403, "forbidden")
		want("of a wrong amount", env.notify(c, 0, notice(id, ref, 989), now, notifySecret), 400, "bad_request")
		want("of no order", env.notify(c, 1, notice("01a1fcde-b4cc-7e32-a2ab-8b8f9f201656", ref, 990), now, notifySecret), 404, "not_found")
		// A notice repeated at both processes at once makes one capture, and every reply is the same.
		var all sync.WaitGroup
		for n := range 6 {
			all.Go(func() {
				want("repeated", env.notify(c, n%2, notice(id, ref, 990), now, notifySecret), 200, "captured")
			})
		}
		all.Wait()
		// A second capture of an order is refunded. The reference of one order cannot pay another.
		want("of a second capture", env.notify(c, 0, notice(id, ref+"-again", 990), now, notifySecret), 200, "refund_due")
		other := c.buyers[i+1]
		want("with another's reference", env.notify(c, 1, notice(other.OrderID, ref, 990), now, notifySecret), 409, "wrong_status")
		// A notice after the order was cancelled is too late.
		if reply := other.Cancel(deadline, other.OrderID); reply.Status != 200 {
			env.T.Errorf("cancel: %d %s", reply.Status, reply.Code)
		}
		want("too late", env.notify(c, 0, notice(other.OrderID, ref+"-late", 990), now, notifySecret), 200, "refund_due")
		// Two notices in the wrong order: the older payment is confirmed after the newer one was captured.
		third := c.buyers[i+2]
		payment := third.Insist(deadline, "pay", "POST", "/api/orders/"+third.OrderID+"/pay", "").Purchase().PaymentID
		want("of the newer payment", env.notify(c, 1, notice(third.OrderID, ref+"-second", 990), now, notifySecret), 200, "captured")
		want("of the older payment", env.notify(c, 0, notice(third.OrderID, "sandbox-"+payment, 990), now, notifySecret), 200, "refund_due")
	}
}
