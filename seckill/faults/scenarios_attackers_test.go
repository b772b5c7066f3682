//go:build faults && linux

package faults

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

// attackerScenarios returns the rows in which someone attacks the shop while it sells, with the source in hand. An attack is bounded
// in its number of requests and in time. The sale has to be right as in every row; beside each attack a person at another address
// logs in and reads the sale, and the audit is clean after it. A student's programs attack in the tests of package lab.
func attackerScenarios() []scenario {
	crowd := plan{buyers: 200, units: 120, span: 3 * time.Second, twice: 20, pays: 30, cancels: 10, payAfter: 300 * time.Millisecond, limit: 60 * time.Second}
	late := plan{buyers: 60, units: 60, span: time.Second, limit: 30 * time.Second}
	hoarded := crowd
	hoarded.fetchesPath, hoarded.cancels, hoarded.pays = 100, 0, 0
	rows := []scenario{
		{name: "150 accounts hoard addresses", detail: "and buy nothing; an address is valid for 2 s", crowd: hoarded,
			setup: setup{env: []string{"MIAOSHA_PATH_TTL=2s"}}, run: attack(6*time.Second, hoardAddresses)},
		{name: "two addresses take every connection", detail: "idle, with half a header and with half a body", crowd: crowd, checksResources: true,
			setup: setup{env: []string{"MIAOSHA_MAX_CONNS=600"}}, run: attack(5*time.Second, holdConnections)},
		{name: "a flood of codes and log-ins", detail: "40 addresses, 1,000 telephones, wrong passwords of the staff", crowd: crowd, run: attack(6*time.Second, askForCodes)},
		{name: "one address opens 700 streams", detail: "of the live view, and five browsers of events", crowd: crowd, checksResources: true,
			setup: setup{env: []string{"MIAOSHA_LIVE_VIEW=public"}}, run: attack(5*time.Second, openStreams)},
		{name: "pictures and names of pictures", detail: "large ones sent at once, 5,000 made-up names asked for", crowd: crowd, run: attack(6*time.Second, sendPictures)},
		{name: "a flood of forged and old notices", crowd: crowd, run: attack(5*time.Second, forgeNotices),
			setup: setup{env: []string{"MIAOSHA_CASHIER=sandbox"}}, after: checkNoticeLog},
		{name: "forged addresses, foreign sessions, cross-site calls", crowd: crowd, run: attack(5*time.Second, forgeRequests)},
		{name: "pay, cancel, refund and expiry by two administrators at once", detail: "for 60 orders on two processes, at the end of their time to pay", crowd: late,
			setup: setup{payWithin: 10 * time.Minute, env: []string{"MIAOSHA_CASHIER=sandbox"}}, run: func(_ *Environment, c *Crowd) { c.WaitSold(60) }, after: raceOrders},
	}
	for i := range rows {
		after := rows[i].after
		rows[i].long, rows[i].prepare = true, hireStaff
		rows[i].after = func(env *Environment, c *Crowd) {
			if after != nil {
				after(env, c)
			}
			env.checkAudit()
		}
	}
	return rows
}

// attack runs an attack for a time beside the sale, and lets a person at another address log in and read meanwhile.
func attack(lasts time.Duration, do func(ctx context.Context, env *Environment, c *Crowd)) func(*Environment, *Crowd) {
	return func(env *Environment, c *Crowd) {
		c.WaitSold(5)
		env.Inject("an attack", func() {
			ctx, cancel := context.WithTimeout(context.Background(), lasts)
			defer cancel()
			var attacker sync.WaitGroup
			attacker.Go(func() { do(ctx, env, c) })
			for _, s := range env.Shops {
				env.person(s)
			}
			attacker.Wait()
		})
	}
}

// from returns a client at an address of this machine, with a connection for each request.
func from(address string) *http.Client {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: 2 * time.Second}
	return &http.Client{Timeout: sandboxtest.Hang, Transport: &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true}}
}

