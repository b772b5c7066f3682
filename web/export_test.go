package web

import (
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"
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
