package operator

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"miaosha/seckill/bench"
	"miaosha/seckill/lab"
	"miaosha/seckill/lab/exercises"
	"miaosha/seckill/lab/strategies"
)

// taught lists what the five courses teach, each with the row of the index that has it, and the courses: A changgou, chapter 16;
// B the imooc performance course; C articles on locks; D seckill optimisation notes; E the miaosha interview notes.
var taught = []struct{ row, by, what string }{
	{"identity", "ABE", "log-in identity on every order; a session that all servers share, a token in Redis, or JWT"},
	{"codes-and-errors", "ABDE", "one-time code by SMS, uniform answer {code,msg,data}, error code table, validation with messages"},
	{"double-md5", "E", "double MD5 of the password"},
	{"static-pages", "ABE", "static pages, data by AJAX, browser cache, CDN"},
	{"page-cache", "ABE", "page, URL and object cache; local hot cache, then Redis, then the database"},
	{"cache-faults", "E", "penetration, avalanche, breakdown, consistency"},
	{"redis-keys", "CDE", "key prefixes with expiry in one place"},
	{"time-menu", "A", "time menu of sale slots, preload per slot, stock shown from Redis"},
	{"activity", "B", "a sale as an activity: publish puts the stock into the cache"},
	{"countdown", "CE", "countdown by server time, no buy before the start"},
	{"pre-decrement", "ABDE", "Redis pre-decrement (DECR)"},
	{"sold-out-mark", "DE", "local sold-out mark; clearing it on all servers when stock returns"},
	{"segment-locks", "D", "segment locks"},
	{"once-per-user", "ADE", "duplicate click: INCR key for 5 min; once per user and item; unique index"},
	{"message-queue", "ABCDE", "message queue: asynchronous order, peak shaving, prefetch, draining"},
	{"reliable-messages", "ABD", "producer loses nothing; consumer acks by hand; dead letters"},
	{"stock-log", "AB", "transactional message with a stock log and check-back"},
	{"one-transaction", "ABCE", "one transaction: stock > 0 guarded update and order; unsigned stock column"},
	{"locks", "BCE", "naive, pessimistic, optimistic variants"},
	{"polling", "CDE", "poll every 50-200 ms: -1 failed, 0 queueing, id done"},
	{"push", "D", "server push by WebSocket, to the right client, success and failure"},
	{"hidden-address", "ABCE", "hidden address: random path, random code, MD5 hash with salt, sale token"},
	{"big-gate", "B", "big gate: only so many tokens per unit"},
	{"captcha", "BCE", "math captcha before the address, to spread the rush"},
	{"access-limit", "ACE", "per-user counter per minute and hour, annotation @AccessLimit with a bucket for all"},
	{"token-bucket", "ABCE", "token bucket per endpoint, waiting or not waiting"},
	{"unpaid", "DE", "unpaid for 15/30 min: cancel, put the unit back in database, Redis and mark"},
	{"refill", "BDE", "pre-stock refill from true stock when an order fails"},
	{"redis-gone", "E", "Redis gone: local cache, limits, degrade"},
	{"many-servers", "CDE", "many servers behind nginx, a Redis for sessions only"},
	{"hot-items", "BE", "find suddenly hot items, keep them apart"},
	{"window-and-oversupply", "E", "the sale's window inside the update's condition; more stock in Redis than in truth"},
	{"sessions-and-pools", "BE", "session life extended by use; pool sizes under 5,000 threads; read replicas"},
	{"order-amount", "ABE", "an order has an amount; the buy button is dead after a click; deployment on a bare server"},
	{"load-test", "E", "load test with JMeter: 1,300 to 2,100 QPS"},
	{"order-ids", "A", "distributed order ids (IdWorker, snowflake)"},
	{"circuit-breaker", "A", "circuit breaker, time-outs (Hystrix, Feign)"},
	{"confirm", "A", "broker transactions against confirm mode, nack, resend"},
	{"profile-fields", "B", "profile fields with ranges, answer that lists every wrong field"},
	{"ban", "C", "ban after too many visits"},
	{"listen-after-buy", "D", "connect for the push only after the 200"},
	{"warm-up", "E", "cache warm-up before the opening"},
	{"user-cache", "E", "user object cache, password change drops it"},
	{"bottleneck", "BE", "processor and memory watched for the bottleneck; QPS before and after"},
	{"seller-and-price", "AB", "seller, price and promotion on the order"},
	{"purchase-flow", "ABCE", "the whole flow of a purchase"},
	{"deduct-when", "E", "stock deducted at the order or at the payment"},
	{"many-accounts", "E", "one person with very many accounts"},
	{"services", "A", "Eureka, ribbon, Feign"},
	{"broker-parts", "ABD", "exchanges, routing keys, topics, nameserver"},
	{"mybatis", "ABC", "MyBatis, mappers, generated code"},
	{"three-layers", "ABCE", "three layers, Spring's injection, DO and VO"},
	{"serializers", "ABE", "serialisers of RedisTemplate"},
	{"memcached", "C", "Memcached"},
	{"mysql", "ABCE", "MySQL, InnoDB, repeatable read"},
	{"java", "AB", "JDK, Maven, jar, application.yml"},
}

