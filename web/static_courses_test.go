package web_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"
)

// What a student types, and the row that has it: the first one that the index shows.
var typed = map[string]string{
	"秒杀令牌": "hidden-address", "队列泄洪": "message-queue", "预减库存": "pre-decrement", "内存标记": "sold-out-mark", "库存流水": "stock-log", "库存回补": "refill",
	"死信": "reliable-messages", "消息队列": "message-queue", "削峰": "message-queue", "幂等": "once-per-user", "一致性": "stock-log", "降级": "redis-gone",
	"熔断": "circuit-breaker", "预热": "warm-up", "悲观锁": "locks", "页面静态化": "static-pages", "分布式 Session": "identity", "防刷": "hidden-address",
	"WebSocket": "push", "RabbitMQ": "message-queue", "RocketMQ": "message-queue", "JWT": "identity", "JMeter": "load-test", "CDN": "static-pages",
	"nginx": "many-servers", "主从": "sessions-and-pools", "读写分离": "sessions-and-pools", "RateLimiter": "token-bucket", "@AccessLimit": "access-limit", "活动发布": "activity",
	"Redis 预减": "pre-decrement", "decr": "pre-decrement", "LUA": "pre-decrement", "乐观锁": "locks", "分布式锁": "locks", "缓存穿透": "cache-faults", "缓存击穿": "cache-faults",
	"缓存雪崩": "cache-faults", "guava": "page-cache", "Caffeine": "page-cache", "Hystrix": "circuit-breaker", "Sentinel": "token-bucket", "令牌桶": "token-bucket", "漏桶": "token-bucket",
	"雪花算法": "order-ids", "snowflake": "order-ids", "IdWorker": "order-ids", "动静分离": "static-pages", "隐藏秒杀地址": "hidden-address", "验证码": "captcha", "轮询": "polling",
	"SSE": "push", "MD5": "double-md5", "限流": "access-limit", "超卖": "pre-decrement", "少卖": "pre-decrement", "重复下单": "once-per-user", "唯一索引": "once-per-user",
	"对象缓存": "page-cache", "URL 缓存": "page-cache", "url缓存": "page-cache", "定时任务": "unpaid", "延时队列": "unpaid", "订单超时": "unpaid", "库存售罄标记": "sold-out-mark",
	"QPS": "load-test", "TPS": "load-test", "压测": "load-test", "ThreadLocal": "identity", "BlockingQueue": "message-queue", "线程池": "message-queue", "CountDownLatch": "locks",
	"synchronized": "locks", "@Transactional": "one-transaction", "倒计时": "countdown", "时间菜单": "time-menu", "短信验证码": "codes-and-errors", "大闸": "big-gate", "热点商品": "hot-items",
	"连接池": "sessions-and-pools", "封禁": "ban", "confirm 模式": "confirm", "token bucket": "token-bucket", "TOKENBUCKET": "token-bucket", "dead letter": "reliable-messages",
	"message queue": "message-queue", "circuit breaker": "circuit-breaker", "hidden address": "hidden-address", "double MD5": "double-md5", "read replica": "sessions-and-pools",
	"本地热点缓存": "page-cache", "HttpSession": "identity", "异步扣减库存": "stock-log", "CORS": "static-pages", "销量": "activity", "性别": "profile-fields", "双重 MD5": "double-md5",
	"秒杀接口隐藏": "hidden-address", "验证值": "hidden-address", "单用户限制频率": "access-limit", "频率限制": "access-limit", "每小时": "access-limit",
	"非阻塞": "token-bucket", "令牌桶算法": "token-bucket", "用户封禁": "ban",
	"超时取消订单": "unpaid", "延迟队列": "unpaid", "预取": "message-queue", "全国缓存雪崩": "cache-faults", "高级布隆过滤": "cache-faults", // the last two by their longest piece
	"redis 削峰": "message-queue", "RabbitMQ 死信": "reliable-messages", // two words, of which no row has both as one
	"ORM": "mybatis", "怎么解决超卖": "pre-decrement", "秒杀的流程图": "purchase-flow", "微服务": "services", "Eureka": "services", "三层架构": "three-layers",
	"序列化": "serializers", "Memcached": "memcached", "nameserver": "broker-parts", "topic": "broker-parts", "InnoDB": "mysql", "jar包": "java",
	"ratelimiter": "token-bucket", "分段锁": "segment-locks", "Rate Limiter": "token-bucket", "tengine 配置": "", // engine is in ScriptEngine, and not in this
}

