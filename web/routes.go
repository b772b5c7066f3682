package web

import (
	"net/http"
	"time"

	"miaosha/user"
)

// row is a route of the shop. It is the one place that names the route: the router, its limits, and the tables of
// README.md and of the tests are made of the rows. They stand beside their handlers.
type row struct {
	method, path string
	who          string // may ask
	rule         rule
	within       time.Duration
	open         func(*desk, ruleBuckets) openHandler
}

// route makes a row. A call without who may ask, or without a rule of limits, does not compile, and neither does a
// handler of another kind than theirs. Tests show that a viewer changes nothing, and that a change has a key. method is
// GET, POST or getAndHead; within is the time limit of an answer.
func route[H any](method, path string, by audience[H], of rule, within time.Duration, h H) row {
	return row{method, path, by.name, of, within, func(d *desk, l ruleBuckets) openHandler { return by.door(d, l, h) }}
}

const (
	GET  = http.MethodGet
	POST = http.MethodPost
	// other rows of GET below /api answer HEAD as GET, unless they are a stream or a file
	getAndHead = http.MethodGet + " " + http.MethodHead

	// answerLimit is the time limit of most requests. If a store hangs, the client hears busy after that time.
	answerLimit = 3 * time.Second

	// ownTime is for a handler with a time limit of its own. An event stream lasts as long as its client listens. The
	// engine bounds buy and result, the cache bounds the two lists.
	ownTime time.Duration = 0
)

// audience is who may ask for a route. The door lets them in to a handler of their kind, behind the limits, and refuses
// all others.
type audience[H any] struct {
	name string // in README.md
	door func(*desk, ruleBuckets, H) openHandler
}

var (
	everyone = audience[openHandler]{"anyone", func(d *desk, l ruleBuckets, h openHandler) openHandler {
		return func(w http.ResponseWriter, r *http.Request) error {
			if err := d.allow(l, r, 0); err != nil {
				return err
			}
			return h(w, r)
		}
	}}
	visitors = audience[sessionHandler]{"anyone", func(d *desk, l ruleBuckets, h sessionHandler) openHandler {
		return d.orVisitor(d.loggedIn(d.limited(l, h)))
	}}
	anyUser = audience[sessionHandler]{"user", func(d *desk, l ruleBuckets, h sessionHandler) openHandler {
		return d.loggedIn(d.limited(l, h))
	}}
	buyers = withID("user", saleID)
	owners = withID("owner", orderID)
)

// withID is anyUser, for a handler that takes the {id} of its route. read is saleID or orderID.
func withID[ID any](name string, read func(*http.Request) (ID, error)) audience[idHandler[ID]] {
	return audience[idHandler[ID]]{name, func(d *desk, l ruleBuckets, h idHandler[ID]) openHandler {
		return anyUser.door(d, l, byID(read, h))
	}}
}

// byID runs a handler with the {id} of its route.
func byID[ID any](read func(*http.Request) (ID, error), h idHandler[ID]) sessionHandler {
	return func(w http.ResponseWriter, r *http.Request, session user.Session) error {
		id, err := read(r)
		if err != nil {
			return err
		}
		return h(w, r, session, id)
	}
}

// onlyIf is by in a sandbox that has what the route is for. Elsewhere the page does not exist.
func onlyIf[H any](has bool, by audience[H]) audience[H] {
	by.name += ", in a sandbox"
	if !has {
		by.door = func(*desk, ruleBuckets, H) openHandler { return noPage }
	}
	return by
}

func noPage(http.ResponseWriter, *http.Request) error { return errNoPage }
