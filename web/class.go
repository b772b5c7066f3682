package web

import (
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"miaosha/seckill/admin"
	"miaosha/seckill/typed"
	"miaosha/user"
)

// classroom is where a teacher holds a class, and students join it.
type classroom struct {
	desk      *desk
	classes   *classes
	lab       *notedLab
	admin     *admin.Store
	sandbox   bool
	addresses []string // of the shop in its network
}

func (s *classroom) rows() []row {
	teachers, students := onlyIf(s.sandbox, admins), onlyIf(s.sandbox, everyone)
	return []row{
		route(GET, "/api/sandbox/classes", teachers, first(staff), answerLimit, s.listClasses),
		route(POST, "/api/sandbox/classes", onlyIf(s.sandbox, keyedAdmins(s.admin)),
			first(staff).then("at most 8 classes are open"),
			answerLimit, s.openClass),
		route(GET, "/api/sandbox/classes/{code}", teachers, first(staff), answerLimit, s.showClass),
		route(POST, "/api/sandbox/classes/{code}/run", teachers, first(staff).then("the lab does one job at a time"),
			answerLimit, s.runInClass),
		route(POST, "/api/sandbox/classes/{code}/remove", teachers, first(staff), answerLimit, s.removeStudent),
		route(POST, "/api/sandbox/classes/{code}/lock", teachers, first(staff), answerLimit, s.lockClass),
		route(POST, "/api/sandbox/classes/{code}/close", teachers, first(staff), answerLimit, s.closeClass),
		route(GET, "/api/sandbox/classes/{code}/results.csv", teachers, first(staff), answerLimit, s.classCSV),
		route(GET, "/api/sandbox/classes/{code}/results.json", teachers, first(staff), answerLimit, s.classJSON),
		route(GET, "/api/sandbox/class", students, ahead(ownNetwork), answerLimit, s.showSeat),
		route(POST, "/api/sandbox/class", students,
			ahead(classJoins).then("at most 100 students of a class, of which a seat without work may make room"),
			answerLimit, s.joinClass),
	}
}

func (s *classroom) joinClass(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Code     string `json:"code"`
		Nickname string `json:"nickname"`
	}
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	name := strings.TrimSpace(in.Nickname)
	err := user.CheckNickname(name)
	if in.Code == "" {
		err = errors.Join(fieldError{"code", "required"}, err)
	}
	if err != nil {
		return err
	}
	key, err := readKey(r)
	if err != nil {
		return err
	}
	token, seat, err := s.classes.join(typed.Parcel(in.Code), name, s.desk.secret(r, seatCookie), key,
		s.desk.originOf(r), time.Now())
	if err != nil {
		return err
	}
	http.SetCookie(w, &http.Cookie{Name: s.desk.cookieName(r, seatCookie), Value: token, Path: "/",
		MaxAge:   int(classLife.Seconds()),
		HttpOnly: true, Secure: s.desk.secure(r), SameSite: http.SameSiteStrictMode})
	return ok(w, 200, seat)
}

func (s *classroom) showSeat(w http.ResponseWriter, r *http.Request) error {
	return ok(w, 200, s.classes.seat(s.desk.secret(r, seatCookie), time.Now()))
}

func (s *classroom) listClasses(w http.ResponseWriter, _ *http.Request, _ admin.By) error {
	return ok(w, 200, s.classes.list())
}

func (s *classroom) openClass(w http.ResponseWriter, r *http.Request, by admin.By) error {
	var in struct {
		Title string `json:"title"`
	}
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	title := typed.Line(in.Title)
	if title == "" {
		return fieldError{"title", "required"}
	}
	if utf8.RuneCountInString(title) > maxClassTitle {
		return fieldError{"title", "class"}
	}
	if err := s.admin.Note(r.Context(), by, "class.open", "class", map[string]string{"title": title}); err != nil {
		return err
	}
	return s.answerClass(w, r, by)(s.classes.open(title, classKey{by.UserID, by.Key}, time.Now()))
}

func (s *classroom) showClass(w http.ResponseWriter, r *http.Request, by admin.By) error {
	return s.answerClass(w, r, by)(s.classes.board(chi.URLParam(r, "code")))
}

