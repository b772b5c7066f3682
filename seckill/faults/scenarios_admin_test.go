//go:build faults && linux

package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

// adminScenarios returns the scenario in which two administrators act at once, over HTTP, while a crowd buys.
func adminScenarios() []scenario {
	return []scenario{
		{name: "two administrators in the rush", detail: "they pause, resume, and add and take units, also while the journal is full; a process killed in the middle; closed by both, then refunds and cancels while buyers cancel",
			setup: setup{env: []string{"MIAOSHA_QMAX=20"}},
			crowd: plan{buyers: 300, units: 400, span: 2 * time.Second, twice: 30, pays: 20, cancels: 10, payAfter: 300 * time.Millisecond, limit: 30 * time.Second},
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
}

const adminPassword = "chosen by its owner"

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
	a := &administrator{client: http.Client{Timeout: 10 * time.Second}}
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
	return d
}

// administer lets two administrators pause and resume the sale, and change its units, at processes of their choice while a crowd buys.
func administer(env *Environment, c *Crowd) {
	first, err := env.newAdministrator("13911110001", "")
	if err != nil {
		env.T.Error(err)
		return
	}
	second, err := env.newAdministrator("13911110002", "13911110001")
	if err != nil {
		env.T.Error(err)
		return
	}
	env.staff = []*administrator{first, second}
	c.WaitSold(20)
	env.Inject("two administrators", func() {
		stop, acting := make(chan struct{}), sync.WaitGroup{}
		for i, a := range env.staff {
			rng := rand.New(rand.NewPCG(uint64(i), uint64(env.Sale)))
			acting.Go(func() { env.changeAtRandom(a, rng, stop) })
		}
		c.Wait(400 * time.Millisecond)
		env.lockSale(func() { c.Wait(400 * time.Millisecond) }) // the journal fills
		env.Shops[0].Kill()
		c.Wait(200 * time.Millisecond)
		env.restart(0)
		c.Wait(400 * time.Millisecond)
		close(stop)
		acting.Wait()
		if !sandboxtest.Poll(5*time.Second, func() bool {
			d := first.do(env.Shops[1], env.adminPath("resume"), "sale.resume", "")
			return d.status == 200 || d.code == "wrong_status"
		}) {
			env.Report("I11: the sale cannot be resumed: %+v", first.acts[len(first.acts)-1])
		}
	})
}

func (env *Environment) adminPath(verb string) string {
	return fmt.Sprintf("/sales/%d/%s", env.Sale, verb)
}

func (env *Environment) changeAtRandom(a *administrator, rng *rand.Rand, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rng.IntN(20)) * time.Millisecond):
		}
		verb, body := []string{"pause", "resume", "units"}[rng.IntN(3)], ""
		if verb == "units" {
			body = []string{`{"delta":5}`, `{"delta":-1}`}[rng.IntN(2)]
		}
		a.do(env.Shops[rng.IntN(len(env.Shops))], env.adminPath(verb), "sale."+verb, body)
	}
}

// closeTwice lets both administrators close the sale at once, while orders are pending: one does it. Then it checks the log.
func closeTwice(env *Environment, c *Crowd) {
	var acting sync.WaitGroup
	for i, a := range env.staff {
		acting.Go(func() { a.do(env.Shops[i], env.adminPath("close"), "sale.close", "") })
	}
	acting.Wait()
	closed := 0
	for _, a := range env.staff {
		if d := a.acts[len(a.acts)-1]; d.status == 200 {
			closed++
		} else if d.code != "wrong_status" {
			env.Report("I10: the second close: %d %s", d.status, d.code)
		}
	}
	if closed != 1 {
		env.Report("I1: %d administrators have closed the sale, want one", closed)
	}
	env.raceForOrders(c)
	env.checkLog()
	if out, err := env.command("audit"); err != nil {
		env.Report("I6: the audit after the close: %v\n%s", err, out)
	}
}

// raceForOrders lets an administrator take pending and paid orders of the closed sale back while their buyers cancel them: of two
// cancels one is done, and a paid order is not cancelled.
func (env *Environment) raceForOrders(c *Crowd) {
	pending, paid := 0, 0
	staff := env.staff[0]
	for _, b := range c.orderOwners() {
		if b.cancels || b.pays && paid == raced || !b.pays && pending == raced {
			continue
		}
		verb, most := "cancel", &pending
		if b.pays {
			verb, most = "refund", &paid
		}
		*most++
		var racing sync.WaitGroup
		var own response
		racing.Go(func() {
			own = c.ledger.request(env.Shops[1], b.ID, b.Token, "cancel", "POST", "/api/orders/"+b.OrderID+"/cancel", "")
		})
		theirs := staff.do(env.Shops[0], "/orders/"+b.OrderID+"/"+verb, "order."+verb, "")
		racing.Wait()
		if won := (own.Status == 200) != (theirs.status == 200); !won || verb == "refund" && own.Status == 200 {
			env.Report("I8: a buyer's cancel was answered %d %s, the administrator's %s %d %s", own.Status, own.Code, verb, theirs.status, theirs.code)
		}
	}
	if pending < raced || paid < raced {
		env.T.Errorf("%d pending and %d paid orders when the sale was closed, want %d of each", pending, paid, raced)
	}
}

// raced is how many orders of each kind are taken back.
const raced = 5

// logLine is a line of the log about the sale or an order.
type logLine struct {
	ByUser        int64
	At            time.Time
	Action        string
	Subject       string
	Before, After struct{ State string } // of a sale
}

// checkLog checks the log against what the administrators were answered. Done is in it once, refused is not, and what had no
// answer is in it or not. Its lines make one chain, from the published sale to its state now.
func (env *Environment) checkLog() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	rows, _ := env.pool.Query(ctx, `
		select by_user, at, action, subject, coalesce(before, '{}'), coalesce(after, '{}')
		from   admin_log
		where  by_user is not null and (action like 'sale.%' or action like 'order.%')
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
				if l.ByUser == a.id && l.Action == d.action && !l.At.Before(d.sent.Truncate(time.Microsecond)) && l.At.Before(d.received) {
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
	env.T.Logf("the administrators: %d done, %d refused, %d without an answer; %d lines", done, refused, unanswered, len(lines))
	if done < 10 || refused < 2 || len(lines) < done || len(lines) > done+unanswered {
		env.Report("log: %d lines for %d actions, %d without an answer, %d refused", len(lines), done, unanswered, refused)
	}
	state := "published"
	for _, l := range lines {
		if l.Subject != fmt.Sprintf("sale %d", env.Sale) {
			continue
		}
		if l.Before.State != state {
			env.Report("log: %s found the sale %s, which the line before left %s", l.Action, l.Before.State, state)
		}
		state = l.After.State
	}
	var now string
	if err := env.pool.QueryRow(ctx, `select state from sales where id = $1`, env.Sale).Scan(&now); err != nil || now != state {
		env.Report("log: the sale is %s, %v, and by the log %s", now, err, state)
	}
}
