// Package web is the face of the shop: the routes, the pages, and the translation between HTTP and the domains. It
// decides nothing about sales: handlers parse, call one domain and write; errors.go alone gives a refusal its status.
package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"golang.org/x/time/rate"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/user"
)

// Config has the settings of the face.
type Config struct {
	Rate           string   `name:"rate" env:"MIAOSHA_RATE" default:"5" help:"Buy, address and result requests a second per user; off for load tests."`
	IPRate         string   `name:"ip-rate" env:"MIAOSHA_IP_RATE" default:"200" help:"The same per address: a class sits behind one. off turns it off."`
	TrustedProxies []string `name:"trusted-proxies" env:"MIAOSHA_TRUSTED_PROXIES" help:"Networks whose X-Forwarded-For counts, such as 10.0.0.0/8."`
	TimeZone       string   `name:"time-zone" env:"MIAOSHA_TIME_ZONE" default:"Local" help:"Zone of the time menu, such as Asia/Shanghai."`
	NotifySecret   string   `name:"notify-secret" env:"MIAOSHA_NOTIFY_SECRET" help:"Key with which the payment provider signs; made from the secret if not given."`
	Cashier        string   `name:"cashier" env:"MIAOSHA_CASHIER" enum:"auto,sandbox,off" default:"auto" help:"The play-money cashier: auto leaves it out where --notify-secret and an own database are given."`
	zone           *time.Location
	rate, ipRate   float64 // 0: off
}

// Validate refuses what can't be meant and prepares the rest.
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
	if err != nil || !(n > 0) || n > 1e9 {
		return 0, errors.New("a number above 0, or off")
	}
	return n, nil
}

// Deps is what the face speaks to.
type Deps struct {
	Users    *user.Store
	Sessions *user.Sessions
	Cache    *goods.Cache
	Orders   *order.Store
	Rush     *seckill.Engine
	Lab      *Lab
	Log      *slog.Logger
	Secret   []byte
	Sandbox  bool // own stores: codes are shown, and money is play money
}

// Server answers the shop's requests. It is an http.Handler.
type Server struct {
	Deps
	cfg      Config
	users    *buckets[int64]
	pictures *buckets[int64] // captchas have a bucket of their own: who looks at sums may still buy
	words    *buckets[int64] // and sums in words, which a program reads too, a small one
	addrs    *buckets[netip.Addr]
	assets   *assets
	prepared *prepared
	cashier  *cashier
	notify   []byte        // key of the provider's signatures
	closing  chan struct{} // closed when long answers are to end
	events   chan struct{} // one token per listener
	mine     listeners     // and who they are
	handler  http.Handler
	faults   rate.Sometimes // of the faults in a second, one is logged
}

// New gives a Server. self is the address at which the server will be reached by its own cashier, such as
// http://127.0.0.1:8080.
func New(cfg Config, d Deps, self string) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{Deps: d, cfg: cfg, closing: make(chan struct{}), events: make(chan struct{}, maxListeners), mine: listeners{of: map[int64]int{}},
		faults: rate.Sometimes{Interval: time.Second}, users: newBuckets[int64](cfg.rate), pictures: newBuckets[int64](cfg.rate), words: newBuckets[int64](wordsRate), addrs: newBuckets[netip.Addr](cfg.ipRate)}
	var err error
	if s.assets, err = loadAssets(d.Sandbox); err != nil {
		return nil, err
	}
	if s.prepared, err = newPrepared(); err != nil {
		return nil, err
	}
	s.notify = []byte(cfg.NotifySecret)
	if cfg.NotifySecret == "" {
		s.notify = derive(d.Secret, "payment notices")
	}
	if cfg.Cashier == "sandbox" || cfg.Cashier == "auto" && (d.Sandbox || cfg.NotifySecret == "") {
		s.cashier = newCashier(self, s.notify, d.Rush.Now)
	}
	s.handler = s.routes()
	return s, nil
}

