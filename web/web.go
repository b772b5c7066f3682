// Package web is the HTTP layer of the shop: the routes, the pages, and the translation between HTTP
// and the domains. It decides nothing about sales. A handler parses the request, calls one domain and
// writes the answer. Only errors.go maps an error to a status and a code.
package web

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/time/rate"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/admin"
	"miaosha/seckill/captcha"
	"miaosha/seckill/live"
	"miaosha/seckill/payment"
	"miaosha/seckill/purpose"
	"miaosha/user"
)

// Config has the settings of the HTTP layer.
type Config struct {
	Rate           string   `name:"rate" env:"MIAOSHA_RATE" default:"5" help:"Requests of a purchase (address, buy, result, events) per user, a number a second or a rate such as 30/min, and as many for orders, payments and the account; off for load tests. A bucket holds what comes in two seconds, or in the time of the rate: 30/min lets 30 pass at once, and up to 60 in a minute."`
	IPRate         string   `name:"ip-rate" env:"MIAOSHA_IP_RATE" default:"200" help:"The same per address, which a whole class may share, with the same burst; off for none, also of TLS handshakes."`
	TrustedProxies []string `name:"trusted-proxies" env:"MIAOSHA_TRUSTED_PROXIES" help:"Networks whose X-Forwarded-For counts, such as 10.0.0.0/8; attached for those that this machine is attached to, as in a container that only proxies reach."`
	TimeZone       string   `name:"time-zone" env:"MIAOSHA_TIME_ZONE" default:"Local" help:"Zone of the time menu, such as Asia/Shanghai."`
	NotifySecret   string   `name:"notify-secret" env:"MIAOSHA_NOTIFY_SECRET" help:"Key with which the payment provider signs its notices: at least 32 bytes."`
	ShopName       string   `name:"shop-name" env:"MIAOSHA_SHOP_NAME" placeholder:"NAME" help:"The seller's name, at the top of every page and on every order: at most 40 characters."`
	AssetURL       string   `name:"asset-url" env:"MIAOSHA_ASSET_URL" placeholder:"URL" help:"Where browsers load scripts, styles and pictures from: a CDN that asks the shop for /static/, such as https://cdn.example. The shop itself if not given."`
	Cashier        string   `name:"cashier" env:"MIAOSHA_CASHIER" enum:"auto,sandbox,off" default:"auto" help:"The play-money cashier: auto leaves it out if the shop has --provider-url, or --notify-secret and a database of its own. Beside a provider it takes the new payments."`
	LiveView       string   `name:"live-view" env:"MIAOSHA_LIVE_VIEW" enum:"staff,public" default:"staff" help:"Who may watch the live view at /live.html: the staff and those with a link, or everyone (public)."`
	zone           *time.Location
	assetOrigin    string     // AssetURL without a slash at its end
	rate, ipRate   user.Limit // zero: off
}

// Validate checks the settings and parses them. Its errors name the setting.
func (c *Config) Validate() (err error) {
	if c.rate, err = parseRate(c.Rate); err != nil {
		return fmt.Errorf("--rate: %w", err)
	}
	if c.ipRate, err = parseRate(c.IPRate); err != nil {
		return fmt.Errorf("--ip-rate: %w", err)
	}
	if c.TrustedProxies, err = withAttached(c.TrustedProxies); err != nil {
		return fmt.Errorf("--trusted-proxies: %w", err)
	}
	for _, p := range c.TrustedProxies {
		if _, err := netip.ParsePrefix(p); err != nil {
			return fmt.Errorf("--trusted-proxies: %q is not a network such as 10.0.0.0/8", p)
		}
	}
	if n := len(c.NotifySecret); n > 0 && n < payment.KeyBytes {
		return fmt.Errorf("--notify-secret (MIAOSHA_NOTIFY_SECRET): %d bytes are too short, at least %d: whoever guesses it pays without money", n, payment.KeyBytes)
	}
	if utf8.RuneCountInString(c.ShopName) > 40 || strings.ContainsFunc(c.ShopName, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return errors.New("--shop-name (MIAOSHA_SHOP_NAME): at most 40 characters, all of them printable")
	}
	if c.assetOrigin = strings.TrimSuffix(c.AssetURL, "/"); c.AssetURL != "" && !assetURL.MatchString(c.assetOrigin) {
		return fmt.Errorf("--asset-url (MIAOSHA_ASSET_URL): %q is not an address such as https://cdn.example or https://cdn.example/shop", c.AssetURL)
	}
	if c.zone, err = time.LoadLocation(c.TimeZone); err != nil {
		return fmt.Errorf("--time-zone: %q is not known", c.TimeZone)
	}
	return nil
}

