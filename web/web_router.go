package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"

	"miaosha/seckill"
)

// rows lists all routes of the shop.
func (s *Server) rows() []row {
	h := s.handlers
	return slices.Concat(siteFiles{s.desk.assets}.rows(), h.gallery.rows(), h.catalogue.rows(), h.purchases.rows(),
		h.purchases.eventRows(),
		h.buyerOrders.rows(), h.payments.rows(),
		h.accounts.loginRows(), h.sums.rows(), h.sums.practiceRows(), h.accounts.profileRows(),
		h.accounts.addressRows(),
		h.salesOffice.rows(), h.goodsOffice.rows(), h.ordersOffice.rows(), h.ordersOffice.actionRows(),
		h.ordersOffice.fileRows(),
		h.paymentsOffice.rows(), h.peopleOffice.rows(), h.peopleOffice.logRows(),
		h.liveView.rows(), h.laboratory.rows(), h.laboratory.programRows(), h.classroom.rows(), h.playground.rows())
}

// router routes the requests of the shop to the handlers of the rows.
func (s *Server) router() chi.Router {
	r := chi.NewRouter()
	r.Use(s.measure, s.recoverer, s.headers)
	if len(s.cfg.TrustedProxies) > 0 {
		r.Use(middleware.ClientIPFromXFF(s.cfg.TrustedProxies...))
	}
	r.Use(s.bound, s.sameSite, s.oneMeaning) // what the latter two refuse is bound, too
	r.NotFound(s.desk.handle(s.desk.orMissingPage(noPage)))
	r.MethodNotAllowed(s.desk.handle(func(w http.ResponseWriter, q *http.Request) error {
		methods := methodsOf(r, cmp.Or(q.URL.RawPath, q.URL.Path)) // as the router reads it
		if len(methods) == 0 {
			return errNoPage // the router takes a method that it does not know for a wrong one
		}
		w.Header().Set("Allow", strings.Join(methods, ", "))
		return errMethod
	}))
	rows := s.rows()
	for _, row := range rows {
		switch api := strings.HasPrefix(row.path, "/api/"); {
		case !api && row.within != ownTime:
			panic(row.path + " has a time limit, which rows below /api alone keep")
		case !api:
			s.add(r, row, row.path)
		case row.within == ownTime:
			s.add(r.With(private), row, row.path)
		case row.within != answerLimit:
			s.add(r.With(private, withTimeout(row.within)), row, row.path)
		}
	}
	r.Route("/api", func(r chi.Router) {
		r.Use(private, middleware.GetHead, withTimeout(answerLimit))
		for _, row := range rows {
			if path, api := strings.CutPrefix(row.path, "/api"); api && row.within == answerLimit {
				s.add(r, row, path)
			}
		}
	})
	s.desk.limits.sealed = true
	return r
}

// add adds the route of a row to a router.
func (s *Server) add(r chi.Router, row row, path string) {
	h := row.open(s.desk, s.desk.limits.atTheDoor(row.rule))
	if !strings.HasPrefix(row.path, "/api/") {
		h = s.desk.orMissingPage(h)
	}
	for method := range strings.FieldsSeq(row.method) {
		r.Method(method, path, s.desk.handle(h))
	}
}

// methodsOf returns the methods of a path.
func methodsOf(r chi.Router, path string) (methods []string) {
	for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		if r.Match(chi.NewRouteContext(), m, path) || m == http.MethodHead && len(methods) > 0 {
			methods = append(methods, m)
		}
	}
	return methods
}

// headers sets the headers of every answer, errors included.
func (s *Server) headers(next http.Handler) http.Handler {
	files := "'self'"
	if s.cfg.assetOrigin != "" {
		files += " " + s.cfg.assetOrigin + "/static/"
	}
	policy := "default-src 'none'; script-src " + files + "; style-src " + files + "; img-src " + files +
		" data: blob:; " +
		"connect-src 'self'; font-src " + files +
		"; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	csp, nosniff := []string{policy}, []string{"nosniff"}
	year, closing := []string{"max-age=31536000"}, []string{"close"}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Counts.Request()
		h := w.Header()
		h["Content-Security-Policy"] = csp
		h["X-Content-Type-Options"] = nosniff
		h["Referrer-Policy"] = sameOrigin
		// A proxy that ends such a request elsewhere than net/http does must not find a second one
		// behind it. net/http hides Transfer-Encoding in HTTP/1.0.
		if len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) || s.desk.isClosing() {
			h["Connection"] = closing
		}
		if s.desk.secure(r) {
			h["Strict-Transport-Security"] = year
		}
		next.ServeHTTP(w, r)
	})
}

// answerBusy answers a request on a connection beyond the limit.
func (s *Server) answerBusy(w http.ResponseWriter, r *http.Request) {
	s.headers(s.desk.handle(func(http.ResponseWriter, *http.Request) error { return seckill.ErrBusy })).ServeHTTP(w, r)
}

