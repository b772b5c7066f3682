package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/admin"
	"miaosha/seckill/audit"
	"miaosha/seckill/sandbox/sandboxtest"
)

// mayGrow are the statements whose work may grow with the tables, by a part of their text, and why.
var mayGrow = map[string]string{
	"count(*) n from orders o where o.sale_id = s.id and o.status in":                       "I1 of the audit of each minute counts the orders of the sales that are open or have just ended, in an index",
	"count(*) as pending from orders where status = 'pending'":                              "the staff's list counts the pending orders of the 25 sales that it shows, in an index",
	"count(*) filter (where status = 'refunded')":                                           "the live view counts the orders of 32 sales, in a hundredth of its time at most",
	"(select count(*) from orders where sale_id = $1 and status = 'pending')":               "the page of a sale that is sold out counts its pending orders, once in five seconds for all",
	"count(*) filter (where status = 'paid') as paid from orders where sale_id = any(array": "a command of an operator",
	"from orders o where true and o.status = $1":                                            "the newest orders of a status are behind the pending ones of the rush; an index would be one more that a purchase writes",
	"l.action like $2":               "a search for an action that the staff has not done reads the log of the staff",
	"(select max(epoch) from sales)": "once a minute the audit reads the epochs of all sales",
}

// notRun are statements of the source that the test does not run, by their file or a part of their text, and why they need not be.
var notRun = map[string]string{
	"audit/effects.go":             "it tries a copy of a shop",
	"audit/thorough.go":            "the whole audit reads all rows, as an operator asks for",
	"audit/archives.go":            "the whole audit reads the archives, one after the other",
	"archive/archive.go":           "a command, which reads a table page by page",
	"audit/extent.go":              "what the whole audit has read",
	"audit/schema.go":              "it reads no rows of the shop",
	"user/admin.go":                "a command",
	"user/ban.go":                  "a command",
	"user/demo.go":                 "the accounts of a sandbox, by their telephones",
	"goods/demo.go":                "the sales of a sandbox, which are few",
	"user/mint.go":                 "a command",
	"user/reset.go":                "an account is found by its telephone, which is unique",
	"user/register.go":             "an account is found by its telephone, which is unique",
	"user/account.go":              "an account is found by its number",
	"user/change.go":               "an account is found by its number",
	"select nextval('gate_epoch')": "a sequence has no rows",
	"insert into pictures":         "a picture is found by its name, which is unique",
	"user/legacy.go":               "the first log-in of an account of an older system, by its number",
}

// plans collects what Postgres says of each statement that it runs.
type plans struct {
	mu    sync.Mutex
	worst map[string]read // by the statement
	seen  map[string]bool // all statements that have run
	bad   map[string]bool // volatile functions in compared columns
	tail  map[string]string
}

// read is what one run of a statement reads: rows of tables and entries of indexes, and pages.
type read struct{ Rows, Pages, Runs int }

type planNode struct {
	Type      string  `json:"Node Type"`
	Relation  string  `json:"Relation Name"`
	Index     string  `json:"Index Name"`
	Filter    string  `json:"Filter"`
	Cond      string  `json:"Index Cond"`
	Rows      float64 `json:"Actual Rows"`
	Loops     float64 `json:"Actual Loops"`
	Filtered  float64 `json:"Rows Removed by Filter"`
	Rechecked float64 `json:"Rows Removed by Index Recheck"`
	Hit       int     `json:"Shared Hit Blocks"`
	Read      int     `json:"Shared Read Blocks"`
	Plans     []planNode
}

var spaces = regexp.MustCompile(`\s+`)

