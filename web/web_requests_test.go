package web

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/admin"
	"miaosha/seckill/audit"
	"miaosha/seckill/captcha"
	"miaosha/seckill/lab"
	"miaosha/seckill/lab/experiments"
	"miaosha/seckill/live"
	"miaosha/seckill/payment"
	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/seckill/trace"
	"miaosha/user"
)

// Every route has a form, and every form has a route, so that no new route is left out of
// TestRandomRequests. Each answer of a form is in the table of refusals.
func TestEveryRouteHasAForm(t *testing.T) {
	there, err := Routes()
	if err != nil {
		t.Fatal(err)
	}
	known := knownAnswers()
	var listed []string
	for _, f := range forms {
		listed = append(listed, f.route)
		for _, a := range slices.Concat(f.before, f.answers) {
			if status, code, _ := strings.Cut(a, " "); code != "" && code != "ok" && !known[a] {
				t.Errorf("%s: %q is not in the table of refusals", f.route, a)
			} else if n, err := strconv.Atoi(status); err != nil || n < 200 || n > 499 {
				t.Errorf("%s: %q has no status of an answer", f.route, a)
			}
		}
	}
	slices.Sort(there)
	slices.Sort(listed)
	if diff := cmp.Diff(there, listed); diff != "" {
		t.Errorf("the routes and the forms (- a route without a form, + a form without a route):\n%s", diff)
	}
}

// knownAnswers returns every status and code that a refusal may have.
func knownAnswers() map[string]bool {
	known := map[string]bool{"403 not_started": true, "429 too_many": true}
	for _, f := range refusals {
		known[fmt.Sprint(f.status, " ", f.code)] = true
	}
	return known
}

const (
	fuzzWorkers      = 16
	fuzzBuyers       = 12 // of each worker
	fuzzPrice        = 990
	fuzzPassword     = "a password of a test"
	fuzzNotifySecret = "notify-notify-notify-notify-notify"
	heapGrowth       = 32 << 20

	moreGoroutines = 30 // than before
)

// TestRandomRequests sends valid, nearly valid and wild requests to every route, with real sessions.
// No answer is an internal error, every answer is one that the request may receive, the invariants hold
// afterwards, and neither memory nor goroutines are left over.
//
// MIAOSHA_REQUESTS is the number of requests, MIAOSHA_REQUESTS_SECONDS the time after which no more are
// sent, and MIAOSHA_REQUESTS_SEED the seed of all. A failure is printed with its seed and number;
// MIAOSHA_REQUESTS_ONLY sends the request of that number alone, to a shop in its first state.
func TestRandomRequests(t *testing.T) {
	n := envNumber(t, "MIAOSHA_REQUESTS", 4000)
	if testing.Short() {
		n = min(n, 2000)
	}
	w := openWorld(t, envNumber(t, "MIAOSHA_REQUESTS_SEED", 1))
	began := time.Now()
	w.until = began.Add(time.Duration(envNumber(t, "MIAOSHA_REQUESTS_SECONDS", 120)) * time.Second)
	if only := os.Getenv("MIAOSHA_REQUESTS_ONLY"); only != "" {
		k := envNumber(t, "MIAOSHA_REQUESTS_ONLY", 0)
		w.workers[k%fuzzWorkers].work(k, k+1)
		w.finish()
		return
	}
	first := n / 20
	w.work(0, first) // caches and pools are full then
	before := w.level()
	w.work(first, n)
	took := time.Since(began)
	var after level
	sandboxtest.Poll(func() bool { // a closed pipe stays in memory until the time limits that were set on it have passed
		after = w.level()
		return int64(after.heap)-int64(before.heap) <= heapGrowth && after.goroutines <= before.goroutines+moreGoroutines
	})
	w.finish()
	sent := w.sent.Load()
	t.Logf("seed %d: %d requests in %v, %.0f a second; heap %d KB after %d, %d KB at the end; goroutines %d, %d\n%s",
		w.seed, sent, took.Round(time.Millisecond), float64(sent)/took.Seconds(), before.heap>>10, first, after.heap>>10, before.goroutines, after.goroutines, w.counts)
	if sent < n {
		t.Logf("only %d of %d requests were sent in the time", sent, n)
	}
	if grown := int64(after.heap) - int64(before.heap); grown > heapGrowth {
		t.Errorf("the heap has grown by %d KB in %d requests", grown>>10, sent)
	}
	if after.goroutines > before.goroutines+moreGoroutines {
		buf := make([]byte, 1<<20)
		t.Errorf("%d goroutines, %d after %d requests\n%s", after.goroutines, before.goroutines, first, buf[:runtime.Stack(buf, true)])
	}
	w.counts.checkCoverage(t)
}

