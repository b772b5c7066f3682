//go:build faults && linux

package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

// adminScenarios returns the scenario in which two administrators act at once, over HTTP, while a crowd buys.
func adminScenarios() []scenario {
	buyers := 1000
	if testing.Short() {
		buyers = 300
	}
	return []scenario{
		{name: "two administrators in the rush", detail: "they pause and resume, plan to, add and take units, and extend orders, also while the journal is full; a process killed in the middle; closed by both, then refunds and cancels while buyers cancel",
			setup: setup{env: []string{fmt.Sprintf("MIAOSHA_QMAX=%d", buyers/15)}}, prepare: hireStaff,
			crowd: plan{buyers: buyers, units: buyers + 100, span: 2 * time.Second, twice: 30, pays: 20, cancels: 10, payAfter: 300 * time.Millisecond, limit: 30 * time.Second},
			run:   administer, after: closeTwice},
	}
}

// act is one request of an administrator. An administrator makes one after the other.
type act struct {
	by             int64
	path, action   string // below /api/admin; as the log names it
	sent, received time.Time
	status         int // 0 for no answer
	code           string
}

// administrator is a member of the staff, and what it has done.
type administrator struct {
	id     int64
	token  string
	client http.Client
	acts   []act
	done   atomic.Int64 // of acts
	denied atomic.Int64
}

const adminPassword = "chosen by its owner"

// hireStaff makes two administrators.
func hireStaff(env *Environment) error {
	first, err := env.newAdministrator("13911110001", "")
	if err != nil {
		return err
	}
	second, err := env.newAdministrator("13911110002", "13911110001")
	env.staff = []*administrator{first, second}
	return err
}

// newAdministrator makes an administrator on behalf of another one ("" for the first), who has chosen a password.
func (env *Environment) newAdministrator(phone, by string) (*administrator, error) {
	args := []string{"admin", "--phone", phone}
	if by != "" {
		args = append(args, "--by", by)
	}
	printed, err := env.command(args...)
	if err != nil {
		return nil, err
	}
	_, password, _ := strings.Cut(printed, "password: ")
	var in struct {
		UserID int64 `json:"user_id"`
		Token  string
	}
	a := &administrator{client: http.Client{Timeout: sandboxtest.Hang}}
	url := env.Shops[0].URL()
	sandboxtest.CallBy(&a.client, "POST", url+"/api/login", "", fmt.Sprintf(`{"phone":%q,"password":%q}`, phone, strings.TrimSpace(password))).Read(env.T, &in)
	sandboxtest.CallBy(&a.client, "POST", url+"/api/password", in.Token, fmt.Sprintf(`{"old":%q,"new":%q}`, strings.TrimSpace(password), adminPassword)).Read(env.T, &in)
	a.id, a.token = in.UserID, in.Token
	return a, nil
}

// do makes one request at a process, and keeps it.
func (a *administrator) do(s *Shop, path, action, body string) act {
	d := act{by: a.id, path: path, action: action, sent: time.Now()}
	reply := sandboxtest.CallBy(&a.client, "POST", s.URL()+"/api/admin"+path, a.token, body)
	d.status, d.code, d.received = reply.Status, reply.Code, time.Now()
	a.acts = append(a.acts, d)
	switch {
	case d.status == http.StatusOK:
		a.done.Add(1)
	case d.status >= 400 && d.status < 500:
		a.denied.Add(1)
	}
	return d
}

// administer lets two administrators change the sale and its orders, at processes of their choice while a crowd buys.
func administer(env *Environment, c *Crowd) {
	c.WaitSold(20)
	env.Inject("two administrators", func() {
		sandboxtest.Until(env.T, "a plan is made", func() bool { return env.plan(env.staff[0], env.Shops[0], "pause").status == http.StatusOK })
		env.waitPlans() // one is done; of those that follow the sale may refuse each
		stop, acting := make(chan struct{}), sync.WaitGroup{}
		for i, a := range env.staff {
			rng := rand.New(rand.NewPCG(uint64(i), uint64(env.Sale)))
			acting.Go(func() { env.changeAtRandom(c, a, rng, stop) })
		}
		env.waitActs(3, 1)
		env.lockOpenSale(func() { // the journal fills
			c.waitReplies("no buyer was told busy while nothing was settled", func(resp response) bool { return resp.Kind == "buy" && resp.Code == "busy" })
		})
		env.waitActs(5, 1)
		env.Shops[0].Kill()
		env.waitActs(6, 1)
		env.restart(0)
		env.waitActs(8, 2)
		close(stop)
		acting.Wait()
		env.waitPlans()
		first := env.staff[0]
		if !env.within(planBound, "I11: the sale was resumed", func() bool {
			d := first.do(env.Shops[1], env.adminPath("resume"), "sale.resume", "")
			return d.status == 200 || d.code == "wrong_status"
		}) {
			env.Report("I11: the sale cannot be resumed: %+v", first.acts[len(first.acts)-1])
		}
	})
}

