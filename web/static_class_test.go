package web_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"miaosha/order"
	staff "miaosha/seckill/admin"
	"miaosha/seckill/lab"
	"miaosha/seckill/lab/exercises"
	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/user"
	"miaosha/web"
)

// classShop is a sandbox in this process, without sales: tests note what its lab has judged.
type classShop struct {
	*web.Server
	url     string
	teacher string // the token of the administrator's session
}

func openClassShop(t *testing.T) classShop {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	url, rdb, log, secret := sandboxtest.DatabaseURL(t), sandboxtest.Redis(t), slog.New(slog.DiscardHandler), make([]byte, 32)
	db := sandboxtest.DB(t)
	sessions, err := user.NewSessions(sandboxtest.RedisOptions(t, sandboxtest.RedisURL(t)), time.Hour)
	must(err)
	t.Cleanup(func() { sessions.Close() })
	users := user.New(db, rdb, secret, user.Config{}, log)
	teacher := user.User{Phone: "13900000000", Nickname: "teacher", Role: user.RoleAdmin}
	teacher.ID, err = users.Seed(t.Context(), teacher, "a long password")
	must(err)
	token, _, err := sessions.Start(t.Context(), teacher, "", "")
	must(err)
	jobs := web.NewLab(lab.Stores{DatabaseURL: url, Redis: rdb}, log)
	s, err := web.New(web.Config{Rate: "5", IPRate: "200", TimeZone: "UTC", Cashier: "off"},
		web.Deps{Users: users, Sessions: sessions, Admin: staff.New(db, order.Config{PayWithin: time.Minute}, nil), Lab: jobs, Log: log, Secret: secret, Sandbox: true}, "")
	must(err)
	server := httptest.NewServer(s)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { jobs.Run(ctx) })
	t.Cleanup(func() {
		server.Close()
		stop()
		running.Wait()
	})
	return classShop{s, server.URL, token}
}

// teach calls a route of the teacher.
func (s classShop) teach(method, path, body string) sandboxtest.Reply {
	return sandboxtest.Call(method, s.url+"/api/sandbox/classes"+path, s.teacher, body)
}

// join seats a student, and returns the cookie.
func (s classShop) join(t *testing.T, code, name string) (cookie string) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"code": code, "nickname": name})
	if err != nil {
		t.Fatal(err)
	}
	var r sandboxtest.Reply
	sandboxtest.Until(t, name+" joins", func() bool { // the address of the class has a limit
		r = sandboxtest.Call("POST", s.url+"/api/sandbox/class", "", string(body))
		return r.Status != 429
	})
	if r.Status != 200 {
		t.Fatalf("%s joins: %s", name, r.Raw)
	}
	for _, c := range r.Header.Values("Set-Cookie") {
		if value, found := strings.CutPrefix(c, "class="); found {
			cookie, _, _ = strings.Cut(value, ";")
		}
	}
	return cookie
}

