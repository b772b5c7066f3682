package web

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"miaosha/seckill"
	"miaosha/seckill/admin"
	"miaosha/seckill/admin/picture/picturetest"
	"miaosha/seckill/lab/program"
	"miaosha/user"
)

// cost is a route with the worst that is known to be sent to it.
type cost struct {
	route string // of limitRows
	worst
}

// work is what a request makes the shop do, whatever the machine.
type work struct {
	rows     int // that Postgres reads, of tables and of indexes, beside whole tables
	commands int // that Redis carries out
	kb       int // of memory that the shop takes for it, which it has to fill
	tables   int // that are read whole
}

// The work of requests of a kind.
var (
	inMemory = work{50, 8, 100, 0}      // answered from memory
	aSum     = work{50, 12, 120, 0}     // drawn
	aSession = work{200, 16, 120, 0}    // with a session, and what the buyer has
	aChange  = work{1500, 40, 100, 0}   // one that writes
	aPage    = work{1500, 12, 300, 0}   // of the staff: fifty rows, and what belongs to them
	aScan    = work{1500, 12, 200, 4}   // one that finds nothing
	aFile    = work{1500, 100, 0, 14}   // its memory is that of its rows
	aHash    = work{500, 60, 60_000, 0} // one or two passwords are hashed: the memory is the work
	aProgram = work{50, 8, 4000, 0}     // read, checked, and put into the line of the lab
)

var longPassword = strings.Repeat("长", user.PasswordMax)

// hugeProgram returns a body with a program of as many bytes as there may be, each of which is written with two, and other fields.
func hugeProgram(more string) string {
	return `{` + more + `"language":"lua","source":"` + strings.Repeat(`\n`, program.MaxSource) + `"}`
}

var worstPicture = func(*costShop) string { return string(picturetest.Baseline(4898, 4898, 4)) }

var manyOrders = func(*costShop) string {
	ids := make([]string, maxRefunds)
	for i := range ids {
		ids[i] = `"` + uuid.NewString() + `"`
	}
	return `{"orders":[` + strings.Join(ids, ",") + `]}`
}

const (
	parcel = `{"name":"茶","phone":"13800000000 转 123","address":"北京市海淀区学院路三十七号北京市海淀区学院路三十七号"}`
	plan   = `{"strategies":["guard","mutex"],"buyers":5,"stock":5,"double_clicks":0,"seed":1,"seconds":1,"faults":[]}`
)

// hostile are headers and queries that take long to read. None of them changes what a route does.
var hostile = []struct {
	name   string
	header string // of 7 KB
	query  string // of 780 bytes and more, well formed, with names that no route has
}{
	{"languages", "Accept-Language: " + strings.Repeat("a-b-c-d-e;q=0.123,", 390), ""},
	{"cookies", "Cookie: " + strings.Repeat("a=b;", 1750), ""},
	{"ETags", "If-None-Match: " + strings.Repeat(`W/"a",`, 1160), ""},
	{"addresses", "X-Forwarded-For: " + strings.Repeat("10.1.1.1,", 777), ""},
	{"encodings", "Accept-Encoding: " + strings.Repeat("a;q=0.1,", 870), ""},
	{"ranges", "Range: bytes=" + strings.Repeat("0-1,", 1740), ""},
	{"types", "Accept: " + strings.Repeat("text/html;q=0.1,", 430), ""},
	{"parameters", "", manyParameters(maxParameters - 7)}, // of which a row may have six by itself
	{"escapes", "", strings.Repeat("%41", 2000)},
}

// allHostile returns the beginning of all of them.
func allHostile() (header, query string) {
	var headers, queries []string
	for _, h := range hostile {
		if h.header != "" {
			headers = append(headers, h.header[:800])
		}
		if h.query != "" {
			queries = append(queries, h.query[:min(780, len(h.query))])
		}
	}
	return strings.Join(headers, "\r\n"), strings.Join(queries, "&")
}

func manyParameters(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("x%d=%s", i, strings.Repeat("%41", 9)))
	}
	return strings.Join(all, "&")
}

// hostileBodies are bodies of 4 KB in place of that of a route.
var hostileBodies = map[string]string{
	"fields":  `{` + strings.TrimSuffix(manyFields(500), ",") + `}`,
	"lists":   `{"a":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`,
	"escapes": `{"phone":"` + strings.Repeat(`\u0031`, 650) + `"}`,
	"numbers": `{"price":` + strings.Repeat("9", 4000) + `}`,
}

func manyFields(n int) (s string) {
	for i := range n {
		s += `"` + string([]byte{'a' + byte(i%26), 'a' + byte(i/26%26)}) + `":1,`
	}
	return s
}