// The five share a shop.
func TestIndex(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	t.Run("finds the words of the courses", func(t *testing.T) { findsWords(t, root, s.URL) })
	t.Run("finds the words of each course", func(t *testing.T) { findsWordsOfEachCourse(t, root, s.URL) })
	t.Run("by address and keyboard", func(t *testing.T) { takesAddressesAndKeys(t, root, s) })
	t.Run("runs a lesson before the lab is read", func(t *testing.T) { runsALessonFirst(t, root, s.URL) })
	t.Run("runs the lab", func(t *testing.T) { runsTheLab(t, root, s.URL) })
}

// The index finds what students type, in either language, on a small phone and a large screen, in the light and in the dark.
func findsWords(t *testing.T, root context.Context, url string) {
	words, err := json.Marshal(typed)
	if err != nil {
		t.Fatal(err)
	}
	for _, device := range []struct {
		locale      string
		width       int64
		colorScheme string
	}{{"zh-CN", 320, "dark"}, {"en-GB", 1280, "light"}} {
		v := visit(t, root, url, device.locale)
		v.emulates(device.width, 900, "prefers-color-scheme", device.colorScheme)
		v.goTo("/courses.html")
		v.sees(test("row"))
		v.until("all rows are there", `document.querySelectorAll('[data-test="row"]').length === 56 && document.querySelector('[data-test="count"]').dataset.count === '56'`)
		v.until("the page fits the width of the screen", `document.documentElement.scrollWidth <= innerWidth`)
		v.until("no text is missing", `!/\bcourses\.\w+|undefined/.test(document.querySelector('main').innerText)`)
		v.do("type each word", chromedp.Evaluate[chromedp.Void](`(async () => {
			const box = document.querySelector('[data-test="query"]'), found = {};
			for (const word of Object.keys(`+string(words)+`)) {
				box.value = word;
				box.dispatchEvent(new Event('input', { bubbles: true }));
				await new Promise((shown) => setTimeout(shown));
				found[word] = document.querySelector('[data-test="row"]')?.id ?? '';
			}
			document.body.dataset.found = JSON.stringify(found);
		})(); undefined`))
		v.until("all words are typed", `document.body.dataset.found !== undefined`)
		raw := v.evaluates(`document.body.dataset.found`)
		var found map[string]string
		if err := json.Unmarshal([]byte(raw), &found); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(typed, found); diff != "" {
			t.Errorf("the first row by word (-want +got):\n%s", diff)
		}
		v.hasNoErrors()
	}
}

// Every word and name of a course's document leads, with this course's own filter, to the row that has it, which comes first. The search
// of the page is asked itself, as typing them all would take long.
func findsWordsOfEachCourse(t *testing.T, root context.Context, url string) {
	file, err := os.ReadFile("testdata/courses.txt")
	if err != nil {
		t.Fatal(err)
	}
	type word struct{ Course, Word string }
	rows := map[word][]string{}
	var words []word
	for line := range strings.Lines(string(file)) {
		where, list, is := strings.Cut(strings.TrimSpace(line), ": ")
		course, row, is2 := strings.Cut(where, " ")
		if !is || !is2 || strings.HasPrefix(line, "#") {
			continue
		}
		for _, w := range strings.Split(list, " | ") {
			words = append(words, word{course, w})
			rows[word{course, w}] = append(rows[word{course, w}], row)
		}
	}
	if len(rows) < 800 {
		t.Errorf("%d words are looked for, want 800", len(rows))
	}
	asked, err := json.Marshal(words)
	if err != nil {
		t.Fatal(err)
	}
	v := visit(t, root, url, "zh-CN")
	v.goTo("/courses.html")
	v.sees(test("row"))
	v.do("ask the search", chromedp.Evaluate[chromedp.Void](`(async () => {
		const { search } = await import(performance.getEntriesByType('resource').find((file) => file.name.endsWith('/courses/search.js')).name);
		document.body.dataset.found = JSON.stringify(`+string(asked)+`.map(({ Course, Word }) => search(Word, Course)[0]?.id ?? ''));
	})(); undefined`))
	v.until("all words are looked for", `document.body.dataset.found !== undefined`)
	var found []string
	if err := json.Unmarshal([]byte(v.evaluates(`document.body.dataset.found`)), &found); err != nil {
		t.Fatal(err)
	}
	for i, w := range words {
		if !slices.Contains(rows[w], found[i]) {
			t.Errorf("%s: %q leads to %q first, want %q", w.Course, w.Word, found[i], rows[w])
		}
	}
	v.hasNoErrors()
}

