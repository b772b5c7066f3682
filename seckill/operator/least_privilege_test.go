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

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox"
	"miaosha/seckill/sandbox/sandboxtest"
)

// block is the only fenced block of a language between two headings of a page, such as README.md's.
func block(t *testing.T, page, language, from, to string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("../..", page))
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(raw), from)
	text, _, ended := strings.Cut(text, to)
	all := regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(text, -1)
	if !found || !ended || len(all) != 1 {
		t.Fatalf("%s has %d blocks of %s between %q and %q, want one", page, len(all), language, from, to)
	}
	return all[0][1]
}

// rights are the lines of the README that make the shop's role and its user in Redis.
func rights(t *testing.T) (sql, acl string) {
	t.Helper()
	const head, next = "### With no more rights than it needs", "\n## API"
	sql, acl = block(t, "README.md", "sql", head, next), block(t, "README.md", "redis", head, next)
	const zhHead, zhNext = "### 只给它用得着的权限", "\n## 接口"
	if block(t, "README.zh-CN.md", "sql", zhHead, zhNext) != sql || block(t, "README.zh-CN.md", "redis", zhHead, zhNext) != acl {
		t.Error("the two READMEs give different rights")
	}
	return sql, acl
}

// ownRedis is a Redis process for this test alone.
func ownRedis(t *testing.T) (client *redis.Client, at *url.URL) {
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

// usage is how often each command was carried out, such as "xgroup|create", since the last reset.
func usage(t *testing.T, rdb *redis.Client) map[string]int {
	t.Helper()
	text, err := rdb.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^cmdstat_([^:]+):calls=(\d+)`).FindAllStringSubmatch(text, -1) {
		used[m[1]], _ = strconv.Atoi(m[2])
	}
	return used
}

func call(t *testing.T, s *sandboxtest.Shop, method, path, token, body string, want int) sandboxtest.Reply {
	t.Helper()
	r := sandboxtest.Call(method, s.URL+path, token, body)
	if r.Status != want {
		t.Fatalf("%s %s: %d %s %s, want %d\n%s", method, path, r.Status, r.Code, r.Msg, want, s.Log)
	}
	return r
}

func text(t *testing.T, r sandboxtest.Reply, field string) string {
	t.Helper()
	var all map[string]any
	r.Read(t, &all)
	s, _ := all[field].(string)
	return s
}

// purchase buys one unit and gives the order's id.
func purchase(t *testing.T, s *sandboxtest.Shop, sale, token string) string {
	t.Helper()
	path := text(t, call(t, s, "POST", "/api/sales/"+sale+"/path", token, "", 200), "path")
	call(t, s, "POST", "/api/sales/"+sale+"/buy/"+path, token, "", 202)
	return ordered(t, s, sale, token)
}

// ordered waits for the order of who has a ticket.
func ordered(t *testing.T, s *sandboxtest.Shop, sale, token string) string {
	t.Helper()
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if r := sandboxtest.Call("GET", s.URL+"/api/sales/"+sale+"/result", token, ""); r.Code == "ok" {
			if id := text(t, r, "order_id"); id != "" {
				return id
			}
		}
	}
	t.Fatalf("no order\n%s", s.Log)
	return ""
}

// The role and the user that the README gives ready are enough for everything that the shop and its commands do, an
// owner's death and a spoiled journal included, and give nothing that none of it uses.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	sql, acl := rights(t)
	if sandboxtest.Kind() == sandbox.Embedded {
		t.Skip("the Redis inside the process knows no ACL")
	}
	root, redisAt := ownRedis(t)
	ownerURL := sandboxtest.DatabaseURL(t)
	owner, err := pgx.Connect(t.Context(), ownerURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := owner.Exec(context.Background(), "drop owned by shop; drop role shop", pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Error(err)
		}
		owner.Close(context.Background())
	})
	if _, err := owner.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(acl)
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
		if !strings.Contains(sql+acl, password) {
			t.Fatalf("the README does not say %s", password)
		}
	}
	env := append(sandboxtest.Stores(t), "DATABASE_URL="+as(ownerURL, "shop", "change-me-postgres"),
		"REDIS_URL="+as(redisAt.String(), "shop", "change-me-redis"), "MIAOSHA_CASHIER=sandbox", "MIAOSHA_NOTIFY_SECRET=notify-notify-notify-notify")
	env = env[1:] // Stores' own DATABASE_URL
	if err := root.ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}

	command := func(args ...string) string {
		t.Helper()
		return strings.TrimSpace(sandboxtest.MustCommand(t, env, args...))
	}
	tokens := func(n int) (all []string) {
		t.Helper()
		for _, line := range strings.Split(command("users", "-n", strconv.Itoa(n)), "\n")[1:] {
			all = append(all, strings.Split(line, ",")[2])
		}
		return all
	}
	off := append(slices.Clone(env), "MIAOSHA_CAPTCHA=off")
	s := sandboxtest.Open(t, off)
	sale := command("sale", "--title", "T", "--price", "990", "--stock", "20")
	who := tokens(4)
	paid, cancelled := purchase(t, s, sale, who[0]), purchase(t, s, sale, who[1])
	payment := text(t, call(t, s, "POST", "/api/orders/"+paid+"/pay", who[0], "", 200), "payment_id")
	call(t, s, "POST", "/api/cashier/"+payment, who[0], `{"action":"confirm"}`, 200)
	call(t, s, "POST", "/api/orders/"+cancelled+"/cancel", who[1], "", 200)

	// An account, from its first code to its last session.
	phone := "13811112222"
	call(t, s, "POST", "/api/otp", "", `{"phone":"`+phone+`"}`, 200)
	sms := regexp.MustCompile(`sms to ` + phone + `: your code is (\d{6})`)
	var code []string
	for until := time.Now().Add(10 * time.Second); code == nil; time.Sleep(10 * time.Millisecond) {
		if code = sms.FindStringSubmatch(s.Log.String()); code == nil && time.Now().After(until) {
			t.Fatalf("no code in %s", s.Log)
		}
	}
	account := fmt.Sprintf(`{"phone":%q,"code":%q,"password":"first password","nickname":"N"}`, phone, code[1])
	call(t, s, "POST", "/api/register", "", account, 200)
	for range 2 {
		token := text(t, call(t, s, "POST", "/api/login", "", `{"phone":"`+phone+`","password":"first password"}`, 200), "token")
		call(t, s, "GET", "/api/me", token, "", 200)
		call(t, s, "POST", "/api/logout", token, "", 200)
	}
	token := text(t, call(t, s, "POST", "/api/login", "", `{"phone":"`+phone+`","password":"first password"}`, 200), "token")
	call(t, s, "POST", "/api/password", token, `{"old":"first password","new":"second password"}`, 200)
	_, password, _ := strings.Cut(command("admin", "--phone", "13911112222"), "password: ")
	in := fmt.Sprintf(`{"phone":"13911112222","password":%q}`, strings.TrimSpace(password))
	admin := text(t, call(t, s, "POST", "/api/login", "", in, 200), "token")
	noLab(t, s, admin)

	// A process that is killed with a ticket in its queue leaves it to the next, which also clears a spoiled entry away.
	first := s
	first.End(syscall.SIGKILL)
	slow := sandboxtest.Open(t, append(slices.Clone(off), "MIAOSHA_SETTLE_PAUSE=20s"))
	path := text(t, call(t, slow, "POST", "/api/sales/"+sale+"/path", who[2], "", 200), "path")
	call(t, slow, "POST", "/api/sales/"+sale+"/buy/"+path, who[2], "", 202)
	for until := time.Now().Add(10 * time.Second); usage(t, root)["xclaim"] == 0 && time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
	}
	slow.End(syscall.SIGKILL)
	if err := root.XAdd(t.Context(), &redis.XAddArgs{Stream: "ms:{" + sale + "}:journal", Values: []string{"user", "nobody"}}).Err(); err != nil {
		t.Fatal(err)
	}
	s = sandboxtest.Open(t, append(slices.Clone(env), "MIAOSHA_CAPTCHA=math"))
	ordered(t, s, sale, who[2])
	for until := time.Now().Add(20 * time.Second); root.XLen(t.Context(), "ms:{"+sale+"}:dead").Val() == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("the spoiled entry stays\n%s", s.Log)
		}
	}
	call(t, s, "GET", "/api/sales/"+sale+"/captcha", who[3], "", 200)
	if r := sandboxtest.Call("POST", s.URL+"/api/sales/"+sale+"/path", who[3], `{"captcha":"wrong"}`); r.Code != "wrong_captcha" {
		t.Errorf("a wrong sum: %d %s", r.Status, r.Code)
	}
	if out := command("audit"); !strings.Contains(out, "every invariant holds") {
		t.Error(out)
	}
	if log := first.Log.String() + slow.Log.String() + s.Log.String(); strings.Contains(log, "permission denied") || strings.Contains(log, "NOPERM") {
		t.Errorf("something is missing:\n%s", log)
	}

	// What was refused. The client names itself, and asks for notices that this Redis doesn't know; it lives without.
	log, err := root.Do(t.Context(), "acl", "log", 128).Slice()
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range log {
		if !strings.Contains(fmt.Sprint(entry), "client|") {
			t.Errorf("refused: %v", entry)
		}
	}
	// What was given and not used, as an intruder would see it.
	used := usage(t, root)
	for _, w := range words {
		name, given := strings.CutPrefix(w, "+")
		if given && used[name] == 0 && rare[name] == "" {
			t.Errorf("+%s is given, and nothing used it", name)
		}
	}
	intruder(t, redisAt.Host)
	clerk(t, as(ownerURL, "shop", "change-me-postgres"))
}

// noLab asks for all that the lab does: a role that may make no schema has none, and is told so.
func noLab(t *testing.T, s *sandboxtest.Shop, admin string) {
	t.Helper()
	call(t, s, "GET", "/api/lab", admin, "", 200)
	for path, body := range map[string]string{"race": `{"strategy":"guard","seed":1}`, "try": `{"experiment":"cache","seed":1}`} {
		if r := call(t, s, "POST", "/api/lab/"+path, admin, body, 409); r.Code != "lab_unavailable" {
			t.Errorf("%s: %s", path, r.Raw)
		}
	}
	call(t, s, "POST", "/api/lab/run", admin, `{"strategies":["guard"],"buyers":5,"stock":1,"double_clicks":0,"seed":1,"seconds":5}`, 202)
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		r := call(t, s, "GET", "/api/lab/run", admin, "", 200)
		if state := text(t, r, "state"); state == "failed" && text(t, r, "code") == "lab_unavailable" {
			return
		} else if state != "running" || time.Now().After(until) {
			t.Fatalf("a run: %s", r.Raw)
		}
	}
}

// rare are the commands that no run of a test comes by: where, and when.
var rare = map[string]string{
	"hdel":               "user/code.go: a code is given back when the machine was too busy to hash the password it came with",
	"zscore":             "seckill/scripts/path.lua: 64 addresses are alive",
	"xgroup|delconsumer": "seckill/scripts/retire.lua: a process has been gone for ten minutes",
}

// intruder tries what whoever got hold of the shop's user in Redis might.
func intruder(t *testing.T, host string) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: host, Username: "shop", Password: "change-me-redis"})
	defer rdb.Close()
	for _, line := range []string{"flushall", "flushdb", "config get *", "keys *", "scan 0", "shutdown", "monitor", "acl list",
		"script flush", "replicaof no one", "save", "module list", "client list", "swapdb 0 1", "get other", "set other 1", "eval return(redis.call('flushall')) 0"} {
		var args []any
		for _, w := range strings.Fields(line) {
			args = append(args, w)
		}
		if err := rdb.Do(t.Context(), args...).Err(); err == nil || !strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "The user executing the script can't run this command") {
			t.Errorf("%s: %v, want a refusal", line, err)
		}
	}
}

// clerk tries what whoever got hold of the shop's role in Postgres might.
func clerk(t *testing.T, at string) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	var tables []string
	if err := db.QueryRow(t.Context(), `select array_agg(tablename::text) from pg_tables where schemaname = 'public'`).Scan(&tables); err != nil {
		t.Fatal(err)
	}
	tries := []string{"create table mine (n int)", "alter table orders disable trigger all", "create role other", "update order_events set to_status = 'paid'",
		"update goods set title = 'x'", "update ticket_results set outcome = 'invalid'", "update schema_version set version = 99", "select setval('gate_epoch', 1)", "drop function orders_updated() cascade"}
	for _, table := range tables {
		tries = append(tries, "delete from "+table, "truncate "+table, "drop table "+table)
	}
	for _, sql := range tries {
		if _, err := db.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "SQLSTATE 42501") {
			t.Errorf("%s: %v, want 42501", sql, err)
		}
	}
}
