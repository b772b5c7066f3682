package web

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"miaosha/seckill/admin"
	"miaosha/seckill/typed"
)

func (s *peopleOffice) logRows() []row {
	return []row{
		route(GET, "/api/admin/log", theStaff, first(searches), answerLimit, s.adminLog),
		route(GET, "/api/admin/log.csv", theStaff, first(downloads), ownTime, s.downloadLog),
	}
}

// adminLog answers with a page of the log, newest first.
func (s *peopleOffice) adminLog(w http.ResponseWriter, r *http.Request, by admin.By) error {
	f, err := logFilter(r)
	if err != nil {
		return err
	}
	lines, next, err := s.admin.Log(r.Context(), by, f)
	if err != nil {
		return err
	}
	var archived *time.Time
	if next == 0 {
		if archived, err = s.admin.LogArchived(r.Context(), f); err != nil {
			return err
		}
	}
	return ok(w, 200, struct {
		Lines    []admin.Line `json:"lines"`
		Next     int64        `json:"next,omitempty"`           // the cursor of the next page
		Archived *time.Time   `json:"archived_until,omitempty"` // on the last page: lines up to then are in files
	}{lines, next, archived})
}

// downloadLog streams the lines of a filter as CSV.
func (s *peopleOffice) downloadLog(w http.ResponseWriter, r *http.Request, by admin.By) error {
	f, err := logFilter(r)
	q := query{values: r.URL.Query()}
	raw := q.raw()
	if err := errors.Join(err, q.err()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), downloadLimit)
	defer cancel()
	if err := s.admin.File(ctx, by, "log.csv", filterOf(r)); err != nil {
		return err
	}
	header := []string{"id", "at", "by_user", "name", "by_login", "origin", "action", "subject", "before", "after"}
	return s.desk.sendCSV(w, "log.csv", raw, header, func(yield func([]any, error) bool) {
		for l, err := range s.admin.WholeLog(ctx, by, f) {
			who := ""
			if l.ByUser != nil {
				who = strconv.FormatInt(*l.ByUser, 10)
			}
			row := []any{value(strconv.FormatInt(l.ID, 10)), value(l.At.Format(time.RFC3339Nano)), value(who), l.Name,
				l.ByLogin, l.Origin, l.Action, l.Subject, string(l.Before), string(l.After)}
			if !yield(row, err) {
				return
			}
		}
		until, err := s.admin.LogArchived(ctx, f)
		if err != nil || until != nil {
			yield(archivedLine(until), err)
		}
	})
}

// archivedLine is the last line of a file that lacks what is in archives. It has no id.
func archivedLine(until *time.Time) []any {
	if until == nil {
		return nil
	}
	return []any{"", value(until.Format(time.RFC3339Nano)), "", "", "", "", "shop.archive",
		"这一刻及更早的记录已归档，在 miaosha archive 的文件里 / Entries up to this time are in the files of miaosha archive", "", ""}
}

func logFilter(r *http.Request) (admin.LogFilter, error) {
	q := query{values: r.URL.Query()}
	f := admin.LogFilter{ByUser: q.typedID("by"), Action: q.text("action"), Subject: subjectOf(q.text("subject")),
		From: q.time("from"), To: q.time("to"), Cursor: q.id("cursor")}
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
