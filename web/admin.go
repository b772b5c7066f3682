package web

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"miaosha/seckill/admin"
	"miaosha/user"
)

// adminHandler is a handler for the staff. by goes into the log.
type adminHandler func(w http.ResponseWriter, r *http.Request, by admin.By) error

var errNewPassword = errors.New("the password was made for the account")

// adminRoutes lists the routes of the staff, below /api/admin. A viewer may call those that only read.
func (s *Server) adminRoutes(r chi.Router) {
	read := func(path string, h adminHandler) {
		r.Get(path, s.staff("GET /api/admin"+path, h, user.RoleViewer, user.RoleAdmin))
	}
	change := func(path string, h adminHandler) {
		r.Post(path, s.staff("POST /api/admin"+path, s.keyed(h), user.RoleAdmin))
	}
	read("/sales", s.adminSales)
	change("/sales", s.addSale)
	read("/sales/{id}", s.adminSale)
	change("/sales/{id}", s.editDraft)
	change("/sales/{id}/publish", s.changeSale((*admin.Store).PublishDraft))
	change("/sales/{id}/pause", s.changeSale((*admin.Store).Pause))
	change("/sales/{id}/resume", s.changeSale((*admin.Store).Resume))
	change("/sales/{id}/close", s.changeSale((*admin.Store).Close))
	read("/users", s.adminUsers)
	read("/users/{id}", s.adminUser)
	change("/users/{id}/role", s.setRole)
	change("/users/{id}/disable", s.changeUser((*admin.Store).Disable))
	change("/users/{id}/enable", s.changeUser((*admin.Store).Enable))
	change("/sales/{id}/units", s.addUnits)
	change("/sales/{id}/window", s.moveSale)
	change("/sales/{id}/price", s.setPrice)
	change("/sales/{id}/plans", s.addPlan)
	change("/plans/{id}/cancel", s.cancelPlan)
	read("/goods", s.adminGoods)
	change("/goods", s.addItem)
	read("/goods/{id}", s.adminItem)
	change("/goods/{id}", s.editItem)
	s.adminOrderRoutes(read, change)
	read("/payments", s.adminPayments)
	change("/payments/{id}/retry", s.retryPayment)
	change("/payments/{id}/returned", s.returnPayment)
	read("/log", s.adminLog)
	change("/live/link", s.shareLive)
	read("/tickets/{ticket}", s.adminTicket)
}

// staff runs a handler for logged-in users with one of the roles.
func (s *Server) staff(route string, h adminHandler, roles ...string) http.HandlerFunc {
	return s.loggedIn(s.limited(route, func(w http.ResponseWriter, r *http.Request, session user.Session) error {
		if session.Role == user.RoleDue {
			return errNewPassword
		}
		if !slices.Contains(roles, session.Role) {
			return errForbidden
		}
		return h(w, r, admin.By{UserID: session.UserID, From: s.clientIP(r), Whole: session.Role == user.RoleAdmin, At: time.Now()})
	}))
}