// take notes a plan that auto_explain sends.
func (p *plans) take(_ *pgconn.PgConn, n *pgconn.Notice) {
	_, text, found := strings.Cut(n.Message, "plan:\n")
	if !found {
		return
	}
	var doc struct {
		Query string `json:"Query Text"`
		Plan  planNode
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		panic(err)
	}
	query := normal(doc.Query)
	now := read{Pages: doc.Plan.Hit + doc.Plan.Read}
	p.mu.Lock()
	defer p.mu.Unlock()
	var walk func(planNode)
	walk = func(n planNode) {
		if n.Relation != "" || n.Type == "Bitmap Index Scan" {
			now.Rows += int((n.Rows + n.Filtered + n.Rechecked) * n.Loops)
		}
		// A row that is found by its key may have been locked by another: then the time has to be that of after the wait.
		if strings.Contains(n.Filter+n.Cond, "clock_timestamp()") && !strings.HasSuffix(n.Index, "_pkey") && n.Relation != "shop" {
			p.bad[query] = true
		}
		for _, child := range n.Plans {
			walk(child)
		}
	}
	walk(doc.Plan)
	p.seen[query] = true
	was := p.worst[query]
	p.worst[query] = read{max(was.Rows, now.Rows), max(was.Pages, now.Pages), was.Runs + 1}
	if now.Rows > was.Rows || now.Pages > was.Pages {
		p.tail[query] = text
	}
}

func normal(sql string) string { return strings.TrimSpace(spaces.ReplaceAllString(sql, " ")) }

// ended returns what was collected, and begins again.
func (p *plans) ended() map[string]read {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.worst
	p.worst = map[string]read{}
	return all
}

// explained returns a pool of connections on which Postgres explains each statement after it has run.
func explained(t *testing.T, p *plans) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(sandboxtest.DatabaseURL(t))
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 16
	cfg.ConnConfig.OnNotice = p.take
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `load 'auto_explain'; set auto_explain.log_level = notice; set auto_explain.log_analyze = on; set auto_explain.log_timing = off;
			set auto_explain.log_buffers = on; set auto_explain.log_format = json; set auto_explain.log_nested_statements = on; set auto_explain.log_min_duration = 0;
			set enable_seqscan = off; set max_parallel_workers_per_gather = 0; set jit = off`)
		return err
	}
	db, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// filler adds the rows from $1 to $2 of a year of a shop: of ten orders nine are in sales that are over, a hundred in each, and one is
// pending in one of the twenty newest, and not overdue for an hour, however long the filling takes. What waits for someone does not grow: see waiting.
var filler = []string{
	`insert into users (phone, nickname) select (30000000000 + k)::text, 'buyer ' || k from generate_series($1::bigint, $2::bigint) k`,
	`insert into goods (id, title) overriding system value select -k / 1000 - 1, 'kettle' from generate_series($1::bigint, $2::bigint, 1000) k`,
	`insert into sales (id, goods_id, price, total, stock, state, starts_at, ends_at) overriding system value
	 select -k / 100 - 1, -k / 1000 - 1, 9900, 100, 0, 'published', at, at + interval '1 hour'
	 from   generate_series($1::bigint, $2::bigint, 100) k, lateral (select now() - interval '2 days' - k % 363 * interval '1 day') a (at)`,
	`insert into orders (id, user_id, sale_id, ticket, title, price, status, created_at, expires_at, paid_at)
	 select (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '7' || substr(md5(k::text), 1, 3) || '8' || substr(md5(k::text), 4, 15))::uuid,
	        3000000 + k, sale, 'old:' || k, 'kettle', 9900, status, at, at + interval '15 minutes', case when status in ('paid', 'refunded') then at end
	 from   generate_series($1::bigint, $2::bigint) k, lateral (select k % 10 = 0 as young) y,
	        lateral (select case when young then (select max(id) from sales) - k / 10 % 20 else -k / 100 - 1 end as sale,
	                        case when young then now() + interval '1 hour' - k % 600 * interval '1 second' else now() - interval '2 days' - k % 363 * interval '1 day' end as at,
	                        case when young then 'pending' when k % 50 = 1 then 'refunded' when k % 3 = 0 then 'cancelled' else 'paid' end as status) s`,
	`insert into order_events (order_id, sale_id, from_status, to_status)
	 select id, sale_id, 'pending', case status when 'cancelled' then 'cancelled' else 'paid' end from orders where user_id between 3000000 + $1::bigint and 3000000 + $2::bigint and status <> 'pending'`,
	`insert into payments (id, order_id, amount, status, provider, provider_ref, created_at, ask_at)
	 select id, id, price, case status when 'pending' then 'open' when 'paid' then 'captured' else 'refunded' end, 'provider', case when status <> 'pending' then ticket end, created_at, now() + interval '1 hour'
	 from   orders where user_id between 3000000 + $1::bigint and 3000000 + $2::bigint and status <> 'cancelled'`,
	`insert into ticket_results (ticket, user_id, sale_id, outcome, created_at)
	 select 'refused:' || k, 3000000 + k, -k / 100 - 1, 'sold_out', now() - interval '3 days' from generate_series($1::bigint, $2::bigint, 4) k`,
	`insert into deliveries (order_id, name, phone, address) select id, 'x', '13800138000', 'x' from orders where user_id between 3000000 + $1::bigint and 3000000 + $2::bigint and status = 'paid' and user_id % 4 = 0`,
	`insert into admin_log (at, by_user, origin, action, subject) select now() - interval '2 days', 1 + k % 10, '127.0.0.1', 'sale.pause', 'sale ' || k from generate_series($1::bigint, $2::bigint, 4) k`,
	`insert into sale_plans (sale_id, action, at, state, done_at) select -k / 100 - 1, 'close', now() - interval '2 days', 'done', now() from generate_series($1::bigint, $2::bigint, 100) k`,
	`insert into role_changes (user_id, from_role, to_role) select k, 'buyer', 'viewer' from generate_series($1::bigint, $2::bigint, 100) k`,
}

