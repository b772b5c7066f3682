package web

import (
	"crypto/rand"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5/middleware"

	"miaosha/user"
)

// clients says who has sent a request, as far as the connection, the trusted proxies and the cookies tell.
type clients struct{ proxies []string }

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

// clientAddr returns the address of the client: the peer, or the address that trusted proxies report.
// It is the zero Addr if that is not known.
func (c *clients) clientAddr(r *http.Request) netip.Addr {
	if len(c.proxies) > 0 {
		return middleware.GetClientIPAddr(r.Context())
	}
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	return peer.Addr().Unmap()
}

// clientNetwork returns clientAddr, or the /64 network of an IPv6 address, as the key of a bucket.
func (c *clients) clientNetwork(r *http.Request) netip.Addr {
	return networkOf(c.clientAddr(r), 32, 64)
}

// clientSite returns the /24 network of clientAddr, or the /48 of an IPv6 address, as user.Site does.
func (c *clients) clientSite(r *http.Request) netip.Addr { return networkOf(c.clientAddr(r), 24, 48) }

// networkOf returns the first address of a network of so many bits; the zero Addr of the zero Addr.
func networkOf(addr netip.Addr, v4, v6 int) netip.Addr {
	bits := v6
	if addr.Is4() {
		bits = v4
	}
	p, _ := addr.Prefix(bits)
	return p.Addr()
}

// clientIP returns clientAddr as text, "?" if it is not known.
func (c *clients) clientIP(r *http.Request) string {
	if a := c.clientAddr(r); a.IsValid() {
		return a.String()
	}
	return "?"
}

// origin is where the holder of a place comes from.
type origin struct{ addr, site netip.Addr } // see clientNetwork and clientSite

func (c *clients) originOf(r *http.Request) origin {
	return origin{c.clientNetwork(r), c.clientSite(r)}
}

// token returns the session token from Authorization or from the cookie, but never from the URL.
func (c *clients) token(r *http.Request) string {
	if h := r.Header.Get("Authorization"); h != "" {
		if scheme, token, ok := strings.Cut(h, " "); ok && strings.EqualFold(scheme, "Bearer") {
			return strings.TrimSpace(token)
		}
		return ""
	}
	if cookie, err := r.Cookie(c.cookieName(r, "session")); err == nil {
		return cookie.Value
	}
	return ""
}

// hasCredential reports whether a request has a credential, also a cookie that net/http leaves out because of its
// value.
func hasCredential(r *http.Request) bool {
	for _, line := range r.Header["Cookie"] {
		for pair := range strings.SplitSeq(line, ";") {
			if name, _, _ := strings.Cut(strings.TrimSpace(pair), "="); name == "session" || name == "__Host-session" {
				return true
			}
		}
	}
	return r.Header["Authorization"] != nil
}

// isFor reports whether a request is for a user. Tabs of a browser share one cookie, so a page may still show the user
// who was logged in before: it says whose it is, 0 for a visitor's, in the header X-User or, where a browser sends no
// header (an event stream, a download), as ?for= in the URL. A program need not say it.
func isFor(r *http.Request, id int64) bool {
	of := r.Header.Get("X-User")
	if len(r.Header["X-User"]) > 1 {
		return false
	}
	if of == "" && r.URL.RawQuery != "" {
		of = r.URL.Query().Get("for")
	}
	return of == "" || of == strconv.FormatInt(id, 10)
}

// cookieName returns the name of a cookie. Over TLS it has a prefix, with which no other host can set it.
func (c *clients) cookieName(r *http.Request, name string) string {
	if c.secure(r) {
		return "__Host-" + name
	}
	return name
}

// secret returns the random text that a cookie of the browser has, "" for none.
func (c *clients) secret(r *http.Request, name string) string {
	if cookie, err := r.Cookie(c.cookieName(r, name)); err == nil && len(cookie.Value) == len(rand.Text()) {
		return cookie.Value
	}
	return ""
}

func (c *clients) setCookie(w http.ResponseWriter, r *http.Request, token string, expires time.Time) {
	cookie := &http.Cookie{Name: c.cookieName(r, "session"), Value: token, Path: "/", Expires: expires,
		HttpOnly: true, Secure: c.secure(r), SameSite: http.SameSiteLaxMode}
	if token == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// setDevice sets the cookie by which the browser is known at the next log-in. It outlives the session
// and the log-out; it is no session.
func (c *clients) setDevice(w http.ResponseWriter, r *http.Request, device string) {
	http.SetCookie(w, &http.Cookie{Name: c.cookieName(r, "device"), Value: device, Path: "/",
		MaxAge:   int(user.DeviceFor.Seconds()),
		HttpOnly: true, Secure: c.secure(r), SameSite: http.SameSiteStrictMode})
}

// atThisMachine reports whether a request comes over loopback, for a name of loopback, and was not passed on by a
// proxy, as far as the proxy says so.
func atThisMachine(r *http.Request) bool {
	for _, header := range []string{"Forwarded", "Via", "X-Forwarded-For", "X-Real-Ip"} {
		if r.Header[header] != nil {
			return false
		}
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() {
		return false
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if at, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return at.Unmap().IsLoopback()
	}
	return hostAllowed(host, nil)
}

// hostAllowed reports whether a Host header has one of the names, localhost, or an address. An address
// cannot be rebound. No browser sends an empty Host.
func hostAllowed(host string, names []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil || host == "" {
		return true
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return host == "localhost" || strings.HasSuffix(host, ".localhost") ||
		slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(host, name) })
}
