package web

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"miaosha/seckill/admin"
)

// Routes returns the routes of a shop without stores, as "METHOD pattern".
func Routes() (routes []string, err error) {
	s, err := New(Config{Rate: "off", IPRate: "off", TimeZone: "UTC", Cashier: "sandbox"}, Deps{}, "")
	if err != nil {
		return nil, err
	}
	tree, ok := s.handler.(chi.Routes)
	if !ok {
		return nil, fmt.Errorf("the shop's handler is a %T, which has no routes to list", s.handler)
	}
	err = chi.Walk(tree, func(method, pattern string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		routes = append(routes, method+" "+pattern)
		return nil
	})
	return routes, err
}

// limitRow is a route as the limits see it: with its query, if that decides.
type limitRow struct {
	rule
	route, who string
	within     time.Duration
}

// limitRows returns the rows of a shop without stores, one for each method.
func limitRows() (all []limitRow) {
	s, err := New(Config{Rate: "off", IPRate: "off", TimeZone: "UTC", Cashier: "sandbox"}, Deps{}, "")
	if err != nil {
		panic(err)
	}
	for _, row := range s.rows() {
		for method := range strings.FieldsSeq(row.method) {
			all = append(all, limitRow{row.rule, method + " " + row.path, row.who, row.within})
			if words := row.rule; words.words != nil {
				words.limits = words.words
				all = append(all, limitRow{words, method + " " + row.path + "?kind=words", row.who, row.within})
			}
		}
	}
	return all
}

// A Case is what callers receive from a route; see routeCase.
type Case struct {
	Route, Body string
	Want        [5]string
}

// Cases returns the cases of all routes.
func Cases() (all []Case) {
	for _, c := range routeCases {
		all = append(all, Case{c.route, c.body, c.want})
	}
	return all
}

// WhoMay returns who may ask for a route.
func WhoMay(route string) string {
	for _, row := range limitRows() {
		if row.route == route {
			return row.who
		}
	}
	return ""
}

// BodyLimits are the limits of bodies, in bytes, the smallest first.
var BodyLimits = []int64{maxBody, maxProgram, admin.PictureBytes}

// Judged notes on the boards of the classes that the lab has judged a run of the browser with this cookie.
func (s *Server) Judged(cookie, exercise string, solved bool, sqlPerOrder, perSecond float64) {
	s.handlers.classroom.classes.judged(cookie, exercise, solved, exerciseCost{sqlPerOrder, perSecond})
}

// NeedAddresses skips a test that connects from several addresses, where a system has 127.0.0.1 alone.
func NeedAddresses(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skip(err)
	}
	l.Close()
}