// waitActs waits until the administrators together have done so many actions, and so many were refused.
func (env *Environment) waitActs(done, refused int64) {
	if !sandboxtest.Poll(func() bool {
		var d, r int64
		for _, a := range env.staff {
			d, r = d+a.done.Load(), r+a.denied.Load()
		}
		return d >= done && r >= refused
	}) {
		env.TooLittle("the administrators did not do %d actions, with %d refused", done, refused)
	}
}

func (env *Environment) adminPath(verb string) string {
	return fmt.Sprintf("/sales/%d/%s", env.Sale, verb)
}

func (env *Environment) changeAtRandom(c *Crowd, a *administrator, rng *rand.Rand, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rng.IntN(20)) * time.Millisecond):
		}
		s := env.Shops[rng.IntN(len(env.Shops))]
		switch verb := []string{"pause", "resume", "units", "plans", "extend"}[rng.IntN(5)]; verb {
		case "units":
			a.do(s, env.adminPath(verb), "sale.units", []string{`{"delta":5}`, `{"delta":-1}`}[rng.IntN(2)])
		case "plans":
			env.plan(a, s, []string{"pause", "resume"}[rng.IntN(2)])
		case "extend":
			orders := c.ledger.filter(func(resp response) bool { return resp.Data.State == "ordered" })
			a.do(s, "/orders/"+orders[rng.IntN(len(orders))].Data.OrderID+"/extend", "order.extend", `{"minutes":5}`)
		default:
			a.do(s, env.adminPath(verb), "sale."+verb, "")
		}
	}
}

// plan lets an administrator plan a change of the sale's state for a moment later.
func (env *Environment) plan(a *administrator, s *Shop, do string) act {
	at := time.Now().Add(200 * time.Millisecond).Format(time.RFC3339Nano)
	return a.do(s, env.adminPath("plans"), "plan.create", fmt.Sprintf(`{"action":%q,"at":%q}`, do, at))
}

// planBound is how long a plan may wait after its time, and a change of a sale that a store refuses.
const planBound = 5 * time.Second

// waitPlans waits until no plan is left. One must be done.
func (env *Environment) waitPlans() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*sandboxtest.Hang)
	defer cancel()
	left, done := -1, 0
	if !env.within(planBound, "I11: no plan was left", func() bool {
		err := env.pool.QueryRow(ctx, `
			select count(*) filter (where state = 'planned'), count(*) filter (where state = 'done')
			from   sale_plans`).Scan(&left, &done)
		return err == nil && left == 0
	}) || done == 0 {
		env.Report("I11: after %v %d plans are left, and %d were done", sandboxtest.Hang, left, done)
	}
}

// closeTwice lets both administrators close the sale when the crowd is done, while orders are pending. Then it checks the log.
func closeTwice(env *Environment, c *Crowd) {
	env.closeByBoth()
	env.raceForOrders(c)
	env.checkLog(10, 2)
	env.checkAudit()
}

func (env *Environment) checkAudit() {
	if out, err := env.command("audit"); err != nil {
		env.Report("I6: the audit after the close: %v\n%s", err, out)
	}
}

// closeByBoth lets both administrators close the sale at once: one does it.
func (env *Environment) closeByBoth() {
	var acting sync.WaitGroup
	for i, a := range env.staff {
		acting.Go(func() { a.do(env.Shops[i], env.adminPath("close"), "sale.close", "") })
	}
	acting.Wait()
	closed, busy := 0, 0
	for _, a := range env.staff {
		switch d := a.acts[len(a.acts)-1]; {
		case d.status == http.StatusOK:
			closed++
		case d.code == "busy": // it waited for a lock for too long
			busy++
		case d.code != "wrong_status":
			env.Report("I10: the second close: %d %s", d.status, d.code)
		}
	}
	if busy > 0 {
		env.TooLittle("%d of two administrators were told busy when they closed the sale", busy)
	}
	if closed > 1 || closed+busy < 1 {
		env.Report("I1: %d administrators have closed the sale, want one", closed)
	}
}

// raceForOrders lets an administrator take pending and paid orders back while their buyers cancel them: of two cancels one is
// done, and a paid order is not cancelled.
func (env *Environment) raceForOrders(c *Crowd) {
	var pending, paid []*buyer
	var orders map[int64]string
	if !sandboxtest.Poll(func() bool {
		pending, paid, orders = c.keepers()
		return len(pending) >= raced && len(paid) >= raced
	}) {
		env.TooLittle("%d pending and %d paid orders, want %d of each", len(pending), len(paid), raced)
		return
	}
	for i := range raced {
		env.race(c, pending[i], orders[pending[i].ID], "cancel")
		env.race(c, paid[i], orders[paid[i].ID], "refund")
	}
}