// The URL names a search or a row, and the keyboard is enough.
func takesAddressesAndKeys(t *testing.T, root context.Context, s sandboxShop) {
	url := s.URL
	v := visit(t, root, url, "zh-CN")
	v.emulates(1280, 900, "prefers-reduced-motion", "reduce")
	v.goTo("/courses.html#q=" + "%E9%A2%84%E5%87%8F%E5%BA%93%E5%AD%98")
	v.until("the search of the URL is made", `document.querySelector('[data-test="query"]')?.value === '预减库存' && document.querySelector('[data-test="row"]')?.id === 'pre-decrement'`)
	v.goTo("/courses.html#token-bucket")
	v.until("the row of the URL is shown", `document.activeElement.id === 'token-bucket' && document.activeElement.getBoundingClientRect().top < innerHeight
		&& document.querySelectorAll('[data-test="row"]').length === 56`)
	v.until("its commands are for this shop, its data folder and an open sale", `(() => {
		const line = document.querySelector('#push .command code').innerText;
		const sale = /\/sales\/(\d+)\/events/.exec(line)?.[1];
		return line.includes('./miaosha --data-dir `+s.dataDir()+` users') && line.includes(location.origin + '/api;') && Number(sale) > 0;
	})()`)
	v.do("ask for a command of another sale", chromedp.Evaluate[chromedp.Void](`(async () => {
		const { commandHere, openSale } = await import(performance.getEntriesByType('resource').find((file) => file.name.endsWith('/courses/command.js')).name);
		document.body.dataset.command = commandHere('./miaosha users --sale 1; curl http://127.0.0.1:8080/api/sales/1/events; jmeter -Jsale=1 -n 1', 7);
		const ask = window.fetch;
		const sale = (id, state, left, minute) => ({ id, state, left, end_at: '2026-01-01T00:' + minute + ':00Z' });
		window.fetch = async (url, ...more) => (!String(url).includes('/api/sales') ? ask(url, ...more) : // the page asks for other things too
			Response.json({ code: 'ok', data: [sale(1, 'open', 100, 10), sale(2, 'open', 20, 20), sale(3, 'open', 5, 30), sale(4, 'upcoming', 90, 40)] }));
		try { document.body.dataset.sale = await openSale(); } finally { window.fetch = ask; }
	})(); undefined`))
	v.until("it is for that sale", `document.body.dataset.command === './miaosha --data-dir `+s.dataDir()+` users --sale 7; curl ' + location.origin + '/api/sales/7/events; jmeter -Jsale=7 -n 1'`)
	v.until("a row leads to the fault of the panel that shows it, and to the course's own program",
		`document.querySelector('#circuit-breaker a[href="/teach.html#redis"]') !== null && document.querySelector('#pre-decrement a[href="/mine.html#exercises/a-get-decr"]') !== null`)
	v.until("of the open sales with enough units it is the one that ends last", `document.body.dataset.sale === '2'`)
	v.do("press /", chromedp.Evaluate[chromedp.Void](`document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: '/', bubbles: true, cancelable: true }))`))
	v.until("the search has the focus", `document.activeElement.dataset.test === 'query'`)
	v.presses("jwt")
	v.until("the URL has the search", `location.hash === '#q=jwt'`)
	v.presses("\r")
	v.until("the first row has the focus", `document.activeElement.id === 'identity'`)
	v.clicks("by-C")
	v.clicks("elsewhere") // course C has no JWT
	v.until("all courses have it", `document.activeElement !== null && document.querySelector('[data-test="row"]').id === 'identity'`)
	v.types("query", "q")
	v.until("it is said that no row has it", `document.querySelector('[data-test="nothing"]') !== null && document.querySelector('[data-test="count"]').innerText === '0 条'`)
	v.presses("\x1b")
	v.until("the search is empty", `document.querySelectorAll('[data-test="row"]').length === 56 && location.hash === ''`)
	v.clicks("lang")
	v.until("the index is in English", `document.querySelector('#identity h3').innerText.startsWith('Log-in identity')`)
	v.hasNoErrors()
}

