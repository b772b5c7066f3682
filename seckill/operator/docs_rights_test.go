package operator

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"miaosha/order"
	"miaosha/seckill/payment"
	"miaosha/seckill/sandbox"
	"miaosha/seckill/sandbox/sandboxtest"
)

// block returns the only fenced block of a language between two headings of a document.
func block(t *testing.T, page, language, from, to string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("../..", page))
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(raw), from)
	text, _, ended := strings.Cut(text, to)
	all := regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(text, -1)
	if !found || !ended {
		t.Fatalf("%s has no text between %q and %q", page, from, to)
	}
	if len(all) != 1 {
		t.Fatalf("%s has %d blocks of %s between %q and %q, want one", page, len(all), language, from, to)
	}
	return all[0][1]
}

// rights returns the lines of deploy/README.md that make the shop's role, that take its rights away, and
// that make its user in Redis.
func rights(t *testing.T) (grant, revoke, acl string) {
	t.Helper()
	const page, head, again, next = "deploy/README.md", "## With no more rights than it needs", "\nAfter a schema of a newer version", "\n## Limits"
	return block(t, page, "sql", head, again), block(t, page, "sql", again, next), block(t, page, "redis", head, next)
}

// plainOwner makes a role that is no superuser the owner of the database.
const plainOwner = `create role shop_owner createrole;
do $$ declare of record; begin
	execute format('alter database %I owner to shop_owner', current_database());
	for of in select oid::regclass as name from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'v') loop
		execute format('alter table %s owner to shop_owner', of.name);
	end loop;
	for of in select oid::regprocedure as name from pg_proc where pronamespace = 'public'::regnamespace loop
		execute format('alter function %s owner to shop_owner', of.name);
	end loop;
end $$;
alter sequence gate_epoch owner to shop_owner`

// grantTwice runs the documented lines as the plain owner, and again as after a newer schema.
func grantTwice(t *testing.T, owner *pgx.Conn, grant, revoke string) {
	t.Helper()
	all := `select (select count(*) from information_schema.column_privileges where grantee = 'shop')
		+ (select count(*) from information_schema.routine_privileges where grantee = 'shop')
		+ (select count(*) from pg_class, aclexplode(relacl) a where a.grantee = 'shop'::regrole)`
	var first, none, second int
	must := func(sql string, into *int) {
		t.Helper()
		if _, err := owner.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		if into != nil {
			if err := owner.QueryRow(t.Context(), all).Scan(into); err != nil {
				t.Fatal(err)
			}
		}
	}
	must(plainOwner, nil)
	must("set role shop_owner", nil)
	must(grant, &first)
	must(revoke, &none)
	must(regexp.MustCompile("(?m)^create role .*$").ReplaceAllString(grant, ""), &second)
	must("reset role", nil)
	if first == 0 || none != 0 || second != first {
		t.Errorf("the role has %d rights, after they are taken away %d, and %d when they are given again", first, none, second)
	}
}

