package web

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/typed"
)

// A path and a query have one meaning: a thing has one spelling in a path, and a proxy that reads the same bytes sees
// the same thing. deploy/nginx.conf has rules for what the shop takes, such as [0-9]+ for a sale.

// readID returns a number from 1 in its one spelling: ASCII digits, without a sign and without zeros before it.
func readID(text string) (int64, bool) {
	if text == "" || text[0] < '1' || text[0] > '9' {
		return 0, false // strconv takes a sign and zeros
	}
	id, err := strconv.ParseInt(text, 10, 64)
	return id, err == nil
}

// readUUID returns a UUID in its one spelling: lower case, with dashes.
func readUUID(text string) (uuid.UUID, bool) {
	id, err := uuid.Parse(text)
	return id, err == nil && id.String() == text
}

// pathID returns the {id} of a route, or missing if it is not the spelling of an id.
func pathID(r *http.Request, missing error) (int64, error) {
	id, ok := readID(chi.URLParam(r, "id"))
	if !ok {
		return 0, missing
	}
	return id, nil
}

// pathText returns a part of the path. The router has it as it was sent if it has an escape that it need not have, such
// as %3A for a colon.
func pathText(r *http.Request, name string) (string, error) {
	text := chi.URLParam(r, name)
	if r.URL.RawPath == "" {
		return text, nil
	}
	return url.PathUnescape(text)
}

// checkPath returns errNoPage for a path in which nginx would follow dots or join slashes, also escaped ones: it
// chooses its rule by what is left, and the router does nothing of this.
func checkPath(u *url.URL) error {
	if strings.Contains(u.Path, "/.") || strings.Contains(u.Path, "//") || u.RawPath != "" &&
		strings.Count(u.RawPath, "/") != strings.Count(u.Path, "/") {
		return errNoPage
	}
	return nil
}

// maxParameters is how many fields a query may have. No route reads half as many, and a thousand of them take long to
// read.
const maxParameters = 32

func checkQuery(raw string) error {
	if strings.Count(raw, "&") >= maxParameters {
		return errBadRequest
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return errBadRequest
	}
	for name, all := range values {
		switch {
		case !isText(name):
			return errBadRequest
		case len(all) > 1:
			return fieldError{name, "value"}
		case !isText(all[0]):
			return fieldError{name, "form"}
		}
	}
	return nil
}

// isText reports whether Postgres can take the text.
func isText(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }

// query reads the fields of a URL's query, which oneMeaning has checked. A field that is left out is zero; err names
// every wrong one.
type query struct {
	values url.Values
	wrong  []error
}

func (q *query) text(name string) string { return q.values.Get(name) }

// found refuses a search for a text of which nothing is left: it would find all.
func (q *query) found(name, left string) {
	if left == "" && q.values.Get(name) != "" {
		q.wrong = append(q.wrong, fieldError{name, "form"})
	}
}

// typedID returns the id that a person has typed into a field of a search, in any spelling that package typed reads.
func (q *query) typedID(name string) int64 {
	var f inputs
	text := q.values.Get(name)
	f.reads(name, "form", &text, typed.ID)
	if err := f.err(); err != nil {
		q.wrong = append(q.wrong, err)
		return 0
	}
	q.found(name, text)
	return q.number(name, text)
}

// id returns an id that a page or a program has from an answer: a cursor, or a sale.
func (q *query) id(name string) int64 { return q.number(name, q.values.Get(name)) }

func (q *query) number(name, text string) int64 {
	id, ok := readID(text)
	if text != "" && !ok {
		q.wrong = append(q.wrong, fieldError{field: name})
	}
	return id
}

func (q *query) uuid(name string) uuid.UUID {
	text := q.values.Get(name)
	id, ok := readUUID(text)
	if text != "" && !ok {
		q.wrong = append(q.wrong, fieldError{field: name})
	}
	return id
}

func (q *query) time(name string) time.Time {
	text := q.values.Get(name)
	if text == "" {
		return time.Time{}
	}
	at, ok := readTime(text)
	if !ok {
		q.wrong = append(q.wrong, fieldError{field: name})
	}
	return at
}

// oneOf returns the field, which is one of the words.
func (q *query) oneOf(name string, words ...string) string {
	text := q.values.Get(name)
	if text != "" && !slices.Contains(words, text) {
		q.wrong = append(q.wrong, fieldError{name, "value"})
	}
	return text
}

// bool returns whether the field is true or false; nil if it is left out.
func (q *query) bool(name string) *bool {
	text := q.oneOf(name, "true", "false")
	if text == "" {
		return nil
	}
	yes := text == "true"
	return &yes
}

// raw returns whether a file is asked for in the form for programs.
func (q *query) raw() bool {
	raw := q.bool("raw")
	return raw != nil && *raw
}

func (q *query) err() error { return errors.Join(q.wrong...) }

// saleID returns the {id} of a sale's route, or goods.ErrNoSale if it cannot be an id.
func saleID(r *http.Request) (int64, error) {
	return pathID(r, goods.ErrNoSale)
}

// orderID returns the {id} of an order's or payment's route, or order.ErrNotFound if it is no UUID.
func orderID(r *http.Request) (uuid.UUID, error) {
	id, ok := readUUID(chi.URLParam(r, "id"))
	if !ok {
		return uuid.Nil, order.ErrNotFound
	}
	return id, nil
}