// waiting adds what loops and pages find: open payments that are stuck, and refunds that are due.
var waiting = []string{
	`insert into payments (id, order_id, amount, status, provider, provider_ref, created_at, ask_at)
	 select gen_random_uuid(), o.id, 9900, case when k < 30 then 'open' else 'refund_due' end, 'provider', case when k >= 30 then 'due:' || k end, now() - interval '1 day', now() - interval '1 second'
	 from   generate_series($1::bigint, $1::bigint + 59) k join lateral (select id from orders where status = 'cancelled' order by id offset k - $1::bigint limit 1) o on true where $2::bigint > 0
	 on     conflict do nothing`,
}

// Each statement of the shop reads as much of a table with ten times as many rows: the routes, the sweeper, the plans, the audit, and
// what the shop does beside them. The statements are those that run, so none is missing here that the source has.
func TestNoStatementReadsMoreOfALargerShop(t *testing.T) {
	sizes := []int{20_000, 200_000}
	if text := os.Getenv("MIAOSHA_ORDERS"); text != "" {
		sizes = nil
		for part := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(part)
			if err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, n)
		}
	}
	p := &plans{worst: map[string]read{}, bad: map[string]bool{}, tail: map[string]string{}, seen: map[string]bool{}}
	c := openCostShop(t, openWorldOn(t, 1, explained(t, p)), 100)
	if _, err := c.db.Exec(t.Context(), `
		insert into sales (goods_id, price, total, stock, state, starts_at, ends_at)
		select min(id), 9900, 100000000, 50000000, 'published', now() - interval '1 minute', now() + interval '1 hour' from goods, generate_series(1, 20) group by generate_series`); err != nil {
		t.Fatal(err)
	}
	var found []map[string]read
	from := 1
	for _, n := range sizes {
		fillShop(t, c.db, from, n)
		from = n + 1
		p.ended()
		c.everything(t, p)
		found = append(found, p.ended())
	}
	small, large := found[0], found[len(found)-1]
	for sql := range p.bad {
		t.Errorf("clock_timestamp(), which is another time for each row, is compared with a column, so no index serves: %s", sql)
	}
	report := &strings.Builder{}
	used := map[string]bool{}
	for _, sql := range slices.Sorted(maps.Keys(large)) {
		a, b := small[sql], large[sql]
		fmt.Fprintf(report, "| %d | %d | %d | %d | `%s` |\n", a.Rows, b.Rows, a.Pages, b.Pages, sql)
		if b.Rows <= 2*a.Rows+300 && b.Pages <= 2*a.Pages+300 {
			continue
		}
		if why := matching(mayGrow, sql); why != "" {
			used[why] = true
			continue
		}
		t.Errorf("%d rows in %d pages of %d orders, %d in %d of %d: %s", a.Rows, a.Pages, sizes[0], b.Rows, b.Pages, sizes[len(sizes)-1], sql)
		t.Log(p.tail[sql])
	}
	if path := os.Getenv("MIAOSHA_STATEMENTS"); path != "" {
		if err := os.WriteFile(path, []byte(report.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var all []string
	for sql := range p.seen {
		all = append(all, sameParameters(sql))
	}
	for where, sql := range statementsOf(t, "../order", "../goods", "../user", "../seckill", "../seckill/admin", "../seckill/archive", "../seckill/audit", "../seckill/live", ".") {
		if !slices.ContainsFunc(all, func(ran string) bool { return strings.Contains(ran, sameParameters(sql)) }) && matching(notRun, where+sql) == "" {
			t.Errorf("%s: this statement has not run: %s", where, sql)
		}
	}
}

func matching(table map[string]string, sql string) string {
	for part, why := range table {
		if strings.Contains(sql, part) {
			return why
		}
	}
	return ""
}

var parameter = regexp.MustCompile(`[$@]\w+`)

func sameParameters(sql string) string { return parameter.ReplaceAllString(sql, "?") }

// fillShop adds the rows of the orders from a number to another, two parts at once.
func fillShop(t *testing.T, db *pgxpool.Pool, from, to int) {
	t.Helper()
	const part = 200_000
	parts, ctx := errgroup.WithContext(t.Context())
	parts.SetLimit(2)
	for first := from; first <= to; first += part {
		parts.Go(func() error { return fillPart(ctx, db, first, min(first+part-1, to), filler...) })
	}
	if err := parts.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := fillPart(t.Context(), db, from, to, waiting...); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), `vacuum (analyze)`); err != nil {
		t.Fatal(err)
	}
}