// costShop is a shop in this process, a sandbox that others reach, with tables that are filled.
type costShop struct {
	*world
	server *Server
	addr   string
	n      int     // of requests so far
	idle   float64 // of a core that the shop takes by itself
	admin  string
	buyers []*buyer
	class  string
	file   string // the largest one
	conn   net.Conn
	in     *bufio.Reader
}

type noBots struct{}

func (noBots) Start(int64) bool       { return true }
func (noBots) State() any             { return nil }
func (noBots) Busy() bool             { return false }
func (noBots) Can() map[string]string { return map[string]string{"none": ""} }

type noTeacher struct{ noBots }

func (noTeacher) Start(string, int) bool { return true }

// openCostShop opens a shop whose tables have n users, orders and lines of the log more than those that it needs. None of its limits
// holds: what they allow is counted apart.
func openCostShop(t *testing.T, w *world, n int) *costShop {
	t.Helper()
	c := &costShop{world: w}
	err := pgx.BeginFunc(t.Context(), c.db, func(tx pgx.Tx) error {
		for _, sql := range []string{
			`insert into users (phone, nickname) select (20000000000 + k)::text, 'buyer ' || k from generate_series(1, $1::int) k where $2::bigint > 0`,
			`insert into orders (id, user_id, sale_id, ticket, title, price, created_at, expires_at)
			 select (lpad(to_hex(extract(epoch from at)::bigint * 1000), 12, '0') || '7' || substr(md5(k::text), 1, 3) || '8' || substr(md5(k::text), 4, 15))::uuid,
			        1000000 + k, $2::bigint, 'fill:' || k, 'kettle', 9900, at, timestamptz '2099-01-01'
			 from   generate_series(1, $1::int) k, lateral (select timestamptz '2026-03-01 20:00Z' + k * interval '1 second') as a (at)`,
			`insert into admin_log (origin, action, subject) select '127.0.0.1', 'sale.pause', 'sale ' || k from generate_series(1, $1::int) k where $2::bigint > 0`,
		} {
			if _, err := tx.Exec(t.Context(), sql, n, c.sales[len(c.sales)-1]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.db.Exec(t.Context(), `vacuum (analyze) users, orders, admin_log`); err != nil {
		t.Fatal(err)
	}
	deps := c.s.Deps
	deps.Sandbox, deps.Demo = true, &Demo{Bots: noBots{}, Teacher: noTeacher{}, Accounts: map[string]DemoAccount{"buyer": {c.workers[0].buyers[0].phone, fuzzPassword}}}
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.addr = listen.Addr().String()
	cfg := Config{Rate: "off", IPRate: "off", TimeZone: "UTC", Cashier: "sandbox", TrustedProxies: []string{"127.0.0.0/8", "10.0.0.0/8"}}
	if c.server, err = New(cfg, deps, "http://"+c.addr); err != nil {
		t.Fatal(err)
	}
	for path, f := range c.server.desk.assets.files {
		if largest := c.server.desk.assets.files[c.file]; largest == nil || len(f.plain.bytes) > len(largest.plain.bytes) {
			c.file = path
		}
	}
	for _, b := range c.server.desk.limits.made {
		b.most = user.Limit{}
	}
	for _, w := range c.workers {
		c.buyers = append(c.buyers, w.buyers[:4]...) // who have an order each
	}
	c.admin = c.workers[0].admin.token
	for i := range maxClasses {
		v, err := c.server.handlers.classroom.classes.open(fmt.Sprint("class ", i), classKey{}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		c.class = v.Code
		for k := range 100 {
			if _, _, err := c.server.handlers.classroom.classes.join(v.Code, fmt.Sprint("student ", k), "", uuid.Nil, origin{}, time.Now()); err != nil {
				break
			}
		}
	}
	server := &http.Server{Handler: c.server, MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(c.s.Log.Handler(), slog.LevelDebug)}
	go server.Serve(listen)
	t.Cleanup(func() { server.Close() })
	return c
}

// request returns the bytes of a request: that of a row, with what is hostile.
func (c *costShop) request(row cost, header, query, body string) []byte {
	c.n++
	method, path, _ := strings.Cut(row.route, " ")
	path = cmp.Or(row.path, strings.Replace(path, "/*", "/index.html", 1))
	if row.path == "" {
		path, _, _ = strings.Cut(path, "{"+"}")
		thing := "{order}"
		for prefix, of := range map[string]string{"/api/sales/": "{sale}", "/api/admin/sales/": "{sale}", "/api/admin/users/": "{user}", "/api/cashier/": "{payment}", "/api/admin/payments/": "{payment}"} {
			if strings.HasPrefix(path, prefix) {
				thing = of
			}
		}
		path = strings.Replace(path, "{id}", thing, 1)
	}
	token := map[who]string{aBuyer: c.buyers[c.n%len(c.buyers)].token, anAdmin: c.admin}[row.who]
	if body == "" {
		switch of := row.body.(type) {
		case string:
			body = of
		case func(*costShop) string:
			body = of(c)
		}
	}
	buyer := c.buyers[c.n%len(c.buyers)]
	fill := strings.NewReplacer("{sale}", fmt.Sprint(c.sales[0]), "{order}", buyer.orders[0], "{payment}", uuid.NewString(), "{user}", fmt.Sprint(buyer.id), "{class}", c.class, "{file}", c.file, "{n}", fmt.Sprintf("%08d", c.n))
	if path, body = fill.Replace(path), fill.Replace(body); query != "" {
		if path += "?"; strings.Contains(strings.TrimSuffix(path, "?"), "?") {
			path = strings.TrimSuffix(path, "?") + "&"
		}
		path += query
	}
	r := method + " " + path + " HTTP/1.1\r\nHost: " + c.addr + "\r\n"
	if !strings.HasPrefix(header, "X-Forwarded-For") {
		r += fmt.Sprintf("X-Forwarded-For: 203.%d.%d.%d\r\n", c.n>>16&255, c.n>>8&255, c.n&255)
	}
	if token != "" {
		r += "Authorization: Bearer " + token + "\r\n"
	}
	if header != "" {
		r += header + "\r\n"
	}
	if method == "POST" {
		kind := "application/json"
		if strings.HasSuffix(row.route, "/pictures") {
			kind = "image/png"
		}
		r += fmt.Sprintf("Content-Length: %d\r\n", len(body))
		if body != "" {
			r += "Content-Type: " + kind + "\r\n"
		}
		return []byte(r + "\r\n" + body)
	}
	return []byte(r + "\r\n")
}

// send sends a request and reads the whole answer, of a stream the beginning. It returns the status.
func (c *costShop) send(raw []byte) (int, error) {
	for try := 0; ; try++ {
		if c.conn == nil {
			conn, err := net.Dial("tcp", c.addr)
			if err != nil {
				return 0, err
			}
			c.conn, c.in = conn, bufio.NewReader(conn)
		}
		status, keep, err := c.exchange(raw)
		if !keep || err != nil {
			c.conn.Close()
			c.conn = nil
		}
		if err == nil || try > 0 {
			return status, err
		}
	}
}

func (c *costShop) exchange(raw []byte) (status int, keep bool, err error) {
	method, _, _ := bytes.Cut(raw, []byte(" "))
	if _, err := c.conn.Write(raw); err != nil {
		return 0, false, err
	}
	resp, err := http.ReadResponse(c.in, &http.Request{Method: string(method)})
	if err != nil {
		return 0, false, err
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		_, err := resp.Body.Read(make([]byte, 4096))
		return resp.StatusCode, false, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, !resp.Close, err
}

// rowsRead returns how many rows of tables and entries of indexes Postgres has read in this database.
func (c *costShop) rowsRead() (rows int) {
	c.t.Helper()
	for _, conn := range c.db.AcquireAllIdle(c.t.Context()) {
		if _, err := conn.Exec(c.t.Context(), `select pg_stat_force_next_flush()`); err != nil {
			c.t.Fatal(err)
		}
		conn.Release()
	}
	if err := c.db.QueryRow(c.t.Context(), `select tup_returned + tup_fetched from pg_stat_database where datname = current_database()`).Scan(&rows); err != nil {
		c.t.Fatal(err)
	}
	return rows
}

func (c *costShop) commands() (n int) {
	c.t.Helper()
	info, err := c.rdb.Info(c.t.Context(), "stats").Result()
	if err != nil {
		c.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "total_commands_processed:")
	text, _, _ := strings.Cut(rest, "\r\n")
	n, _ = strconv.Atoi(text)
	return n
}

// done returns the least work that a request has made in three tries, or in fewer if that is no more than the most: the shop's own
// background works beside it.
func (c *costShop) done(row cost, header, query string, most work) (least work, status int) {
	c.t.Helper()
	least = work{1 << 60, 1 << 60, 1 << 60, 0}
	var before, after runtime.MemStats
	for range 3 {
		raw := c.request(row, header, query, "")
		rows, commands := c.rowsRead(), c.commands()
		runtime.ReadMemStats(&before)
		var err error
		if status, err = c.send(raw); err != nil {
			c.t.Fatalf("%s: %v", row.route, err)
		}
		runtime.ReadMemStats(&after)
		least.commands = min(least.commands, c.commands()-commands-1)
		least.rows, least.kb = min(least.rows, c.rowsRead()-rows), min(least.kb, int(after.TotalAlloc-before.TotalAlloc)>>10)
		if least.rows <= most.rows && least.commands <= most.commands && least.kb <= most.kb {
			break
		}
	}
	return least, status
}

// rateOf returns how many requests a second of a route one address or one user may send, with the settings as they are by default.
func rateOf(route string) float64 {
	cfg := Config{Rate: "5", IPRate: "200", TimeZone: "UTC"}
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	perSecond := func(l user.Limit) float64 { return l.N / l.Per.Seconds() }
	if route == "POST /api/logout" {
		route = "POST /api/login" // a session ends once
	}
	least := perSecond(cfg.requests())
	for _, row := range limitRows() {
		for _, l := range row.limits {
			if row.route == route && !slices.Contains([]string{perPhone, perDevice, perShop}, l.per) { // who attacks has many phones
				least = min(least, perSecond(cfg.of(l)))
			}
		}
	}
	return least
}

// The work that one address may have done in a second by the requests of one route, with tables of a hundred thousand rows.
var budgets = map[who]work{
	anyone:  {rows: 50_000, commands: 8_000, kb: 100 << 10},
	aBuyer:  {rows: 10_000, commands: 1_000, kb: 2 << 10},
	anAdmin: {rows: 10_000_000, commands: 1_000, kb: 32 << 10},
}

// Every route is sent its worst known input, with all that is hostile around it. What it does then is bounded, and so is what it does
// in a second at the rate that its limit allows.
func TestTheWorkOfEveryRouteIsBounded(t *testing.T) {
	const rows = 2000
	var listed []string
	for _, row := range costs {
		listed = append(listed, row.route)
		most, times, each := budgets[row.who], rateOf(row.route), row.most.rows+row.most.tables*100_000
		if float64(each)*times > float64(most.rows) || float64(row.most.commands)*times > float64(most.commands) || float64(row.most.kb)*times > float64(most.kb) {
			t.Errorf("%s: %+v, %.3g times a second, is beyond %+v", row.route, row.most, times, most)
		}
	}
	for _, row := range limitRows() {
		if n := len(slices.DeleteFunc(slices.Clone(listed), func(route string) bool { return route != row.route })); n != 1 {
			t.Errorf("%s has %d rows in the table of costs", row.route, n)
		}
	}
	if n := len(limitRows()); len(listed) != n {
		t.Errorf("%d rows for %d routes", len(listed), n)
	}
	c := openCostShop(t, openWorld(t, 1), rows)
	headers, query := allHostile()
	for _, row := range costs {
		var plain int
		for range 2 { // the first one may have paused the sale, which the next one is refused
			var err error
			if plain, err = c.send(c.request(row, "", "", "")); err != nil {
				t.Fatalf("%s: %v", row.route, err)
			}
		}
		most := row.most
		most.rows += most.tables * rows
		if most.kb == 0 {
			most.kb = 20 * most.tables * rows / 10
		}
		got, status := c.done(row, headers, query, most)
		if status != plain {
			t.Errorf("%s: %d, and with all that is hostile %d: it does not reach what the plain request does", row.route, plain, status)
		}
		for try := 0; try < 3 && (got.rows > most.rows || got.commands > most.commands); try++ { // what the shop does by itself came between
			again, _ := c.done(row, headers, query, most)
			got.rows, got.commands = min(got.rows, again.rows), min(got.commands, again.commands)
		}
		if got.rows > most.rows || got.commands > most.commands || got.kb > most.kb || status >= 500 && status != 503 {
			t.Errorf("%s: %d with %+v, want at most %+v", row.route, status, got, most)
		}
		// A request that has ended makes no work: no table is read, no password hashed, no picture decoded.
		ended, end := context.WithCancel(t.Context())
		end()
		read, kb := 0, 0
		for try := range 10 { // what the shop does by itself may come between
			read, kb = c.workOf(c.request(row, "", "", ""), ended)
			if read <= rows/2 && kb <= 2*admin.PictureBytes>>10 {
				break
			}
			if try == 9 {
				t.Errorf("%s: %d rows and %d kB for a request that has ended", row.route, read, kb)
			}
		}
	}
}

// workOf returns the rows that are read, and the memory that is taken, while a handler has a request in a context.
func (c *costShop) workOf(raw []byte, ctx context.Context) (rows, kb int) {
	c.t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
	if err != nil {
		c.t.Fatal(err)
	}
	r.RemoteAddr = "127.0.0.1:1"
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler { // a file that is cut off
			panic(p)
		}
	}()
	var before, after runtime.MemStats
	was := c.rowsRead()
	runtime.ReadMemStats(&before)
	defer func() {
		runtime.ReadMemStats(&after)
		rows, kb = c.rowsRead()-was, int(after.TotalAlloc-before.TotalAlloc)>>10
	}()
	c.server.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
	return rows, kb
}

// An address is bound in all that it asks for: beyond it each answer waits, and is a refusal. Other addresses notice nothing.
func TestAnAddressIsBoundInAll(t *testing.T) {
	t.Parallel()
	s, err := New(Config{Rate: "off", IPRate: "0.001", TimeZone: "UTC", Cashier: "off"}, Deps{}, "") // 25 at once
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, path, from string, ctx context.Context) int {
		r := httptest.NewRequestWithContext(ctx, method, path, nil)
		if r.RemoteAddr = from; strings.HasPrefix(from, "127.0.0.1") {
			r.Host = "127.0.0.1"
		}
		if method == "POST" {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	get := func(from string, ctx context.Context) int { return ask("GET", "/", from, ctx) }
	for i := range 25 { // a page, and what is refused before it reaches a route
		codes := []int{get("192.0.2.1:1", t.Context()), ask("POST", "/api/login", "192.0.2.3:1", t.Context()), ask("GET", "/api/sales?a=b&a=b", "192.0.2.4:1", t.Context())}
		if !slices.Equal(codes, []int{200, 403, 400}) {
			t.Fatalf("requests %d: %d", i, codes)
		}
	}
	for i := range 100 {
		if code := get("127.0.0.1:1", t.Context()); code != 200 {
			t.Fatalf("request %d of this machine: %d", i, code)
		}
	}
	for _, c := range [][3]string{{"POST", "/api/login", "192.0.2.3:1"}, {"GET", "/api/sales?a=b&a=b", "192.0.2.4:1"}} {
		if code := ask(c[0], c[1], c[2], t.Context()); code != 429 {
			t.Errorf("%s %s beyond the limit: %d", c[0], c[1], code)
		}
	}
	if code := get("192.0.2.2:1", t.Context()); code != 200 {
		t.Errorf("another address: %d", code)
	}
	if code := get("192.0.2.1:2", t.Context()); code != 429 {
		t.Errorf("beyond the limit: %d", code)
	}
	ended, end := context.WithCancel(t.Context())
	waits := make(chan int, 1)
	go func() { waits <- get("192.0.2.1:3", ended) }()
	end()
	if code := <-waits; code != 429 { // it waits no longer than its client
		t.Errorf("a client that has gone: %d", code)
	}
}

// The notices of a payment provider, which has one address, count for no limit but that of refused ones.
func TestForgedNoticesAreBound(t *testing.T) {
	t.Parallel()
	s, err := New(Config{Rate: "off", IPRate: "0.001", TimeZone: "UTC", Cashier: "off"}, Deps{Rush: &seckill.Engine{}, Log: slog.New(slog.DiscardHandler)}, "")
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end() // a refusal waits no longer than its client
	ask := func(method, path string) int {
		r := httptest.NewRequestWithContext(ended, method, path, strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	for i := range 200 {
		if code := ask("POST", "/api/payments/notify"); code != 403 {
			t.Fatalf("forged notice %d: %d", i, code)
		}
	}
	forged := 0
	for range 10_000 { // the bucket fills meanwhile
		if forged++; ask("POST", "/api/payments/notify") == 429 {
			break
		}
	}
	if forged == 10_000 {
		t.Error("no forged notice is refused")
	}
	if code := ask("GET", "/"); code != 200 {
		t.Errorf("a page, after forged notices: %d", code)
	}
}

// Of a header with 8 KB of languages no more is matched than a browser sends, and it is matched once.
func TestLanguagesAreReadOnce(t *testing.T) {
	for accept, want := range map[string]bool{
		"en," + strings.Repeat("zh;q=0.1,", 800): false, "zh," + strings.Repeat("en;q=0.1,", 800): true, strings.Repeat("e", 8000): true, "fr": true, "en-GB": false,
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept-Language", accept)
		if got := chinese(r); got != want {
			t.Errorf("%.20q: %t", accept, got)
		}
		if n := testing.AllocsPerRun(10, func() { chinese(r) }); n > 0 {
			t.Errorf("%.20q: %v allocations the second time", accept, n)
		}
	}
}
