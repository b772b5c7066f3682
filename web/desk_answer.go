package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Header values that many answers share, in the form of an http.Header, so that no request allocates
// them. Nothing may change them.
var (
	jsonType     = []string{"application/json; charset=utf-8"}
	noStore      = []string{"no-store"}
	noCache      = []string{"no-cache"}
	ownCache     = []string{"private, no-cache"}
	keepForever  = []string{"public, max-age=31536000, immutable"}
	sameOrigin   = []string{"same-origin"}
	anyOrigin    = []string{"*"}
	gzipEncoding = []string{"gzip"}
	zstdEncoding = []string{"zstd"}
	varyEncoding = []string{"Accept-Encoding"}
	varySales    = []string{"Accept-Language, Accept-Encoding"}
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

// formatTime returns t as all answers have it: RFC 3339 in UTC, with milliseconds.
func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
