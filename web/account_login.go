package web

import (
	"cmp"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"time"

	"miaosha/order"
	"miaosha/seckill/admin"
	"miaosha/seckill/typed"
	"miaosha/user"
)

// accounts are those of buyers and of the staff: log-in, sessions, the profile and the address.
type accounts struct {
	desk     *desk
	users    *user.Store
	sessions *user.Sessions
	orders   *order.Store // for addresses
	admin    *admin.Store // for its log
	sums     *visitorSums
	sandbox  bool // codes are in the answers
}

func (s *accounts) loginRows() []row {
	return []row{
		route(POST, "/api/otp", everyone, late(afterForm, loginSums, tries, triesNetwork, codesOfAll, codes, codesHour),
			answerLimit, s.sendCode),
		route(POST, "/api/register", everyone, late(afterForm, loginSums, tries, triesNetwork, wrongOfAll),
			answerLimit, s.register),
		route(POST, "/api/login", everyone,
			late("the first if there is a sum; the others after the places in the queue of the hasher, before "+
				"Postgres; a known device has the last one alone",
				loginSums, tries, logins, loginDevices), answerLimit, s.login),
		route(POST, "/api/password/reset", everyone,
			late("the first if there is a sum; the others, which are those of register, after the form; a "+
				"solved sum goes ahead of the shop's",
				loginSums, tries, triesNetwork, wrongOfAll), answerLimit, s.resetPassword),
		route(POST, "/api/logout", anyUser, free("none: the session is over after the first"), answerLimit, s.logout),
		route(POST, "/api/password", anyUser, late("after the session and the form; before Postgres",
			passwords, passwordHour),
			answerLimit, s.changePassword),
		route(GET, "/api/me", visitors, first(own, ownNetwork), answerLimit, s.me),
	}
}

func (s *accounts) sendCode(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Phone   string `json:"phone"`
		Captcha string `json:"captcha"`
	}
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	var f inputs
	f.reads("phone", "form", &in.Phone, typed.Phone)
	if in.Captcha != "" { // a telephone that is none uses up no sum
		f.also(user.CheckPhone(in.Phone))
	}
	if f.err() != nil {
		return f.err()
	}
	solved, err := s.sums.solved(r, in.Captcha)
	if err != nil {
		return err
	}
	// The browser keeps its secret: a second click, or another tab, makes no code useless.
	from := user.From{Addr: s.desk.clientIP(r), Browser: cmp.Or(s.desk.secret(r, "code"), rand.Text()),
		Solved: solved || !s.sums.sums.On()}
	code, ttl, err := s.users.SendCode(r.Context(), in.Phone, from)
	if err != nil {
		return err
	}
	http.SetCookie(w, &http.Cookie{Name: s.desk.cookieName(r, "code"), Value: from.Browser, Path: "/",
		MaxAge:   int(ttl.Seconds()),
		HttpOnly: true, Secure: s.desk.secure(r), SameSite: http.SameSiteStrictMode})
	out := struct {
		ExpiresIn int    `json:"expires_in"` // seconds
		DevCode   string `json:"dev_code,omitempty"`
	}{ExpiresIn: int(ttl.Seconds())}
	if s.sandbox {
		out.DevCode = code
	}
	return ok(w, 200, out)
}

type account struct {
	UserID   int64  `json:"user_id"`
	Nickname string `json:"nickname,omitempty"`
	Role     string `json:"role,omitempty"`
	Token    string `json:"token,omitempty"`
	Phone    string `json:"phone,omitempty"`

	// the back office is closed to the user until they have chosen a password
	PasswordDue bool `json:"password_due,omitempty"`
}

func accountOf(u user.User) account {
	return account{UserID: u.ID, Nickname: u.Nickname, Role: u.Role, PasswordDue: u.PasswordDue &&
		u.Role != user.RoleBuyer}
}

func (s *accounts) register(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		codeForm
		Nickname string `json:"nickname"`
	}
	from, err := s.usesCode(w, r, &in, &in.codeForm, func() error {
		in.Nickname = strings.TrimSpace(in.Nickname)
		return errors.Join(user.CheckPassword("password", in.Password), user.CheckNickname(in.Nickname))
	})
	if err != nil {
		return err
	}
	registered, err := s.users.Register(r.Context(), in.Phone, in.Code, in.Password, in.Nickname, from)
	if err != nil {
		return err
	}
	return s.startSession(w, r, registered)
}

// codeForm is what a use of a code sends. Fields in a form of its own are beside it.
type codeForm struct {
	Phone    string `json:"phone"`
	Code     string `json:"code"`
	Password string `json:"password"`
	Captcha  string `json:"captcha"`
}