// withAttached returns the networks with those of this machine's interfaces, except loopback, in place of the word
// attached.
func withAttached(networks []string) (all []string, err error) {
	for _, network := range networks {
		if network != "attached" {
			all = append(all, network)
			continue
		}
		own, err := net.InterfaceAddrs()
		if err != nil {
			return nil, fmt.Errorf("attached: %w", err)
		}
		found := len(all)
		for _, a := range own {
			if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLoopback() {
				all = append(all, p.Masked().String())
			}
		}
		if len(all) == found {
			return nil, errors.New("attached: this machine has no network but its own")
		}
	}
	return all, nil
}

// assetURL is written as browsers write it, and has nothing that would end a source of the content security policy.
var assetURL = regexp.MustCompile(`^https?://[a-z0-9.-]+(:[0-9]+)?(/[A-Za-z0-9._~-]+)*$`)

// parseRate parses a rate; a number alone is one a second.
func parseRate(s string) (user.Limit, error) {
	if s == "off" {
		return user.Limit{}, nil
	}
	if !strings.Contains(s, "/") {
		s += "/s"
	}
	r, err := user.ParseRate(s)
	if err != nil {
		return user.Limit{}, errors.New("a number above 0, a rate such as 30/min, or off")
	}
	return user.NewLimit(r), nil
}

// Deps is everything that the HTTP layer calls.
type Deps struct {
	Users    *user.Store
	Sessions *user.Sessions
	Cache    *goods.Cache
	Orders   *order.Store
	Rush     *seckill.Engine
	Sums     *captcha.Sums // nil: none are asked for
	Bans     *user.Bans    // nil: no one is banned
	Counts   *live.Counts  // nil: nothing is counted
	Live     *live.Monitor // for the live view
	Admin    *admin.Store
	Tickets  *admin.Tickets
	Source   fs.FS           // of the code that a ticket's timeline shows; nil: none
	Provider *payment.Remote // the payment provider outside the shop; nil: none
	Lab      *Lab
	Log      *slog.Logger
	Secret   []byte
	Sandbox  bool  // the shop runs its own stores: answers contain SMS codes, and money is play money
	Demo     *Demo // of a sandbox; nil: none

	PostgresAhead func() time.Duration // of this process's clock; nil: not at all
}

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

// newHandlers gives each handler what it needs.
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
	h.buyerOrders = &buyerOrders{desk, d.Orders, h.payments, timelines, d.Rush, d.PostgresAhead, cfg.ShopName, d.Sandbox}
	h.sums = &visitorSums{desk, d.Sums}
	h.accounts = &accounts{desk, d.Users, d.Sessions, d.Orders, d.Admin, h.sums, d.Sandbox}
	h.liveView = &liveView{desk, d.Live, d.Admin, purpose.LiveView.Key(d.Secret), cfg.LiveView == "public", streams, newStreamPlaces(maxGuests, 0)}
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

func (d *desk) isClosing() bool {
	select {
	case <-d.closing:
		return true
	default:
		return false
	}
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.refusing.Load() {
		s.answerBusy(w, r)
		return
	}
	s.handler.ServeHTTP(w, r)
}

// Refuse answers every later request as busy, until the process ends: what it remembers may not be so any more.
func (s *Server) Refuse() { s.refusing.Store(true) }

// secure reports whether the browser uses TLS: to this server, or to a trusted proxy which says so.
func (c *clients) secure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	if !strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		return false
	}
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	return c.isProxy(peer.Addr().Unmap())
}

// isProxy reports whether addr is a trusted proxy. The zero Addr is none.
func (c *clients) isProxy(addr netip.Addr) bool {
	return slices.ContainsFunc(c.proxies, func(network string) bool {
		return netip.MustParsePrefix(network).Contains(addr)
	})
}

// Zone returns the time zone of the time menu. Call it after Validate.
func (c Config) Zone() *time.Location { return c.zone }