// Thirty students join a class, and one of them in a browser. The board shows the projector's audience who solves what, as it
// happens: sorted, on one screen, and every name as text. The teacher runs a strategy on it, removes a name, downloads the results
// and closes the class.
func TestBoardOfAClass(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := openClassShop(t)
	teacher := visit(t, root, s.url, "en-GB")
	teacher.emulates(1280, 720, "prefers-reduced-motion", "reduce")
	teacher.goTo("/class.html")
	teacher.sees(test("teacher-login"))
	teacher.evaluates(`document.cookie = 'session=` + s.teacher + `; path=/'`)
	teacher.goTo("/class.html")
	teacher.types("class-title", "Databases\r")
	teacher.sees(test("wall-empty"))
	code := teacher.reads(test("board-code"))

	ladder := exercises.Ladder()[:6]
	var cookies []string
	names := []string{`<i onclick=window.pwned=1>x</i>`, "李雷", "Zoë", strings.Repeat("很长的名字", 6)}
	for i := range 30 {
		name := fmt.Sprintf("Student %02d", i)
		if i < len(names) {
			name = names[i]
		}
		cookies = append(cookies, s.join(t, code, name))
	}
	teacher.until("all are on the board", `document.querySelectorAll('[data-test="student"]').length === 30`)
	for i, cookie := range cookies {
		for e := range i % (len(ladder) + 1) {
			s.Judged(cookie, ladder[e].Name, e%3 != 2 || i%2 == 0, float64(1+i%5), float64(1000+10*i))
		}
	}

	student := visit(t, root, s.url, "zh-CN")
	student.emulates(390, 844, "prefers-reduced-motion", "reduce")
	student.goTo("/class.html#" + strings.ToLower(code))
	student.types("class-name", "李雷\r")
	student.sees("#nickname-error")
	student.until("a code is no word to correct", `document.querySelector('[data-test="class-code"]').spellcheck === false`)
	student.types("class-name", "二\r")
	student.sees(test("seat"))
	student.until("the ladder is there", fmt.Sprintf(`document.querySelectorAll('[data-exercise]').length === %d && document.documentElement.scrollWidth <= innerWidth`, len(exercises.Ladder())))
	teacher.until("the student is on the board", `document.querySelector('[data-name="李雷二"]') !== null`)

	teacher.until("the board shows what is solved", `document.querySelectorAll('[data-name="Student 06"] [data-mark="solved"]').length === 6`)
	if text := teacher.reads(test("wall") + " li:first-child .who"); text != names[0] {
		t.Errorf("the first name is shown as %q", text)
	}
	teacher.until("a name is text", `window.pwned === undefined && document.querySelector('[data-test="wall"] i[onclick]') === null`)
	first := func() string {
		return teacher.evaluates(`document.querySelector('[data-test="student"]').dataset.name`)
	}
	teacher.clicks("sort-solved")
	if name := first(); name != "Student 06" {
		t.Errorf("sorted by what is solved, the first is %s", name)
	}
	teacher.clicks("exercise-" + ladder[0].Name)
	teacher.until("the figures of one exercise", `document.querySelector('[data-name="Student 06"]').innerText.includes('2.0 SQL') && document.querySelector('[data-name="Student 06"]').innerText.includes('1,060/s')`)
	teacher.clicks("sort-speed")
	if name := first(); name != "Student 29" {
		t.Errorf("sorted by speed, the first is %s", name)
	}
	teacher.clicks("sort-sql")
	teacher.until("the least SQL is first", `document.querySelector('[data-test="student"]').innerText.includes('1.0 SQL')`)
	teacher.clicks("exercise-all")
	teacher.until("no text is missing", `!/\bclass\.(?!html)\w+|undefined|NaN/.test(document.querySelector('main').innerText)`)

	for i := range 30 { // sixty in all
		s.join(t, code, fmt.Sprintf("Late student %02d", i))
	}
	teacher.until("sixty-one are on the board", `document.querySelectorAll('[data-test="student"]').length === 61`)
	teacher.clicks("removing")
	teacher.until("the names are whole, so that the right one is removed", `(() => {
		const late = [...document.querySelectorAll('[data-test="wall"] .who')].filter((e) => e.textContent.startsWith('Late student'));
		return late.length === 30 && late.every((e) => e.scrollWidth <= e.clientWidth);
	})()`)
	teacher.do("remove the one in the browser", click(chromedp.CSS(`[data-name="李雷二"] [data-test="remove"]`)))
	teacher.clicks("class-sure")
	teacher.until("sixty are on the board", `document.querySelectorAll('[data-test="student"]').length === 60`)
	student.shows("seat-removed", "你在“Databases”的座位已收回：老师移除了你的名字，或者课堂满了而你还没试过练习。可以重新加入。") // and may join again, unless the class is locked
	teacher.until("the names of one address are there to remove", `/^\d+ names came from one address/.test(document.querySelector('[data-test="crowd"]').innerText)`)
	shootClass(t, teacher, "board-removing")
	teacher.clicks("class-lock")
	teacher.until("the class is locked", `document.querySelector('[data-test="student-count"]').innerText.includes('locked')`)
	student.types("class-name", "二\r")
	student.until("the class is locked", `document.querySelector('[role="alert"]')?.innerText.includes('老师已暂停新人加入')`)
	shootClass(t, student, "seat-removed")
	teacher.clicks("class-lock")
	teacher.until("the class is open again", `!document.querySelector('[data-test="student-count"]').innerText.includes('locked')`)
	teacher.clicks("removing")
	teacher.clicks("full")
	teacher.until("sixty fit on a projector", `(() => {
		const wall = document.querySelector('[data-test="wall"]').getBoundingClientRect();
		return document.fullscreenElement !== null && wall.bottom <= innerHeight && wall.right <= innerWidth;
	})()`)
	shootClass(t, teacher, "board-60")

	teacher.clicks("part-run")
	teacher.clicks("bench-run")
	teacher.sees(test("run") + `[data-state="done"]`)
	teacher.sees(test("result-guard"))
	teacher.do("leave the full screen", chromedp.Evaluate[chromedp.Void](`document.exitFullscreen()`))
	teacher.clicks("class-close")
	teacher.clicks("class-sure")
	teacher.sees(test("board") + `[data-closed="true"]`)
	student.types("class-name", "back\r")
	student.until("no one joins any more", `document.querySelector('#code-error') !== null`)
	teacher.hasNoErrors()
	student.hasNoErrors()

	file := s.teach("GET", "/"+code+"/results.csv", "")
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(string(file.Raw), "\ufeff"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(rows, func(r []string) bool { return r[0] == "Student 14" && r[2] == "" })
	if j := slices.IndexFunc(rows, func(r []string) bool { return r[0] == "Student 14" }); i < 0 || i != j {
		t.Errorf("the rows of a student who has tried nothing: %v", rows)
	}
	i = slices.IndexFunc(rows, func(r []string) bool { return r[0] == "Student 08" && r[2] == ladder[0].Name })
	if i < 0 || strings.Join(slices.Concat(rows[i][3:7]), " ") != "true 1 4.00 1080.00" {
		t.Errorf("the results as CSV: %v", rows)
	}
	var board struct {
		Title    string
		Students []struct{ Nickname string }
	}
	if r := s.teach("GET", "/"+code+"/results.json", ""); json.Unmarshal(r.Raw, &struct{ Data any }{&board}) != nil || len(board.Students) != 60 || board.Title != "Databases" {
		t.Errorf("the results as JSON: %s", r.Raw)
	}
}

// A handout of a lesson prints on two pages of A4 at most, in both languages, with the lines that decide. Every sixth lesson is
// printed, and the languages take turns; MIAOSHA_HANDOUTS=all prints each in both.
func TestHandoutsPrintOnTwoPages(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	pages := regexp.MustCompile(`/Type\s*/Page\b`)
	languages := []string{"zh-CN", "en-GB"}
	visitors := []*visitor{visit(t, root, s.URL, languages[0]), visit(t, root, s.URL, languages[1])}
	visitors[0].goTo("/handout.html")
	visitors[0].sees(test("handouts"))
	lessons := visitors[0].evaluates(`String(document.querySelectorAll('[data-test="handouts"] a').length)`)
	n, err := strconv.Atoi(lessons)
	if err != nil || n < 16 {
		t.Fatalf("there are %s lessons", lessons)
	}
	for lesson := 1; lesson <= n; lesson++ {
		for i, v := range visitors {
			if (lesson%6 != 1 || i != lesson/6%2) && os.Getenv("MIAOSHA_HANDOUTS") != "all" {
				continue
			}
			v.goTo(fmt.Sprint("/handout.html?lesson=", lesson))
			v.sees(test("handout") + `[data-sources]:not([data-sources="0"])`)
			v.until("no text is missing", `!/\b(lesson|handout|result|fault|strategy|source)\.\w+(?!\w*\.go)|undefined/.test(document.querySelector('[data-test="handout"]').innerText.replace(/\b[\w/]+\.(go|lua|sql|html)\b/g, ''))`)
			var pdf []byte
			v.do("print", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
				printed, err := cdp.Call(ctx, t, page.PrintToPDF, page.PrintToPDFParams{PreferCSSPageSize: new(true)})
				pdf = printed.Data
				return err
			}))
			if p := len(pages.FindAll(pdf, -1)); p < 1 || p > 2 {
				t.Errorf("lesson %d in %s is printed on %d pages", lesson, languages[i], p)
			}
			keepFile(t, fmt.Sprintf("handout-%d-%s.pdf", lesson, languages[i]), pdf)
		}
	}
	for _, v := range visitors {
		v.hasNoErrors()
	}
}