// A lesson that the index starts comes to its end also if the first read of the lab, which the new page makes, is answered after the
// start, and finds the lesson's own run.
func runsALessonFirst(t *testing.T, root context.Context, shopURL string) {
	shop, err := url.Parse(shopURL)
	if err != nil {
		t.Fatal(err)
	}
	pages := httputil.NewSingleHostReverseProxy(shop)
	var reads atomic.Int32
	second := make(chan struct{}) // closed by the second read: the page knows its run then
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" && r.URL.Path == "/api/lab/run" {
			switch reads.Add(1) {
			case 1:
				select {
				case <-second:
				case <-r.Context().Done():
				}
			case 2:
				close(second)
			}
		}
		pages.ServeHTTP(w, r)
	}))
	t.Cleanup(slow.Close)
	v := visit(t, root, slow.URL, "en-GB")
	v.emulates(1280, 900, "prefers-reduced-motion", "reduce")
	v.goTo("/courses.html#pre-decrement")
	v.do("see the lesson", click(chromedp.CSS(`#pre-decrement [data-test="see"]`)))
	v.sees(test("run") + `[data-state="done"]`)
	v.sees(test("lesson-run") + `:not([disabled])`)
	v.hasNoErrors()
}

// A student finds the index from the home page and the lab, and one click runs the lesson or the race of a row. Another page's
// link only shows it.
func runsTheLab(t *testing.T, root context.Context, url string) {
	v := visit(t, root, url, "en-GB")
	v.emulates(390, 844, "prefers-reduced-motion", "reduce")
	v.before(`new MutationObserver(() => { // a key may follow at once
		if (document.querySelector('[data-test="player"]')) window.first ??= document.activeElement.dataset.test ?? 'the page';
	}).observe(document, { subtree: true, childList: true })`)
	v.goTo("/lab.html#pre-stock/run")
	v.sees(test("lesson-run") + `:not([disabled])`)
	v.until("nothing runs", `document.querySelector('[data-test="run"]') === null`)
	v.goTo("/")
	v.sees(test("sale-card")) // else the list moves the link away under the click
	v.clicks("to-courses")
	v.types("query", "预减库存")
	v.until("the row comes first", `document.querySelector('[data-test="row"]').id === 'pre-decrement'`)
	v.do("see the race", click(chromedp.CSS(`#pre-decrement [data-test="see"][href*="race"]`)))
	v.sees(test("player"))
	v.until("a reload would begin nothing", `location.hash === '#race/redis-get-decr'`)
	v.becomes("what had the focus when the player came", `window.first`, "race-play")
	for _, step := range [][2]string{{kb.ArrowRight, "2"}, {kb.ArrowRight, "3"}, {kb.ArrowLeft, "2"}, {kb.End, ""}, {kb.Home, "1"}} {
		v.presses(step[0])
		v.until("the keys step at once: "+step[1], `document.querySelector('.controls .digits').innerText.startsWith('`+step[1]+`')`)
	}
	v.clicks("race-next")
	v.presses(kb.End)
	v.sees(test("race-next") + `[aria-disabled="true"]`)
	v.presses(kb.ArrowLeft) // the button that has the focus does nothing now, and takes no key away
	v.sees(test("race-next") + `[aria-disabled="false"]`)
	v.goTo("/courses.html#pre-decrement")
	v.do("see the lesson", click(chromedp.CSS(`#pre-decrement [data-test="see"]`)))
	v.sees(test("lesson-answer"))
	v.until("a reload would begin nothing", `location.hash === '#pre-stock'`)
	v.hasNoErrors()
}