// indexRow is a row of the index, as web/static/courses/rows/stock.js describes it.
type indexRow struct {
	ID, By   string
	Words    []string
	Also     []string
	ZH, EN   struct{ Taught, Ours string }
	Code     [][2]string
	See, Run []string
}

// The index of the courses has every taught thing, in both languages and with something to run, and each row names code, lessons,
// pages and commands that exist.
func TestDocumentsOfTheCoursesNameWhatExists(t *testing.T) {
	t.Parallel()
	r := readRepository(t)
	rows := map[string]indexRow{}
	for _, row := range indexRows(t) {
		if _, twice := rows[row.ID]; twice {
			t.Errorf("two rows are %s", row.ID)
		}
		rows[row.ID] = row
		for _, wrong := range r.wrongInRow(row) {
			t.Errorf("%s: %s", row.ID, wrong)
		}
	}
	for _, want := range taught {
		if row, found := rows[want.row]; !found || row.By != want.by {
			t.Errorf("%q is taught by %s; its row %s is by %q", want.what, want.by, want.row, row.By)
		}
	}
	if len(rows) != len(taught) {
		t.Errorf("the index has %d rows, and %d things are taught", len(rows), len(taught))
	}
	for _, m := range regexp.MustCompile(`\n    name: '([\w-]+)',\n`).FindAllStringSubmatch(r.sources["web/static/lab/lessons.js"], -1) {
		linked := func(row indexRow) bool { return slices.Contains(row.See, "lesson:"+m[1]) }
		if !slices.ContainsFunc(slices.Collect(maps.Values(rows)), linked) {
			t.Errorf("no row has a button for the lesson %s", m[1])
		}
	}
	for _, e := range exercises.OfCourses() {
		linked := func(row indexRow) bool { return slices.Contains(row.See, "exercise:"+e.Name) }
		if !slices.ContainsFunc(slices.Collect(maps.Values(rows)), linked) {
			t.Errorf("no row has a button for the exercise %s", e.Name)
		}
		for lang, title := range map[string]string{"en": e.Title.En, "zh": e.Title.Zh} {
			text := fmt.Sprintf("\n  'courses.exercise.%s': '%s',\n", e.Name, strings.ReplaceAll(title, "'", `\'`))
			if !strings.Contains(r.sources["web/static/courses/words/"+lang+".js"], text) {
				t.Errorf("the button for the exercise %s is not called %q", e.Name, title)
			}
		}
	}
}

