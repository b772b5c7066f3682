package web

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// A page of another site can give its own name the address 127.0.0.1 (DNS rebinding). Then the browser
// of a user on this machine takes the shop for that site, and the page reads the shop's answers. The
// requests still have the name in their Host header.

// checkHost refuses requests whose Host is none of this shop: it passes them to refuse. On a listener
// that other machines reach every name is accepted, unless names are given. Requests of exempt peers
// are not checked.
func (ls *Listeners) checkHost(l net.Listener, exempt func(netip.Addr) bool, refuse, next http.Handler) http.Handler {
	names := ls.config.AllowHost
	if len(names) == 0 && !l.Addr().(*net.TCPAddr).IP.IsLoopback() {
		return next
	}
	if ls.config.TLSDomain != "" {
		names = append(slices.Clone(names), ls.config.TLSDomain)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hostAllowed(r.Host, names) {
			next.ServeHTTP(w, r)
			return
		}
		if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && exempt(peer.Addr().Unmap()) {
			next.ServeHTTP(w, r)
			return
		}
		refuse.ServeHTTP(w, r)
	})
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

// sameOriginOnly refuses requests that a page of another site makes, reading ones too: some of the
// operator's pages cost seconds of work. On loopback and over TLS browsers say where a request comes from.
// To other addresses they send Origin at most, and a request without it passes.
func sameOriginOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site := r.Header.Get("Sec-Fetch-Site")
		foreign := site != "" && site != "same-origin" && site != "none"
		if origin := r.Header.Get("Origin"); origin != "" && site == "" {
			u, err := url.Parse(origin)
			foreign = err != nil || u.Host != r.Host
		}
		if foreign {
			http.Error(w, "a page of another site may not ask this", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func refuseOpsHost(w http.ResponseWriter, r *http.Request) {
	http.Error(w, fmt.Sprintf("this address is not asked by the name %q (header Host): --allow-host adds one", headerText(r.Host)), http.StatusForbidden)
}

// A proxy that was set up with one line sends its own address as Host, or the shop's name to a shop that does not
// know it. Then all POSTs or all requests are refused, so the answer and the log say which header came and what to
// set.

// refuseHost answers a request for a name that is none of this shop's.
func (s *Server) refuseHost(w http.ResponseWriter, r *http.Request) {
	s.strangeHost.Do(func() {
		s.desk.log.Warn("requests are refused because their header Host is no name of this shop: add the name with --allow-host (MIAOSHA_ALLOW_HOST), or the address of the proxy in front with --trusted-proxies (MIAOSHA_TRUSTED_PROXIES)",
			"host", headerText(r.Host), "from", r.RemoteAddr)
	})
	refuseHostName(w, r, headerText(r.Host))
}

// refuseOrigin answers a change that a page with another origin than the shop's requests.
func (s *Server) refuseOrigin(w http.ResponseWriter, r *http.Request) {
	site, origin, host := headerText(r.Header.Get("Sec-Fetch-Site")), headerText(r.Header.Get("Origin")), headerText(r.Host)
	if site != "" { // the browser has compared the two by itself
		refuseSite(w, r, site)
		return
	}
	s.strangeOrigin.Do(func() {
		s.desk.log.Warn("POSTs are refused because their header Origin, the address of the page, is not that of the header Host: let the proxy in front pass Host on (nginx: proxy_set_header Host $http_host) and set X-Forwarded-For and X-Forwarded-Proto, and name it with --trusted-proxies or the shop with --allow-host",
			"origin", origin, "host", host, "x_forwarded_proto", headerText(r.Header.Get("X-Forwarded-Proto")), "from", r.RemoteAddr)
	})
	refuseOtherOrigin(w, r, origin, host)
}

// headerText returns as much of a header as a person needs to recognise it.
func headerText(value string) string { return value[:min(len(value), 100)] }
