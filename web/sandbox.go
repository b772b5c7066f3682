package web

import (
	"errors"
	"fmt"
	"net/http"

	"miaosha/goods"
	"miaosha/seckill"
	"miaosha/seckill/admin"
	"miaosha/user"
)

// playground has what only a sandbox has: demo accounts, bots, and faults on purpose.
type playground struct {
	desk     *desk
	demo     *Demo // nil: none
	accounts *accounts
	cache    *goods.Cache
	rush     *seckill.Engine
	admin    *admin.Store
}

func (s *playground) rows() []row {
	teachers := onlyIf(s.demo != nil && s.demo.Teacher != nil, admins)
	teachers.name += " at this machine"
	const oneCrowd = "one crowd at a time; the limit where other machines reach the sandbox, after the session"
	return []row{
		route(POST, "/api/sandbox/login", onlyIf(s.demo != nil, everyone),
			late("as those of a log-in", tries, logins, loginDevices),
			answerLimit, s.demoLogin),
		route(POST, "/api/sandbox/bots", s.forBots(), at(oneCrowd, staff), answerLimit, s.startBots),
		route(GET, "/api/sandbox/bots", s.forBots(), at(oneCrowd, staff), answerLimit, s.showBots),
		route(POST, "/api/sandbox/teach", teachers, first(staff).then("one fault at a time"),
			answerLimit, s.startFault),
		route(GET, "/api/sandbox/teach", teachers, first(staff), answerLimit, s.showFault),
	}
}

// forBots are everyone at this machine, and administrators alone where others reach the shop: bots may take the units
// that a class waits for.
func (s *playground) forBots() audience[adminHandler] {
	const name = "anyone, in a sandbox; admin, where other machines reach it"
	if s.demo == nil || !s.demo.Local {
		by := onlyIf(s.demo != nil, admins)
		by.name = name
		return by
	}
	return audience[adminHandler]{name, func(_ *desk, _ ruleBuckets, h adminHandler) openHandler {
		return func(w http.ResponseWriter, r *http.Request) error { return h(w, r, admin.By{}) }
	}}
}

// startBots sends bots to a sale that is open and has units.
func (s *playground) startBots(w http.ResponseWriter, r *http.Request, by admin.By) error {
	var in struct {
		Sale int64 `json:"sale"`
	}
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	sale, _, err := s.cache.Sale(r.Context(), in.Sale)
	if err != nil {
		return err
	}
	if err := sale.Window(s.rush.Now()); err != nil {
		return err
	}
	if s.rush.Left(sale) <= 0 {
		return goods.ErrSoldOut
	}
	if s.demo.Bots.Busy() {
		return errBotsBusy
	}
	if by.UserID != 0 { // else a visitor at this machine
		if err := s.admin.Note(r.Context(), by, "sandbox.bots", fmt.Sprintf("sale %d", in.Sale), nil); err != nil {
			return err
		}
	}
	if !s.demo.Bots.Start(in.Sale) {
		return errBotsBusy
	}
	return ok(w, http.StatusAccepted, s.demo.Bots.State())
}

func (s *playground) showBots(w http.ResponseWriter, _ *http.Request, _ admin.By) error {
	return ok(w, 200, s.demo.Bots.State())
}

// maxFaultSeconds is how long a fault lasts at most.
const maxFaultSeconds = 15

func (s *playground) startFault(w http.ResponseWriter, r *http.Request, by admin.By) error {
	var in struct {
		Fault   string `json:"fault"`
		Seconds number `json:"seconds"`
	}
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	if why, there := s.demo.Teacher.Can()[in.Fault]; !there || why != "" {
		return fieldError{"fault", "value"}
	}
	if in.Seconds < 0 || in.Seconds > maxFaultSeconds {
		return fieldError{"seconds", fmt.Sprintf("0 to %d", maxFaultSeconds)}
	}
	if s.demo.Teacher.Busy() {
		return errFaultBusy
	}
	err := s.admin.Note(r.Context(), by, "sandbox.fault", "sandbox",
		map[string]any{"fault": in.Fault, "seconds": in.Seconds})
	if err != nil {
		return err
	}
	if !s.demo.Teacher.Start(in.Fault, int(in.Seconds)) {
		return errFaultBusy
	}
	return s.showFault(w, r, by)
}

func (s *playground) showFault(w http.ResponseWriter, _ *http.Request, _ admin.By) error {
	now := s.rush.Figures()
	return ok(w, 200, struct {
		Can     map[string]string `json:"can"`
		Lesson  any               `json:"lesson"`
		Breaker string            `json:"breaker"` // of this process: closed, half-open or open; off without a gate
		Opened  int64             `json:"opened"`  // how many times it opened since this process began
	}{s.demo.Teacher.Can(), s.demo.Teacher.State(), now.Breaker, now.Opened})
}

// demoLogin logs in a demo account with its public password, by the rules of every log-in.
func (s *playground) demoLogin(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		As string `json:"as"`
	}
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	demo, there := s.demo.Accounts[in.As]
	if !there {
		return fieldError{"as", "value"}
	}
	from := user.From{Addr: s.desk.clientIP(r)}
	if c, err := r.Cookie(s.desk.cookieName(r, "device")); err == nil {
		from.Device = c.Value
	}
	loggedIn, err := s.accounts.users.Login(r.Context(), demo.Phone, demo.Password, from)
	if errors.Is(err, user.ErrBusy) {
		return user.ErrBusy // a log-in with one press has no sum
	}
	if err != nil {
		return err
	}
	return s.accounts.startSession(w, r, loggedIn)
}
