//go:build faults && linux

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"miaosha/seckill/sandbox/sandboxtest"
)

// everywhereScenarios returns the scenarios in which the three shops behind nginx must know soon what happened at another one.
func everywhereScenarios() []scenario {
	return []scenario{
		{name: "clicks and event streams at different processes behind nginx", long: true, setup: behindNginx(), crowd: everywherePlan,
			run: resultsEverywhere},
		{name: "log-outs and new passwords behind nginx", long: true, setup: behindNginx(), crowd: everywherePlan, run: logOutsEverywhere},
	}
}

var everywherePlan = plan{buyers: 60, units: 200, span: 5 * time.Second, pays: 40, cancels: 5, fetchesPath: 50,
	payAfter: 300 * time.Millisecond, limit: 40 * time.Second}

const (
	// eventBound is how long a stream may take to tell of an order that another process has made: it looks each second.
	eventBound  = time.Second + 500*time.Millisecond
	logOutBound = 2*time.Second + 200*time.Millisecond // and the time of a request
)

// resultsEverywhere sends clicks to one shop, B. The buyers listen at the two others, A and C, and through nginx, and poll
// through nginx. First B settles the tickets. Then it is killed, so that A and C do, and each of them makes orders whose buyers
// listen at the other one.
func resultsEverywhere(env *Environment, c *Crowd) {
	const each = 20
	late, err := env.newBuyers(2*each, env.Sale)
	if err != nil {
		env.T.Error(err)
		return
	}
	c.WaitSold(5)
	const spread = time.Second // between two looks of a stream
	byB := env.measureResults(late[:each], func(click func(over time.Duration)) { click(spread) })
	var byOther delays
	env.Inject("the process with the tickets killed", func() {
		byOther = env.measureResults(late[each:], func(click func(over time.Duration)) {
			env.lockSale(func() {
				click(0)
				env.Shops[1].Kill()
			})
		})
		env.restart(1)
	})
	env.scrapeAll()
	if n := env.total("miaosha_tickets_claimed_total"); n < each/2 {
		env.TooLittle("only %v tickets were claimed by another process than the one that granted them", n)
	}
	env.sc.detail = fmt.Sprintf("ms from an order to its event in a stream of another process, p50 and max: %s; "+
		"after a kill, at the process that settled it: %s, at the other: %s; to the poll: %s",
		medianAndMax(slices.Concat(byB.sooner, byB.later)), medianAndMax(byOther.sooner), medianAndMax(byOther.later), medianAndMax(slices.Concat(byB.polls, byOther.polls)))
	for _, took := range slices.Concat(byB.later, byOther.later, byB.nginx, byOther.nginx, byB.polls, byOther.polls) {
		if took > eventBound {
			env.Late("I4: a buyer heard of an order only after %v", formatBound(took))
		}
	}
}

// delays has the times from orders to when their buyers heard of them.
type delays struct {
	sooner, later []time.Duration // by the streams at A and C
	nginx, polls  []time.Duration
}

func medianAndMax(of []time.Duration) string {
	slices.Sort(of)
	return formatMS(quantile(of, 0.5)) + " and " + formatMS(quantile(of, 1))
}

