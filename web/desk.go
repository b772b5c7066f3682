package web

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"miaosha/seckill/admin"
	"miaosha/user"
)

// desk is what all handlers of the shop share: how it answers and refuses, whose session a request has, and the limits.
// It knows none of them.
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
	of := &desk{clients: clients{cfg.TrustedProxies}, log: d.Log, faults: rate.Sometimes{Interval: time.Second},
		closing:  make(chan struct{}),
		sessions: d.Sessions, users: d.Users, bans: d.Bans, limits: newLimiter(cfg), assets: a}
	if d.Demo != nil {
		of.shopkeeper = d.Demo.Shopkeeper
	}
	return of
}

// openHandler is a handler for anyone, sessionHandler one for logged-in users, idHandler one for their things or a
// sale.
type (
	openHandler       = func(http.ResponseWriter, *http.Request) error
	sessionHandler    = func(http.ResponseWriter, *http.Request, user.Session) error
	idHandler[ID any] = func(http.ResponseWriter, *http.Request, user.Session, ID) error
	saleHandler       = idHandler[int64]
)

// handle makes an http.HandlerFunc of a handler that returns an error.
func (d *desk) handle(h func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			d.writeError(w, r, err)
		}
	}
}

// writeError answers with the refusal of err, as errors.go says.
func (d *desk) writeError(w http.ResponseWriter, r *http.Request, err error) {
	writeError(w, r, err, d.log, &d.faults)
}

func (d *desk) isClosing() bool {
	select {
	case <-d.closing:
		return true
	default:
		return false
	}
}

// loggedIn runs a handler with the session of the user, and refuses a request without one.
func (d *desk) loggedIn(h sessionHandler) openHandler {
	return func(w http.ResponseWriter, r *http.Request) error {
		token := d.token(r)
		if token == "" {
			return errNotLoggedIn
		}
		session, err := d.session(r, token)
		if err != nil {
			return err
		}
		markSession(r.Context())
		return h(w, r, session)
	}
}

// session returns the session of a token, if its user may use it from where the request comes and is the one whom the
// page believes to be logged in.
func (d *desk) session(r *http.Request, token string) (user.Session, error) {
	session, err := d.sessions.Get(r.Context(), token)
	if err != nil {
		return user.Session{}, err
	}
	if !isFor(r, session.UserID) {
		return user.Session{}, errOtherUser
	}
	return session, d.checkPlace(r, session.UserID)
}

// orVisitor answers null to a request without any credential: a page asks who its visitor is, and a visitor
// is no error. Every other request goes on to h, also with a credential that no session can have.
func (d *desk) orVisitor(h openHandler) openHandler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if !hasCredential(r) {
			return ok(w, 200, nil)
		}
		return h(w, r)
	}
}

// checkPlace refuses the demo shopkeeper from another machine, with errElsewhere: everyone knows that password.
func (d *desk) checkPlace(r *http.Request, user int64) error {
	if user != d.shopkeeper || atThisMachine(r) {
		return nil
	}
	return errElsewhere
}

// limited runs a handler if the limits allow it.
func (d *desk) limited(l ruleBuckets, h sessionHandler) sessionHandler {
	return func(w http.ResponseWriter, r *http.Request, session user.Session) error {
		if err := d.allow(l, r, session.UserID); err != nil {
			return err
		}
		return h(w, r, session)
	}
}

// allow takes a token from each limit of a route, in the order of its row, and returns the first refusal. The
// user's limits stand before those of the address: a user who is refused takes nothing from the others behind
// the address. A route for anyone has no limit of a user; its userID is 0.
func (d *desk) allow(l ruleBuckets, r *http.Request, userID int64) error {
	if l.buys {
		if err := d.bans.Check(userID); err != nil {
			return err
		}
	}
	for _, b := range l.buckets {
		if b.most == (user.Limit{}) {
			continue
		}
		switch b.per {
		case perAddress:
			if err := b.take(bucketKey{addr: d.clientNetwork(r)}); err != nil {
				return err
			}
		case perNetwork:
			if err := b.take(bucketKey{addr: d.clientSite(r)}); err != nil {
				return err
			}
		default:
			if err := d.allowUser(b, r, userID); err != nil {
				d.bans.Refused(userID)
				return err
			}
		}
	}
	return nil
}

// allowUser takes a token from the user's bucket in this process and then, if the limit is shared, from the one in
// Redis. While Redis is away, the bucket in this process counts alone.
func (d *desk) allowUser(b *buckets, r *http.Request, userID int64) error {
	if err := b.take(bucketKey{user: userID}); err != nil || b.name == "" {
		return err
	}
	err := d.users.Count(r.Context(), b.name, userID, b.most)
	if errors.Is(err, user.ErrUnavailable) {
		d.faults.Do(func() { d.log.Warn("a limit counts in this process alone", "limit", b.name, "err", err) })
		return nil
	}
	return err
}

// orMissingPage runs h. A browser that asks for a page or a picture which is not there sees a page that says so; a
// program, a script, and whoever asks below /api receive the refusal.
func (d *desk) orMissingPage(h openHandler) openHandler {
	return func(w http.ResponseWriter, r *http.Request) error {
		err := h(w, r)
		missing := err == errNoPage || errors.Is(err, admin.ErrNoPicture)
		if !missing || strings.HasPrefix(r.URL.Path, "/api/") ||
			!strings.Contains(r.Header.Get("Accept"), "text/html") {
			return err
		}
		out := w.Header()
		out["Cache-Control"], out["Vary"], out["Cross-Origin-Opener-Policy"] = noStore, varySales, sameOrigin
		f := d.assets.absent.in(chinese(r))
		f.write(w, r, http.StatusNotFound, f.contentType)
		return nil
	}
}
