package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"miaosha/seckill/admin"
	"miaosha/seckill/lab"
	"miaosha/seckill/lab/exercises"
	"miaosha/seckill/lab/program"
)

// openClassOf opens a class with students of these names, and returns its code and their tokens.
func openClassOf(t *testing.T, c *classes, names ...string) (code string, tokens []string) {
	t.Helper()
	v, err := c.open("Monday", classKey{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		token, _, err := c.join(v.Code, name, "", uuid.Nil, origin{}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	return v.Code, tokens
}

// A class and a seat whose answers were lost are there once.
func TestClassesAndSeatsOfAKey(t *testing.T) {
	t.Parallel()
	c, key, now := &classes{}, classKey{7, uuid.New()}, time.Now()
	first, err := c.open("Monday", key, now)
	again, e := c.open("Monday", key, now)
	if err != nil || e != nil || first.Code != again.Code || len(c.list()) != 1 {
		t.Errorf("opened twice: %v %v, %v %v", first.Code, again.Code, err, e)
	}
	if _, err := c.open("Tuesday", key, now); !errors.As(err, new(admin.DoneOtherwiseError)) {
		t.Errorf("another class with the same key: %v", err)
	}
	if _, err := c.open("Monday", classKey{8, key.key}, now); err != nil || len(c.list()) != 2 {
		t.Errorf("another teacher has the same key: %v", err)
	}
	seat := uuid.New()
	token, _, err := c.join(first.Code, "Li Lei", "", seat, origin{}, now)
	for _, name := range []string{"Li Lei", "李雷"} { // the second time under another name
		same, view, e := c.join(first.Code, name, "", seat, origin{}, now)
		if err != nil || e != nil || same != token || view.Students != 1 || view.Nickname != name {
			t.Errorf("joined again as %s: %+v, %v %v", name, view, err, e)
		}
	}
	if _, _, err := c.join(first.Code, "李雷", "", uuid.New(), origin{}, now); err == nil {
		t.Error("another student has the same name")
	}
}

// The board counts the judged runs until the first that solves an exercise, and keeps the cost of the cheapest that does.
func TestClassNotesWhatTheLabHasJudged(t *testing.T) {
	t.Parallel()
	c := &classes{}
	code, tokens := openClassOf(t, c, "Li Lei", "韩梅梅")
	at := time.Date(2026, 9, 1, 8, 0, 0, 0, time.UTC)
	for _, run := range []struct {
		student  int
		exercise string
		solved   bool
		cost     exerciseCost
	}{
		{0, "guard", false, exerciseCost{1, 900}},
		{0, "guard", false, exerciseCost{1, 900}},
		{0, "guard", true, exerciseCost{8, 300}},
		{0, "guard", true, exerciseCost{8, 400}}, // as few statements, faster
		{0, "guard", true, exerciseCost{9, 999}}, // more statements
		{0, "guard", false, exerciseCost{1, 900}},
		{1, "kill", false, exerciseCost{}},
	} {
		c.judgedAt(tokens[run.student], run.exercise, run.solved, run.cost, at)
	}
	c.judgedAt("", "guard", true, exerciseCost{}, at)
	c.judgedAt("no one's", "guard", true, exerciseCost{}, at)
	v, err := c.board(code)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]exerciseWork{{{"guard", 3, true, "2026-09-01T08:00:00.000Z", &exerciseCost{8, 400}}}, {{"kill", 1, false, "", nil}}}
	for i, s := range v.Students {
		if diff := cmp.Diff(want[i], s.Exercises); diff != "" {
			t.Errorf("%s (-want +got)\n%s", s.Nickname, diff)
		}
	}
	if _, err := c.close(code, at); err != nil {
		t.Fatal(err)
	}
	c.judgedAt(tokens[1], "kill", true, exerciseCost{}, at)
	if seat := c.seat(tokens[1], at); !seat.Closed || seat.Exercises[0].Solved {
		t.Errorf("after the end of the class: %+v", seat)
	}
}

// A name that looks like another one's in the class is taken, in whatever letters; a Chinese name that differs is another one.
func TestNamesOfAClassDoNotLookAlike(t *testing.T) {
	t.Parallel()
	c := &classes{}
	code, _ := openClassOf(t, c, "Anna", "Иван", "李雷", "Ali", "ロボ")
	for name, taken := range map[string]bool{"Аnnа": true, "ＡＮＮＡ": true, "𝐀nna": true, "ᴀɴɴᴀ": true, "An\u200dna": true, "ИВАН": true, "Ивaн": true, "口ボ": true,
		"李蕾": false, "李雷雷": false, "Ail": false, "Ánna": false, "Анна": false} {
		_, _, err := c.join(code, name, "", uuid.Nil, origin{}, time.Now())
		if is := errors.Is(err, fieldError{"nickname", "taken"}); is != taken || !taken && err != nil {
			t.Errorf("%+q: %v, want taken %v", name, err, taken)
		}
	}
}

// Whoever takes every seat of a class loses those without work to others, until both have as many. The holders are told.
func TestSeatsOfAClassAreShared(t *testing.T) {
	t.Parallel()
	c, now := &classes{}, time.Now()
	code, _ := openClassOf(t, c)
	join := func(name, addr string, now time.Time) (string, error) {
		token, _, err := c.join(code, name, "", uuid.Nil, originAt(addr), now)
		return token, err
	}
	var tokens []string
	for i := range maxStudents {
		token, err := join(fmt.Sprint("bot ", i), "10.0.0.1", now)
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	c.judgedAt(tokens[99], "guard", true, exerciseCost{}, now)
	if _, err := join("one more bot", "10.0.0.1", now); err != errClassFull {
		t.Errorf("the address that has all seats: %v", err)
	}
	for i := range 45 {
		if _, err := join(fmt.Sprint("student ", i), "192.0.2.7", now); err != nil {
			t.Fatalf("a class behind another address, student %d: %v", i, err)
		}
	}
	lost := 0
	for _, token := range tokens {
		if c.seat(token, now).Removed {
			lost++
		}
	}
	if c.seat(tokens[99], now).Removed || lost != 45 {
		t.Errorf("%d seats were lost, and the one with work: %v", lost, c.seat(tokens[99], now).Removed)
	}
	later := now.Add(seatLeft)
	c.seat(tokens[0], later)
	if _, err := join("one more", "10.0.0.1", later); err != nil || c.seat(tokens[0], later).Removed {
		t.Errorf("a seat that no one looks at makes no room: %v", err)
	}
	if v, err := c.lock(code, true); err != nil || !v.Locked || v.Crowd == nil || v.Crowd.Seats < 40 {
		t.Fatalf("%+v, %v", v.Crowd, err)
	}
	if _, err := join("late", "192.0.2.9", later); err != errClassLocked {
		t.Errorf("a new name in a locked class: %v", err)
	}
	if same, _, err := c.join(code, "bot 99", tokens[99], uuid.Nil, origin{}, later); err != nil || same != tokens[99] {
		t.Errorf("a student of a locked class: %v", err)
	}
	v, err := c.board(code)
	if err != nil {
		t.Fatal(err)
	}
	was := *v.Crowd
	if v, err = c.remove(code, was.Student, true); err != nil || len(v.Students) != maxStudents-was.Seats {
		t.Errorf("removing a crowd of %d: %v, %d students stay", was.Seats, err, len(v.Students))
	}
	if seat := c.seat(tokens[99], later); seat.Removed {
		t.Error("a seat with work was removed with the crowd")
	}
	if _, err := c.lock(code, false); err != nil {
		t.Fatal(err)
	}
	if _, err := join("late", "192.0.2.9", later); err != nil {
		t.Errorf("after the class was unlocked: %v", err)
	}
}

// A class has room for maxStudents, and the sandbox for maxClasses. Closed ones and those of a day ago make room.
func TestClassesAreBounded(t *testing.T) {
	t.Parallel()
	c := &classes{}
	now := time.Now()
	code, _ := openClassOf(t, c)
	for i := range maxStudents {
		if _, _, err := c.join(code, fmt.Sprint("student ", i), "", uuid.Nil, origin{}, now); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := c.join(code, "one more", "", uuid.Nil, origin{}, now); err != errClassFull {
		t.Errorf("the student after the last: %v", err)
	}
	for range maxClasses - 1 {
		openClassOf(t, c)
	}
	if _, err := c.open("one more", classKey{}, now); err != errClassesFull {
		t.Errorf("the class after the last: %v", err)
	}
	if _, err := c.close(code, now); err != nil {
		t.Fatal(err)
	}
	openClassOf(t, c)
	if _, err := c.board(code); err != errNoPage {
		t.Errorf("the closed class, whose room was needed: %v", err)
	}
	if _, err := c.open("tomorrow", classKey{}, now.Add(classLife+time.Hour)); err != nil || len(c.list()) != 1 {
		t.Errorf("a day later: %v, %d classes", err, len(c.list()))
	}
}

// Codes have none of the signs that are taken for others.
func TestCodesOfClassesAreReadAloud(t *testing.T) {
	t.Parallel()
	for range 1000 {
		if code := newClassCode(); !regexp.MustCompile(`^[2-9ACDEFGHJKMNPQRTUVWXY]{5}$`).MatchString(code) {
			t.Fatalf("a class has the code %s", code)
		}
	}
}

// A student joins by the code as it is spoken or written, and the cookie is the seat. Without a sandbox there is no class.
func TestStudentsJoinAClass(t *testing.T) {
	t.Parallel()
	s := sandboxServer(t)
	code, _ := openClassOf(t, s.handlers.classroom.classes, "Li Lei")
	cookie := ""
	ask := func(method, body string) (answer struct {
		Code   string
		Fields []struct{ Field, Reason string }
		Data   *seatView
	}) {
		t.Helper()
		r := httptest.NewRequest(method, "/api/sandbox/class", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		if cookie != "" {
			r.AddCookie(&http.Cookie{Name: "class", Value: cookie})
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		for _, c := range w.Result().Cookies() {
			if cookie = c.Value; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode {
				t.Errorf("the cookie is %v", c)
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Errorf("%s %s: %s", method, body, w.Body)
		}
		return answer
	}
	if a := ask("GET", ""); a.Code != "ok" || a.Data != nil {
		t.Errorf("the seat of a stranger: %+v", a)
	}
	for body, want := range map[string]string{
		`{"code":"22222","nickname":"n"}`:               "no_class ",
		`{"code":"` + code + `","nickname":"li lei"}`:   "bad_request nickname taken",
		`{"code":"` + code + `","nickname":" "}`:        "bad_request nickname required",
		`{"code":"","nickname":"n"}`:                    "bad_request code required",
		`{"code":"` + code + `","nickname":"\u202eab"}`: "bad_request nickname form",
	} {
		a := ask("POST", body)
		got := a.Code + " "
		for _, f := range a.Fields {
			got += f.Field + " " + f.Reason
		}
		if got != want || cookie != "" {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	spoken := strings.ToLower(code[:2]) + " " + code[2:]
	a := ask("POST", `{"code":"`+spoken+`","nickname":" 韩梅梅 "}`)
	if a.Code != "ok" || a.Data.Nickname != "韩梅梅" || a.Data.Students != 2 || cookie == "" {
		t.Fatalf("joining: %+v", a)
	}
	token := cookie
	if a := ask("POST", `{"code":"`+code+`","nickname":"韩梅梅"}`); a.Code != "ok" || a.Data.Students != 2 || cookie != token {
		t.Errorf("joining a second time: %+v", a)
	}
	r := httptest.NewRequest("POST", "/api/lab/run", http.NoBody)
	r.AddCookie(&http.Cookie{Name: "class", Value: cookie})
	s.handlers.classroom.classes.judged(s.desk.secret(r, seatCookie), "guard", true, exerciseCost{3, 100})
	if a := ask("GET", ""); a.Data == nil || len(a.Data.Exercises) != 1 || !a.Data.Exercises[0].Solved {
		t.Errorf("after a judged run: %+v", a)
	}
	if a := ask("POST", `{"code":"`+code+`","nickname":"neighbour"}`); a.Data.Students != 3 || cookie == token {
		t.Errorf("another student at the same machine: %+v", a)
	}
	if _, err := s.handlers.classroom.classes.remove(code, 2, false); err != nil || !s.handlers.classroom.classes.seat(token, time.Now()).Removed {
		t.Errorf("a removed student still has a seat, or %v", err)
	}
	if _, err := s.handlers.classroom.classes.remove(code, 2, false); !errors.Is(err, errBadRequest) {
		t.Errorf("removing twice: %v", err)
	}
	shop, err := New(Config{Rate: "off", IPRate: "off", TimeZone: "UTC", Cashier: "off"}, Deps{}, "")
	if err != nil {
		t.Fatal(err)
	}
	s = shop
	if a := ask("GET", ""); a.Code != "not_found" {
		t.Errorf("a shop that is no sandbox: %+v", a)
	}
}

// A browser that asks the lab, or for its run, is there: its seat makes no room. One whose seat was taken away reads so with its run.
func TestARunKnowsItsSeat(t *testing.T) {
	t.Parallel()
	s := sandboxServer(t)
	synctest.Test(t, func(t *testing.T) {
		l := serveLab(t, s, &Lab{})
		s.handlers.laboratory.lab.exercise = func(context.Context, lab.Stores, exercises.Exercise, program.Program, uint64, func(lab.Progress)) (exercises.Result, error) {
			return exercises.Result{Solved: true}, nil
		}
		l.works()
		code, tokens := openClassOf(t, s.handlers.classroom.classes, "Li Lei")
		ask := func(method, path, body string) (run struct {
			Run      string
			State    string
			SeatLost bool `json:"seat_lost"`
		}) {
			t.Helper()
			s.handlers.classroom.classes.attend(tokens[0], time.Now().Add(-seatLeft))
			r := httptest.NewRequest(method, path, strings.NewReader(body))
			if body != "" {
				r.Header.Set("Content-Type", "application/json")
			}
			r.AddCookie(&http.Cookie{Name: "class", Value: tokens[0]})
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			answer := struct{ Data any }{&run}
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code >= 300 {
				t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
			}
			if _, seat := s.handlers.classroom.classes.seatOf(tokens[0]); seat != nil && time.Since(seat.seen) >= seatLeft {
				t.Errorf("after %s %s the student is away", method, path)
			}
			synctest.Wait()
			return run
		}
		judged := func(exercise string) bool {
			t.Helper()
			run := ask("GET", "/api/lab/run?run="+ask("POST", "/api/lab/exercises/"+exercise, `{"language":"lua","source":"function buy() end"}`).Run, "")
			if run.State != "done" {
				t.Errorf("the run: %+v", run)
			}
			return run.SeatLost
		}
		if judged("one-unit") || judged(exercises.OfCourses()[0].Name) {
			t.Error("a student who sits reads that the seat is lost")
		}
		if _, seat := s.handlers.classroom.classes.seatOf(tokens[0]); len(seat.work) != 1 || seat.work[0].Exercise != "one-unit" {
			t.Errorf("the board notes more than the ladder: %+v", seat.work)
		}
		if _, err := s.handlers.classroom.classes.remove(code, 1, false); err != nil {
			t.Fatal(err)
		}
		if !judged("one-unit") {
			t.Error("a student without a seat does not read that the board lacks the run")
		}
	})
}