func fillPart(ctx context.Context, db *pgxpool.Pool, from, to int, statements ...string) error {
	conn, err := pgx.Connect(ctx, db.Config().ConnString())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, `set session_replication_role = replica; set synchronous_commit = off`); err != nil { // no triggers
		return err
	}
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql, from, to); err != nil {
			return fmt.Errorf("%w: %s", err, sql)
		}
	}
	return nil
}

// everything makes the shop do all that it does.
func (c *costShop) everything(t *testing.T, p *plans) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range costs {
		if strings.HasSuffix(row.route, ".csv") && row.who == anAdmin || strings.HasSuffix(row.route, "/pictures") {
			continue
		}
		if _, err := c.send(c.request(row, "", "", "")); err != nil {
			t.Fatalf("%s: %v", row.route, err)
		}
	}
	for _, path := range []string{
		"/api/admin/orders?sale={sale}", "/api/admin/orders?status=pending", "/api/admin/orders?status=refunded", "/api/admin/orders?status=paid", "/api/admin/orders?q=30000000007",
		"/api/admin/orders?from=2026-01-01T00:00:00Z", "/api/admin/orders.csv?sale={sale}&status=paid", "/api/admin/payments?status=open", "/api/admin/payments?status=refund_due",
		"/api/admin/users?q=30000000007", "/api/admin/users?role=viewer", "/api/admin/users?disabled=true", "/api/admin/sales?state=draft", "/api/admin/sales?state=published",
		"/api/admin/log?subject=sale%207", "/api/admin/log?user=3", "/api/admin/sales/{sale}",
	} {
		if _, err := c.send(c.request(cost{"GET " + path, worst{path: path, who: anAdmin}}, "", "", "")); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	ctx := t.Context()
	c.sells(t, must)
	_, err := c.db.Exec(ctx, `
		insert into orders (id, user_id, sale_id, ticket, title, price, expires_at)
		select gen_random_uuid(), $1::bigint + k, (select max(id) from sales) - k % 3, gen_random_uuid(), 'kettle', 9900, now() - interval '1 second' from generate_series(1, 30) k`, 90_000_000+100*c.n)
	must(err)
	sandboxtest.Until(t, "what is due is cancelled", func() bool { // a sale that is locked for a moment is left for later
		must(again(func() error { _, err := c.s.Orders.Expire(ctx); return err }))
		due := 1
		must(c.db.QueryRow(ctx, `select count(*) from orders where status = 'pending' and expires_at <= now()`).Scan(&due))
		return due == 0
	})
	_, err = c.db.Exec(ctx, `
		insert into payments (id, order_id, amount, provider, ask_at)
		select gen_random_uuid(), id, price, 'undecided', now() - interval '1 second' from orders where sale_id = -1 and status = 'cancelled' order by user_id limit 1
		on     conflict do nothing`)
	must(err)
	for _, provider := range append(c.s.Providers(), undecided{}) {
		c.s.Orders.AskOpen(ctx, provider)
		c.s.Orders.DrainRefunds(ctx, provider)
	}
	_, err = audit.Quick(ctx, c.db, c.rdb)
	must(err)
	limited, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { c.s.Admin.RunPlans(limited, func(err error) { t.Log(err) }) }) // what has no time now comes again
	running.Go(func() { audit.NewGauges(c.db, c.rdb, c.s.Log).Run(limited) })
	running.Go(func() { c.users.EndRevoked(limited, c.sessions, func(err error) { t.Log(err) }) })
	running.Go(func() { c.s.Cache.KeepWarm(limited, time.UTC, time.Now) })
	sandboxtest.Until(t, "all have looked once", func() bool {
		n := 0
		p.mu.Lock()
		defer p.mu.Unlock()
		for sql := range p.worst {
			for _, part := range []string{"from sale_plans p where state = 'planned'", "as oldest from payments where status = 'refund_due'", "from users where revoked_at > now()", "update sale_plans set state"} {
				if strings.Contains(sql, part) {
					n++
				}
			}
		}
		return n >= 4
	})
	stop()
	running.Wait()
}

