package web

import (
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"miaosha/user"
)

func (s *accounts) profileRows() []row {
	return []row{
		route(GET, "/api/account/sessions", anyUser, first(own, reads, ownNetwork), answerLimit, s.listSessions),
		route(POST, "/api/account/sessions/{session}/end", anyUser, first(own, pays, ownNetwork),
			answerLimit, s.endSession),
		route(POST, "/api/account/nickname", anyUser, first(own, pays, ownNetwork), answerLimit, s.setNickname),
		route(POST, "/api/account/phone", anyUser,
			late("the first if there is a sum; the others after the session and the form, those of the address "+
				"and the shop are of register; a solved sum goes ahead of the shop's",
				loginSums, passwords, passwordHour, tries, triesNetwork, wrongOfAll), answerLimit, s.changePhone),
	}
}

// sessionJSON is a session in the list of its user.
type sessionJSON struct {
	ID      string `json:"id"`
	Current bool   `json:"current,omitempty"` // the request's own
	Browser string `json:"browser"`           // see clientOf; other if it is not known
	System  string `json:"system"`
	BegunAt string `json:"begun_at"`
	UsedAt  string `json:"used_at,omitempty"` // to ten minutes; without it, in the last twelve hours
	EndsAt  string `json:"ends_at"`           // unless it is used again
}

func (s *accounts) listSessions(w http.ResponseWriter, r *http.Request, session user.Session) error {
	list, err := s.sessions.List(r.Context(), session.UserID, s.desk.token(r))
	if err != nil {
		return err
	}
	out := make([]sessionJSON, 0, len(list))
	for _, l := range list {
		one := sessionJSON{ID: l.ID, Current: l.Current, Browser: "other", System: "other",
			BegunAt: formatTime(l.BegunAt), EndsAt: formatTime(l.EndsAt)}
		if browser, system, found := strings.Cut(l.Client, " "); found {
			one.Browser, one.System = browser, system
		}
		if !l.UsedAt.IsZero() {
			one.UsedAt = formatTime(l.UsedAt)
		}
		out = append(out, one)
	}
	return ok(w, 200, out)
}

// endSession ends one session of the user, maybe the request's own. The others go on.
func (s *accounts) endSession(w http.ResponseWriter, r *http.Request, session user.Session) error {
	if err := refuseBody(w, r); err != nil {
		return err
	}
	id := chi.URLParam(r, "session")
	if err := s.sessions.EndListed(r.Context(), session.UserID, id); err != nil {
		return err
	}
	if id == user.SessionID(s.desk.token(r)) {
		s.desk.setCookie(w, r, "", time.Unix(1, 0))
	}
	return ok(w, 200, nil)
}

func (s *accounts) setNickname(w http.ResponseWriter, r *http.Request, session user.Session) error {
	var in struct {
		Nickname string `json:"nickname"`
	}
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	if err := s.users.SetNickname(r.Context(), session.UserID, strings.TrimSpace(in.Nickname)); err != nil {
		return err
	}
	return ok(w, 200, nil)
}

func (s *accounts) changePhone(w http.ResponseWriter, r *http.Request, session user.Session) error {
	var in codeForm
	from, err := s.usesCode(w, r, &in, &in, func() error { return filled("password", in.Password) })
	if err != nil {
		return err
	}
	device, err := s.users.ChangePhone(r.Context(), session.UserID, in.Phone, in.Code, in.Password, from)
	if device != "" {
		s.desk.setDevice(w, r, device)
	}
	if err != nil {
		return err
	}
	return ok(w, 200, nil)
}