func envNumber(t *testing.T, name string, unset uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return unset
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// world is a shop in this process, with sales in every state and buyers with sessions.
type world struct {
	t        *testing.T
	seed     uint64
	s        *Server
	db       *pgxpool.Pool
	rdb      redis.UniversalClient
	users    *user.Store
	sessions *user.Sessions
	admin    user.User
	console  *smsConsole
	log      *faultLog
	listener *pipeListener
	sales    []int64
	pages    []string
	workers  []*worker
	counts   *answerCounts
	until    time.Time // no request is sent later
	sent     atomic.Uint64
	failures atomic.Int32
}

func openWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	return openWorldOn(t, seed, sandboxtest.DB(t))
}

func openWorldOn(t *testing.T, seed uint64, db *pgxpool.Pool) *world {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	w := &world{t: t, seed: seed, db: db, rdb: sandboxtest.Redis(t), console: &smsConsole{codes: map[string]string{}},
		log: &faultLog{}, counts: &answerCounts{n: map[string]map[string]int{}}, listener: newPipeListener()}
	secret, log := []byte("a secret of thirty-two bytes ...."), slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelError}))
	var err error
	w.sessions, err = user.NewSessions(sandboxtest.RedisOptions(t, sandboxtest.RedisURL(t)), time.Hour)
	must(err)
	t.Cleanup(func() { w.sessions.Close() })
	w.users = user.New(w.db, w.rdb, secret, user.Config{SMS: "console", Console: w.console}, log)
	sales, orders := goods.New(w.db), order.New(w.db, order.Config{PayWithin: 15 * time.Second})
	cache := goods.NewCache(sales)
	steps := trace.New()
	rush, err := seckill.New(seckill.Config{Gate: "redis", GateFactor: 5, AddressTTL: time.Minute, MaxInFlight: 4096, QMax: 20_000, QueueWorkers: 6, Optimisations: seckill.AllOptimisations()},
		seckill.Deps{DB: w.db, Redis: w.rdb, Sales: sales, Cache: cache, Orders: orders, Secret: secret, Trace: steps, Log: log})
	must(err)
	orders.OnUnitsReturned(rush.UnitsReturned)
	jobs := NewLab(lab.Stores{}, log) // its jobs end at once: the lab has tests of its own
	jobs.runPlan = func(context.Context, lab.Stores, lab.Plan, func(lab.Progress)) ([]lab.Result, error) { return nil, nil }
	jobs.race = func(context.Context, lab.Stores, string, uint64) (lab.Recording, error) { return lab.Recording{}, nil }
	jobs.experiment = func(context.Context, lab.Stores, string, uint64, func(experiments.Progress)) (experiments.Result, error) {
		return experiments.Result{}, nil
	}
	jobs.without = func(context.Context, lab.Stores, string) (experiments.WithoutResult, error) {
		return experiments.WithoutResult{}, nil
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0") // for the cashier, which is a client of the shop
	must(err)
	cfg := Config{Rate: "10", IPRate: "400", TimeZone: "UTC", Cashier: "sandbox", TrustedProxies: []string{"10.0.0.0/8"}}
	figures := live.New(live.Deps{DB: w.db, Redis: w.rdb, Engine: rush, Trace: steps, Counts: live.NewCounts(), Log: log})
	w.s, err = New(cfg, Deps{Live: figures, Users: w.users, Sessions: w.sessions, Cache: cache, Orders: orders, Rush: rush, Sums: captcha.New(captcha.Config{Kind: "math", Answers: true}, cache, steps, rush.Shared()), Admin: admin.New(w.db, order.Config{PayWithin: time.Minute}, rush.UnitsReturned), Tickets: admin.NewTickets(w.db, w.rdb), Outside: []Outside{payment.New(payment.Config{Name: "provider", NotifySecret: fuzzNotifySecret})}, Lab: jobs, Log: log, Secret: secret}, "http://"+tcp.Addr().String())
	must(err)
	w.makeSales(sales)
	w.pages = slices.Sorted(maps.Keys(w.s.desk.assets.files))
	w.admin = user.User{Phone: "13900001111", Nickname: "admin", Role: user.RoleAdmin}
	w.admin.ID, err = w.users.Seed(ctx, w.admin, fuzzPassword)
	must(err)
	w.makeWorkers()

	background, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { rush.Run(background) })
	running.Go(func() { jobs.Run(background) })
	running.Go(func() { figures.Run(background) })
	running.Go(func() {
		orders.Sweep(background, w.s.Providers(), func(err error) { log.Error("sweep", "err", err) })
	})
	server := &http.Server{Handler: w.s, ReadTimeout: 8 * time.Second, WriteTimeout: 30 * time.Second, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	running.Go(func() { server.Serve(w.listener) })
	running.Go(func() { server.Serve(tcp) })
	t.Cleanup(func() {
		server.Close()
		stop()
		running.Wait()
	})
	w.buyFirst()
	return w
}

