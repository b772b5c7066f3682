package web

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/admin"
	"miaosha/seckill/captcha"
	"miaosha/seckill/live"
	"miaosha/user"
)

// Config has the settings of the HTTP layer.
type Config struct {
	Rate           string   `name:"rate" env:"MIAOSHA_RATE" default:"5" help:"Requests of a purchase (address, buy, result, events) per user, a number a second or a rate such as 30/min, and as many for orders, payments and the account; off for load tests. A bucket holds what comes in two seconds, or in the time of the rate: 30/min lets 30 pass at once, and up to 60 in a minute."`
	IPRate         string   `name:"ip-rate" env:"MIAOSHA_IP_RATE" default:"200" help:"The same per address, which a whole class may share, with the same burst; off for none, also of TLS handshakes."`
	TrustedProxies []string `name:"trusted-proxies" env:"MIAOSHA_TRUSTED_PROXIES" help:"Networks whose X-Forwarded-For counts, such as 10.0.0.0/8; attached for those that this machine is attached to, as in a container that only proxies reach."`
	TimeZone       string   `name:"time-zone" env:"MIAOSHA_TIME_ZONE" default:"Local" help:"Zone of the time menu, such as Asia/Shanghai."`
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
	if utf8.RuneCountInString(c.ShopName) > 40 || strings.ContainsFunc(c.ShopName,
		func(r rune) bool { return !unicode.IsPrint(r) }) {
		return errors.New("--shop-name (MIAOSHA_SHOP_NAME): at most 40 characters, all of them printable")
	}
	if c.assetOrigin = strings.TrimSuffix(c.AssetURL, "/"); c.AssetURL != "" && !assetURL.MatchString(c.assetOrigin) {
		return fmt.Errorf(
			"--asset-url (MIAOSHA_ASSET_URL): %q is not an address such as https://cdn.example or https://cdn.example/shop",
			c.AssetURL)
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

// Zone returns the time zone of the time menu. Call it after Validate.
func (c Config) Zone() *time.Location { return c.zone }

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
	Source   fs.FS     // of the code that a ticket's timeline shows; nil: none
	Outside  []Outside // the payment providers outside the shop
	Lab      *Lab
	Log      *slog.Logger
	Secret   []byte
	Sandbox  bool  // the shop runs its own stores: answers contain SMS codes, and money is play money
	Demo     *Demo // of a sandbox; nil: none

	PostgresAhead func() time.Duration // of this process's clock; nil: not at all
}

// Outside is a payment provider outside the shop, with what its settings say.
type Outside interface {
	order.Provider
	CanBeAsked() bool            // the shop has its address; without one the staff returns its money by hand
	Notifies() bool              // the shop has the key of its notices
	CheckKeys(shop []byte) error // if a key is missing, or is that of another purpose; shop is the shop's own
}

// Demo is what a sandbox has beside the shop, for a person who is alone with it. No other shop has it.
type Demo struct {
	Local bool // only this machine reaches the shop
	// by the name of their button: buyer and, if only this machine reaches the shop, admin
	Accounts map[string]DemoAccount
	Bots     Bots
	Teacher  Teacher // nil where other machines reach the shop

	// of this shop, which the commands of the index carry; "" for the folder that commands take anyway, and without an
	// operator's port
	DataDir, OpsURL string

	Shopkeeper int64 // the account whose password is public: it is used at this machine only

	Addresses []string // URLs at which the machines of its network may reach the shop, for a class
}

// Bots sends crowds of bots to sales, one crowd at a time.
type Bots interface {
	Busy() bool            // bots are under way
	Start(sale int64) bool // false while they are
	State() any            // of this run, or of the last one
}

// Teacher breaks parts of the sandbox on purpose, one at a time. Each fault ends by itself.
type Teacher interface {
	Can() map[string]string               // the faults, with why one is not possible here; "" if it is
	Busy() bool                           // a fault is under way
	Start(fault string, seconds int) bool // 0 seconds: as long as it lasts by default; false while a fault is under way
	State() any                           // of this fault, or of the last one
}

// DemoAccount is an account whose password is public.
type DemoAccount struct{ Phone, Password string }