// person logs in at a process from an address of their own, and reads the sale.
func (env *Environment) person(s *Shop) {
	client := from("127.0.0.200")
	asked := map[string]sandboxtest.Reply{}
	if !sandboxtest.Poll(func() bool {
		asked["log-in"] = sandboxtest.CallBy(client, "POST", s.URL()+"/api/login", "", fmt.Sprintf(`{"phone":"13911110001","password":%q}`, adminPassword))
		asked["sale"] = sandboxtest.CallBy(client, "GET", s.URL()+env.salePath(), "", "")
		return asked["log-in"].Status == 200 && asked["sale"].Status == 200
	}) {
		env.Report("I10: a person at another address cannot log in or read the sale at process %d: %d %s, %d %s", s.n,
			asked["log-in"].Status, asked["log-in"].Code, asked["sale"].Status, asked["sale"].Code)
	}
}

// answers counts replies of an attack by status and code. None may be an internal error.
type answers struct {
	env  *Environment
	mu   sync.Mutex
	seen map[string]int
}

func (a *answers) add(what string, r sandboxtest.Reply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen == nil {
		a.seen = map[string]int{}
	}
	a.seen[fmt.Sprint(what, " ", r.Status, " ", r.Code)]++
	if r.Status == 500 {
		a.env.Report("I10: %s is an internal error: %s", what, r.Raw)
	}
}

// atOnce runs do n times in so many goroutines, until ctx ends.
func atOnce(ctx context.Context, goroutines, n int, do func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	all.Wait()
}

func hoardAddresses(ctx context.Context, env *Environment, _ *Crowd) {
	hoarders, err := env.newBuyers(150, env.Sale)
	if err != nil {
		env.T.Error(err)
		return
	}
	a, client := answers{env: env}, from("127.0.0.66")
	for ctx.Err() == nil {
		atOnce(ctx, 8, len(hoarders), func(i int) {
			a.add("an address", sandboxtest.CallBy(client, "POST", env.Shops[i%len(env.Shops)].URL()+env.salePath()+"/path", hoarders[i].Token, ""))
		})
	}
	env.T.Logf("the hoarders: %v", a.seen)
	if a.seen["an address 200 ok"] < 64 {
		env.TooLittle("the hoarders got few addresses: %v", a.seen)
	}
}

