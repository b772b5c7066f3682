package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"miaosha/seckill/admin"
	"miaosha/seckill/typed"
)

// adminLog answers with a page of the log, newest first.
func (s *Server) adminLog(w http.ResponseWriter, r *http.Request, by admin.By) error {
	f, err := logFilter(r)
	if err != nil {
		return err
	}
	lines, next, err := s.Admin.Log(r.Context(), by, f)
	if err != nil {
		return err
	}
	return ok(w, 200, struct {
		Lines []admin.Line `json:"lines"`
		Next  int64        `json:"next,omitempty"` // the cursor of the next page
	}{lines, next})
}

// downloadLog streams the lines of a filter as CSV.
func (s *Server) downloadLog(w http.ResponseWriter, r *http.Request, by admin.By) error {
	f, err := logFilter(r)
	q := query{values: r.URL.Query()}
	raw := q.raw()
	if err := errors.Join(err, q.err()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), downloadLimit)
	defer cancel()
	if err := s.Admin.File(ctx, by, "log.csv", filterOf(r)); err != nil {
		return err
	}
	header := []string{"id", "at", "by_user", "name", "by_login", "origin", "action", "subject", "before", "after"}
	return s.sendCSV(w, "log.csv", raw, header, func(yield func([]any, error) bool) {
		for l, err := range s.Admin.WholeLog(ctx, by, f) {
			who := ""
			if l.ByUser != nil {
				who = strconv.FormatInt(*l.ByUser, 10)
			}
			row := []any{value(strconv.FormatInt(l.ID, 10)), value(l.At.Format(time.RFC3339Nano)), value(who), l.Name, l.ByLogin, l.Origin, l.Action, l.Subject, string(l.Before), string(l.After)}
			if !yield(row, err) {
				return
			}
		}
	})
}

func logFilter(r *http.Request) (admin.LogFilter, error) {
	q := query{values: r.URL.Query()}
	f := admin.LogFilter{ByUser: q.id("by"), Action: q.text("action"), Subject: subjectOf(q.text("subject")), From: q.time("from"), To: q.time("to"), Cursor: q.id("cursor")}
	q.found("subject", f.Subject)
	return f, q.err()
}

// subjectOf returns what lines are about, which may be typed with its name in Chinese: 秒杀 7, 订单号 and a number.
func subjectOf(text string) string {
	text = typed.Line(text)
	for en, zh := range subjectsZH {
		if behind, ok := strings.CutPrefix(text, zh); ok {
			return typed.Subject(en + " " + strings.TrimPrefix(behind, "号"))
		}
	}
	return typed.Subject(text)
}

// query reads the fields of a URL's query. A field that is left out is zero; err names every wrong one.
type query struct {
	values url.Values
	wrong  []error
}

// text returns the field, which is a text that Postgres can take.
func (q *query) text(name string) string {
	text := q.values.Get(name)
	if !utf8.ValidString(text) || strings.Contains(text, "\x00") {
		q.wrong = append(q.wrong, fieldError{name, "form"})
	}
	return text
}

// found refuses a search for a text of which nothing is left: it would find all.
func (q *query) found(name, left string) {
	if left == "" && q.values.Get(name) != "" {
		q.wrong = append(q.wrong, fieldError{name, "form"})
	}
}

func (q *query) id(name string) int64 {
	var f inputs
	text := q.values.Get(name)
	f.reads(name, "form", &text, typed.ID)
	q.found(name, text)
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case f.err() != nil:
		q.wrong = append(q.wrong, f.err())
	case text != "" && (err != nil || n <= 0):
		q.wrong = append(q.wrong, fieldError{field: name})
	}
	return n
}

func (q *query) uuid(name string) uuid.UUID {
	text := q.values.Get(name)
	if text == "" {
		return uuid.Nil
	}
	id, err := uuid.Parse(text)
	if err != nil {
		q.wrong = append(q.wrong, fieldError{field: name})
	}
	return id
}

func (q *query) time(name string) time.Time {
	text := q.values.Get(name)
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
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
