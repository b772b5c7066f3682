// Package web is the HTTP layer of the shop: the routes, the pages, and the translation between HTTP
// and the domains. It decides nothing about sales. A handler parses the request, calls one domain and
// writes the answer. Only errors.go maps an error to a status and a code.
package web

import (
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"miaosha/order"
	"miaosha/seckill/purpose"
)

// Server answers the shop's requests. It is an http.Handler.
type Server struct {
	Deps
	desk     *desk
	handlers handlers
	http     *httpMetrics
	handler  http.Handler
	refusing atomic.Bool
	cfg      Config

	strangeHost, strangeOrigin rate.Sometimes // log a refusal of each kind once a minute
}

// handlers are those of the shop. Each has the rows of its routes.
type handlers struct {
	catalogue      *catalogue
	gallery        *gallery
	purchases      *purchases
	buyerOrders    *buyerOrders
	payments       *payments
	sums           *visitorSums
	accounts       *accounts
	liveView       *liveView
	salesOffice    *salesOffice
	goodsOffice    *goodsOffice
	ordersOffice   *ordersOffice
	paymentsOffice *paymentsOffice
	peopleOffice   *peopleOffice
	playground     *playground
	classroom      *classroom
	laboratory     *laboratory
}

// New returns a Server. self is the URL at which the sandbox cashier will reach it, such as
// http://127.0.0.1:8080.
func New(cfg Config, d Deps, self string) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	of := marks{Shop: cfg.ShopName, Sandbox: d.Sandbox, Local: d.Demo != nil && d.Demo.Local,
		NoCodes: d.Users != nil && !d.Users.SendsCodes(), LivePublic: cfg.LiveView == "public"}
	if of.Local {
		of.DataDir, of.OpsURL = d.Demo.DataDir, d.Demo.OpsURL
	}
	a, err := loadAssets(cfg.assetOrigin, of)
	if err != nil {
		return nil, err
	}
	s := &Server{Deps: d, cfg: cfg, desk: newDesk(cfg, d, a)}
	s.strangeHost.Interval, s.strangeOrigin.Interval = time.Minute, time.Minute
	if s.handlers, err = newHandlers(s.desk, cfg, d, self); err != nil {
		return nil, err
	}
	r := s.router()
	s.http, s.handler = newHTTPMetrics(r), r
	return s, nil
}

// newHandlers makes the handlers, each with its dependencies.
func newHandlers(desk *desk, cfg Config, d Deps, self string) (h handlers, err error) {
	prepared, err := newPrepared()
	if err != nil {
		return h, err
	}
	if h.payments, err = newPayments(desk, cfg, d, self); err != nil {
		return h, err
	}
	streams, timelines := newStreamPlaces(maxStreams, maxUserStreams), &timelines{d.Tickets, loadSources(d.Source)}
	h.catalogue = &catalogue{desk, cfg.zone, d.Cache, d.Rush, d.Orders, d.Sums, prepared}
	h.gallery = &gallery{desk, d.Admin, newPictureCache()}
	h.purchases = &purchases{desk, d.Rush, d.Cache, d.Sums, d.Counts, streams, desk.limits.of(buying)}
	h.buyerOrders = &buyerOrders{desk, d.Orders, h.payments, timelines, d.Rush, d.PostgresAhead,
		cfg.ShopName, d.Sandbox}
	h.sums = &visitorSums{desk, d.Sums}
	h.accounts = &accounts{desk, d.Users, d.Sessions, d.Orders, d.Admin, h.sums, d.Sandbox}
	h.liveView = &liveView{desk, d.Live, d.Admin, purpose.LiveView.Key(d.Secret), cfg.LiveView == "public", streams,
		newStreamPlaces(maxGuests, 0)}
	h.goodsOffice = &goodsOffice{desk, d.Admin, h.gallery}
	h.salesOffice = &salesOffice{desk, d.Admin, d.Cache, d.Rush, h.goodsOffice}
	h.ordersOffice = &ordersOffice{desk, d.Admin, cfg.zone, timelines}
	h.paymentsOffice = &paymentsOffice{d.Admin, h.payments}
	h.peopleOffice = &peopleOffice{desk, d.Admin}
	classes, lab := &classes{}, &notedLab{d.Lab, d.Admin, d.Log}
	h.laboratory = &laboratory{desk, lab, classes, d.Sandbox, prepared.compressor, newResponseCache[string, encoded](3)}
	h.classroom = &classroom{desk, classes, lab, d.Admin, d.Sandbox, nil}
	h.playground = &playground{desk, d.Demo, h.accounts, d.Cache, d.Rush, d.Admin}
	if d.Demo != nil {
		h.classroom.addresses = d.Demo.Addresses
	}
	return h, nil
}

// PlayMoney reports whether buyers pay at the sandbox cashier, which takes no money.
func (s *Server) PlayMoney() bool { return s.handlers.payments.cashier != nil }

// Providers returns the payment providers, for order.Store.Sweep.
func (s *Server) Providers() []order.Provider { return s.handlers.payments.providers }

// Close ends all event streams, which would not end by themselves. Each answer after it is the last one
// on its connection. Call it once, when the server stops.
func (s *Server) Close() { close(s.desk.closing) }

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.refusing.Load() {
		s.answerBusy(w, r)
		return
	}
	s.handler.ServeHTTP(w, r)
}

// Refuse answers every later request as busy, until the process ends: what it remembers may not be so any more.
func (s *Server) Refuse() { s.refusing.Store(true) }
