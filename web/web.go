// Package web is the HTTP layer of the shop: the routes, the pages, and the translation between HTTP
// and the domains. It decides nothing about sales. A handler parses the request, calls one domain and
// writes the answer. Only errors.go maps an error to a status and a code.
package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"golang.org/x/time/rate"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/user"
)

// Config has the settings of the HTTP layer.
type Config struct {
	Rate           string   `name:"rate" env:"MIAOSHA_RATE" default:"5" help:"Requests of a purchase (address, buy, result, events) a second per user, and as many for orders, payments and the account; off for load tests."`
	IPRate         string   `name:"ip-rate" env:"MIAOSHA_IP_RATE" default:"200" help:"The same per address, which a whole class may share; off for none."`
	TrustedProxies []string `name:"trusted-proxies" env:"MIAOSHA_TRUSTED_PROXIES" help:"Networks whose X-Forwarded-For counts, such as 10.0.0.0/8."`
	TimeZone       string   `name:"time-zone" env:"MIAOSHA_TIME_ZONE" default:"Local" help:"Zone of the time menu, such as Asia/Shanghai."`
	NotifySecret   string   `name:"notify-secret" env:"MIAOSHA_NOTIFY_SECRET" help:"Key with which the payment provider signs; made from the secret if not given."`
	Cashier        string   `name:"cashier" env:"MIAOSHA_CASHIER" enum:"auto,sandbox,off" default:"auto" help:"The play-money cashier: auto leaves it out if the shop has --notify-secret and a database of its own."`
	zone           *time.Location
	rate, ipRate   float64 // 0: off
}

// Validate checks the settings and parses them. Its errors name the setting.
func (c *Config) Validate() (err error) {
	if c.rate, err = parseRate(c.Rate); err != nil {
		return fmt.Errorf("--rate: %w", err)
	}
	if c.ipRate, err = parseRate(c.IPRate); err != nil {
		return fmt.Errorf("--ip-rate: %w", err)
	}
	for _, p := range c.TrustedProxies {
		if _, err := netip.ParsePrefix(p); err != nil {
			return fmt.Errorf("--trusted-proxies: %q is not a network such as 10.0.0.0/8", p)
		}
	}
	if c.zone, err = time.LoadLocation(c.TimeZone); err != nil {
		return fmt.Errorf("--time-zone: %q is not known", c.TimeZone)
	}
	return nil
}

func parseRate(s string) (float64, error) {
	if s == "off" {
		return 0, nil
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || !(n > 0) || n > 1e9 { // the second form also refuses NaN
		return 0, errors.New("a number above 0, or off")
	}
	return n, nil
}

// Deps is everything that the HTTP layer calls.
type Deps struct {
	Users    *user.Store
	Sessions *user.Sessions
	Cache    *goods.Cache
	Orders   *order.Store
	Rush     *seckill.Engine
	Lab      *Lab
	Log      *slog.Logger
	Secret   []byte
	Sandbox  bool // the shop runs its own stores: answers contain SMS codes, and money is play money
}

// Server answers the shop's requests. It is an http.Handler.
type Server struct {
	Deps
	cfg            Config
	buyLimits      limits               // buy, address, result and event streams
	accountLimits  limits               // orders, payments and the account: in this process, so paying needs no Redis
	pictureBuckets *buckets[int64]      // of their own, so that drawing captchas takes no buy requests
	wordsBuckets   *buckets[int64]      // smaller, since programs can read sums in words
	loginPictures  *buckets[netip.Addr] // sums of the log-in: pictures and answers
	loginWords     *buckets[netip.Addr] // the same in words
	loginSites     *buckets[string]     // both, per /24 or /48
	assets         *assets
	prepared       *prepared
	cashier        *cashier
	notifyKey      []byte        // signs the payment provider's notices
	closing        chan struct{} // closed when event streams must end
	streams        streamCounts
	handler        http.Handler
	faults         rate.Sometimes // logs at most one unavailable store a second
	forged         refusedNotices // without a right signature
	untimely       refusedNotices // with one, for another time
}

// refusedNotices are notices of which at most one a second is logged, after the first noticesLogged.
type refusedNotices struct {
	since atomic.Int64 // the last one that was logged
	log   rate.Sometimes
}

const noticesLogged = 20

// New returns a Server. self is the URL at which the sandbox cashier will reach it, such as
// http://127.0.0.1:8080.
func New(cfg Config, d Deps, self string) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{Deps: d, cfg: cfg, closing: make(chan struct{}), streams: streamCounts{ofUser: map[int64]int{}},
		faults:    rate.Sometimes{Interval: time.Second},
		buyLimits: newLimits(cfg), accountLimits: newLimits(cfg),
		pictureBuckets: newBuckets[int64](cfg.rate), wordsBuckets: newBuckets[int64](wordsRate),
		loginPictures: newBuckets[netip.Addr](loginPictureRate), loginWords: newBuckets[netip.Addr](loginWordsRate), loginSites: newBuckets[string](loginSiteRate)}
	s.forged.log = rate.Sometimes{First: noticesLogged, Interval: time.Second}
	s.untimely.log = rate.Sometimes{First: noticesLogged, Interval: time.Second}
	var err error
	if s.assets, err = loadAssets(d.Sandbox); err != nil {
		return nil, err
	}
	if s.prepared, err = newPrepared(); err != nil {
		return nil, err
	}
	s.notifyKey = []byte(cfg.NotifySecret)
	if cfg.NotifySecret == "" {
		s.notifyKey = deriveKey(d.Secret, "payment notices")
	}
	if cfg.Cashier == "sandbox" || cfg.Cashier == "auto" && (d.Sandbox || cfg.NotifySecret == "") {
		s.cashier = newCashier(self, s.notifyKey, d.Rush.Now)
	}
	s.handler = s.routes()
	return s, nil
}

