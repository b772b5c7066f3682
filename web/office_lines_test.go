package web

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/admin"
	"miaosha/seckill/captcha"
	"miaosha/seckill/lab"
	"miaosha/seckill/lab/exercises"
	"miaosha/seckill/lab/experiments"
	"miaosha/seckill/lab/program"
	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/user"
)

// idle takes all that the panel and the bots are asked for once, and does nothing.
type idle struct{ asked *bool }

func (i idle) once() bool {
	first := !*i.asked
	*i.asked = true
	return first
}

func (i idle) State() any { return nil }
func (i idle) Busy() bool { return *i.asked }

type idleBots struct{ idle }

func (b idleBots) Start(int64) bool { return b.once() }

type idleTeacher struct{ idle }

func (idleTeacher) Can() map[string]string       { return map[string]string{"flush": ""} }
func (b idleTeacher) Start(_ string, _ int) bool { return b.once() }

// What an administrator does outside Postgres is a line of the log, once, and what is refused before it is none: each route of the lab, of
// classes, of the bots and of the panel. TestEveryRouteForEveryCaller has those of the back office. A visitor's job is no line.
func TestWhatTheStaffDoesOutsidePostgresIsALine(t *testing.T) {
	t.Parallel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	db, rdb, log, secret := sandboxtest.DB(t), sandboxtest.Redis(t), slog.New(slog.NewTextHandler(io.Discard, nil)), []byte("a secret of thirty-two bytes ....")
	one := db.Config()
	one.MaxConns = 1
	staff, err := pgxpool.NewWithConfig(t.Context(), one)
	must(err)
	t.Cleanup(staff.Close)
	sessions, err := user.NewSessions(sandboxtest.RedisOptions(t, sandboxtest.RedisURL(t)), time.Hour)
	must(err)
	t.Cleanup(func() { sessions.Close() })
	users, sales, orders := user.New(db, rdb, secret, user.Config{}, log), goods.New(db), order.New(db, order.Config{PayWithin: time.Minute})
	cache := goods.NewCache(sales)
	rush, err := seckill.New(seckill.Config{Gate: "off", GateFactor: 5, AddressTTL: time.Minute, MaxInFlight: 10, QMax: 100, QueueWorkers: 6, Optimisations: seckill.AllOptimisations()},
		seckill.Deps{DB: db, Redis: rdb, Sales: sales, Cache: cache, Orders: orders, Secret: secret, Log: log})
	must(err)
	jobs := NewLab(lab.Stores{}, log) // nothing runs them, but the three that are waited for
	jobs.race = func(context.Context, lab.Stores, string, uint64) (lab.Recording, error) { return lab.Recording{}, nil }
	jobs.experiment = func(context.Context, lab.Stores, string, uint64, func(experiments.Progress)) (experiments.Result, error) {
		return experiments.Result{}, nil
	}
	jobs.without = func(context.Context, lab.Stores, string) (experiments.WithoutResult, error) {
		return experiments.WithoutResult{}, nil
	}
	s, err := New(Config{Rate: "off", IPRate: "off", TimeZone: "UTC", Cashier: "off"}, Deps{Users: users, Sessions: sessions, Cache: cache, Orders: orders,
		Rush: rush, Sums: captcha.New(captcha.Config{Kind: "off"}, cache, nil, rush.Shared()), Admin: admin.New(staff, order.Config{PayWithin: time.Minute}, nil), Lab: jobs, Log: log, Secret: secret, Sandbox: true,
		Demo: &Demo{Bots: idleBots{idle{new(bool)}}, Teacher: idleTeacher{idle{new(bool)}}}}, "")
	must(err)
	_, err = sales.Sell(t.Context(), goods.Item{Title: "T"}, goods.Terms{Price: 1, Total: 5, StartsAt: time.Now().Add(-time.Minute), EndsAt: time.Now().Add(time.Hour)})
	must(err)
	boss := user.User{Phone: "13900001111", Nickname: "boss", Role: user.RoleAdmin}
	boss.ID, err = users.Seed(t.Context(), boss, "a password of a test")
	must(err)
	token, _, err := sessions.Start(t.Context(), boss, "192.0.2.1", "")
	must(err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- jobs.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })

	key, code, stopping := uuid.NewString(), "", make(chan struct{})
	const plan = `{"strategies":["mutex"],"buyers":20,"stock":2,"double_clicks":10,"seed":1,"seconds":5}`
	const ofAStudent = `{"language":"lua","source":"function buy() end"}`
	jobs.runPlan = func(ctx context.Context, _ lab.Stores, p lab.Plan, _ func(lab.Progress)) ([]lab.Result, error) {
		if p.Seed == 0 {
			<-ctx.Done()
		}
		select {
		case <-ctx.Done():
		case <-stopping:
		}
		return nil, ctx.Err()
	}
	jobs.judge = func(context.Context, lab.Stores, program.Program, []lab.Plan, func(lab.Progress)) ([]lab.Result, error) {
		return nil, nil
	}
	jobs.exercise = func(context.Context, lab.Stores, exercises.Exercise, program.Program, uint64, func(lab.Progress)) (exercises.Result, error) {
		return exercises.Result{}, nil
	}
	seen := []string{"POST /api/sandbox/login", "POST /api/sandbox/class"} // a log-in; a student takes a seat
	ask := func(route, body, key, token string) int {
		method, path, _ := strings.Cut(strings.ReplaceAll(route, "{code}", code), " ")
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		if key != "" {
			r.Header.Set(keyHeader, key)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	lines := func() (all []string) {
		t.Helper()
		found, _, err := s.Admin.Log(t.Context(), admin.By{Whole: true}, admin.LogFilter{ByUser: boss.ID})
		must(err)
		for _, l := range found {
			all = append(all, l.Action+" "+l.Subject)
		}
		return all
	}
	for _, c := range []struct {
		route, body, key string
		status           int
		want             string // the line: action and subject; "" for none
	}{
		{"POST /api/lab/run/stop", "", "", 200, ""}, // there is nothing to stop
		{"POST /api/lab/run", plan, "", 202, "lab.run lab"},
		{"POST /api/lab/run", plan, key, 202, "lab.run lab"},
		{"POST /api/lab/run", plan, key, 202, ""}, // the same again
		{"POST /api/lab/run", `{"strategies":[]}`, "", 400, ""},
		{"POST /api/lab/run/stop", "", "", 200, "lab.stop lab"},
		{"POST /api/lab/race", `{"strategy":"mutex","seed":1}`, "", 200, "lab.race lab"},
		{"POST /api/lab/try", `{"experiment":"cache","seed":1}`, "", 200, "lab.try lab"},
		{"POST /api/lab/without", `{"without":"sweeper"}`, "", 200, "lab.without lab"},
		{"POST /api/lab/mine", ofAStudent[:len(ofAStudent)-1] + `,"plan":{"buyers":1,"stock":1,"seconds":1}}`, "", 202, "lab.program lab"},
		{"POST /api/lab/exercises/one-unit", ofAStudent, "", 202, "lab.exercise lab"},
		{"POST /api/sandbox/classes", `{"title":"Monday"}`, key, 200, "class.open class"},
		{"POST /api/sandbox/classes", `{"title":"Monday"}`, key, 200, ""}, // the same again
		{"POST /api/sandbox/classes/{code}/run", plan, "", 200, "class.run class {code}"},
		{"POST /api/sandbox/classes/{code}/remove", `{"student":7}`, "", 400, ""},
		{"POST /api/sandbox/classes/{code}/remove", `{"student":1}`, "", 200, "class.remove class {code}"},
		{"POST /api/sandbox/classes/{code}/lock", `{"locked":true}`, "", 200, "class.lock class {code}"},
		{"POST /api/sandbox/classes/{code}/close", "", "", 200, "class.close class {code}"},
		{"POST /api/sandbox/bots", `{"sale":1}`, "", 202, "sandbox.bots sale 1"},
		{"POST /api/sandbox/bots", `{"sale":1}`, "", 503, ""},
		{"POST /api/sandbox/teach", `{"fault":"flush"}`, "", 200, "sandbox.fault sandbox"},
		{"POST /api/sandbox/teach", `{"fault":"flush"}`, "", 503, ""},
	} {
		seen = append(seen, strings.Replace(c.route, "/one-unit", "/{name}", 1))
		was := lines()
		if status := ask(c.route, c.body, c.key, token); status != c.status {
			t.Errorf("%s: %d, want %d", c.route, status, c.status)
		}
		is := lines()
		new := is[:len(is)-len(was)]
		want := []string{}
		if c.want != "" {
			want = append(want, strings.ReplaceAll(c.want, "{code}", code))
		}
		if !slices.Equal(new, want) {
			t.Errorf("%s has the lines %q, want %q", c.route, new, want)
		}
		if strings.HasPrefix(c.route, "POST /api/lab/") {
			if ask(c.route, c.body, c.key, ""); len(lines()) != len(is) {
				t.Errorf("%s by a visitor is a line", c.route)
			}
		}
		if c.want == "lab.stop lab" {
			close(stopping)
		}
		if all := s.handlers.classroom.classes.list(); code == "" && len(all) > 0 {
			code = all[0].Code
			_, _, err := s.handlers.classroom.classes.join(code, "Li Lei", "", uuid.Nil, origin{}, time.Now())
			must(err)
		}
	}
	routes, err := Routes()
	must(err)
	for _, route := range routes {
		if strings.HasPrefix(route, "POST /api/lab/") || strings.HasPrefix(route, "POST /api/sandbox/") {
			if !slices.Contains(seen, route) {
				t.Errorf("%s is not tried: is it a line?", route)
			}
		}
	}

	// Requests with one key that come together are one class, one run, and a line of each.
	for route, body := range map[string]string{"POST /api/sandbox/classes": `{"title":"Sunday"}`, "POST /api/lab/run": plan} {
		together, was := uuid.NewString(), lines()
		var wait sync.WaitGroup
		for range 10 {
			wait.Go(func() {
				if status := ask(route, body, together, token); status >= 300 {
					t.Errorf("%s with nine others: %d", route, status)
				}
			})
		}
		wait.Wait()
		if n := len(lines()) - len(was); n != 1 {
			t.Errorf("ten times %s with one key: %d lines", route, n)
		}
	}
	if n := len(s.handlers.classroom.classes.list()); n != 2 {
		t.Errorf("%d classes were opened, want 2", n)
	}

	// While Postgres does not answer, what ends or restricts is done, and nothing else is.
	var said bytes.Buffer
	s.handlers.laboratory.lab.log = slog.New(slog.NewTextHandler(&said, nil))
	must(func() error { _, err := jobs.addPlan(labCaller{user: boss.ID}, lab.Plan{}); return err }())
	_, err = s.handlers.classroom.classes.open("Tuesday", classKey{}, time.Now())
	must(err)
	code = s.handlers.classroom.classes.list()[0].Code
	only, err := staff.Acquire(t.Context())
	must(err)
	for _, c := range [][2]string{{"POST /api/lab/run/stop", ""}, {"POST /api/sandbox/classes/{code}/lock", `{"locked":true}`}, {"POST /api/sandbox/classes/{code}/close", ""}} {
		said.Reset()
		if status := ask(c[0], c[1], "", token); status != 200 || !strings.Contains(said.String(), "the log of the staff may lack a line") {
			t.Errorf("%s without Postgres: %d, and the process says %q", c[0], status, said.String())
		}
	}
	if v, err := s.handlers.classroom.classes.board(code); err != nil || !v.Locked || v.ClosedAt == "" {
		t.Errorf("the class without Postgres: %+v, %v", v, err)
	}
	only.Release()
	staff.Close()
	s.handlers.playground.demo = &Demo{Bots: idleBots{idle{new(bool)}}, Teacher: idleTeacher{idle{new(bool)}}}
	for _, c := range [][2]string{{"POST /api/lab/run", plan}, {"POST /api/sandbox/classes", `{"title":"Friday"}`}, {"POST /api/sandbox/bots", `{"sale":1}`}, {"POST /api/sandbox/teach", `{"fault":"flush"}`}} {
		if status := ask(c[0], c[1], "", token); status < 500 {
			t.Errorf("%s without Postgres: %d", c[0], status)
		}
	}
	jobs.mu.Lock()
	open := slices.ContainsFunc(jobs.jobs, (*labJob).open)
	jobs.mu.Unlock()
	if s.handlers.playground.demo.Bots.Busy() || s.handlers.playground.demo.Teacher.Busy() || s.handlers.classroom.classes.list()[0].Title != "Tuesday" || open {
		t.Error("something was begun without a line")
	}
}
