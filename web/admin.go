package web

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"miaosha/seckill/admin"
	"miaosha/user"
)

// adminHandler is a handler for the staff. by goes into the log.
type adminHandler = func(w http.ResponseWriter, r *http.Request, by admin.By) error

var errNewPassword = errors.New("the password was made for the account")

// staffWith are the logged-in users with one of the roles.
func staffWith(name string, roles ...string) audience[adminHandler] {
	return audience[adminHandler]{name, func(d *desk, l limits, h adminHandler) openHandler {
		return users.door(d, l, func(w http.ResponseWriter, r *http.Request, session user.Session) error {
			if session.Role == user.RoleDue {
				return errNewPassword
			}
			if !slices.Contains(roles, session.Role) {
				return errForbidden
			}
			return h(w, r, admin.By{UserID: session.UserID, From: d.clientIP(r), Whole: session.Role == user.RoleAdmin, At: time.Now()})
		})
	}}
}

var (
	theStaff = staffWith("staff", user.RoleViewer, user.RoleAdmin)
	admins   = staffWith("admin", user.RoleAdmin)
)

// keyedAdmins are admins whose change is made once for each key.
func keyedAdmins(store *admin.Store) audience[adminHandler] {
	return audience[adminHandler]{admins.name, func(d *desk, l limits, h adminHandler) openHandler { return admins.door(d, l, keyed(store, h)) }}
}