// measureResults lets buyers listen everywhere, and passes fault a function in which each of them clicks at B, one after
// the other in a time.
func (env *Environment) measureResults(buyers []*sandboxtest.Buyer, fault func(click func(over time.Duration))) (d delays) {
	ctx, cancel := context.WithTimeout(env.T.Context(), 2*sandboxtest.Hang)
	defer cancel()
	var running sync.WaitGroup
	listeners := map[int64]map[string]*listener{}
	for _, b := range buyers {
		listeners[b.ID] = map[string]*listener{}
		for at, url := range map[string]string{"A": "http://" + env.Shops[0].addr, "C": "http://" + env.Shops[2].addr, "nginx": env.Nginx.URL()} {
			l := &listener{buyer: b, at: at, listening: make(chan struct{})}
			listeners[b.ID][at] = l
			running.Go(func() { l.run(ctx, url+env.salePath()+"/events") })
		}
	}
	for _, all := range listeners {
		for _, l := range all {
			select {
			case <-l.listening:
			case <-ctx.Done():
				env.T.Errorf("no stream at %s", l.at)
				cancel()
				running.Wait()
				return d
			}
		}
	}
	var mu sync.Mutex
	polled := map[int64]time.Time{}
	fault(func(over time.Duration) {
		var clicks errgroup.Group
		for i, b := range buyers {
			clicks.Go(func() error {
				time.Sleep(over * time.Duration(i) / time.Duration(len(buyers)))
				r := sandboxtest.Call("POST", "http://"+env.Shops[1].addr+env.salePath()+"/buy/"+b.Path, b.Token, "")
				if r.Status != 202 {
					return fmt.Errorf("a click of buyer %d: %d %s", b.ID, r.Status, r.Code)
				}
				return nil
			})
			running.Go(func() {
				for ctx.Err() == nil {
					if sandboxtest.Call("GET", env.Nginx.URL()+env.salePath()+"/result", b.Token, "").Purchase().State == "ordered" {
						mu.Lock()
						defer mu.Unlock()
						polled[b.ID] = time.Now()
						return
					}
					time.Sleep(20 * time.Millisecond)
				}
			})
		}
		if err := clicks.Wait(); err != nil {
			env.T.Error(err)
		}
	})
	running.Wait()
	rows, _ := env.pool.Query(env.T.Context(), `select id::text as id, user_id, created_at from orders where sale_id = $1`, env.Sale)
	orders, err := pgx.CollectRows(rows, pgx.RowToStructByName[struct {
		ID        string
		UserID    int64
		CreatedAt time.Time
	}])
	if err != nil {
		env.T.Error(err)
	}
	heard := 0
	for _, o := range orders {
		ours, ok := listeners[o.UserID]
		if !ok {
			continue
		}
		for _, at := range []time.Time{ours["A"].ordered, ours["C"].ordered, ours["nginx"].ordered, polled[o.UserID]} {
			if at.IsZero() {
				env.Report("I4: a stream or a poll never told buyer %d of order %s", o.UserID, o.ID)
				return d
			}
		}
		heard++
		a, other := ours["A"].ordered.Sub(o.CreatedAt), ours["C"].ordered.Sub(o.CreatedAt)
		d.sooner, d.later = append(d.sooner, min(a, other)), append(d.later, max(a, other))
		d.nginx, d.polls = append(d.nginx, ours["nginx"].ordered.Sub(o.CreatedAt)), append(d.polls, polled[o.UserID].Sub(o.CreatedAt))
		for _, s := range env.Shops {
			if p := sandboxtest.Call("GET", "http://"+s.addr+env.salePath()+"/result", ours["A"].buyer.Token, "").Purchase(); s.isOpen() && p.OrderID != o.ID {
				env.Report("I3: buyer %d has order %s, and shop %d says %s %s", o.UserID, o.ID, s.n, p.State, p.OrderID)
			}
		}
	}
	if heard < len(buyers) {
		env.Report("I4: only %d of %d buyers who were queued have an order", heard, len(buyers))
	}
	return d
}

