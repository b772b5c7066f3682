package web_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill"
	"miaosha/seckill/sandbox/sandboxtest"
)

// person is a buyer whose session the shop has not seen yet.
type person struct {
	id    int64
	token string
}

func (h house) people(n int) (all []person) {
	h.t.Helper()
	for _, line := range strings.Fields(sandboxtest.MustCommand(h.t, h.env, "users", "-n", strconv.Itoa(n)))[1:] {
		f := strings.Split(line, ",")
		id, err := strconv.ParseInt(f[0], 10, 64)
		if err != nil {
			h.t.Fatal(err)
		}
		all = append(all, person{id, f[2]})
	}
	return all
}

// signed is an address as the shop would give it.
func (p person) signed(t *testing.T, sale string, life time.Duration) string {
	t.Helper()
	id, err := strconv.ParseInt(sale, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seckill.SignPath([]byte("0123456789abcdef0123456789abcdef"), p.id, id, p.token, time.Now().Add(life)) // the secret of Stores
}

// tap stands between the shop and Redis and keeps what the shop says.
type tap struct {
	url  string
	said *sandboxtest.Tape
}

func openTap(t *testing.T, to string) tap {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	redis := u.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	u.Host = l.Addr().String()
	p := tap{u.String(), &sandboxtest.Tape{}}
	go func() { // ends with the listener, and its connections with the shop
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				up, err := net.Dial("tcp", redis)
				if err != nil {
					return
				}
				defer up.Close()
				go func() {
					io.Copy(c, up)
					c.Close()
				}()
				io.Copy(up, io.TeeReader(c, p.said))
			}()
		}
	}()
	return p
}

// count is how often the shop has said a word so far.
func (p tap) count(word string) int { return strings.Count(p.said.String(), word) }