// makeSales publishes sales in every state. Most of them are open.
func (w *world) makeSales(store *goods.Store) {
	w.t.Helper()
	now := time.Now()
	for i, sale := range []struct {
		total        int
		starts, ends time.Duration
		state        string
	}{
		{1_000_000, -time.Minute, time.Hour, "published"},
		{300, -time.Minute, time.Hour, "published"},
		{100, -time.Minute, time.Hour, "published"},
		{30, -time.Minute, time.Hour, "published"},
		{5, -time.Minute, time.Hour, "published"},
		{1, -time.Minute, time.Hour, "published"},
		{100, 20 * time.Minute, time.Hour, "published"},
		{100, 20 * time.Second, time.Hour, "published"},
		{100, -time.Minute, 20 * time.Second, "published"},
		{100, -time.Hour, -time.Minute, "published"},
		{100, -time.Minute, time.Hour, "paused"},
		{100, -time.Minute, time.Hour, "closed"},
	} {
		terms := goods.Terms{Price: fuzzPrice, Total: sale.total, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour)}
		id, err := store.Sell(w.t.Context(), goods.Item{Title: fmt.Sprintf("茶 %d <b>", i), TitleEN: "tea", Image: "tea.svg", ListPrice: 2 * fuzzPrice}, terms)
		if err == nil {
			_, err = w.db.Exec(w.t.Context(), `update sales set state = $2, starts_at = $3, ends_at = $4 where id = $1`,
				id, sale.state, now.Add(sale.starts), now.Add(sale.ends))
		}
		if err != nil {
			w.t.Fatal(err)
		}
		w.sales = append(w.sales, id)
	}
}

// buyFirst buys an order for the first buyers of each worker, so that a request can name one from the start.
func (w *world) buyFirst() {
	w.t.Helper()
	for _, wk := range w.workers {
		for _, b := range wk.buyers[:4] {
			sandboxtest.Until(w.t, "the first buyers have orders", func() bool {
				_, err := w.s.Rush.Buy(w.t.Context(), w.sales[0], b.id)
				if err != nil {
					return false
				}
				st, err := w.s.Rush.Result(w.t.Context(), w.sales[0], b.id)
				if err != nil || st.State != seckill.Ordered {
					return false
				}
				b.addOrder(st.OrderID.String())
				return true
			})
		}
	}
}

// buyer is a buyer with a session. Only their worker uses it.
type buyer struct {
	id       int64
	phone    string
	token    string
	sums     map[int64]string  // answers to captchas, by sale
	paths    map[int64]string  // hidden addresses, by sale
	cookies  map[string]string // but session, without the prefix
	orders   []string
	payments []string
}

func (b *buyer) addOrder(id string) {
	if !slices.Contains(b.orders, id) {
		b.orders = lastOf(append(b.orders, id), 16)
	}
}

type sentCode struct{ phone, code, cookie string }

