package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/seckill/archive"
)

// moves counts the changes of the orders of a sale, by the status that they lead to.
type moves struct{ Paid, Cancelled, Refunded int }

// Archives reads the files of the archives in dir back, and checks their rows as if they were in their tables, in one snapshot.
// Without a dir it returns a note that they were not read.
func Archives(ctx context.Context, db *pgxpool.Pool, dir string) (found []Finding, err error) {
	err = readOnly(ctx, db, 5*time.Minute, func(tx pgx.Tx) error {
		all, err := archive.All(ctx, tx)
		if err != nil || len(all) == 0 {
			return err
		}
		if dir == "" {
			found = []Finding{{"", fmt.Sprintf("%s of miaosha archive not read, so the rows in them are not checked: name their folder with --dir (MIAOSHA_ARCHIVE_DIR)",
				count(len(all), "file")), nil}}
			return nil
		}
		found, err = readArchives(ctx, tx, all, dir)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("audit the archives: %w", err)
	}
	return found, nil
}

func readArchives(ctx context.Context, tx pgx.Tx, all []archive.Archive, dir string) (found []Finding, err error) {
	var damaged, unfinished, again, events, results []string
	moved, whole := map[int64]moves{}, true
	for _, a := range all {
		lines, err := linesOf(a, dir)
		if d := (archive.DamagedError{}); errors.As(err, &d) {
			damaged, whole = append(damaged, d.Error()), whole && a.OfTable != "order_events"
			continue
		}
		if err != nil {
			return nil, err
		}
		var there int64
		if err := tx.QueryRow(ctx, stillThere[a.OfTable], lines).Scan(&there); err != nil {
			return nil, fmt.Errorf("look for the rows of %s: %w", a.File, err)
		}
		switch {
		case a.GoneAt == nil && there == a.Rows:
			unfinished = append(unfinished, a.File)
		case a.GoneAt == nil:
			again = append(again, fmt.Sprintf("%s: %d of its %d rows are in %s, and none was deleted", a.File, there, a.Rows, a.OfTable))
		case there > 0:
			again = append(again, fmt.Sprintf("%s: %d of its %d rows are in %s, and all were deleted", a.File, there, a.Rows, a.OfTable))
		}
		var broken []string
		switch a.OfTable {
		case "order_events":
			if broken, err = texts(ctx, tx, archivedEvents, lines); err == nil && a.GoneAt != nil {
				err = countMoves(moved, lines)
			}
			events = append(events, broken...)
		case "ticket_results":
			broken, err = texts(ctx, tx, archivedResults, lines)
			results = append(results, broken...)
		}
		if err != nil {
			return nil, fmt.Errorf("check the rows of %s: %w", a.File, err)
		}
	}
	if whole {
		wrong, err := wrongMoves(ctx, tx, moved)
		if err != nil {
			return nil, err
		}
		events = append(events, wrong...)
	}
	for _, f := range []Finding{
		{"archive", "a file of miaosha archive is missing or damaged", damaged},
		{"archive", "rows are in an archive, and their table does not agree", again},
		{"I3", "a result in an archive has another order, or belongs to a ticket that has one", results},
		{"I8", "the history in the archives does not lead to the status of the orders", events},
		{"", "rows of these archives are still in their tables, as after an interrupted miaosha archive: run it again", unfinished},
	} {
		if len(f.Rows) > 0 {
			f.Rows = f.Rows[:min(len(f.Rows), maxRows)]
			found = append(found, f)
		}
	}
	return found, nil
}

// linesOf returns the lines of a file as one array of JSON.
func linesOf(a archive.Archive, dir string) (string, error) {
	var array bytes.Buffer
	err := a.Read(dir, func(line []byte) error {
		if !json.Valid(line) {
			return errors.New("it is no JSON")
		}
		if array.Len() > 0 {
			array.WriteByte(',')
		}
		array.Write(line)
		return nil
	})
	return "[" + array.String() + "]", err
}

func texts(ctx context.Context, tx pgx.Tx, sql, lines string) ([]string, error) {
	rows, _ := tx.Query(ctx, sql, lines)
	return pgx.CollectRows(rows, rowText)
}

// stillThere counts the rows of a file that are in their table. A ticket that is settled again has another row, of another time.
var stillThere = map[string]string{
	"ticket_results": `select count(*) from jsonb_to_recordset($1::jsonb) a (ticket text, created_at timestamptz) join ticket_results r on r.ticket = a.ticket and r.created_at = a.created_at`,
	"order_events":   `select count(*) from jsonb_to_recordset($1::jsonb) a (id bigint) join order_events e on e.id = a.id`,
	"admin_log":      `select count(*) from jsonb_to_recordset($1::jsonb) a (id bigint) join admin_log l on l.id = a.id`,
	"pictures":       `select count(*) from jsonb_to_recordset($1::jsonb) a (name text) join pictures p on p.name = a.name`,
}

const (
	archivedEvents = `
		select a.id as event, a.order_id as "order", a.from_status, a.to_status, o.status
		from   jsonb_to_recordset($1::jsonb) a (id bigint, order_id uuid, sale_id bigint, from_status text, to_status text) left join orders o on o.id = a.order_id
		where  o.id is null or o.sale_id <> a.sale_id
		or     (a.from_status, a.to_status) not in (('new', 'pending'), ('pending', 'paid'), ('pending', 'cancelled'), ('paid', 'refunded'))
		or     a.to_status = 'paid' and o.status not in ('paid', 'refunded')
		or     a.to_status in ('cancelled', 'refunded') and o.status <> a.to_status`
	archivedResults = `
		select a.ticket, a.outcome, a.order_id as "order"
		from   jsonb_to_recordset($1::jsonb) a (ticket text, user_id bigint, sale_id bigint, outcome text, order_id uuid)
		       left join orders mine on mine.ticket = a.ticket left join orders o on o.id = a.order_id
		where  mine.id is not null and (a.outcome <> 'ordered' or a.order_id <> mine.id)
		or     a.order_id is not null and (o.id is null or o.user_id <> a.user_id or o.sale_id <> a.sale_id or a.outcome = 'ordered' and o.ticket <> a.ticket)`
)

// countMoves adds the changes of a file to those of their sales.
func countMoves(of map[int64]moves, lines string) error {
	var events []struct {
		Sale int64  `json:"sale_id"`
		To   string `json:"to_status"`
	}
	err := json.Unmarshal([]byte(lines), &events)
	for _, e := range events {
		n := of[e.Sale]
		switch e.To {
		case "paid":
			n.Paid++
		case "cancelled":
			n.Cancelled++
		case "refunded":
			n.Refunded++
		}
		of[e.Sale] = n
	}
	return err
}

// wrongMoves returns the sales whose orders have more or fewer changes than their status takes: those in archives and those in
// the table together.
func wrongMoves(ctx context.Context, tx pgx.Tx, archived map[int64]moves) (wrong []string, err error) {
	rows, _ := tx.Query(ctx, `
		with changed as (
		     select sale_id, count(*) filter (where to_status = 'paid') as paid, count(*) filter (where to_status = 'cancelled') as cancelled,
		            count(*) filter (where to_status = 'refunded') as refunded
		     from   order_events group by sale_id
		), ordered as (
		     select sale_id, count(*) filter (where status in ('paid', 'refunded')) as paid, count(*) filter (where status = 'cancelled') as cancelled,
		            count(*) filter (where status = 'refunded') as refunded
		     from   orders group by sale_id
		)
		select s.id, coalesce(o.paid, 0) - coalesce(c.paid, 0), coalesce(o.cancelled, 0) - coalesce(c.cancelled, 0), coalesce(o.refunded, 0) - coalesce(c.refunded, 0)
		from   sales s left join ordered o on o.sale_id = s.id left join changed c on c.sale_id = s.id
		where  s.archived_at is not null`)
	left := maps.Clone(archived)
	var sale int64
	var want moves
	_, err = pgx.ForEachRow(rows, []any{&sale, &want.Paid, &want.Cancelled, &want.Refunded}, func() error {
		if archived[sale] != want {
			wrong = append(wrong, fmt.Sprintf("sale=%d archived=%+v wanted=%+v", sale, archived[sale], want))
		}
		delete(left, sale)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count the changes of archived orders: %w", err)
	}
	for _, sale := range slices.Sorted(maps.Keys(left)) {
		wrong = append(wrong, fmt.Sprintf("sale=%d archived=%+v, and the sale is not archived", sale, left[sale]))
	}
	return wrong, nil
}