// PlayMoney tells whether buyers pay at the sandbox cashier, which takes no money.
func (s *Server) PlayMoney() bool { return s.cashier != nil }

// Refund gives the way to give money back that order.Store.Sweep asks for, nil if there is none: a provider's is not
// known here, and what nobody gave back must not be called refunded. The sandbox cashier never took any.
func (s *Server) Refund() func(context.Context, order.Payment) error {
	if s.cashier == nil {
		return nil
	}
	return func(_ context.Context, p order.Payment) error {
		s.Log.Info("refund of play money", "payment", p.ID, "order", p.OrderID, "amount", p.Amount)
		return nil
	}
}

// EndStreams ends the answers that would go on for ever; call it when the server shuts down.
func (s *Server) EndStreams() { close(s.closing) }

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// routes is the whole face on one screen.
func (s *Server) routes() http.Handler {
	r := chi.NewRouter()
	r.Use(s.recoverer, s.headers, s.sameSite)
	if len(s.cfg.TrustedProxies) > 0 {
		r.Use(middleware.ClientIPFromXFF(s.cfg.TrustedProxies...))
	}
	r.NotFound(s.handle(func(http.ResponseWriter, *http.Request) error { return errNoPage }))
	r.MethodNotAllowed(s.handle(func(w http.ResponseWriter, q *http.Request) error {
		w.Header().Set("Allow", strings.Join(allowed(r, q.URL.Path), ", "))
		return errMethod
	}))

	// The events go on for as long as somebody listens. The two routes of the rush have the engine's limits for a limit, and
	// the two of the shop window the cache's; these say themselves who may keep them.
	rush := r.With(private)
	rush.Get("/api/sales/{id}/events", s.as(s.listen))
	rush.Post("/api/sales/{id}/buy/{path}", s.handle(s.buy))
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		rush.Method(method, "/api/sales/{id}/result", s.as(s.limited(s.result)))
		r.Method(method, "/api/sales", s.handle(s.listSales))
		r.Method(method, "/api/sales/{id}", s.handle(s.showSale))
	}
	rush.Post("/api/lab/race", s.inLab(s.raceInLab))
	rush.Post("/api/lab/try", s.inLab(s.tryInLab))
	r.Route("/api", func(r chi.Router) {
		r.Use(private, middleware.GetHead, inTime)
		r.Post("/otp", s.handle(s.sendCode))
		r.Post("/register", s.handle(s.register))
		r.Post("/login", s.handle(s.login))
		r.Post("/logout", s.as(s.logout))
		r.Get("/me", s.as(s.me))
		r.Post("/password", s.as(s.changePassword))

		r.Get("/slots", s.handle(s.slots))
		r.Get("/sales/{id}/captcha", s.as(s.captcha))
		r.Post("/sales/{id}/path", s.as(s.limited(s.path)))

		r.Get("/orders", s.as(s.listOrders))
		r.Get("/orders/{id}", s.as(s.showOrder))
		r.Post("/orders/{id}/pay", s.as(s.pay))
		r.Post("/orders/{id}/cancel", s.as(s.cancel))
		r.Post("/payments/notify", s.handle(s.paid))
		if s.cashier != nil {
			r.Post("/cashier/{id}", s.as(s.cash))
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

// allowed lists the methods that a path answers.
func allowed(r chi.Router, path string) (methods []string) {
	for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		if r.Match(chi.NewRouteContext(), m, path) || m == http.MethodHead && len(methods) > 0 {
			methods = append(methods, m)
		}
	}
	return methods
}

// secure tells whether the browser speaks TLS: to us, or to a trusted proxy that says so.
func (s *Server) secure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	if len(s.cfg.TrustedProxies) == 0 || !strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		return false
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	for _, p := range s.cfg.TrustedProxies {
		if netip.MustParsePrefix(p).Contains(peer.Addr().Unmap()) {
			return true
		}
	}
	return false
}

// Zone is the zone of the time menu. Call it after Validate.
func (c Config) Zone() *time.Location { return c.zone }
