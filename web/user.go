package web

import (
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"time"

	"miaosha/user"
)

// as lets a handler run for whoever is logged in.
func (s *Server) as(h func(http.ResponseWriter, *http.Request, user.Session) error) http.HandlerFunc {
	return s.handle(func(w http.ResponseWriter, r *http.Request) error {
		token := s.token(r)
		if token == "" {
			return errNotLoggedIn
		}
		who, err := s.Sessions.Get(r.Context(), token)
		if err != nil {
			return err
		}
		return h(w, r, who)
	})
}

// token is the caller's session token, from Authorization or the cookie; never from the address.
func (s *Server) token(r *http.Request) string {
	if h := r.Header.Get("Authorization"); h != "" {
		if scheme, token, ok := strings.Cut(h, " "); ok && strings.EqualFold(scheme, "Bearer") {
			return strings.TrimSpace(token)
		}
		return ""
	}
	if c, err := r.Cookie(s.cookieName(r, "session")); err == nil {
		return c.Value
	}
	return ""
}

// cookieName is a name that over TLS no neighbouring site can set.
func (s *Server) cookieName(r *http.Request, name string) string {
	if s.secure(r) {
		return "__Host-" + name
	}
	return name
}

func (s *Server) setCookie(w http.ResponseWriter, r *http.Request, token string, expires time.Time) {
	c := &http.Cookie{Name: s.cookieName(r, "session"), Value: token, Path: "/", Expires: expires,
		HttpOnly: true, Secure: s.secure(r), SameSite: http.SameSiteLaxMode}
	if token == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

func (s *Server) sendCode(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Phone string `json:"phone"`
	}
	if err := body(w, r, &in, false); err != nil {
		return err
	}
	from := user.From{Addr: s.addrOf(r), Browser: rand.Text()}
	code, ttl, err := s.Users.SendCode(r.Context(), in.Phone, from)
	if err != nil {
		return formError(err)
	}
	http.SetCookie(w, &http.Cookie{Name: s.cookieName(r, "code"), Value: from.Browser, Path: "/", MaxAge: int(ttl.Seconds()),
		HttpOnly: true, Secure: s.secure(r), SameSite: http.SameSiteStrictMode})
	out := struct {
		ExpiresIn int    `json:"expires_in"` // seconds
		DevCode   string `json:"dev_code,omitempty"`
	}{ExpiresIn: int(ttl.Seconds())}
	if s.Sandbox {
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
}

func (s *Server) register(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Phone    string `json:"phone"`
		Code     string `json:"code"`
		Password string `json:"password"`
		Nickname string `json:"nickname"`
	}
	if err := body(w, r, &in, false); err != nil {
		return err
	}
	from := user.From{Addr: s.addrOf(r)}
	if c, err := r.Cookie(s.cookieName(r, "code")); err == nil {
		from.Browser = c.Value
	}
	u, err := s.Users.Register(r.Context(), in.Phone, in.Code, in.Password, in.Nickname, from)
	if err != nil {
		return formError(err)
	}
	return s.enter(w, r, u)
}

func (s *Server) login(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Phone    string `json:"phone"`
		Password string `json:"password"`
	}
	if err := body(w, r, &in, false); err != nil {
		return err
	}
	u, err := s.Users.Login(r.Context(), in.Phone, in.Password, s.addrOf(r))
	if err != nil {
		return formError(err)
	}
	return s.enter(w, r, u)
}

// enter starts a session; the one the caller came with ends.
func (s *Server) enter(w http.ResponseWriter, r *http.Request, u user.User) error {
	if old := s.token(r); old != "" {
		if err := s.Sessions.End(r.Context(), old); err != nil {
			return err
		}
	}
	token, expires, err := s.Sessions.Start(r.Context(), u)
	if err != nil {
		return err
	}
	s.setCookie(w, r, token, expires)
	return ok(w, 200, account{UserID: u.ID, Nickname: u.Nickname, Role: u.Role, Token: token})
}

// logout ends all of the user's sessions: who logs out because he lost a device, or does not trust it, does not leave one
// of them open.
func (s *Server) logout(w http.ResponseWriter, r *http.Request, who user.Session) error {
	if err := noBody(w, r); err != nil {
		return err
	}
	if err := s.Sessions.EndAll(r.Context(), who.UserID, ""); err != nil {
		return err
	}
	if err := s.Sessions.End(r.Context(), s.token(r)); err != nil { // a Redis that has forgotten the list leaves this one at least
		return err
	}
	s.setCookie(w, r, "", time.Unix(1, 0))
	return ok(w, 200, nil)
}

func (s *Server) me(w http.ResponseWriter, r *http.Request, who user.Session) error {
	u, err := s.Users.ByID(r.Context(), who.UserID)
	if err != nil {
		return err
	}
	return ok(w, 200, account{UserID: u.ID, Nickname: u.Nickname, Role: u.Role, Phone: masked(u.Phone)})
}

func (s *Server) changePassword(w http.ResponseWriter, r *http.Request, who user.Session) error {
	var in struct {
		Old string `json:"old"`
		New string `json:"new"`
	}
	if err := body(w, r, &in, false); err != nil {
		return err
	}
	if err := s.Users.ChangePassword(r.Context(), who.UserID, in.Old, in.New); err != nil {
		return formError(err)
	}
	if err := s.Sessions.EndAll(r.Context(), who.UserID, s.token(r)); err != nil {
		return err
	}
	return ok(w, 200, nil)
}

// masked shows enough of a phone for its owner to know it.
func masked(phone string) string {
	if len(phone) < 8 {
		return "***"
	}
	return phone[:3] + "****" + phone[len(phone)-4:]
}

// formError gives a form's refusal the name of its field.
func formError(err error) error {
	var wrong user.InvalidError
	if errors.As(err, &wrong) {
		return fieldError{wrong.Field, wrong.Reason}
	}
	return err
}