// logOutsEverywhere ends sessions through nginx, by a log-out and by a new password, and checks that each shop refuses them soon.
// Each shop has just used them, again and again. Their event streams end too.
func logOutsEverywhere(env *Environment, c *Crowd) {
	c.WaitSold(5)
	const phone = "13911110000"
	printed, err := env.command("admin", "--phone", phone)
	_, password, found := strings.Cut(strings.TrimSpace(printed), "password: ")
	if err != nil || !found {
		env.T.Errorf("no account: %v %s", err, printed)
		return
	}
	post := func(path, token, body string) sandboxtest.Reply {
		return sandboxtest.Call("POST", env.Nginx.URL()+path, token, body)
	}
	login := func() string {
		r := post("/api/login", "", fmt.Sprintf(`{"phone":%q,"password":%q}`, phone, password))
		var in struct{ Token string }
		if err := json.Unmarshal(r.Data, &in); err != nil || in.Token == "" {
			env.T.Errorf("log-in: %d %s", r.Status, r.Raw)
		}
		return in.Token
	}
	const chosen = "chosen by its owner" // a first session of the staff would end with its password
	if r := post("/api/password", login(), fmt.Sprintf(`{"old":%q,"new":%q}`, password, chosen)); r.Status != 200 {
		env.T.Errorf("the first new password: %d %s", r.Status, r.Raw)
	}
	password = chosen
	var report []string
	for _, e := range []struct {
		name string
		end  func(own string) sandboxtest.Reply
		ends bool // also the session that sends the request
	}{
		{"log-out", func(own string) sandboxtest.Reply { return post("/api/logout", own, "") }, true},
		{"new password", func(own string) sandboxtest.Reply {
			old := password
			password += "!"
			return post("/api/password", own, fmt.Sprintf(`{"old":%q,"new":%q}`, old, password))
		}, false},
	} {
		own, other := login(), login()
		ended, spared := other, own
		if e.ends {
			ended, spared = own, c.buyers[0].Token
		}
		took, streams := env.measureEnd(ended, func() sandboxtest.Reply { return e.end(own) })
		report = append(report, fmt.Sprintf("%s: requests %s, streams %s", e.name, medianAndMax(took), medianAndMax(streams)))
		for _, d := range slices.Concat(took, streams) {
			if d > logOutBound {
				env.Late("I11: %v after a %s a process goes on with the session", formatBound(d), e.name)
			}
		}
		for range 12 { // they reach every process
			if r := sandboxtest.Call("GET", env.Nginx.URL()+"/api/me", ended, ""); r.Status != 401 {
				env.Report("I11: after a %s: %d %s", e.name, r.Status, r.Code)
			}
			if r := sandboxtest.Call("GET", env.Nginx.URL()+"/api/me", spared, ""); r.Status != 200 {
				env.Report("I11: a %s ended a session that it spares: %d %s", e.name, r.Status, r.Code)
			}
		}
	}
	env.sc.detail = "ms until all processes refuse the session, p50 and max: " + strings.Join(report, "; ")
}

// measureEnd returns how long each shop goes on with a session after it was ended, in requests and in its event stream.
func (env *Environment) measureEnd(token string, end func() sandboxtest.Reply) (requests, streams []time.Duration) {
	ctx, cancel := context.WithTimeout(env.T.Context(), 2*sandboxtest.Hang)
	defer cancel()
	client := &http.Client{Transport: manyAddresses()}
	defer client.CloseIdleConnections()
	requests, streams = make([]time.Duration, len(env.Shops)), make([]time.Duration, len(env.Shops))
	me := func(s *Shop) int { return sandboxtest.Call("GET", "http://"+s.addr+"/api/me", token, "").Status }
	ended := make([]time.Time, len(env.Shops))
	var listening, running sync.WaitGroup
	for i, s := range env.Shops {
		listening.Add(1)
		running.Go(func() {
			first := sync.OnceFunc(listening.Done)
			err := readEvents(ctx, client, "http://"+s.addr+env.salePath()+"/events", token, func(string, string) { first() })
			first()
			if err != nil || ctx.Err() != nil {
				env.T.Errorf("the event stream at shop %d: %v, %v", i, err, ctx.Err())
			}
			ended[i] = time.Now()
		})
	}
	listening.Wait()
	for i, s := range env.Shops { // which reads the session and keeps a copy
		if status := me(s); status != 200 {
			env.T.Errorf("a session at shop %d: %d", i, status)
		}
	}
	began := time.Now()
	if r := end(); r.Code != "ok" {
		env.T.Errorf("end a session: %d %s", r.Status, r.Raw)
	}
	for i, s := range env.Shops {
		running.Go(func() {
			if !sandboxtest.Poll(func() bool { return me(s) == 401 }) {
				env.Report("I11: shop %d goes on with a session that was ended", i)
			}
			requests[i] = time.Since(began)
		})
	}
	running.Wait()
	for i, at := range ended {
		streams[i] = at.Sub(began)
	}
	return requests, streams
}