// startRedis starts a Redis for this test alone and returns a client and its URL.
func startRedis(t *testing.T) (client *redis.Client, at *url.URL) {
	t.Helper()
	s, err := sandbox.Open(t.Context(), sandbox.Config{DataDir: filepath.Join(t.TempDir(), "data"), Redis: true, RedisKind: sandbox.Server, Throwaway: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	opts, err := redis.ParseURL(s.RedisURL)
	if err != nil {
		t.Fatal(err)
	}
	client = redis.NewClient(opts)
	t.Cleanup(func() { client.Close() })
	if at, err = url.Parse(s.RedisURL); err != nil {
		t.Fatal(err)
	}
	return client, at
}

// commandCalls returns how often Redis ran each command, such as "client|setinfo", since the last reset.
func commandCalls(t *testing.T, rdb *redis.Client) map[string]int {
	t.Helper()
	text, err := rdb.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^cmdstat_([^:]+):calls=(\d+)`).FindAllStringSubmatch(text, -1) {
		calls[m[1]], _ = strconv.Atoi(m[2])
	}
	return calls
}

// The documented role and Redis user are enough for everything that the shop and its commands do,
// including recovery after a kill and an invalid journal entry. They have no right that nothing uses.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	grant, revoke, acl := rights(t)
	if sandboxtest.Kind() == sandbox.Embedded {
		t.Skip("the embedded Redis has no ACL")
	}
	root, redisURL := startRedis(t)
	ownerURL := sandboxtest.DatabaseURL(t)
	owner, err := pgx.Connect(t.Context(), ownerURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := owner.Exec(context.Background(), "reset role; drop owned by shop; drop role shop; reassign owned by shop_owner to current_user; drop owned by shop_owner; drop role shop_owner", pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Error(err)
		}
		owner.Close(context.Background())
	})
	grantTwice(t, owner, grant, revoke)
	checkColumns(t, owner)
	words := strings.Fields(acl)
	page, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	if says := fmt.Sprintf("a Redis user with %d commands", strings.Count(acl, " +")); !strings.Contains(string(page), says) {
		t.Errorf("SECURITY.md does not say %q", says)
	}
	args := make([]any, len(words))
	for i, w := range words {
		args[i] = w
	}
	if err := root.Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
	as := func(at, user, password string) string {
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(user, password)
		return u.String()
	}
	for _, password := range []string{"change-me-postgres", "change-me-redis"} {
		if !strings.Contains(grant+acl, password) {
			t.Fatalf("the documented lines do not have %s", password)
		}
	}
	env := append(sandboxtest.Stores(t), "DATABASE_URL="+as(ownerURL, "shop", "change-me-postgres"),
		"REDIS_URL="+as(redisURL.String(), "shop", "change-me-redis"), "MIAOSHA_CASHIER=sandbox", "MIAOSHA_NOTIFY_SECRET=notify-notify-notify-notify-notify")
	env = env[1:] // without the DATABASE_URL of Stores
	if err := root.ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}

	command := func(args ...string) string {
		t.Helper()
		return strings.TrimSpace(sandboxtest.MustCommand(t, env, args...))
	}
	deadline := func() time.Time { return time.Now().Add(sandboxtest.Hang) }
	off := append(slices.Clone(env), "MIAOSHA_CAPTCHA=off")
	s := sandboxtest.Open(t, off)
	sale, scarce := sandboxtest.Sale(t, env, 20), sandboxtest.Sale(t, env, 1)
	buyers := s.Buyers(t, 5, "") // without an address, since giving one takes Redis commands too
	for _, b := range buyers {
		b.Sale = sale
	}
	if r := buyers[0].Pay(deadline(), buyers[0].Order(t)); r.Code != "ok" {
		t.Fatalf("pay: %d %s", r.Status, r.Raw)
	}
	if r := buyers[1].Cancel(deadline(), buyers[1].Order(t)); r.Code != "ok" {
		t.Fatalf("cancel: %d %s", r.Status, r.Raw)
	}

	buyers[4].Order(t)
	checkFullAndSoldOut(t, root, scarce, buyers[0], buyers[3])

	// An account, from its first verification code to its last session.
	phone := "13811112222"
	asked := call(t, s, "POST", "/api/otp", "", `{"phone":"`+phone+`"}`, 200)
	sms := regexp.MustCompile(`sms to ` + phone + `: your code is (\d{6})`)
	var code []string
	if !sandboxtest.Poll(func() bool { code = sms.FindStringSubmatch(s.Log.String()); return code != nil }) {
		t.Fatalf("no code in %s", s.Log)
	}
	account := fmt.Sprintf(`{"phone":%q,"code":%q,"password":"first password","nickname":"N"}`, phone, code[1])
	call(t, s, "POST", "/api/register", "", account, 200, "Cookie", asked.Cookies())
	for range 2 {
		token := text(t, call(t, s, "POST", "/api/login", "", `{"phone":"`+phone+`","password":"first password"}`, 200), "token")
		call(t, s, "GET", "/api/me", token, "", 200)
		call(t, s, "POST", "/api/logout", token, "", 200)
	}
	token := text(t, call(t, s, "POST", "/api/login", "", `{"phone":"`+phone+`","password":"first password"}`, 200), "token")
	call(t, s, "POST", "/api/password", token, `{"old":"first password","new":"second password"}`, 200)
	_, password, _ := strings.Cut(command("admin", "--phone", "13911112222"), "password: ")
	in := fmt.Sprintf(`{"phone":"13911112222","password":%q}`, strings.TrimSpace(password))
	made := text(t, call(t, s, "POST", "/api/login", "", in, 200), "token")
	chosen := fmt.Sprintf(`{"old":%q,"new":"chosen by its owner"}`, strings.TrimSpace(password))
	admin := text(t, call(t, s, "POST", "/api/password", made, chosen, 200), "token")
	command("admin", "--phone", phone, "--by", "13911112222")
	if _, say, code := sandboxtest.Command(t, env, "admin", "--phone", "13911114444"); code == 0 || !strings.HasPrefix(strings.TrimPrefix(say, "miaosha: "), "--by") {
		t.Errorf("an administrator on behalf of no other: exit %d, %q, want a refusal that names --by", code, say)
	}
	checkLabUnavailable(t, s, admin)

	// A killed process leaves a ticket in its queue. The next process takes it over, and removes an
	// invalid entry.
	first := s
	first.End(syscall.SIGKILL)
	slow := sandboxtest.Open(t, append(slices.Clone(off), "MIAOSHA_SETTLE_PAUSE=20s"))
	last := buyers[2].At(func() string { return slow.URL })
	if r := last.AskPath(); r.Code != "ok" {
		t.Fatalf("hidden address: %d %s", r.Status, r.Raw)
	}
	if r := last.Click(1)[0]; r.Status != 202 {
		t.Fatalf("buy: %d %s", r.Status, r.Raw)
	}
	slow.End(syscall.SIGKILL)
	if err := root.XAdd(t.Context(), &redis.XAddArgs{Stream: "ms:{" + sale + "}:journal2", Values: []string{"user", "nobody"}}).Err(); err != nil {
		t.Fatal(err)
	}
	s = sandboxtest.Open(t, append(slices.Clone(env), "MIAOSHA_CAPTCHA=math"))
	last.At(func() string { return s.URL }).WaitOrdered(t)
	if !sandboxtest.Poll(func() bool { return root.XLen(t.Context(), "ms:{"+sale+"}:dead").Val() > 0 }) {
		t.Fatalf("the invalid entry is still in the journal\n%s", s.Log)
	}
	call(t, s, "GET", "/api/sales/"+sale+"/captcha", buyers[3].Token, "", 200)
	if r := sandboxtest.Call("POST", s.URL+"/api/sales/"+sale+"/path", buyers[3].Token, `{"captcha":"1"}`); r.Code != "wrong_captcha" {
		t.Errorf("a wrong captcha: %d %s", r.Status, r.Code)
	}
	checkPayments(t, owner, as(ownerURL, "shop", "change-me-postgres"))
	if out := command("audit"); !strings.Contains(out, "every invariant holds") {
		t.Error(out)
	}
	for _, refused := range []string{"permission denied", "NOPERM"} {
		if log := first.Log.String() + slow.Log.String() + s.Log.String(); strings.Contains(log, refused) {
			t.Errorf("a right is missing:\n%s", log)
		}
	}

	// Redis must have refused nothing. It refuses only that the client names itself and enables
	// maintenance notifications, which the client can do without.
	log, err := root.Do(t.Context(), "acl", "log", 128).Slice()
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range log {
		if !strings.Contains(fmt.Sprint(entry), "client|") {
			t.Errorf("refused: %v", entry)
		}
	}
	calls := commandCalls(t, root)
	for _, w := range words {
		name, allowed := strings.CutPrefix(w, "+")
		if allowed && calls[name] == 0 {
			t.Errorf("+%s is allowed, and nothing used it", name)
		}
	}
	checkRedisRefuses(t, redisURL.Host)
	checkPostgresRefuses(t, as(ownerURL, "shop", "change-me-postgres"))
	checkRolesAreLogged(t, owner, as(ownerURL, "shop", "change-me-postgres"))
}

// checkPayments runs what payments and time do to orders, with the shop's role.
func checkPayments(t *testing.T, owner *pgx.Conn, at string) {
	t.Helper()
	db, err := pgxpool.New(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	orders := order.New(db, order.Config{PayWithin: time.Minute})
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	rows, _ := owner.Query(t.Context(), `select id, user_id, price from orders where status = 'pending' order by id`)
	type placed struct {
		ID     uuid.UUID
		UserID int64
		Price  int64
	}
	pending, err := pgx.CollectRows(rows, pgx.RowToStructByPos[placed])
	if err != nil || len(pending) < 2 {
		t.Fatalf("the pending orders are %v, %v, want two", pending, err)
	}
	o, late := pending[0], pending[1]
	p, err := orders.OpenPayment(t.Context(), order.Cashier, o.UserID, o.ID)
	must("open a payment", err)
	must("decline it", orders.Decline(t.Context(), p, "no"))
	_, err = orders.OpenPayment(t.Context(), order.Cashier, o.UserID, o.ID)
	must("open another", err)
	again, err := orders.OpenPayment(t.Context(), order.Cashier, o.UserID, o.ID)
	must("open it again", err)
	_, err = orders.Capture(t.Context(), order.Captured{Provider: order.Cashier, OrderID: o.ID, Amount: again.Amount, Ref: "ref-1"})
	must("capture it", err)
	must("refund the order", orders.Refund(t.Context(), o.ID))
	_, err = owner.Exec(t.Context(), `update orders set expires_at = now() where id = $1`, late.ID)
	must("let the time to pay pass", err)
	if _, err := orders.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	status, err := orders.Capture(t.Context(), order.Captured{Provider: "provider", OrderID: late.ID, Amount: late.Price, Ref: "ref-2"})
	if must("capture too late", err); status != "refund_due" {
		t.Errorf("a late capture is %s, want refund_due", status)
	}
	provider := payment.New(payment.Config{Name: "provider"}) // without an address: it returns no money
	_, err = orders.AskOpen(t.Context(), provider)
	must("ask about open payments", err)
	if _, err = orders.DrainRefunds(t.Context(), provider); err == nil || !strings.Contains(err.Error(), "by hand") {
		t.Errorf("returning the money: %v, want the provider's reason", err)
	}
}

// checkRolesAreLogged tries to change a role with the shop's role and without a line in the log.
func checkRolesAreLogged(t *testing.T, owner *pgx.Conn, at string) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	const buyer = `(select min(id) from users where role = 'buyer')`
	for _, acting := range []string{"null", "0", buyer} {
		_, err := db.Exec(t.Context(), `select change_role(`+acting+`, `+buyer+`, 'admin')`)
		if err == nil || !strings.Contains(err.Error(), "only another administrator changes a role") {
			t.Errorf("a role changed on behalf of %s: %v, want a refusal", acting, err)
		}
	}
	// Tables of a caller's own, with the names of those that the functions write.
	lines := func(table string) (n int) {
		t.Helper()
		if err := owner.QueryRow(t.Context(), `select count(*) from public.`+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	roles, events := lines("role_changes"), lines("order_events")
	for _, sql := range []string{
		`create temp table role_changes (like public.role_changes including all)`,
		`create temp table order_events (like public.order_events including all)`,
		`select change_role((select min(id) from users where role = 'admin'), ` + buyer + `, 'admin')`,
		`insert into orders (id, user_id, sale_id, ticket, title, price, expires_at) values (gen_random_uuid(), 1000000, 1000000, 'x', 'x', 0, now())`,
		`update orders set status = 'cancelled' where user_id = 1000000`,
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if roles, events := lines("role_changes")-roles, lines("order_events")-events; roles != 1 || events != 1 {
		t.Errorf("the logs got %d and %d lines, want 1 each", roles, events)
	}
	var login string
	if err := owner.QueryRow(t.Context(), `select by_login from role_changes order by id desc limit 1`).Scan(&login); err != nil || login != "shop" {
		t.Errorf("the log names the login %q, %v, want shop", login, err)
	}
}

// checkFullAndSoldOut sells the one unit of a sale to first. Before that its big gate is full, and an address runs out unused.
func checkFullAndSoldOut(t *testing.T, root *redis.Client, sale string, first, second *sandboxtest.Buyer) {
	t.Helper()
	a, b := *first, *second
	first, second = &a, &b
	first.Sale, second.Sale = sale, sale
	if r := second.AskPath(); r.Code != "ok" {
		t.Fatalf("hidden address: %d %s", r.Status, r.Raw)
	}
	holders := []redis.Z{{Member: -1, Score: 1}}
	for i := range 63 {
		holders = append(holders, redis.Z{Member: 1_000_000 + i, Score: float64(time.Now().Add(time.Hour).UnixMilli())})
	}
	paths := "ms:{" + sale + "}:paths"
	if err := root.ZAdd(t.Context(), paths, holders...).Err(); err != nil {
		t.Fatal(err)
	}
	if r := first.AskPath(); r.Code != "too_many" {
		t.Errorf("an address at a full gate: %d %s", r.Status, r.Raw)
	}
	if err := root.ZRem(t.Context(), paths, 1_000_000).Err(); err != nil {
		t.Fatal(err)
	}
	first.Order(t)
	if r := second.Click(1)[0]; r.Code != "sold_out" {
		t.Errorf("a click when the sale is sold out: %d %s", r.Status, r.Raw)
	}
}

// checkLabUnavailable checks that the lab refuses everything for a role that may not create a schema.
func checkLabUnavailable(t *testing.T, s *sandboxtest.Shop, admin string) {
	t.Helper()
	call(t, s, "GET", "/api/lab", admin, "", 200)
	for path, body := range map[string]string{"race": `{"strategy":"guard","seed":1}`, "try": `{"experiment":"cache","seed":1}`} {
		if r := call(t, s, "POST", "/api/lab/"+path, admin, body, 409); r.Code != "lab_unavailable" {
			t.Errorf("%s: %s", path, r.Raw)
		}
	}
	call(t, s, "POST", "/api/lab/run", admin, `{"strategies":["guard"],"buyers":5,"stock":1,"double_clicks":0,"seed":1,"seconds":5}`, 202)
	var r sandboxtest.Reply
	if !sandboxtest.Poll(func() bool {
		r = call(t, s, "GET", "/api/lab/run", admin, "", 200)
		return text(t, r, "state") != "running" && text(t, r, "state") != "waiting"
	}) {
		t.Fatalf("the run does not end: %s", r.Raw)
	}
	if state, code := text(t, r, "state"), text(t, r, "code"); state != "failed" || code != "lab_unavailable" {
		t.Fatalf("the run ended with %s %s: %s", state, code, r.Raw)
	}
}

// checkRedisRefuses tries what an attacker with the shop's Redis user could try.
func checkRedisRefuses(t *testing.T, host string) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: host, Username: "shop", Password: "change-me-redis"})
	defer rdb.Close()
	refused := regexp.MustCompile("NOPERM|The user executing the script can't run this command")
	for _, line := range []string{"flushall", "flushdb", "config get *", "keys *", "shutdown", "monitor", "acl list",
		"script flush", "replicaof no one", "save", "module list", "client list", "swapdb 0 1", "get other", "set other 1", "eval return(redis.call('flushall')) 0"} {
		var args []any
		for _, w := range strings.Fields(line) {
			args = append(args, w)
		}
		if err := fmt.Sprint(rdb.Do(t.Context(), args...).Err()); !refused.MatchString(err) {
			t.Errorf("%s: %v, want a refusal", line, err)
		}
	}
}

// checkPostgresRefuses tries what an attacker with the shop's Postgres role could try.
func checkPostgresRefuses(t *testing.T, at string) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	rows, _ := db.Query(t.Context(), `select tablename::text from pg_tables where schemaname = 'public'`)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	tries := []string{"create table mine (n int)", "alter table orders disable trigger all", "create role other", "update order_events set to_status = 'paid'",
		"update goods set demo = true", "update ticket_results set outcome = 'invalid'", "update schema_version set version = 99", "select setval('gate_epoch', 1)", "drop function orders_updated() cascade",
		// Roles and histories.
		"update users set role = 'admin'", "insert into users (phone, role) values ('13877776666', 'admin')", "update users set id = default", "update users set disabled_at = now()",
		"insert into role_changes (user_id, from_role, to_role) values (1, 'admin', 'buyer')", "update role_changes set by_user = 1",
		"insert into order_events (order_id, sale_id, from_status, to_status) values (gen_random_uuid(), 1, 'pending', 'paid')",
		`create temp table old_orders (id uuid, sale_id bigint, status text);
		 create trigger forge after update on old_orders referencing old table as was new table as is_now for each statement execute function orders_updated()`,
		// What was promised to a buyer.
		"update orders set price = 0", "update orders set user_id = 1", "update orders set ticket = 'x'", "update orders set created_at = now()",
		"insert into orders (id, user_id, sale_id, ticket, title, price, status, paid_at, expires_at) values (gen_random_uuid(), 1, 1, 'x', 'x', 0, 'paid', now(), now())",
		"update sales set id = default", "update sales set goods_id = 1", "update sales set gate_until = null", "update sales set created_at = now()",
		"update admin_log set by_user = 1", "update sale_plans set at = now()", "update pictures set bytes = ''", "update users set disabled_at = null",
		"update payments set amount = 0", "update payments set order_id = gen_random_uuid()", "update payments set id = gen_random_uuid()",
		"update shop set shop = gen_random_uuid()", "update shop set incarnation = gen_random_uuid()", "insert into shop default values",
		"update sales set archived_at = now()", "insert into archives (file, of_table, rows, sha256, oldest, newest) values ('x', 'order_events', 1, repeat('0', 64), now(), now())", "update archives set gone_at = now()"}
	for _, table := range tables {
		tries = append(tries, "delete from "+table, "truncate "+table, "drop table "+table)
	}
	for _, sql := range tries {
		if _, err := db.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err == nil || !strings.Contains(err.Error(), "SQLSTATE 42501") {
			t.Errorf("%s: %v, want 42501", sql, err)
		}
	}
}