// A wrong address costs the shop arithmetic alone: it neither reads the session nor asks the gate.
func TestWrongAddressNeverReachesRedis(t *testing.T) {
	t.Parallel()
	stores := sandboxtest.Stores(t)
	tap := openTap(t, strings.TrimPrefix(stores[1], "REDIS_URL="))
	h := openHouse(t, "MIAOSHA_RATE=off", stores[0], "REDIS_URL="+tap.url)
	sale, second, later := h.sale("--stock", "100"), h.sale("--stock", "100"), h.sale("--start", "30m")
	them := h.people(3)
	me, stranger, early := them[0], them[1], them[2]
	_, password, _ := strings.Cut(sandboxtest.MustCommand(t, h.env, "admin", "--phone", "13900001111"), "password: ")
	var twins [2]person // two sessions of one user
	for i := range twins {
		var in struct {
			UserID int64 `json:"user_id"`
			Token  string
		}
		h.call("POST", "/api/login", "", fmt.Sprintf(`{"phone":"13900001111","password":%q}`, strings.TrimSpace(password))).Read(t, &in)
		twins[i] = person{in.UserID, in.Token}
	}
	own := me.signed(t, sale, time.Minute)
	type try struct {
		name, sale, token, path string
	}
	tries := []try{
		{"other user", sale, stranger.token, own},
		{"other session", sale, twins[1].token, twins[0].signed(t, sale, time.Minute)},
		{"other sale", second, me.token, own},
		{"a sale that has not begun", later, me.token, own},
		{"no such sale", "999999", me.token, own},
		{"expired", sale, me.token, me.signed(t, sale, -time.Second)},
		{"expired long ago", sale, me.token, me.signed(t, sale, -time.Hour)},
		{"cut", sale, me.token, own[:len(own)-1]},
		{"longer", sale, me.token, own + "A"},
		{"padded", sale, me.token, own + "%3D"},
		{"a line break", sale, me.token, own[:len(own)-1] + "%0A"},
		{"zeros", sale, me.token, strings.Repeat("A", len(own))},
	}
	raw, err := base64.RawURLEncoding.DecodeString(own)
	if err != nil {
		t.Fatal(err)
	}
	for bit := range 8 * len(raw) {
		b := slices.Clone(raw)
		b[bit/8] ^= 1 << (bit % 8)
		tries = append(tries, try{fmt.Sprintf("bit %d of the bytes", bit), sale, me.token, base64.RawURLEncoding.EncodeToString(b)})
	}
	for i := range own {
		for bit := range 8 {
			b := []byte(own)
			b[i] ^= 1 << bit
			tries = append(tries, try{fmt.Sprintf("bit %d of letter %d", bit, i), sale, me.token, url.PathEscape(string(b))})
		}
	}
	gate := func(sale string) string { return "ms:{" + sale + "}:paths" } // whoever buys or asks for an address is looked up there
	sessions := tap.count("ms:session")
	for _, c := range tries {
		r := h.call("POST", "/api/sales/"+c.sale+"/buy/"+c.path, c.token, "")
		if split := strings.Contains(c.path, "%2F"); r.Code != "bad_path" && !(split && r.Status == 404) {
			t.Errorf("%s: %d %s", c.name, r.Status, r.Code)
		}
	}
	if n := tap.count("ms:session") - sessions; n != 0 {
		t.Errorf("%d wrong addresses made the shop ask for sessions %d times", len(tries), n)
	}
	if r := h.call("POST", "/api/sales/"+later+"/path", early.token, ""); r.Code != "not_started" {
		t.Errorf("an address before the start: %d %s", r.Status, r.Code)
	}
	for _, s := range []string{sale, second, later} {
		if n := tap.count(gate(s)); n != 0 {
			t.Errorf("%d wrong addresses made the shop ask the gate of sale %s %d times", len(tries), s, n)
		}
	}
	// The tap is not deaf: the right address is heard.
	sessions = tap.count("ms:session")
	if r := h.call("POST", "/api/sales/"+sale+"/buy/"+own, me.token, ""); r.Status != 202 {
		t.Errorf("the right one: %d %s", r.Status, r.Code)
	}
	if tap.count(gate(sale)) == 0 || tap.count("ms:session") == sessions {
		t.Errorf("a purchase went past the tap")
	}
	for _, p := range them {
		if tap.count(p.token) != 0 {
			t.Errorf("a token was told to Redis, which is to know its hash alone")
		}
	}
	// One that is signed for another user under one's own token: only who has the secret can make it.
	if r := h.call("POST", "/api/sales/"+sale+"/buy/"+(person{me.id, stranger.token}).signed(t, sale, time.Minute), stranger.token, ""); r.Code != "bad_path" {
		t.Errorf("for another user, in one's own session: %d %s", r.Status, r.Code)
	}
	// An address that the operator's tools made beforehand: the gate's clock refuses it.
	if r := h.call("POST", "/api/sales/"+later+"/buy/"+early.signed(t, later, time.Minute), early.token, ""); r.Code != "not_started" {
		t.Errorf("buy before the start: %d %s", r.Status, r.Code)
	}
	if out := sandboxtest.MustCommand(t, h.env, "audit"); !strings.Contains(out, "holds") {
		t.Error(out)
	}
}

// Twenty clicks at once are one ticket, one order and one unit.
func TestRepeatedClickIsOneTicket(t *testing.T) {
	t.Parallel()
	h := openHouse(t, "MIAOSHA_RATE=off")
	sale := h.sale("--stock", "50")
	me := h.people(1)[0]
	at := me.signed(t, sale, time.Minute)
	replies := make([]sandboxtest.Reply, 20)
	var crowd sync.WaitGroup
	for i := range replies {
		crowd.Go(func() { replies[i] = h.call("POST", "/api/sales/"+sale+"/buy/"+at, me.token, "") })
	}
	crowd.Wait()
	tickets := map[string]bool{}
	for _, r := range replies {
		var b struct{ Ticket, State string }
		if r.Status != 202 {
			t.Errorf("a click: %d %s", r.Status, r.Raw)
			continue
		}
		if r.Read(t, &b); b.State == "queued" {
			tickets[b.Ticket] = true
		} else if b.State != "ordered" {
			t.Errorf("a click: %s", r.Raw)
		}
	}
	if len(tickets) != 1 {
		t.Errorf("tickets %v, want one", tickets)
	}
	order := h.order(sale, me.token)
	var orders []struct{ ID string }
	h.call("GET", "/api/orders", me.token, "").Read(t, &orders)
	if len(orders) != 1 || orders[0].ID != order {
		t.Errorf("orders %v, want %s alone", orders, order)
	}
	var s struct{ Left int }
	for h.call("GET", "/api/sales/"+sale, "", "").Read(t, &s); s.Left == 50; h.call("GET", "/api/sales/"+sale, "", "").Read(t, &s) {
		time.Sleep(10 * time.Millisecond) // what is left follows; the test's own deadline bounds it
	}
	if s.Left != 49 {
		t.Errorf("%d left of 50", s.Left)
	}
	if out := sandboxtest.MustCommand(t, h.env, "audit"); !strings.Contains(out, "holds") {
		t.Error(out)
	}
}