// private forbids every cache to store the answer.
func private(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Cache-Control"] = noStore
		next.ServeHTTP(w, r)
	})
}

func withTimeout(limit time.Duration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), limit)
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}

// sameSite refuses a change that a page of another site requests.
func (s *Server) sameSite(next http.Handler) http.Handler {
	p := http.NewCrossOriginProtection()
	p.SetDenyHandler(http.HandlerFunc(s.refuseOrigin))
	return p.Handler(next)
}

// recoverer answers a panic with internal, and logs its stack.
func (s *Server) recoverer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler {
					panic(p)
				}
				s.desk.writeError(w, r, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// oneMeaning refuses a path below /api that a proxy reads as another one, and a query that two readers may read as two:
// with a field that comes twice, with a semicolon, with a wrong escape, or with a text that Postgres cannot take.
func (s *Server) oneMeaning(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/") {
			err := checkPath(r.URL)
			if err == nil && r.URL.RawQuery != "" {
				err = checkQuery(r.URL.RawQuery)
			}
			if err != nil {
				s.desk.writeError(w, r, err)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// refusalWait is how long a request beyond the limit of all requests of its address waits for its refusal.
const refusalWait = time.Second

// bound refuses what an address asks for beyond the limit of all its requests. A refusal costs as much as an answer
// from memory, so it waits: a client that never stops receives as many refusals a second as it has connections. Whoever
// measures the shop at its own machine is not bound. A payment provider has one address for all its notices: of those
// only the refused ones count, and have their own limit.
func (s *Server) bound(next http.Handler) http.Handler {
	b, forged := newBuckets(requests, s.cfg.requests()), newBuckets(forgedNotices, s.cfg.of(forgedNotices))
	if b.most.Burst == 0 {
		return next // --ip-rate off
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, notice, err := bucketKey{addr: s.desk.clientNetwork(r)}, r.Method == http.MethodPost &&
			r.URL.Path == noticePath, error(nil)
		if notice {
			err = forged.empty(from)
		} else {
			err = b.take(from)
		}
		if err == nil || atThisMachine(r) {
			next.ServeHTTP(w, r)
			if answer, ok := w.(*statusWriter); notice && ok && answer.status/100 == 4 {
				forged.take(from)
			}
			return
		}
		wait := time.NewTimer(refusalWait)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-r.Context().Done():
		case <-s.desk.closing:
		}
		s.desk.writeError(w, r, err)
	})
}

// A proxy that was set up with one line sends its own address as Host, or the shop's name to a shop that does not
// know it. Then all POSTs or all requests are refused, so the answer and the log say which header came and what to
// set.

// refuseHost answers a request for a name that is none of this shop's.
func (s *Server) refuseHost(w http.ResponseWriter, r *http.Request) {
	s.strangeHost.Do(func() {
		s.desk.log.Warn(
			"requests are refused because their header Host is no name of this shop: add the name with --allow-host (MIAOSHA_ALLOW_HOST), or the address of the proxy in front with --trusted-proxies (MIAOSHA_TRUSTED_PROXIES)",
			"host", headerText(r.Host), "from", r.RemoteAddr)
	})
	refuseHostName(w, r, headerText(r.Host))
}

// refuseOrigin answers a change that a page with another origin than the shop's requests.
func (s *Server) refuseOrigin(w http.ResponseWriter, r *http.Request) {
	site, origin, host := headerText(r.Header.Get("Sec-Fetch-Site")), headerText(
		r.Header.Get("Origin")), headerText(r.Host)
	if site != "" { // the browser has compared the two by itself
		refuseSite(w, r, site)
		return
	}
	s.strangeOrigin.Do(func() {
		s.desk.log.Warn(
			"POSTs are refused because their header Origin, the address of the page, is not that of the header Host: let the proxy in front pass Host on (nginx: proxy_set_header Host $http_host) and set X-Forwarded-For and X-Forwarded-Proto, and name it with --trusted-proxies or the shop with --allow-host",
			"origin", origin, "host", host, "x_forwarded_proto", headerText(r.Header.Get("X-Forwarded-Proto")),
			"from", r.RemoteAddr)
	})
	refuseOtherOrigin(w, r, origin, host)
}

// measure counts each request and its time. It is the outermost handler of the router.
func (s *Server) measure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		answer := statusWriter{ResponseWriter: w}
		next.ServeHTTP(&answer, r)
		status := answer.status
		switch {
		case status == 0 && r.Context().Err() != nil:
			status = statusGone
		case status == 0:
			status = http.StatusOK
		}
		s.http.observe(chi.RouteContext(r.Context()), status, time.Since(began))
	})
}

// Collectors returns the metrics of the HTTP layer. Register them once.
func (s *Server) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.http.seconds, s.handlers.payments.notices}
}