// This test breaks a row in each way, because a check that finds nothing may be blind.
func TestWrongNamesInTheCoursesAreFound(t *testing.T) {
	t.Parallel()
	row := indexRow{ID: "a row", Words: []string{"DECR", "decr"}, Code: [][2]string{{"goods/stock.go", "Take"}, {"goods/stock.go", "Lease"}, {"goods/gone.go", "Take"},
		{"seckill/gate/scripts/reserve.lua", "lease"}, {"schema.sql", "sales"}},
		See: []string{"lesson:cache", "lesson:nothing", "race:guard", "race:nothing", "exercise:one-unit", "exercise:nothing", "page:/lab.html#1", "page:/teach.html#kill", "page:/teach.html#fire", "page:/nothing.html", "video:1"},
		Run: []string{"./miaosha audit", "./miaosha nothing", "./miaosha sale publish 1; ./miaosha sale burn 1", "./miaosha lab --stock 100 --strategies guard,nothing --faults kill,flood", "./miaosha lab --strategies redis-decr", "./miaosha lab --stock 100 --faults kill --strategies lua", "./miaosha bench --shape square",
			"curl -s http://127.0.0.1:8080/api/sales/7/result http://127.0.0.1:8080/api/nothing", "make nothing",
			"go test -run 'TestLock|TestOfNothing' ./goods", "go test -run TestLock ./order"}}
	row.ZH.Taught, row.EN.Taught, row.ZH.Ours, row.EN.Ours = "库存", "库存", "stock", "`goods.Nothing`"
	want := []string{`id "a row"`, `two words are "decr"`, "zh: stock", "en: 库存", "the name `goods.Nothing`", "Lease in goods/stock.go", "Take in goods/gone.go",
		"lease in seckill/gate/scripts/reserve.lua", "lesson:nothing", "race:nothing", "exercise:nothing", "page:/teach.html#fire", "page:/nothing.html", "video:1", "the command miaosha nothing", "the command miaosha sale burn", "the strategy nothing",
		"the fault flood", "a verdict of luck: ./miaosha lab --strategies redis-decr", "a verdict of luck: ./miaosha lab --stock 100 --faults kill --strategies lua", "the shape square", "the route /api/nothing", "make nothing", "the test TestOfNothing", "the test TestOfNothing in ./goods", "the test TestLock in ./order"}
	got := readRepository(t).wrongInRow(row)
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// indexRows reads the rows of the index. Each file is JSON, exported as a module.
func indexRows(t *testing.T) (rows []indexRow) {
	t.Helper()
	files, err := filepath.Glob("../../web/static/courses/rows/*.js")
	if err != nil || len(files) == 0 {
		t.Fatalf("the index has no rows: %v", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, list, _ := strings.Cut(string(raw), "\nexport default ")
		var some []indexRow
		if err := json.Unmarshal([]byte(strings.TrimSuffix(list, ";\n")), &some); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		rows = append(rows, some...)
	}
	return rows
}

var (
	reHan      = regexp.MustCompile(`\p{Han}`)
	reID       = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	reTestRun  = regexp.MustCompile(`go test .*-run '?([\w|]+)\$?'? (\./[\w/]+)`)
	reRoute    = regexp.MustCompile(`(?:8080|\$S)(/api)?(/[a-z/0-9]+(?:\$P)?)`)
	reVerb     = regexp.MustCompile(`miaosha ([a-z]+ [a-z]+)\b`)
	reList     = regexp.MustCompile(`--(strategies|faults|shape) ([\w,-]+)`)
	reLuck     = regexp.MustCompile(`lab .*(refill-|redis-decr|--faults kill)`) // right in some runs, unless there are many units, and work under way at a kill
	reRowSpace = regexp.MustCompile(`[\s.]+`)
)

// wrongInRow lists what is wrong in a row: names that nothing has, and texts that are missing or in the other language.
func (r *repository) wrongInRow(row indexRow) (wrong []string) {
	missing := func(there bool, format string, args ...any) {
		if !there {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	missing(reID.MatchString(row.ID), "id %q", row.ID)
	seen := map[string]bool{}
	for _, w := range slices.Concat(row.Words, row.Also) {
		plain := strings.ToLower(reRowSpace.ReplaceAllString(w, ""))
		missing(!seen[plain], "two words are %q", w)
		seen[plain] = true
	}
	missing(len(row.Words) > 0 && len(row.Code) > 0 && len(row.Run) > 0, "it has no words, no code or no command")
	for _, text := range []string{row.ZH.Taught, row.ZH.Ours} {
		missing(reHan.MatchString(text), "zh: %s", text)
	}
	for _, text := range []string{row.EN.Taught, row.EN.Ours} {
		missing(text != "" && !reHan.MatchString(text), "en: %s", text)
	}
	for _, c := range row.Code {
		missing(r.hasCode(c[0], c[1]), "%s in %s", c[1], c[0])
	}
	for _, s := range row.See {
		missing(r.canSee(s), "%s", s)
	}
	for _, command := range row.Run {
		for _, m := range reList.FindAllStringSubmatch(command, -1) {
			for _, name := range strings.Split(m[2], ",") {
				missing(known[m[1]](name), "the %s %s", map[string]string{"strategies": "strategy", "faults": "fault", "shape": "shape"}[m[1]], name)
			}
		}
		missing(!reLuck.MatchString(command) || strings.Contains(command, "--stock 100 ") && !strings.Contains(command, "--faults kill "), "a verdict of luck: %s", command)
		for _, m := range reVerb.FindAllStringSubmatch(command, -1) {
			missing(r.flags[m[1]] != nil, "the command miaosha %s", m[1])
		}
		for _, m := range reRoute.FindAllStringSubmatch(command, -1) {
			at := strings.Replace(regexp.MustCompile(`/[0-9]+`).ReplaceAllString(m[2], "/{id}"), "$P", "{path}", 1)
			missing(m[1] == "" && !strings.Contains(command, "$S"+m[2]) || r.hasRoute(at), "the route /api%s", at)
		}
		for _, m := range reTestRun.FindAllStringSubmatch(command, -1) {
			for _, test := range strings.Split(m[1], "|") {
				missing(r.hasTest(m[2], test), "the test %s in %s", test, m[2])
			}
		}
	}
	return append(wrong, r.wrong(document{"README.md", strings.Join([]string{row.ZH.Ours, row.EN.Ours, "```sh", strings.Join(row.Run, "\n"), "```", ""}, "\n")})...)
}

// known says of the lists in commands which names they may have.
var known = map[string]func(string) bool{
	"strategies": func(name string) bool {
		return slices.ContainsFunc(strategies.All(), func(s strategies.Info) bool { return s.Name == name })
	},
	"faults": func(name string) bool { return slices.Contains(lab.Faults(), name) },
	"shape":  func(name string) bool { _, ok := bench.ShapeNamed(name); return ok },
}

// hasCode reports whether a file has a name: declared, in a Go file, or somewhere else in another one. A document needs no name.
func (r *repository) hasCode(file, name string) bool {
	if name == "" {
		return r.files[file] && path.Ext(file) == ".md"
	}
	if path.Ext(file) == ".go" {
		return regexp.MustCompile(`(?m)^(?:func (?:\(\w* ?\*?\w+(?:\[\w+\])?\) )?|var |type )` + name + `\b`).MatchString(r.sources[file])
	}
	raw, err := os.ReadFile(filepath.Join(r.root, file))
	return err == nil && regexp.MustCompile(`\b`+name+`\b`).Match(raw)
}

// hasRoute reports whether a row of web has the route, below /api.
func (r *repository) hasRoute(at string) bool {
	for file, text := range r.sources {
		if path.Dir(file) == "web" && !strings.HasSuffix(file, "_test.go") && strings.Contains(text, `"/api`+at+`"`) {
			return true
		}
	}
	return false
}

func (r *repository) canSee(what string) bool {
	kind, name, _ := strings.Cut(what, ":")
	switch kind {
	case "lesson":
		return strings.Contains(r.sources["web/static/lab/lessons.js"], "\n    name: '"+name+"',\n")
	case "race":
		return known["strategies"](name)
	case "exercise":
		return slices.ContainsFunc(append(exercises.Ladder(), exercises.OfCourses()...), func(e exercises.Exercise) bool { return e.Name == name })
	case "page":
		_, fault, _ := strings.Cut(name, "/teach.html#")
		if _, there := TeachFaults[fault]; fault != "" && !there {
			return false
		}
		page := strings.FieldsFunc(name, func(c rune) bool { return c == '?' || c == '#' || unicode.IsSpace(c) })[0]
		return regexp.MustCompile(`(?m)^\t{"` + page + `", |Page = "` + page + `"$`).MatchString(r.sources["web/static.go"])
	}
	return false
}

// hasTest reports whether the package in a folder has a test.
func (r *repository) hasTest(folder, test string) bool {
	for at, text := range r.sources {
		if "./"+path.Dir(at) == folder && strings.HasSuffix(at, "_test.go") && strings.Contains(text, "\nfunc "+test+"(") {
			return true
		}
	}
	return false
}
