package web

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
)

// A page of another site can give its own name the address 127.0.0.1 (DNS rebinding). Then the browser
// of a user on this machine takes the shop for that site, and the page reads the shop's answers. The
// requests still have the name in their Host header.

// checkHost refuses requests whose Host is none of this shop: it passes them to refuse. On a listener
// that other machines reach every name is accepted, unless names are given. Requests of exempt peers
// are not checked.
func checkHost(c Listen, l net.Listener, exempt func(netip.Addr) bool, refuse, next http.Handler) http.Handler {
	names := c.AllowHost
	if len(names) == 0 && !l.Addr().(*net.TCPAddr).IP.IsLoopback() {
		return next
	}
	if c.TLSDomain != "" {
		names = append(slices.Clone(names), c.TLSDomain)
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
	http.Error(w, fmt.Sprintf("this address is not asked by the name %q (header Host): --allow-host adds one",
		headerText(r.Host)), http.StatusForbidden)
}

// headerText returns as much of a header as a person needs to recognise it.
func headerText(value string) string { return value[:min(len(value), 100)] }