// polls asks for a result n times and counts the answers.
func (h house) polls(n int, sale, token string, headers ...string) map[string]int {
	codes := map[string]int{}
	for range n {
		r := h.call("GET", "/api/sales/"+sale+"/result", token, "", headers...)
		codes[r.Code]++
		if h.guarded("a poll", "/api/sales/"+sale+"/result", r); r.Code != "ok" && r.Code != "too_many" {
			h.t.Errorf("poll: %d %s", r.Status, r.Raw)
		}
	}
	return codes
}

// The buckets refill by one token in 20 seconds, so that a slow machine changes no count.
func TestUsersAndAddressesHaveBucketsOfTheirOwn(t *testing.T) {
	t.Parallel()
	t.Run("a user's", func(t *testing.T) {
		t.Parallel()
		h := openHouse(t, "MIAOSHA_RATE=0.05", "MIAOSHA_IP_RATE=5")
		sale, buyers := h.sale(), h.buyers(2)
		if got := h.polls(30, sale, buyers[0]); got["ok"] != 1 || got["too_many"] != 29 {
			t.Errorf("one user: %v", got)
		}
		if got := h.polls(1, sale, buyers[1]); got["ok"] != 1 {
			t.Errorf("another, from the same address: %v", got)
		}
	})
	t.Run("an address's", func(t *testing.T) {
		t.Parallel()
		h := openHouse(t, "MIAOSHA_RATE=5", "MIAOSHA_IP_RATE=0.05", "MIAOSHA_TRUSTED_PROXIES=127.0.0.0/8")
		sale, buyers := h.sale(), h.buyers(3)
		if got := h.polls(1, sale, buyers[0], "X-Forwarded-For", "192.0.2.1"); got["ok"] != 1 {
			t.Errorf("the first: %v", got)
		}
		if got := h.polls(4, sale, buyers[1], "X-Forwarded-For", "192.0.2.1"); got["too_many"] != 4 {
			t.Errorf("another user from the same address: %v", got)
		}
		if got := h.polls(1, sale, buyers[1], "X-Forwarded-For", "192.0.2.2"); got["ok"] != 1 {
			t.Errorf("the same user from another address: %v", got)
		}
	})
}