// refunded reports whether an administrator has refunded an order.
func (env *Environment) refunded(order string) bool {
	return slices.ContainsFunc(env.staff, func(a *administrator) bool {
		return slices.ContainsFunc(a.acts, func(d act) bool { return d.path == "/orders/"+order+"/refund" && d.status == 200 })
	})
}

// raced is how many orders of each kind are taken back.
const raced = 5

// keepers returns the buyers with a pending order that they neither pay nor cancel, those who have paid, and their orders.
func (c *Crowd) keepers() (pending, paid []*buyer, orders map[int64]string) {
	orders = map[int64]string{}
	captured := map[int64]bool{}
	for _, resp := range c.ledger.filter(ofKind("buy", "result", "confirm")) {
		if resp.Data.State == "ordered" {
			orders[resp.User] = resp.Data.OrderID
		}
		captured[resp.User] = captured[resp.User] || resp.Data.Status == "captured"
	}
	for _, b := range c.buyers {
		switch {
		case captured[b.ID]:
			paid = append(paid, b)
		case orders[b.ID] != "" && !b.pays && !b.cancels:
			pending = append(pending, b)
		}
	}
	return pending, paid, orders
}

func (env *Environment) race(c *Crowd, b *buyer, order, verb string) {
	var racing sync.WaitGroup
	var own response
	racing.Go(func() {
		own = c.ledger.request(env.Shops[1], b.ID, b.Token, "cancel", "POST", "/api/orders/"+order+"/cancel", "")
	})
	theirs := env.staff[0].do(env.Shops[0], "/orders/"+order+"/"+verb, "order."+verb, "")
	racing.Wait()
	if won := (own.Status == 200) != (theirs.status == 200); !won || verb == "refund" && own.Status == 200 {
		env.Report("I8: a buyer's cancel was answered %d %s, the administrator's %s %d %s", own.Status, own.Code, verb, theirs.status, theirs.code)
	}
}

// logLine is a line of the log about the sale or an order.
type logLine struct {
	ByUser        int64
	At            time.Time
	Action        string
	Subject       string
	Planned       bool                   // done by a plan, not by the administrator who made it
	Before, After struct{ State string } // of a sale
}

// checkLog checks the log against what the administrators were answered. Done is in it once, refused is not, and what had no
// answer is in it or not. Its lines make one chain, from the new sale to its state now, also those of plans. So many actions at
// least must be done and refused.
func (env *Environment) checkLog(leastDone, leastRefused int) {
	ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
	defer cancel()
	rows, _ := env.pool.Query(ctx, `
		select by_user, at, action, subject, origin like 'plan %', coalesce(before, '{}'), coalesce(after, '{}')
		from   admin_log
		where  by_user is not null and (action like 'sale.%' or action like 'order.%' or action = 'plan.create')
		order  by id`)
	lines, err := pgx.CollectRows(rows, pgx.RowToStructByPos[logLine])
	if err != nil {
		env.T.Error(err)
		return
	}
	done, refused, unanswered := 0, 0, 0
	for _, a := range env.staff {
		for _, d := range a.acts {
			n := 0
			for _, l := range lines {
				if !l.Planned && l.ByUser == a.id && l.Action == d.action && !l.At.Before(d.sent.Truncate(time.Microsecond)) && l.At.Before(d.received) {
					n++
				}
			}
			switch {
			case d.status == 200:
				if done++; n != 1 {
					env.Report("log: %s was done and has %d lines", d.action, n)
				}
			case d.status == 0 || d.status >= 500:
				if unanswered++; n > 1 || d.status == 500 {
					env.Report("log: %s was answered %d %s and has %d lines", d.action, d.status, d.code, n)
				}
			default:
				if refused++; n != 0 {
					env.Report("log: %s was refused (%d %s) and has %d lines", d.action, d.status, d.code, n)
				}
			}
		}
	}
	own, state := 0, "published"
	if env.sc.setup.draft {
		state = "draft"
	}
	for _, l := range lines {
		if !l.Planned {
			own++
		}
		if l.Subject != fmt.Sprintf("sale %d", env.Sale) || l.Action == "plan.create" {
			continue
		}
		if l.Before.State != state {
			env.Report("log: %s found the sale %s, which the line before left %s", l.Action, l.Before.State, state)
		}
		state = l.After.State
	}
	env.T.Logf("the administrators: %d done, %d refused, %d without an answer; %d lines, and %d of plans", done, refused, unanswered, own, len(lines)-own)
	if done < leastDone || refused < leastRefused || own < done || own > done+unanswered {
		env.Report("log: %d lines for %d actions, %d without an answer, %d refused", own, done, unanswered, refused)
	}
	var now string
	if err := env.pool.QueryRow(ctx, `select state from sales where id = $1`, env.Sale).Scan(&now); err != nil || now != state {
		env.Report("log: the sale is %s, %v, and by the log %s", now, err, state)
	}
}
