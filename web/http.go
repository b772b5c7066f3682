package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/maypok86/otter/v2"
	"golang.org/x/text/language"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/user"
)

// encode returns {"code":"ok","data":...}.
func encode(data any) ([]byte, error) {
	b, err := json.Marshal(struct {
		Code string `json:"code"`
		Data any    `json:"data"`
	}{"ok", data})
	if err != nil {
		return nil, fmt.Errorf("encode an answer: %w", err)
	}
	return b, nil
}

// ok writes an answer with data.
func ok(w http.ResponseWriter, status int, data any) error {
	b, err := encode(data)
	if err != nil {
		return err
	}
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(status)
	w.Write(b)
	return nil
}

// okStatus is ok for the state of a ticket. It encodes without reflection, which is faster.
func okStatus(w http.ResponseWriter, status int, ticket string, s seckill.Status) error {
	b := append(make([]byte, 0, 256), `{"code":"ok","data":`...)
	b = append(appendStatus(b, ticket, s), '}')
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(status)
	w.Write(b)
	return nil
}

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

var (
	languages = language.NewMatcher([]language.Tag{language.Chinese, language.English})
	// Matching a header takes longer than answering a buyer, and browsers send few different headers.
	matched = otter.Must(&otter.Options[string, bool]{MaximumSize: 1000})
)

// chinese reports whether the client prefers Chinese to English.
func chinese(r *http.Request) bool {
	accept := r.Header.Get("Accept-Language")
	if accept == "" {
		return true
	}
	if len(accept) > 200 { // no browser sends so many, and to match 8 KB of them takes as long as a hundred answers
		accept = accept[:strings.LastIndexByte(accept[:200], ',')+1]
	}
	zh, known := matched.GetIfPresent(accept)
	if !known {
		_, i := language.MatchStrings(languages, accept)
		zh = i == 0
		matched.Set(strings.Clone(accept), zh)
	}
	return zh
}

// routePattern returns the pattern of the request's route, for the log. The path itself may hold a
// hidden address.
func routePattern(r *http.Request) string {
	if c := chi.RouteContext(r.Context()); c != nil && c.RoutePattern() != "" {
		return c.RoutePattern()
	}
	return "?"
}

// isUnavailable reports whether err is a store that does not answer in time, refuses connections or is
// shutting down.
func isUnavailable(err error) bool {
	var net net.Error
	var pg *pgconn.PgError
	var connect *pgconn.ConnectError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, user.ErrUnavailable), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.As(err, &net), errors.As(err, &connect):
		return true
	case errors.As(err, &pg):
		// connection exceptions, shutdown, out of resources, lock and statement timeouts, a primary that is none any more
		return strings.HasPrefix(pg.Code, "08") || strings.HasPrefix(pg.Code, "57") || strings.HasPrefix(pg.Code, "53") ||
			pg.Code == "55P03" || pg.Code == "25006"
	}
	return pgconn.Timeout(err) || pgconn.SafeToRetry(err)
}

// formatTime returns t as all answers have it: RFC 3339 in UTC, with milliseconds.
func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