// Pictures of the class and of a handout for a person to look at: MIAOSHA_SHOTS=folder go test -run ScreenshotsOfAClass ./web
func TestScreenshotsOfAClass(t *testing.T) {
	if os.Getenv("MIAOSHA_SHOTS") == "" {
		t.Skip("MIAOSHA_SHOTS is not set")
	}
	root := chromium(t)
	s := openClassShop(t)
	for _, device := range []struct {
		name                string
		width, height       int64
		colorScheme, locale string
	}{
		{"desktop-light-zh", 1280, 800, "light", "zh-CN"},
		{"desktop-dark-en", 1280, 800, "dark", "en-GB"},
		{"phone-light-en", 390, 844, "light", "en-GB"},
		{"phone-dark-zh", 390, 844, "dark", "zh-CN"},
	} {
		v, student := visit(t, root, s.url, device.locale), visit(t, root, s.url, device.locale)
		for _, one := range []*visitor{v, student} {
			one.emulates(device.width, device.height, "prefers-color-scheme", device.colorScheme)
			one.goTo("/class.html")
		}
		student.sees(test("class-join"))
		shootClass(t, student, "join-"+device.name)
		v.evaluates(`document.cookie = 'session=` + s.teacher + `; path=/'`)
		v.goTo("/class.html")
		v.types("class-title", "数据库 Databases\r")
		v.sees(test("wall-empty"))
		shootClass(t, v, "empty-"+device.name)
		code := v.reads(test("board-code"))
		var cookies []string
		for i := range 24 {
			cookies = append(cookies, s.join(t, code, fmt.Sprintf("学生 Student %02d", i)))
		}
		v.until("all are there", `document.querySelectorAll('[data-test="student"]').length === 24`)
		shootClass(t, v, "joined-"+device.name)
		student.types("class-code", code)
		student.types("class-name", "韩梅梅\r")
		student.sees(test("seat"))
		cookies = append(cookies, "")
		for i, cookie := range cookies {
			for e, step := range exercises.Ladder()[:i*17/25] {
				s.Judged(cookie, step.Name, e%4 != 3, float64(1+i%5), float64(1000+10*i))
			}
		}
		shootClass(t, student, "seat-"+device.name)
		v.until("they are at work", `document.querySelector('[data-mark="solved"]') !== null`)
		shootClass(t, v, "board-"+device.name)
		v.clicks("exercise-" + exercises.Ladder()[0].Name)
		v.clicks("sort-sql")
		shootClass(t, v, "one-"+device.name)
		v.clicks("part-run")
		v.clicks("bench-run")
		v.sees(test("run") + `[data-state="done"]`)
		shootClass(t, v, "run-"+device.name)
		s.teach("POST", "/"+code+"/close", "")
		v.goTo("/handout.html?lesson=2")
		v.sees(test("handout") + `[data-sources]`)
		shootClass(t, v, "handout-"+device.name)
		v.goTo("/class.html")
		v.sees(test("class-title"))
		shootClass(t, v, "classes-"+device.name)
		v.hasNoErrors()
	}
}

// shootClass keeps a picture of a page for a person to look at, if MIAOSHA_SHOTS names a folder.
func shootClass(t *testing.T, v *visitor, name string) {
	t.Helper()
	if os.Getenv("MIAOSHA_SHOTS") == "" {
		return
	}
	v.do("wait", chromedp.Sleep(300*time.Millisecond))
	b, err := chromedp.Run(v.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	keepFile(t, name+".png", b)
}

// keepFile writes a file to the folder MIAOSHA_SHOTS, if there is one.
func keepFile(t *testing.T, name string, b []byte) {
	t.Helper()
	folder := os.Getenv("MIAOSHA_SHOTS")
	if folder == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(folder, name), b, 0o644); err != nil {
		t.Fatal(err)
	}
}