// Who a request is from is said by the connection, or by those who are trusted to say it.
func TestForwardedForCountsFromTrustedProxiesAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		trusted  string
		forwards []string
		want     int // requests that are let through: addresses
	}{
		"nobody is trusted":            {"", []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", ""}, 1},
		"another proxy is trusted":     {"10.0.0.0/8", []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", ""}, 1},
		"each has his own":             {"127.0.0.0/8", []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.1"}, 3},
		"made up on the left":          {"127.0.0.0/8", []string{"198.51.100.1, 192.0.2.1", "198.51.100.2,192.0.2.1", "198.51.100.3, , 192.0.2.1"}, 1},
		"two proxies":                  {"127.0.0.0/8,10.0.0.0/8", []string{"1.1.1.1, 192.0.2.1, 10.0.0.1", "1.1.1.2, 192.0.2.1, 10.0.0.2"}, 1},
		"another's trusted on the way": {"127.0.0.0/8", []string{"192.0.2.1, 10.0.0.1", "192.0.2.2, 10.0.0.1"}, 1},
		"one IPv6 network":             {"127.0.0.0/8", []string{"2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::"}, 1},
		"two IPv6 networks":            {"127.0.0.0/8", []string{"2001:db8:0:1::1", "2001:db8:0:2::1"}, 2},
		"IPv4 in IPv6":                 {"127.0.0.0/8", []string{"192.0.2.1", "::ffff:192.0.2.1"}, 1},
		"rubbish":                      {"127.0.0.0/8", []string{"x", "192.0.2.1, y", "1", ""}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := []string{"MIAOSHA_RATE=off", "MIAOSHA_IP_RATE=0.05"}
			if c.trusted != "" {
				env = append(env, "MIAOSHA_TRUSTED_PROXIES="+c.trusted)
			}
			h := openHouse(t, env...)
			sale, me, through := h.sale(), h.buyers(1)[0], 0
			for _, f := range c.forwards {
				through += h.polls(1, sale, me, "X-Forwarded-For", f)["ok"]
			}
			if through != c.want {
				t.Errorf("%d of %q got through, want %d", through, c.forwards, c.want)
			}
		})
	}
}

// All buys there are share the places in flight; who finds none is told so at once.
func TestBuysInFlightAreBounded(t *testing.T) {
	t.Parallel()
	h := openHouse(t, "MIAOSHA_RATE=off", "MIAOSHA_GATE=off", "MIAOSHA_MAX_IN_FLIGHT=1")
	sale := h.sale("--stock", "5")
	them := h.people(2)
	db, err := pgx.Connect(t.Context(), strings.TrimPrefix(h.env[0], "DATABASE_URL="))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `select 1 from sales where id = $1 for update`, sale); err != nil {
		t.Fatal(err)
	}
	buy := func(p person) sandboxtest.Reply {
		return h.call("POST", "/api/sales/"+sale+"/buy/"+p.signed(t, sale, time.Minute), p.token, "")
	}
	first := make(chan sandboxtest.Reply, 1)
	go func() { first <- buy(them[0]) }()
	var second sandboxtest.Reply
	for second.Code != "busy" { // until the first is inside; alone, this one would wait for the row
		for waits := 0; waits == 0; {
			if err := db.QueryRow(t.Context(), `
				select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`).Scan(&waits); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		if second = buy(them[1]); second.Status != 503 || time.Since(began) > time.Second {
			t.Fatalf("the second: %d %s after %v", second.Status, second.Raw, time.Since(began))
		}
	}
	h.guarded("the second", "/api/sales/"+sale+"/buy/x", second)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := <-first; r.Status != 202 && r.Status != 503 { // the lock's own limit is half a second
		t.Errorf("the first: %d %s", r.Status, r.Raw)
	}
	if r := buy(them[1]); r.Status != 202 {
		t.Errorf("once there is room: %d %s", r.Status, r.Raw)
	}
}

// p99 of times, which it sorts.
func p99(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[len(times)*99/100]
}

// One user who sends 1,000 requests a second takes nothing from the others. Of the rounds the best counts, and latencies are
// not compared beside other tests: see TestLatencyWhileManyLogIn.
func TestLatencyBesideOneUsersFlood(t *testing.T) {
	h := openHouse(t, "MIAOSHA_IP_RATE=off")
	const rounds, each, pace = 3, 400, 10 * time.Millisecond // buys of a phase, and how far they are apart
	sale := h.sale("--stock", "5000")
	them := h.people(2*rounds*each + 1)
	bot, them := them[0], them[1:]
	phase := func(them []person) time.Duration {
		times := make([]time.Duration, len(them))
		var crowd sync.WaitGroup
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for i, p := range them {
			<-tick.C
			crowd.Go(func() {
				at := p.signed(t, sale, time.Minute)
				began := time.Now()
				if r := h.call("POST", "/api/sales/"+sale+"/buy/"+at, p.token, ""); r.Status != 202 {
					t.Errorf("another user's buy: %d %s", r.Status, r.Raw)
				}
				times[i] = time.Since(began)
			})
		}
		crowd.Wait()
		return p99(times)
	}
	for round := range rounds {
		mine := them[2*round*each:]
		before := phase(mine[:each])
		ctx, stop := context.WithCancel(t.Context())
		var sent, refused atomic.Int64
		var flood sync.WaitGroup
		at := bot.signed(t, sale, time.Minute)
		flood.Go(func() {
			for tick := time.NewTicker(5 * time.Millisecond); ctx.Err() == nil; <-tick.C {
				for range 5 {
					flood.Go(func() {
						sent.Add(1)
						if h.call("POST", "/api/sales/"+sale+"/buy/"+at, bot.token, "").Status == 429 {
							refused.Add(1)
						}
					})
				}
			}
		})
		began := time.Now()
		during := phase(mine[each : 2*each])
		took := time.Since(began)
		stop()
		flood.Wait()
		rate := float64(sent.Load()) / took.Seconds()
		t.Logf("others' buy p99 %v alone, %v beside %.0f requests a second of one user, %d of %d refused", before, during, rate, refused.Load(), sent.Load())
		if refused.Load() < sent.Load()*9/10 {
			t.Errorf("only %d of one user's %d were refused", refused.Load(), sent.Load())
		}
		// Below 20 ms a busy machine's own moods are more than twice what was.
		if during <= min(100*time.Millisecond, max(2*before, 20*time.Millisecond)) || !sandboxtest.Alone() {
			return
		}
	}
	t.Error("others' p99 is more than twice what it was, in each round")
}

// healthAndList asks both again and again until stop is closed, and gives each one's p99.
func healthAndList(t *testing.T, ops, shop string, stop chan struct{}) (health, list time.Duration) {
	ask := func(url string) (times []time.Duration) {
		c := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}
		defer c.CloseIdleConnections()
		for {
			select {
			case <-stop:
				return times
			case <-time.After(10 * time.Millisecond):
			}
			began := time.Now()
			r, err := c.Get(url)
			if err != nil {
				t.Errorf("%s: %v", url, err)
				return times
			}
			io.Copy(io.Discard, r.Body)
			if r.Body.Close(); r.StatusCode != 200 {
				t.Errorf("%s: %s", url, r.Status)
			}
			times = append(times, time.Since(began))
		}
	}
	var both sync.WaitGroup
	both.Go(func() { health = p99(ask(ops + "/healthz")) })
	both.Go(func() { list = p99(ask(shop + "/api/sales")) })
	both.Wait()
	return health, list
}

