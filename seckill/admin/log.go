package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/order"
)

// Line is one action of the staff.
type Line struct {
	ID      int64           `json:"id"`
	At      time.Time       `json:"at"`
	ByUser  *int64          `json:"by_user"`  // null for a command at a terminal; for what was planned, who planned it
	Name    string          `json:"name"`     // the user's nickname, now
	ByLogin string          `json:"by_login"` // the role of Postgres
	Origin  string          `json:"origin"`   // the address of the browser, the command, or the plan
	Action  string          `json:"action"`   // such as sale.pause
	Subject string          `json:"subject"`  // such as sale 7
	Before  json.RawMessage `json:"before"`
	After   json.RawMessage `json:"after"`
}

// Note writes the line of what lies outside Postgres, such as a run of the lab, and returns when it is committed. The
// caller acts then, and not if there is an error: the line says what was asked for, even if that is refused after it.
// What ends or restricts something acts first, since it must not need Postgres. With a key there is one line of it.
// ErrUnsure.
func (s *Store) Note(ctx context.Context, by By, name, subject string, after any) error {
	return s.act(ctx, by, &action{name: name, subject: subject, after: after}, func(pgx.Tx) error { return nil })
}

// File is Note for a file that a member of the staff takes: the line also says how much the file shows. with is what it
// has.
func (s *Store) File(ctx context.Context, by By, file string, with map[string]string) error {
	after := map[string]string{"values": "masked"}
	if by.Whole {
		after["values"] = "whole"
	}
	maps.Copy(after, with)
	return s.Note(ctx, by, "staff.file", file, after)
}

// LogFilter selects lines. A zero field selects all.
type LogFilter struct {
	ByUser  int64
	Action  string    // whole, or the part before the point: sale
	Subject string    // such as sale 7; of an order also its number
	From    time.Time // inclusive
	To      time.Time // exclusive
	Cursor  int64     // lines before this id
}

// logPage is the number of lines in one page.
const logPage = 50

// Log returns a page of lines as by sees them, newest first, and the cursor of the next page, 0 after the last one.
func (s *Store) Log(ctx context.Context, by By, f LogFilter) (lines []Line, next int64, err error) {
	return s.logPage(ctx, by, f, logPage)
}

// LogArchived returns until when lines that a filter selects may be in files, nil if none can be.
func (s *Store) LogArchived(ctx context.Context, f LogFilter) (until *time.Time, err error) {
	err = s.db.QueryRow(ctx, `
		select max(newest) from archives
		where  of_table = 'admin_log' and ($1::timestamptz is null or newest >= $1) and ($2::timestamptz is null or oldest < $2)`, orNull(f.From), orNull(f.To)).Scan(&until)
	if err != nil {
		return nil, fmt.Errorf("look for archived lines of the log: %w", err)
	}
	return until, nil
}

// WholeLog returns all lines of a filter as by sees them, newest first. It keeps a thousand of them at a time, and no
// transaction open.
func (s *Store) WholeLog(ctx context.Context, by By, f LogFilter) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		for {
			lines, next, err := s.logPage(ctx, by, f, 1000)
			if err != nil {
				yield(Line{}, err)
				return
			}
			for _, l := range lines {
				if !yield(l, nil) {
					return
				}
			}
			if next == 0 {
				return
			}
			f.Cursor = next
		}
	}
}

func (s *Store) logPage(ctx context.Context, by By, f LogFilter, size int) (lines []Line, next int64, err error) {
	if first, last, ok := order.OfNumber(strings.TrimPrefix(f.Subject, "order ")); ok {
		err := s.db.QueryRow(ctx, `select 'order ' || id from orders where id between $1 and $2`, first, last).Scan(&f.Subject)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return nil, 0, fmt.Errorf("look for %s: %w", f.Subject, err)
		}
	}
	rows, _ := s.db.Query(ctx, `
		select l.id, l.at, l.by_user, coalesce(u.nickname, '') as name, l.by_login, l.origin, l.action, l.subject, l.before, l.after
		from   admin_log l left join users u on u.id = l.by_user
		where ($1::bigint = 0 or l.by_user = $1)
		and   ($2 = '' or l.action = $2 or l.action like $2 || '.%')
		and   ($3 = '' or l.subject = $3)
		and   ($4::timestamptz is null or l.at >= $4)
		and   ($5::timestamptz is null or l.at < $5)
		and   ($6::bigint = 0 or l.id < $6)
		order  by l.id desc
		limit  $7`, f.ByUser, f.Action, f.Subject, orNull(f.From), orNull(f.To), f.Cursor, size+1)
	lines, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Line])
	if err != nil {
		return nil, 0, fmt.Errorf("read the log: %w", err)
	}
	if len(lines) > size {
		lines = lines[:size]
		next = lines[size-1].ID
	}
	for i := range lines {
		by.sees(Nickname, &lines[i].Name)
		if err := errors.Join(by.seesDocument(&lines[i].Before), by.seesDocument(&lines[i].After)); err != nil {
			return nil, 0, err
		}
	}
	return lines, next, nil
}

// orNull returns nil for the zero time.
func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