// worker sends requests one after the other, with buyers of its own.
type worker struct {
	*world
	number uint64
	buyers []*buyer
	admin  *buyer
	codes  []*sentCode
	conn   net.Conn
	in     *bufio.Reader
	before []byte // the last request on the connection
}

func (w *world) makeWorkers() {
	w.t.Helper()
	var buyers []*buyer
	err := w.users.Mint(w.t.Context(), w.sessions, fuzzWorkers*fuzzBuyers, func(id int64, phone, token string) error {
		buyers = append(buyers, &buyer{id: id, phone: phone, token: token, sums: map[int64]string{}, paths: map[int64]string{}, cookies: map[string]string{}})
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	// All have one password, hashed once.
	if _, err := w.db.Exec(w.t.Context(), `
		update users set password_hash = (select password_hash from users where id = $1) where role = 'buyer'`, w.admin.ID); err != nil {
		w.t.Fatal(err)
	}
	for k := range uint64(fuzzWorkers) {
		wk := &worker{world: w, number: k, buyers: buyers[k*fuzzBuyers : (k+1)*fuzzBuyers], admin: &buyer{id: w.admin.ID, phone: w.admin.Phone}}
		w.login(wk.admin)
		w.workers = append(w.workers, wk)
	}
}

// login starts a new session of a buyer or the administrator.
func (w *world) login(b *buyer) {
	token := ""
	u, err := w.users.ByID(context.Background(), b.id)
	if err == nil {
		token, _, err = w.sessions.Start(context.Background(), u, "203.0.113.1", "")
	}
	if err != nil {
		w.t.Errorf("start a session: %v", err)
		return
	}
	b.token = token
}

// work lets all workers send the requests from the first number to the last, without the last.
func (w *world) work(first, last uint64) {
	var all sync.WaitGroup
	for _, wk := range w.workers {
		all.Go(func() { wk.work(first, last) })
	}
	all.Wait()
}

type level struct {
	heap       uint64
	goroutines int
}

// level returns what is in use when nothing is asked.
func (w *world) level() (l level) {
	for _, wk := range w.workers {
		wk.hangUp()
	}
	var stats runtime.MemStats
	sandboxtest.Poll(func() bool { // connections and streams end in a moment
		runtime.GC()
		runtime.ReadMemStats(&stats)
		was := l
		l = level{stats.HeapAlloc, runtime.NumGoroutine()}
		return was.goroutines == l.goroutines && was.heap < l.heap+64<<10
	})
	return l
}

// finish checks what the requests have left behind.
func (w *world) finish() {
	w.t.Helper()
	for _, wk := range w.workers {
		wk.hangUp()
	}
	if text := w.log.String(); strings.Contains(text, "internal error") {
		w.t.Errorf("the shop's log has internal errors:\n%s", text)
	} else if text != "" { // on a busy machine a store answers late
		w.t.Logf("the shop's log has errors:\n%s", text)
	}
	var out bytes.Buffer
	clean := sandboxtest.Poll(func() bool { // tickets on their way may still differ
		out.Reset()
		clean, err := audit.Run(w.t.Context(), w.db, w.rdb, &out)
		if err != nil {
			w.t.Fatal(err)
		}
		return clean
	})
	if !clean {
		w.t.Errorf("audit:\n%s", &out)
	}
}

// answer is what a request received.
type answer struct {
	status int
	code   string
	header http.Header
	body   []byte
	data   json.RawMessage
}

func (a answer) String() string { return strings.TrimSpace(strconv.Itoa(a.status) + " " + a.code) }

const maxFailures = 20 // are printed

// work sends the worker's requests among those from the first number to the last.
func (wk *worker) work(first, last uint64) {
	for k := first; k < last; k++ {
		if k%fuzzWorkers != wk.number {
			continue
		}
		if wk.failures.Load() >= maxFailures || time.Now().After(wk.until) { //timing: the time that make requests gives: a slow machine sends fewer
			return
		}
		wk.sent.Add(1)
		g := &generator{Rand: rand.New(rand.NewPCG(wk.seed, k)), world: wk.world, worker: wk}
		r := g.next()
		raw := r.bytes(g)
		a, err := wk.send(raw, r)
		var wrong error
		switch {
		case err != nil && r.flips:
			wk.counts.add(r.name(), "no answer")
		case err != nil:
			wrong = err
		default:
			wk.counts.add(r.name(), a.String())
			wrong = r.judge(a)
		}
		if wrong != nil && wk.failures.Add(1) <= maxFailures {
			wk.t.Errorf("MIAOSHA_REQUESTS_SEED=%d MIAOSHA_REQUESTS_ONLY=%d: %v\n%s, %s\n--- request\n%q\n--- before it on the connection\n%q\n--- answer %v\n%.600s",
				wk.seed, k, wrong, r.name(), r.shape, raw, wk.before, a.header, a.body)
		}
		wk.before = raw
		if r.form != nil && r.form.renew {
			wk.login(r.buyer)
		}
		for _, c := range (&http.Response{Header: a.header}).Cookies() {
			if name := strings.TrimPrefix(c.Name, "__Host-"); name != "session" && r.buyer.cookies != nil {
				r.buyer.cookies[name] = c.Value
			}
		}
		if err == nil && r.form != nil && r.form.learn != nil && a.status < 300 {
			r.form.learn(g, r, a)
		}
	}
}

func (wk *worker) hangUp() {
	if wk.conn != nil {
		wk.conn.Close()
		wk.conn = nil
	}
}

// send sends a request and reads its answer. It keeps the connection if the shop does.
func (wk *worker) send(raw []byte, r *request) (a answer, err error) {
	if wk.conn == nil {
		wk.conn = wk.listener.dial()
		wk.in, wk.before = bufio.NewReader(wk.conn), nil
	}
	keep := false
	defer func() {
		if !keep {
			wk.hangUp()
		}
	}()
	limit := sandboxtest.Hang
	if r.flips {
		limit = 40 * time.Millisecond // the shop may wait for the rest of the request
	}
	wk.conn.SetDeadline(time.Now().Add(limit)) //timing: how long a client waits that has sent half of a request
	conn := wk.conn
	go conn.Write(raw) // the shop may answer before it has read all
	var resp *http.Response
	for resp == nil || resp.StatusCode < 200 {
		if resp, err = http.ReadResponse(wk.in, &http.Request{Method: r.method}); err != nil {
			return a, fmt.Errorf("no answer: %w", err)
		}
	}
	a.status, a.header = resp.StatusCode, resp.Header
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		a.body = make([]byte, 4096)
		n, err := resp.Body.Read(a.body)
		a.body = a.body[:n]
		return a, err
	}
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		return a, fmt.Errorf("read the answer: %w", err)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") && r.method != http.MethodHead && a.status != http.StatusNotModified {
		var in struct {
			Code string
			Data json.RawMessage
		}
		if err := json.Unmarshal(a.body, &in); err != nil && resp.Header.Get("Content-Encoding") == "" {
			return a, fmt.Errorf("the body is no JSON: %w", err)
		} else if err != nil { // a list that is compressed
			in.Code = "ok"
		}
		a.code, a.data = in.Code, in.Data
	}
	keep = !resp.Close && !r.close && wk.in.Buffered() == 0
	return a, nil
}