// undecided is a provider whose payments stay open.
type undecided struct{ order.Provider }

func (undecided) Name() string { return "undecided" }

func (undecided) Query(context.Context, order.Payment) (order.Found, error) {
	return order.Found{Status: order.FoundOpen}, nil
}

// again repeats what a busy machine refuses: beside the test the shop's sweeper and its reconciler are at work.
func again(do func() error) (err error) {
	sandboxtest.Poll(func() bool {
		err = do()
		f, pg := refusalOf(err), new(pgconn.PgError)
		return !isUnavailable(err) && (f == nil || f.status != 503) && !(errors.As(err, &pg) && strings.HasPrefix(pg.Code, "40"))
	})
	return err
}

// sells makes purchases and what follows them, each by the function that does it in the shop.
func (c *costShop) sells(t *testing.T, must func(error)) {
	t.Helper()
	ctx, sale, orders, sales := t.Context(), c.sales[0], c.s.Orders, goods.New(c.db)
	c.n += 1000
	buyer := int64(80_000_000 + c.n)
	ticket := func(n, user int64) order.Ticket {
		return order.Ticket{ID: fmt.Sprintf("direct:%d:%d", c.n, n), UserID: buyer + user}
	}
	var placed []uuid.UUID
	for _, do := range []func(tx pgx.Tx, locked goods.Locked) ([]order.Result, error){
		func(tx pgx.Tx, l goods.Locked) ([]order.Result, error) {
			return orders.Place(ctx, tx, l, []order.Ticket{ticket(1, 0), ticket(2, 1), ticket(3, 2), ticket(4, 0)})
		},
		func(tx pgx.Tx, l goods.Locked) ([]order.Result, error) {
			return orders.PlaceAtOnce(ctx, tx, l, []order.Ticket{ticket(5, 3), ticket(6, 0)})
		},
		func(tx pgx.Tx, l goods.Locked) ([]order.Result, error) {
			return orders.Reject(ctx, tx, sale, []order.Ticket{ticket(7, 4)})
		},
	} {
		var results []order.Result
		must(again(func() error {
			return pgx.BeginFunc(ctx, c.db, func(tx pgx.Tx) error {
				locked, err := goods.Lock(ctx, tx, sale)
				if err == nil {
					results, err = do(tx, locked)
				}
				return err
			})
		}))
		for _, r := range results {
			if r.Outcome == order.Ordered {
				placed = append(placed, r.OrderID)
			}
		}
	}
	_, err := c.db.Exec(ctx, `update orders set expires_at = '2099-01-01' where id = any($1)`, placed) // the sweeper of the shop is at work
	must(err)
	tx, err := c.db.Begin(ctx)
	must(err)
	must(goods.CountBypass(ctx, tx, sale))
	_, err = goods.NextEpoch(ctx, tx, sale)
	must(err)
	must(tx.Rollback(ctx))
	must(again(func() error { return sales.GateKnows(ctx, sale, -1, goods.LockWait) }))
	for user, id := range placed[:2] { // one with a payment, one without
		captured := order.Captured{Provider: "provider", OrderID: id, Amount: fuzzPrice, Ref: id.String()}
		if user == 0 {
			_, err = orders.OpenPayment(ctx, "provider", buyer, id)
			must(err)
		}
		_, err = orders.Capture(ctx, captured)
		must(err)
	}
	must(again(func() error { return orders.Refund(ctx, placed[0]) }))
	declined, err := orders.OpenPayment(ctx, "provider", buyer+2, placed[2])
	must(err)
	for range 2 { // the second time there is nothing to decline
		_, err = orders.DeclineNoticed(ctx, order.Captured{Provider: "provider", OrderID: placed[2], PaymentID: declined.ID}, "no money")
		must(err)
	}
	declined, err = orders.OpenPayment(ctx, "provider", buyer+2, placed[2])
	must(err)
	must(orders.Decline(ctx, declined, "no money"))
	must(again(func() error { return orders.Cancel(ctx, buyer+3, placed[3]) }))
	if _, err = orders.OpenPayment(ctx, "provider", buyer+3, placed[3]); !errors.Is(err, order.ErrWrongStatus) {
		t.Errorf("a payment of a cancelled order: %v", err)
	}
	_, err = orders.Outcomes(ctx, []order.Buyer{{SaleID: sale, UserID: buyer}, {SaleID: sale, UserID: buyer + 9}})
	must(err)
	_, err = orders.Owners(ctx, sale, "direct:", 0, 10_000)
	must(err)
	_, err = orders.OwnersAmong(ctx, sale, []int64{buyer})
	must(err)
	_, err = c.s.Cache.Held(ctx, sale)
	must(err)
	_, err = sales.List(ctx)
	must(err)
	_, _, err = sales.StateOf(ctx, sale)
	must(err)
	_, err = orders.DeliveryOf(ctx, buyer, placed[0])
	must(err)
	by := admin.By{UserID: c.workers[0].admin.id, From: "test", Key: uuid.New()}
	must(c.s.Admin.Ship(ctx, by, placed[1], "x", "SF1234567890"))
	_, err = c.s.Admin.Came(ctx, by)
	must(err)
	_, err = c.s.Admin.Came(ctx, admin.By{UserID: by.UserID, Key: uuid.New()})
	must(err)
	_, _, err = c.s.Admin.Log(ctx, by, admin.LogFilter{Subject: "order " + order.Number(placed[0])})
	must(err)
	by.Key = uuid.Nil
	must(c.s.Admin.Disable(ctx, by, c.workers[1].buyers[5].id))
	must(c.s.Admin.Enable(ctx, by, c.workers[1].buyers[5].id))
	must(pgx.BeginFunc(ctx, c.db, func(tx pgx.Tx) error { return sales.EditItem(ctx, tx, -1, goods.Item{Title: "kettle"}) }))
	_, err = c.db.Exec(ctx, `insert into sale_plans (sale_id, action, at) values ($1, 'close', now())`, c.sales[8])
	must(err)
	_, _, err = c.s.Admin.Orders(ctx, admin.By{UserID: c.workers[0].admin.id, From: "test"}, admin.OrderFilter{Q: "30000000007"}, admin.OrderPage)
	must(err)
}

var beginsStatement = regexp.MustCompile(`^(select|insert into|update|delete from|with) `)

// statementsOf returns the statements in the source of packages, by place: each is a text, or the part of one that a text is.
func statementsOf(t *testing.T, dirs ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %d files", dir, err, len(files))
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, err := strconv.Unquote(lit.Value); err == nil && beginsStatement.MatchString(normal(text)+" ") && strings.Contains(text, " ") {
						found[set.Position(lit.Pos()).String()] = normal(text)
					}
				}
				return true
			})
		}
	}
	return found
}
