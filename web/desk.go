package web

import (
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"miaosha/user"
)

// desk is what all handlers of the shop share: how it answers and refuses, whose session a request has, and the limits. It knows
// none of them.
type desk struct {
	clients
	log        *slog.Logger
	faults     rate.Sometimes // logs at most one unavailable store a second
	closing    chan struct{}  // closed when the server stops
	sessions   *user.Sessions
	users      *user.Store
	bans       *user.Bans
	shopkeeper int64 // of a demo, whose password is public: the account is used at this machine only
	limits     *limiter
	assets     *assets
}

func newDesk(cfg Config, d Deps, a *assets) *desk {
	of := &desk{clients: clients{cfg.TrustedProxies}, log: d.Log, faults: rate.Sometimes{Interval: time.Second}, closing: make(chan struct{}),
		sessions: d.Sessions, users: d.Users, bans: d.Bans, limits: newLimiter(cfg), assets: a}
	if d.Demo != nil {
		of.shopkeeper = d.Demo.Shopkeeper
	}
	return of
}

// clients says who has sent a request, as far as the connection, the trusted proxies and the cookies tell.
type clients struct{ proxies []string }