// judge returns why the request must not receive this answer.
func (r *request) judge(a answer) error {
	got := a.String()
	h := a.header
	switch {
	case a.status >= 500 && got != "503 busy" && !(r.method == http.MethodHead && got == "503") && !(r.broken && a.code == "" && (a.status == 501 || a.status == 505)):
		return errors.New(got)
	case r.broken && a.code == "" && a.status >= 400: // net/http's own answer
		return nil
	case r.broken && r.path == "*" && r.method == http.MethodOptions: // net/http's own answer
		return nil
	case h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Content-Security-Policy") == "":
		return fmt.Errorf("%s without its headers", got)
	case len(a.body) > 0 && r.method != http.MethodHead && !contentType.MatchString(h.Get("Content-Type")):
		return fmt.Errorf("%s with the content type %q", got, h.Get("Content-Type"))
	case (a.status == 429 || a.status == 503) && h.Get("Retry-After") == "":
		return fmt.Errorf("%s without Retry-After", got)
	case a.status == 405 && h.Get("Allow") == "":
		return fmt.Errorf("%s without Allow", got)
	case a.status >= 400 && r.method != http.MethodHead && !fuzzKnown[got]:
		return fmt.Errorf("%s is not in the table of refusals", got)
	case r.want == nil || a.status == 503:
		return nil
	}
	may := slices.ContainsFunc(r.want, func(want string) bool {
		if r.method == http.MethodHead {
			want, _, _ = strings.Cut(want, " ")
		}
		return got == want
	})
	if !may {
		return fmt.Errorf("%s, want one of %q", got, r.want)
	}
	return nil
}