// resident is a process's memory in MB, 0 where the system does not tell.
func resident(pid int) int {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(raw), "VmRSS:")
	kb, _ := strconv.Atoi(strings.Fields(rest + " 0")[0])
	return kb / 1024
}

// Slow clients and fat requests end by themselves, and meanwhile the shop answers others. MIAOSHA_SLOW=5000 is for a machine
// that has the file descriptors. It runs beside no other test of this package.
func TestLatencyBesideSlowAndFat(t *testing.T) {
	many, err := strconv.Atoi(os.Getenv("MIAOSHA_SLOW"))
	if err != nil {
		many = 2000
	}
	h := openHouse(t, "MIAOSHA_OPS_ADDR=127.0.0.1:0")
	h.sale()
	var ops string
	for ops == "" {
		_, rest, _ := strings.Cut(h.Say.String(), "metrics, health")
		ops, _, _ = strings.Cut(strings.TrimSpace(rest), "\n")
		time.Sleep(10 * time.Millisecond)
	}
	addr := strings.TrimPrefix(h.URL, "http://")
	was, most := resident(h.PID()), atomic.Int64{}
	stop := make(chan struct{})
	var watch, crowd sync.WaitGroup
	var health, list time.Duration
	watch.Go(func() { health, list = healthAndList(t, ops, h.URL, stop) })
	watch.Go(func() {
		for tick := time.NewTicker(100 * time.Millisecond); ; <-tick.C {
			most.Store(max(most.Load(), int64(resident(h.PID()))))
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	// ended gives the status that a connection ends with, 0 for none, and whether it ends at all.
	ended := func(c net.Conn) (int, bool) {
		c.SetReadDeadline(time.Now().Add(20 * time.Second))
		in := bufio.NewReader(c)
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			timeout, is := err.(net.Error)
			return 0, !is || !timeout.Timeout()
		}
		_, err = io.Copy(io.Discard, r.Body)
		if err == nil {
			_, err = in.ReadByte()
		}
		timeout, is := err.(net.Error)
		return r.StatusCode, !is || !timeout.Timeout()
	}
	dial := func() net.Conn {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Errorf("connect: %v", err)
		}
		return c
	}
	began := time.Now()
	var slow, open, last atomic.Int64
	for i := range many {
		if i%100 == 99 {
			time.Sleep(10 * time.Millisecond)
		}
		crowd.Go(func() {
			c := dial()
			if c == nil {
				return
			}
			defer c.Close()
			slow.Add(1)
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				status, over := ended(c)
				if !over || status != 0 && (status < 400 || status > 499) {
					t.Errorf("a slow connection: status %d, over %v", status, over)
				}
				open.Add(1)
				last.Store(max(last.Load(), int64(time.Since(began))))
			}()
			head := "GET /api/sales HTTP/1.1\r\nHost: x\r\nX-Slow: " + strings.Repeat("x", 60)
			if i%2 == 1 { // or the head at once, and the body slowly
				whole := "POST /api/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
				io.WriteString(c, whole)
				head = strings.Repeat(" ", 100)
			}
			for _, b := range []byte(head) {
				select {
				case <-gone:
					return
				case <-time.After(time.Second):
				}
				c.Write([]byte{b})
			}
			<-gone
		})
	}
	fat := func(name, head string, chunk []byte, chunks int, wants ...int) {
		crowd.Go(func() {
			c := dial()
			if c == nil {
				return
			}
			defer c.Close()
			io.WriteString(c, head)
			wrote := make(chan int, 1)
			go func() {
				n := 0
				for ; n < chunks; n++ {
					if _, err := c.Write(chunk); err != nil {
						break
					}
				}
				wrote <- n * len(chunk)
			}()
			status, over := ended(c)
			c.Close()
			n := <-wrote
			if !over || !slices.Contains(wants, status) || n > 64<<20 { // what the sockets hold, and no more
				t.Errorf("%s: status %d, over %v, %d MB taken", name, status, over, n>>20)
			}
		})
	}
	megabyte := make([]byte, 1<<20)
	chunk := append(append([]byte("100000\r\n"), megabyte...), "\r\n"...)
	for _, route := range []string{"POST /api/login", "POST /api/otp", "POST /api/payments/notify", "GET /api/sales", "POST /nothing"} {
		head := route + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
		wants := []int{413, 0} // 0: it was reset before the answer was read
		if !strings.Contains(route, "POST /api") {
			wants = []int{200, 404, 405, 0} // nobody reads such a body
		}
		fat(route+" with a body of 1 GB", head+"Content-Length: 1073741824\r\n\r\n", megabyte, 1024, wants...)
		fat(route+" with 1 GB in chunks", head+"Transfer-Encoding: chunked\r\n\r\n", chunk, 1024, wants...)
		fat(route+" with headers of 10 MB", head+"X-Fat: ", []byte(strings.Repeat("x", 1<<20)), 10, 431, 0)
		fat(route+" with 10 MB of headers", head, []byte(strings.Repeat("X-Fat: "+strings.Repeat("x", 1015)+"\r\n", 1024)), 10, 431, 0)
	}
	crowd.Wait()
	close(stop)
	watch.Wait()
	t.Logf("%d slow connections, the last ended after %v; meanwhile health p99 %v, list p99 %v, memory %d MB, then %d at most",
		slow.Load(), time.Duration(last.Load()).Round(time.Millisecond), health, list, was, most.Load())
	if int(open.Load()) != many {
		t.Errorf("%d of %d slow connections ended", open.Load(), many)
	}
	if limit := 200 * time.Millisecond; health == 0 || list == 0 || health >= limit || list >= limit {
		t.Errorf("health p99 %v, list p99 %v", health, list)
	}
	if grown := int(most.Load()) - was; was > 0 && grown > 150 {
		t.Errorf("memory grew by %d MB", grown)
	}
}