// PlayMoney reports whether buyers pay at the sandbox cashier, which takes no money.
func (s *Server) PlayMoney() bool { return s.cashier != nil }

// Refund returns the function with which order.Store.Sweep refunds a payment. The sandbox cashier took
// no money, so its function only logs. Without that cashier Refund returns nil: the shop cannot refund
// through an outside provider, and a payment must not be called refunded before the money is back.
func (s *Server) Refund() func(context.Context, order.Payment) error {
	if s.cashier == nil {
		return nil
	}
	return func(_ context.Context, p order.Payment) error {
		s.Log.Info("refund of play money", "payment", p.ID, "order", p.OrderID, "amount", p.Amount)
		return nil
	}
}

// EndStreams ends all event streams, which would not end by themselves. Call it once, when the server
// shuts down.
func (s *Server) EndStreams() { close(s.closing) }

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// routes lists all routes of the shop.
func (s *Server) routes() http.Handler {
	r := chi.NewRouter()
	r.Use(s.recoverer, s.headers, s.sameSite)
	if len(s.cfg.TrustedProxies) > 0 {
		r.Use(middleware.ClientIPFromXFF(s.cfg.TrustedProxies...))
	}
	r.NotFound(s.handle(func(http.ResponseWriter, *http.Request) error { return errNoPage }))
	r.MethodNotAllowed(s.handle(func(w http.ResponseWriter, q *http.Request) error {
		methods := allowed(r, cmp.Or(q.URL.RawPath, q.URL.Path)) // as the router reads it
		if len(methods) == 0 {
			return errNoPage // the router takes a method that it does not know for a wrong one
		}
		w.Header().Set("Allow", strings.Join(methods, ", "))
		return errMethod
	}))

	// These routes have no time limit of their own. An event stream lasts as long as its client
	// listens. The engine bounds buy and result, the cache bounds the two lists. The lists set their
	// own Cache-Control.
	rush := r.With(private)
	rush.Get("/api/sales/{id}/events", s.loggedIn(s.limited(s.buyLimits, withID(saleID, s.saleEvents))))
	rush.Post("/api/sales/{id}/buy/{path}", s.handle(s.buy))
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		rush.Method(method, "/api/sales/{id}/result", s.loggedIn(s.limited(s.buyLimits, withID(saleID, s.result))))
		r.Method(method, "/api/sales", s.handle(s.listSales))
		r.Method(method, "/api/sales/{id}", s.handle(s.showSale))
	}
	rush.Post("/api/lab/race", s.inLab(s.raceInLab))
	rush.Post("/api/lab/try", s.inLab(s.tryInLab))
	r.Route("/api", func(r chi.Router) {
		r.Use(private, middleware.GetHead, withTimeout)
		r.Post("/otp", s.handle(s.sendCode))
		r.Post("/register", s.handle(s.register))
		r.Post("/login", s.handle(s.login))
		r.Get("/login/captcha", s.handle(s.loginCaptcha))
		r.Post("/logout", s.loggedIn(s.logout))
		r.Get("/me", s.loggedIn(s.limited(s.accountLimits, s.me)))
		r.Post("/password", s.loggedIn(s.changePassword))

		r.Get("/slots", s.handle(s.slots))
		r.Get("/sales/{id}/captcha", s.loggedIn(withID(saleID, s.captcha)))
		r.Post("/sales/{id}/path", s.loggedIn(s.limited(s.buyLimits, withID(saleID, s.path))))

		r.Get("/orders", s.loggedIn(s.limited(s.accountLimits, s.listOrders)))
		r.Get("/orders/{id}", s.loggedIn(s.limited(s.accountLimits, withID(orderID, s.showOrder))))
		r.Post("/orders/{id}/pay", s.loggedIn(s.limited(s.accountLimits, withID(orderID, s.pay))))
		r.Post("/orders/{id}/cancel", s.loggedIn(s.limited(s.accountLimits, withID(orderID, s.cancel))))
		r.Post("/payments/notify", s.handle(s.paymentNotice))
		if s.cashier != nil {
			r.Post("/cashier/{id}", s.loggedIn(s.limited(s.accountLimits, withID(orderID, s.useCashier))))
		}

		r.Get("/lab", s.inLab(s.showLab))
		r.Get("/lab/run", s.inLab(s.showLabRun))
		r.Post("/lab/run", s.inLab(s.startLab))
		r.Post("/lab/run/stop", s.inLab(s.stopLab))
	})
	r.Get("/*", s.handle(s.static))
	r.Head("/*", s.handle(s.static))
	return r
}

// allowed returns the methods of a path.
func allowed(r chi.Router, path string) (methods []string) {
	for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		if r.Match(chi.NewRouteContext(), m, path) || m == http.MethodHead && len(methods) > 0 {
			methods = append(methods, m)
		}
	}
	return methods
}

// secure reports whether the browser uses TLS: to this server, or to a trusted proxy which says so.
func (s *Server) secure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	if !strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		return false
	}
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	return s.isProxy(peer.Addr().Unmap())
}

// isProxy reports whether addr is a trusted proxy. The zero Addr is none.
func (s *Server) isProxy(addr netip.Addr) bool {
	return slices.ContainsFunc(s.cfg.TrustedProxies, func(network string) bool {
		return netip.MustParsePrefix(network).Contains(addr)
	})
}

// Zone returns the time zone of the time menu. Call it after Validate.
func (c Config) Zone() *time.Location { return c.zone }