var (
	fuzzKnown   = knownAnswers()
	contentType = regexp.MustCompile(`^(image/png|image/svg\+xml|(application/json|text/[a-z-]+); charset=utf-8)$`)
)

// answerCounts counts the answers of each route.
type answerCounts struct {
	mu sync.Mutex
	n  map[string]map[string]int
}

func (c *answerCounts) add(route, answer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n[route] == nil {
		c.n[route] = map[string]int{}
	}
	c.n[route][answer]++
}

func (c *answerCounts) String() string {
	var b strings.Builder
	for _, route := range slices.Sorted(maps.Keys(c.n)) {
		fmt.Fprintf(&b, "%-36s", route)
		for _, a := range slices.Sorted(maps.Keys(c.n[route])) {
			fmt.Fprintf(&b, "  %d × %s", c.n[route][a], a)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// checkCoverage checks that the requests have reached what they must: few were answered busy, and of so
// many that each route has received good ones, each has succeeded.
func (c *answerCounts) checkCoverage(t *testing.T) {
	t.Helper()
	busy, all := 0, 0
	var failed []string
	for route, n := range c.n {
		good := 0
		for a, k := range n {
			if a[0] == '2' {
				good += k
			}
			if all += k; strings.HasPrefix(a, "503") {
				busy += k
			}
		}
		// What the staff does needs things that a generator rarely names; the access matrix has a success of each route.
		rare := strings.Contains(route, "/admin/") || strings.Contains(route, "/pictures/") || strings.HasSuffix(route, "/api/live") || strings.HasSuffix(route, "/ticket") ||
			strings.HasSuffix(route, "/password/reset") || // few codes are of a phone that has an account
			strings.Contains(route, "/sandbox/") || strings.Contains(route, "/lab/programs") || strings.Contains(route, "/lab/mine") || strings.Contains(route, "/lab/exercises") || // this shop is none
			strings.HasSuffix(route, "/account/phone") || strings.HasSuffix(route, "/end") // they would change the buyer of all other requests
		if good == 0 && !rare {
			failed = append(failed, fmt.Sprintf("%s has never succeeded: %v", route, n))
		}
	}
	if all >= 50_000 && failed != nil {
		t.Error(strings.Join(failed, "\n"))
	}
	if all >= 1000 && busy > all/20 {
		t.Errorf("%d of %d answers are busy", busy, all)
	}
}

// smsConsole keeps the newest code of each phone.
type smsConsole struct {
	mu    sync.Mutex
	codes map[string]string
}

var smsLine = regexp.MustCompile(`sms to (\S+): your code is (\d+)`)

func (c *smsConsole) Write(b []byte) (int, error) {
	if m := smsLine.FindSubmatch(b); m != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.codes[string(m[1])] = string(m[2])
	}
	return len(b), nil
}

func (c *smsConsole) code(phone string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.codes[phone]
}

// faultLog keeps the first errors that the shop logs.
type faultLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *faultLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text.Len() < 16<<10 {
		l.text.Write(b)
	}
	return len(b), nil
}

func (l *faultLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// pipeListener accepts connections that never leave the process. Their peer is a trusted proxy.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func newPipeListener() *pipeListener {
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

type pipeConn struct{ net.Conn }

func (pipeConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 40000} }
func (pipeConn) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080} }

func (l *pipeListener) dial() net.Conn {
	client, server := net.Pipe()
	select {
	case l.conns <- pipeConn{server}:
	case <-l.closed:
		client.Close()
	}
	return client
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.close(); return nil }
func (l *pipeListener) Addr() net.Addr { return pipeConn{}.LocalAddr() }
