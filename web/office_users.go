package web

import (
	"context"
	"net/http"
	"slices"

	"miaosha/seckill/admin"
	"miaosha/seckill/typed"
	"miaosha/user"
)

// peopleOffice is where the staff sees to accounts, and reads what the staff has done.
type peopleOffice struct {
	desk  *desk
	admin *admin.Store
}

func (s *peopleOffice) rows() []row {
	keyed := keyedAdmins(s.admin)
	return []row{
		route(GET, "/api/admin/users", theStaff, first(searches), answerLimit, s.adminUsers),
		route(GET, "/api/admin/users/{id}", theStaff, first(staff), answerLimit, s.adminUser),
		route(POST, "/api/admin/users/{id}/role", keyed, first(staff), answerLimit, s.setRole),
		route(POST, "/api/admin/users/{id}/disable", keyed, first(staff),
			answerLimit, s.changeUser((*admin.Store).Disable)),
		route(POST, "/api/admin/users/{id}/enable", keyed, first(staff),
			answerLimit, s.changeUser((*admin.Store).Enable)),
	}
}

// adminUsers answers with a page of accounts, newest first.
func (s *peopleOffice) adminUsers(w http.ResponseWriter, r *http.Request, by admin.By) error {
	q := query{values: r.URL.Query()}
	f := admin.PeopleFilter{Q: typed.Line(q.text("q")), Role: q.oneOf("role", user.Roles...),
		Disabled: q.bool("disabled"), Cursor: q.id("cursor")}
	if q.found("q", f.Q); q.err() != nil {
		return q.err()
	}
	for _, digits := range []func(string) (string, error){typed.ID, typed.Phone} { // #12 is an account's number
		if is, err := digits(f.Q); err == nil {
			f.Or = is
		}
	}
	people, next, err := s.admin.People(r.Context(), by, f)
	if err != nil {
		return err
	}
	return ok(w, 200, struct {
		Users []admin.Person `json:"users"`
		Next  int64          `json:"next,omitempty"` // the cursor of the next page
	}{people, next})
}

// adminUser answers with one account: its orders by status, and its roles.
func (s *peopleOffice) adminUser(w http.ResponseWriter, r *http.Request, by admin.By) error {
	id, err := personID(r)
	if err != nil {
		return err
	}
	p, err := s.admin.PersonByID(r.Context(), by, id)
	if err != nil {
		return err
	}
	return ok(w, 200, p)
}

func (s *peopleOffice) setRole(w http.ResponseWriter, r *http.Request, by admin.By) error {
	var in struct {
		Role string `json:"role"`
	}
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	id, err := personID(r)
	if err != nil {
		return err
	}
	if !slices.Contains(user.Roles, in.Role) {
		return fieldError{"role", "value"}
	}
	if err := s.admin.SetRole(r.Context(), by, id, in.Role); err != nil {
		return err
	}
	return ok(w, 200, nil)
}

// changeUser makes a handler of a change of another user's account.
func (s *peopleOffice) changeUser(change func(*admin.Store, context.Context, admin.By, int64) error) adminHandler {
	return func(w http.ResponseWriter, r *http.Request, by admin.By) error {
		if err := refuseBody(w, r); err != nil {
			return err
		}
		id, err := personID(r)
		if err != nil {
			return err
		}
		if err := change(s.admin, r.Context(), by, id); err != nil {
			return err
		}
		return ok(w, 200, nil)
	}
}

// personID returns the {id} of a user's route, or admin.ErrNoUser if it is none.
func personID(r *http.Request) (int64, error) { return pathID(r, admin.ErrNoUser) }