// runInClass starts a run of the lab and puts it on the board.
func (s *classroom) runInClass(w http.ResponseWriter, r *http.Request, by admin.By) error {
	code := chi.URLParam(r, "code")
	if _, err := s.classes.board(code); err != nil {
		return err
	}
	plan, err := readPlan(w, r)
	if err != nil {
		return err
	}
	key, err := readKey(r)
	if err != nil {
		return err
	}
	caller := labCaller{user: by.UserID, admin: true, key: key, address: by.From}
	job, err := s.lab.addJob(r.Context(), caller, "class.run", "class "+code, plan,
		func(c labCaller) (*labJob, error) { return s.lab.addPlan(c, plan) })
	if err != nil {
		return err
	}
	return s.answerClass(w, r, by)(s.classes.show(code, job))
}

func (s *classroom) removeStudent(w http.ResponseWriter, r *http.Request, by admin.By) error {
	var in struct {
		Student number `json:"student"`
		Idle    bool   `json:"idle"` // also all seats without work from the same address
	}
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	return s.changeClass(w, r, by, "class.remove", in, func(code string) (classView, error) {
		return s.classes.remove(code, int(in.Student), in.Idle)
	})
}

func (s *classroom) lockClass(w http.ResponseWriter, r *http.Request, by admin.By) error {
	var in struct {
		Locked bool `json:"locked"`
	}
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	return s.changeClass(w, r, by, "class.lock", in,
		func(code string) (classView, error) { return s.classes.lock(code, in.Locked) })
}

func (s *classroom) closeClass(w http.ResponseWriter, r *http.Request, by admin.By) error {
	if err := refuseBody(w, r); err != nil {
		return err
	}
	return s.changeClass(w, r, by, "class.close", nil,
		func(code string) (classView, error) { return s.classes.close(code, time.Now()) })
}

// changeClass makes a change of a class, writes its line into the log, and answers with the class.
func (s *classroom) changeClass(w http.ResponseWriter, r *http.Request, by admin.By, action string, after any,
	change func(code string) (classView, error)) error {
	code := chi.URLParam(r, "code")
	v, err := change(code)
	if err == nil {
		s.lab.noteDone(r.Context(), by, action, "class "+code, after)
	}
	return s.answerClass(w, r, by)(v, err)
}

// answerClass answers with a class and the run on its board.
func (s *classroom) answerClass(w http.ResponseWriter, r *http.Request, by admin.By) func(classView, error) error {
	return func(v classView, err error) error {
		if err != nil {
			return err
		}
		out := struct {
			classView
			Ladder    []ladderStep `json:"ladder"`
			Addresses []string     `json:"addresses,omitempty"` // of the shop in its network
			Run       *labRun      `json:"run,omitempty"`
		}{classView: v, Ladder: ladder(), Addresses: s.addresses}
		if v.run != nil {
			run := s.lab.showJob(v.run, labCaller{user: by.UserID, admin: true})
			if run.err != nil {
				run.Code, run.Msg = codeAndMsg(r, run.err, run.ID)
			}
			out.Run = &run
		}
		return ok(w, 200, out)
	}
}

// classCSV has a row for each exercise that a student has tried, and one for a student who has tried none.
func (s *classroom) classCSV(w http.ResponseWriter, r *http.Request, _ admin.By) error {
	v, err := s.classes.board(chi.URLParam(r, "code"))
	if err != nil {
		return err
	}
	q := query{values: r.URL.Query()}
	raw := q.raw()
	if err := q.err(); err != nil {
		return err
	}
	number := func(f float64) value { return value(strconv.FormatFloat(f, 'f', 2, 64)) }
	header := []string{"student", "joined_at", "exercise", "solved", "tries", "sql_per_order",
		"clicks_per_second", "solved_at"}
	return s.desk.sendCSV(w, "class-"+v.Code+".csv", raw, header, func(yield func([]any, error) bool) {
		for _, st := range v.Students {
			if len(st.Exercises) == 0 && !yield([]any{st.Nickname, value(st.JoinedAt), "", "", "", "", "", ""}, nil) {
				return
			}
			for _, e := range st.Exercises {
				row := []any{st.Nickname, value(st.JoinedAt), e.Exercise, value(strconv.FormatBool(e.Solved)),
					value(strconv.Itoa(e.Tries)), "", "", value(e.SolvedAt)}
				if e.Cost != nil {
					row[5], row[6] = number(e.Cost.SQLPerOrder), number(e.Cost.PerSecond)
				}
				if !yield(row, nil) {
					return
				}
			}
		}
	})
}

func (s *classroom) classJSON(w http.ResponseWriter, r *http.Request, _ admin.By) error {
	v, err := s.classes.board(chi.URLParam(r, "code"))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment",
		map[string]string{"filename": "class-" + v.Code + ".json"}))
	return ok(w, 200, v)
}