func holdConnections(ctx context.Context, env *Environment, _ *Crowd) {
	const each = 400 // of an address to a process: together more than there are places
	texts := []string{"", "GET /api/slots HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
		"POST /api/login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"}
	var held atomic.Int64
	var all sync.WaitGroup
	for i := range 2 * each * len(env.Shops) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(66+i%2))}, Timeout: time.Second}
		at := strings.TrimPrefix(env.Shops[i/2%len(env.Shops)].URL(), "http://")
		all.Go(func() {
			for ctx.Err() == nil {
				if c, err := d.DialContext(ctx, "tcp", at); err == nil {
					held.Add(1)
					ends := context.AfterFunc(ctx, func() { c.Close() })
					io.WriteString(c, texts[i%len(texts)])
					io.Copy(io.Discard, c) // until the shop closes it
					c.Close()
					ends()
				}
				select {
				case <-ctx.Done():
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
	}
	all.Wait()
	if held.Load() < each {
		env.TooLittle("only %d connections were opened", held.Load())
	}
}

func askForCodes(ctx context.Context, env *Environment, _ *Crowd) {
	a := answers{env: env}
	var clients []*http.Client
	for i := range 40 {
		clients = append(clients, from(fmt.Sprintf("127.2.%d.1", i)))
	}
	atOnce(ctx, 16, 2000, func(i int) {
		client, shop := clients[i%len(clients)], env.Shops[i/2%len(env.Shops)].URL()
		if i%2 == 0 {
			a.add("a code", sandboxtest.CallBy(client, "POST", shop+"/api/otp", "", fmt.Sprintf(`{"phone":"1370000%04d"}`, i/2)))
			return
		}
		a.add("a log-in", sandboxtest.CallBy(client, "POST", shop+"/api/login", "", `{"phone":"13911110002","password":"a guess"}`))
	})
	env.T.Logf("the flood: %v", a.seen)
	if a.seen["a log-in 200 ok"] > 0 || a.seen["a code 200 ok"] == 0 {
		env.Report("I10: the flood was answered %v", a.seen)
	}
}

func openStreams(ctx context.Context, env *Environment, c *Crowd) {
	a, client := answers{env: env}, from("127.0.0.66")
	client.Timeout = 0
	tokens := []string{}
	for _, b := range c.buyers[:5] {
		tokens = append(tokens, b.Token)
	}
	var all sync.WaitGroup
	for i := range 700 + 20*len(tokens) {
		url, token := env.Shops[i%len(env.Shops)].URL()+"/api/live", ""
		if i >= 700 {
			url, token = env.Shops[i%len(env.Shops)].URL()+env.salePath()+"/events", tokens[i%len(tokens)]
		}
		all.Go(func() {
			r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
			if err != nil {
				env.T.Error(err)
				return
			}
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			if resp, err := client.Do(r); err == nil {
				a.add("a stream", sandboxtest.Reply{Status: resp.StatusCode})
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	all.Wait()
	env.T.Logf("the streams: %v", a.seen)
	if a.seen["a stream 200 "] == 0 {
		env.TooLittle("no stream was opened: %v", a.seen)
	}
}

func sendPictures(ctx context.Context, env *Environment, _ *Crowd) {
	picture := image.NewGray(image.Rect(0, 0, 1500, 1500))
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range picture.Pix {
		picture.Pix[i] = byte(rng.Uint32())
	}
	var encoded bytes.Buffer
	if err := png.Encode(&encoded, picture); err != nil {
		env.T.Error(err)
		return
	}
	a, client := answers{env: env}, from("127.0.0.66")
	send := func(s *Shop) (name string) {
		r, err := http.NewRequestWithContext(ctx, "POST", s.URL()+"/api/admin/pictures", bytes.NewReader(encoded.Bytes()))
		if err != nil {
			env.T.Error(err)
			return ""
		}
		r.Header.Set("Authorization", "Bearer "+env.staff[0].token)
		r.Header.Set("Content-Type", "image/png")
		resp, err := client.Do(r)
		if err != nil {
			return ""
		}
		defer resp.Body.Close()
		raw, _ := io.ReadAll(resp.Body)
		a.add("a picture", sandboxtest.Reply{Status: resp.StatusCode, Raw: raw})
		_, rest, _ := strings.Cut(string(raw), `"name":"`)
		name, _, _ = strings.Cut(rest, `"`)
		return name
	}
	var names sync.Map
	atOnce(ctx, 8, 5040, func(i int) {
		if i < 40 {
			if name := send(env.Shops[i%len(env.Shops)]); name != "" {
				names.Store(name, true)
			}
			return
		}
		a.add("a made-up name", sandboxtest.CallBy(client, "GET", fmt.Sprintf("%s/pictures/%032x.png", env.Shops[i%len(env.Shops)].URL(), i), "", ""))
	})
	env.T.Logf("the pictures: %v", a.seen)
	found := 0
	names.Range(func(name, _ any) bool {
		found++
		if !sandboxtest.Poll(func() bool {
			return sandboxtest.CallBy(from("127.0.0.200"), "GET", env.Shops[found%len(env.Shops)].URL()+"/pictures/"+name.(string), "", "").Status == 200
		}) {
			env.Report("I10: the picture %s, which was stored, is not there for a person", name)
		}
		return true
	})
	if found == 0 {
		env.TooLittle("no picture was stored: %v", a.seen)
	}
}

func forgeNotices(ctx context.Context, env *Environment, c *Crowd) {
	var refused, other atomic.Int64
	atOnce(ctx, 8, 6000, func(i int) {
		b, key, at := c.buyers[i%len(c.buyers)], "another key of 32 bytes ........", time.Now()
		if i%2 == 1 {
			key, at = notifySecret, at.Add(-time.Hour) // one of the cashier's own, sent again
		}
		switch resp := env.notify(c, i%len(env.Shops), notice(b.OrderID, "forged-"+strconv.Itoa(i), 990), at, key); resp.Status {
		case http.StatusForbidden:
			refused.Add(1)
		case http.StatusServiceUnavailable, 0:
		default:
			other.Add(1)
			env.Report("I7: a forged or old notice: %d %s", resp.Status, resp.Code)
		}
	})
	if refused.Load() < 100 {
		env.TooLittle("only %d notices were refused", refused.Load())
	}
}

// checkNoticeLog checks that a flood of refused notices has not filled the log: after the first twenty of each kind it has a line a
// second.
func checkNoticeLog(env *Environment, _ *Crowd) {
	for _, s := range env.Shops {
		if n := strings.Count(s.Log.String(), "a payment notice is refused"); n > 150 {
			env.Report("I10: the log of process %d has %d lines about refused notices", s.n, n)
		}
	}
}

func forgeRequests(ctx context.Context, env *Environment, c *Crowd) {
	attackers, err := env.newBuyers(20, env.Sale)
	if err != nil {
		env.T.Error(err)
		return
	}
	a, client := answers{env: env}, from("127.0.0.66")
	victim := func(i int) *buyer { return c.buyers[i%len(c.buyers)] }
	ids := []int64{}
	for _, b := range attackers {
		ids = append(ids, b.ID)
	}
	buys := env.salePath() + "/buy/"
	tries := []struct {
		what string
		want []int
		ask  func(i int, shop, token string) sandboxtest.Reply
	}{
		{"a buy with another's address", []int{403, 410}, func(i int, shop, token string) sandboxtest.Reply {
			return sandboxtest.CallBy(client, "POST", shop+buys+victim(i).Path, token, "")
		}},
		{"a buy with a changed address", []int{403, 410}, func(i int, shop, token string) sandboxtest.Reply {
			path := []byte(attackers[i%len(attackers)].Path)
			path[i%len(path)] ^= 1
			return sandboxtest.CallBy(client, "POST", shop+buys+strings.ReplaceAll(string(path), "/", "_"), token, "")
		}},
		{"a buy from another site", []int{403}, func(i int, shop, token string) sandboxtest.Reply {
			return sandboxtest.CallBy(client, "POST", shop+buys+attackers[i%len(attackers)].Path, token, "", "Sec-Fetch-Site", "cross-site")
		}},
		{"a new role", []int{403}, func(i int, shop, token string) sandboxtest.Reply {
			return sandboxtest.CallBy(client, "POST", fmt.Sprintf("%s/api/admin/users/%d/role", shop, attackers[i%len(attackers)].ID), token, `{"role":"admin"}`)
		}},
		{"units for the sale", []int{403}, func(_ int, shop, token string) sandboxtest.Reply {
			return sandboxtest.CallBy(client, "POST", shop+"/api/admin"+env.adminPath("units"), token, `{"delta":100}`)
		}},
		{"another's order cancelled", []int{404}, func(i int, shop, token string) sandboxtest.Reply {
			var order string
			if err := env.pool.QueryRow(ctx, `select id from orders where sale_id = $1 offset $2 limit 1`, env.Sale, i%5).Scan(&order); err != nil {
				return sandboxtest.Reply{}
			}
			return sandboxtest.CallBy(client, "POST", shop+"/api/orders/"+order+"/cancel", token, "")
		}},
		{"a session of nobody", []int{401}, func(i int, shop, _ string) sandboxtest.Reply {
			return sandboxtest.CallBy(client, "GET", shop+"/api/orders", fmt.Sprintf("%043d", i), "")
		}},
	}
	atOnce(ctx, 8, 3000, func(i int) {
		try := tries[i%len(tries)]
		r := try.ask(i, env.Shops[i/2%len(env.Shops)].URL(), attackers[i%len(attackers)].Token)
		a.add(try.what, r)
		if !r.Busy() && !slices.Contains(try.want, r.Status) {
			env.Report("I10: %s: %d %s", try.what, r.Status, r.Code)
		}
	})
	env.T.Logf("the forger: %v", a.seen)
	var orders int
	if err := env.pool.QueryRow(context.Background(), `select count(*) from orders where user_id = any($1)`, ids).Scan(&orders); err != nil || orders > 0 {
		env.Report("I10: the forgers have %d orders, %v", orders, err)
	}
}

// raceOrders lets the time to pay of every order run out while its buyer pays at one process and cancels at the other, and while one
// administrator cancels it and the other refunds it. Then both refund what is paid, at once. Whatever comes first, an order is refunded
// once, and the money is right: a paid order has one capture, and of every other one it goes back.
func raceOrders(env *Environment, c *Crowd) {
	deadline := c.deadline()
	payments := make([]string, len(c.buyers))
	atOnce(context.Background(), 16, len(c.buyers), func(i int) {
		payments[i] = c.buyers[i].Insist(deadline, "pay", "POST", "/api/orders/"+c.buyers[i].OrderID+"/pay", "").Purchase().PaymentID
	})
	expiry := env.endTimeToPay(c.buyers)
	var racing sync.WaitGroup
	for n, verb := range []string{"cancel", "refund"} {
		racing.Go(func() {
			time.Sleep(time.Until(expiry.Add(-300 * time.Millisecond)))
			for _, b := range c.buyers {
				env.staff[n].do(env.Shops[n], "/orders/"+b.OrderID+"/"+verb, "order."+verb, "")
			}
		})
	}
	for i, b := range c.buyers {
		racing.Go(func() {
			time.Sleep(time.Until(expiry.Add(time.Duration(i%20-10) * 40 * time.Millisecond)))
			var both sync.WaitGroup
			both.Go(func() {
				sandboxtest.Call("POST", env.Shops[0].URL()+"/api/cashier/"+payments[i], b.Token, `{"action":"confirm"}`)
			})
			both.Go(func() {
				sandboxtest.Call("POST", env.Shops[1].URL()+"/api/orders/"+b.OrderID+"/cancel", b.Token, "")
			})
			both.Wait()
			env.notify(c, i%2, notice(b.OrderID, "again-"+b.OrderID, 990), time.Now(), notifySecret)
		})
	}
	racing.Wait()
	for n, a := range env.staff {
		racing.Go(func() {
			for _, b := range c.buyers {
				a.do(env.Shops[n], "/orders/"+b.OrderID+"/refund", "order.refund", "")
			}
		})
	}
	racing.Wait()
	refunds := map[string]int{}
	for _, a := range env.staff {
		for _, d := range a.acts {
			if d.action == "order.refund" && d.status == http.StatusOK {
				refunds[d.path]++
			}
		}
	}
	for path, n := range refunds {
		if n > 1 {
			env.Report("I7: %s was done %d times", path, n)
		}
	}
	if len(refunds) == 0 {
		env.TooLittle("no order was refunded")
	}
	type state struct {
		Status                  string
		Captured, Due, Returned int
	}
	var wrong []state
	if !sandboxtest.Poll(func() bool {
		rows, _ := env.pool.Query(context.Background(), `
			select o.status, count(*) filter (where p.status = 'captured'), count(*) filter (where p.status = 'refund_due'), count(*) filter (where p.status = 'refunded')
			from   orders o left join payments p on p.order_id = o.id
			where  o.sale_id = $1
			group  by o.id, o.status
			having o.status = 'pending' or (o.status = 'paid') <> (count(*) filter (where p.status = 'captured') = 1) or count(*) filter (where p.status = 'refund_due') > 0`, env.Sale)
		var err error
		wrong, err = pgx.CollectRows(rows, pgx.RowToStructByPos[state])
		return err == nil && len(wrong) == 0
	}) {
		env.Report("I7: after the race %d orders are pending, paid without one capture, or have money that is due: %+v", len(wrong), wrong)
	}
	done := map[string]int{}
	for _, a := range env.staff {
		for _, d := range a.acts {
			done[fmt.Sprint(d.action, " ", d.status, " ", d.code)]++
		}
	}
	env.T.Logf("the administrators: %v", done)
}