// usesCode reads the form of a request that uses a code into in, of which form is a part, and returns the origin of the
// request: the browser's cookie has the secret that goes with the code. check checks what is not the phone or the code:
// a form that is refused uses up no sum.
func (s *accounts) usesCode(
	w http.ResponseWriter, r *http.Request, in any, form *codeForm, check func() error,
) (from user.From, err error) {
	if err := readBody(w, r, in, false); err != nil {
		return from, err
	}
	var f inputs
	f.reads("phone", "form", &form.Phone, typed.Phone)
	f.reads("code", "form", &form.Code, typed.Code)
	f.also(user.CheckPhone(form.Phone), user.CheckCode(form.Code), check())
	if f.err() != nil {
		return from, f.err()
	}
	solved, err := s.sums.solved(r, form.Captcha)
	if err != nil {
		return from, err
	}
	from = user.From{Addr: s.desk.clientIP(r), Solved: solved || !s.sums.sums.On()}
	if c, err := r.Cookie(s.desk.cookieName(r, "code")); err == nil {
		from.Browser = c.Value
	}
	return from, nil
}

// resetPassword sets a forgotten password by code and logs in. All other sessions of the user have ended.
func (s *accounts) resetPassword(w http.ResponseWriter, r *http.Request) error {
	var in codeForm
	from, err := s.usesCode(w, r, &in, &in, func() error { return user.CheckPassword("password", in.Password) })
	if err != nil {
		return err
	}
	reset, err := s.users.ResetPassword(r.Context(), s.sessions, in.Phone, in.Code, in.Password, from)
	if err != nil {
		return err
	}
	return s.startSession(w, r, reset)
}

func (s *accounts) login(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Phone    string `json:"phone"`
		Password string `json:"password"`
		Captcha  string `json:"captcha"`
	}
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	var f inputs
	f.reads("phone", "form", &in.Phone, typed.Phone)
	f.also(filled("phone", in.Phone), filled("password", in.Password))
	if f.err() != nil {
		return f.err()
	}
	solved, err := s.sums.solved(r, in.Captcha)
	if err != nil {
		return err
	}
	from := user.From{Addr: s.desk.clientIP(r), Solved: solved}
	if c, err := r.Cookie(s.desk.cookieName(r, "device")); err == nil {
		from.Device = c.Value
	}
	loggedIn, err := s.users.Login(r.Context(), in.Phone, in.Password, from)
	switch {
	case errors.Is(err, user.ErrBusy) && s.sums.sums.On() && !solved: // at the door, or behind it
		return user.ErrSolveFirst
	case errors.Is(err, user.ErrBusy):
		return user.ErrBusy
	case err != nil:
		return err
	}
	return s.startSession(w, r, loggedIn)
}

// startSession starts a session for a user who has just logged in, and ends the session of the request, if there is
// one. The browser is known as a device of the user from now on. A session of the staff has a line in the log; without
// it the caller receives no token.
func (s *accounts) startSession(w http.ResponseWriter, r *http.Request, u user.LoggedIn) error {
	if err := s.desk.checkPlace(r, u.ID); err != nil {
		return err
	}
	if old := s.desk.token(r); old != "" {
		if err := s.sessions.End(r.Context(), old); err != nil {
			return err
		}
	}
	token, expires, err := s.sessions.Start(r.Context(), u.User, s.desk.clientIP(r), clientOf(r.UserAgent()))
	if err != nil {
		return err
	}
	if u.Role != user.RoleBuyer {
		if err := s.admin.LoggedIn(r.Context(), admin.By{UserID: u.ID, From: s.desk.clientIP(r)}); err != nil {
			return err
		}
	}
	s.desk.setCookie(w, r, token, expires)
	s.desk.setDevice(w, r, u.Device)
	a := accountOf(u.User)
	a.Token = token
	return ok(w, 200, a)
}

// logout ends all sessions of the user. A user who logs out because a device is lost or is not safe
// must leave none open.
func (s *accounts) logout(w http.ResponseWriter, r *http.Request, session user.Session) error {
	if err := refuseBody(w, r); err != nil {
		return err
	}
	s.desk.setCookie(w, r, "", time.Unix(1, 0))
	// The second ends this session here while Redis is away, and in Redis if that has lost the list of sessions.
	if err := errors.Join(s.users.LogOut(r.Context(), s.sessions, session.UserID),
		s.sessions.End(r.Context(), s.desk.token(r))); err != nil {
		return err
	}
	return ok(w, 200, nil)
}

func (s *accounts) me(w http.ResponseWriter, r *http.Request, session user.Session) error {
	u, err := s.users.ByID(r.Context(), session.UserID)
	if err != nil {
		return err
	}
	a := accountOf(u)
	a.Phone = admin.Mask(admin.Telephone, u.Phone)
	return ok(w, 200, a)
}

// changePassword ends the other sessions of the user. Of the staff's first password it ends this one too, and starts
// the one that may act as staff.
func (s *accounts) changePassword(w http.ResponseWriter, r *http.Request, session user.Session) error {
	var in struct {
		Old string `json:"old"`
		New string `json:"new"`
	}
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	device, err := s.users.ChangePassword(r.Context(), s.sessions, session.UserID, s.desk.token(r), in.Old, in.New)
	if device != "" {
		s.desk.setDevice(w, r, device)
	}
	if err != nil {
		return err
	}
	if session.Role != user.RoleDue {
		return ok(w, 200, nil)
	}
	u, err := s.users.ByID(r.Context(), session.UserID)
	if err != nil {
		return err
	}
	return s.startSession(w, r, user.LoggedIn{User: u, Device: device})
}
