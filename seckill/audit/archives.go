package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/seckill/archive"
)

// moves counts the changes of the orders of a sale, by the status that they lead to.
type moves struct{ Paid, Cancelled, Refunded int }

// archived is a row of the table archives.
type archived struct {
	archive.Archive
	DroppedAt *time.Time // set by the owner who has deleted the file on purpose
}

// reading is what an audit of the archives has read until now.
type reading struct {
	dir   string
	read  map[string]bool // by file
	moved map[int64]moves // the changes in files whose rows are gone, by sale
	// those in files whose rows were all in their table, by file
	begun                           map[string]map[int64]moves
	whole                           bool // no file with events is damaged
	damaged, again, events, results []string
}

// Archives reads the files of the archives in dir back, and checks their rows as if they were in their tables. A file
// is read outside a transaction and compared in one of its own, so no snapshot lasts as long as the reading. Without a
// dir it returns a note that they were not read.
func Archives(ctx context.Context, db *pgxpool.Pool, dir string) (found []Finding, err error) {
	if found, err = readArchives(ctx, db, dir); err != nil {
		return nil, fmt.Errorf("audit the archives: %w", err)
	}
	return found, nil
}

func readArchives(ctx context.Context, db *pgxpool.Pool, dir string) (found []Finding, err error) {
	var all []archived
	list := func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, `select file, of_table, rows, sha256, oldest, newest, gone_at, dropped_at from archives order by oldest, file`)
		all, err = pgx.CollectRows(rows, pgx.RowToStructByName[archived])
		return err
	}
	if err := readOnly(ctx, db, time.Minute, list); err != nil {
		return nil, err
	}
	if dir == "" {
		if len(all) > 0 {
			found = []Finding{{"", fmt.Sprintf(
				"%s of miaosha archive not read, so the rows in them are not checked: name their folder with --dir (MIAOSHA_ARCHIVE_DIR)",
				count(len(all), "file")), nil}}
		}
		return found, nil
	}
	there, err := fs.Glob(os.DirFS(dir), "*.jsonl.gz") // before the rows are listed: a file is written before its row
	if err != nil {
		return nil, err
	}
	r := reading{dir: dir, read: map[string]bool{}, moved: map[int64]moves{},
		begun: map[string]map[int64]moves{}, whole: true}
	for _, a := range all {
		if a.DroppedAt != nil {
			continue
		}
		lines, damage := linesOf(a.Archive, dir)
		if err := readOnly(ctx, db, time.Minute, func(tx pgx.Tx) error {
			return r.check(ctx, tx, a, lines, damage)
		}); err != nil {
			return nil, err
		}
	}
	var unfinished, dropped []string
	var until time.Time // of the events whose files are gone
	err = readOnly(ctx, db, thoroughLimit, func(tx pgx.Tx) error {
		if err := list(tx); err != nil {
			return err
		}
		for _, a := range all {
			there = slices.DeleteFunc(there, func(file string) bool { return file == a.File && a.DroppedAt == nil })
			if a.DroppedAt != nil {
				dropped = append(dropped, a.File)
				if a.OfTable == "order_events" && a.Newest.After(until) {
					until = a.Newest
				}
				continue
			}
			if !r.read[a.File] { // written since
				lines, damage := linesOf(a.Archive, dir)
				if err := r.check(ctx, tx, a, lines, damage); err != nil {
					return err
				}
			}
			if begun, ok := r.begun[a.File]; ok && a.GoneAt == nil {
				unfinished = append(unfinished, a.File)
			} else {
				r.add(begun)
			}
		}
		if !r.whole {
			return nil
		}
		wrong, err := wrongMoves(ctx, tx, r.moved, until)
		r.events = append(r.events, wrong...)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, f := range []Finding{
		{"archive", "a file of miaosha archive is missing or damaged", r.damaged},
		{"archive", "rows are in an archive, and their table does not agree", r.again},
		{"I3", "a result in an archive has another order, or belongs to a ticket that has one", r.results},
		{"I8", "the history in the archives does not lead to the status of the orders", r.events},
		{"", "rows of these archives are still in their tables, as after an interrupted miaosha archive: run it again",
			unfinished},
		{"", "these archives were dropped on purpose (archives.dropped_at): their rows are not checked any more",
			dropped},
		{"",
			"these files are in the folder, and no archive needs them, as after a kill or a restore: no row was deleted for them, or their archive was dropped",
			there},
	} {
		if len(f.Rows) > 0 {
			f.Rows = f.Rows[:min(len(f.Rows), maxRows)]
			found = append(found, f)
		}
	}
	return found, nil
}

// check compares the lines of a file with the tables. damage is the error with which they were read.
func (r *reading) check(ctx context.Context, tx pgx.Tx, a archived, lines string, damage error) error {
	err := tx.QueryRow(ctx, `select gone_at from archives where file = $1 and dropped_at is null`, a.File).Scan(&a.GoneAt)
	if errors.Is(err, pgx.ErrNoRows) { // dropped or taken back since it was listed
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the row of %s: %w", a.File, err)
	}
	r.read[a.File] = true
	if d, ok := errors.AsType[archive.DamagedError](damage); ok {
		r.damaged, r.whole = append(r.damaged, d.Error()), r.whole && a.OfTable != "order_events"
		return nil
	}
	if damage != nil {
		return damage
	}
	var there int64
	if err := tx.QueryRow(ctx, stillThere[a.OfTable], lines).Scan(&there); err != nil {
		return fmt.Errorf("look for the rows of %s: %w", a.File, err)
	}
	var moved map[int64]moves
	var broken []string
	switch a.OfTable {
	case "order_events":
		if broken, err = texts(ctx, tx, archivedEvents, lines); err == nil {
			moved, err = countMoves(lines)
		}
		r.events = append(r.events, broken...)
	case "ticket_results":
		broken, err = texts(ctx, tx, archivedResults, lines)
		r.results = append(r.results, broken...)
	}
	if err != nil {
		return fmt.Errorf("check the rows of %s: %w", a.File, err)
	}
	switch {
	case a.GoneAt == nil && there == a.Rows:
		r.begun[a.File] = moved
	case a.GoneAt == nil:
		r.again = append(r.again, fmt.Sprintf("%s: %d of its %d rows are in %s, and none was deleted", a.File, there,
			a.Rows, a.OfTable))
	default:
		r.add(moved)
		if there > 0 {
			r.again = append(r.again, fmt.Sprintf("%s: %d of its %d rows are in %s, and all were deleted", a.File,
				there, a.Rows, a.OfTable))
		}
	}
	return nil
}

// add adds the changes of a file to those of their sales.
func (r *reading) add(moved map[int64]moves) {
	for sale, m := range moved {
		n := r.moved[sale]
		r.moved[sale] = moves{n.Paid + m.Paid, n.Cancelled + m.Cancelled, n.Refunded + m.Refunded}
	}
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

// stillThere counts the rows of a file that are in their table. A ticket that is settled again has another row, of
// another time.
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

// countMoves counts the changes of a file, by sale.
func countMoves(lines string) (map[int64]moves, error) {
	var events []struct {
		Sale int64  `json:"sale_id"`
		To   string `json:"to_status"`
	}
	err := json.Unmarshal([]byte(lines), &events)
	of := map[int64]moves{}
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
	return of, err
}

// wrongMoves returns the sales whose orders have more or fewer changes than their status takes: those in archives and
// those in the table together. Events up to until may be in a file that was dropped: a sale that had begun by then may
// lack changes.
func wrongMoves(ctx context.Context, tx pgx.Tx, archived map[int64]moves, until time.Time) (wrong []string, err error) {
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
		select s.id, coalesce(o.paid, 0) - coalesce(c.paid, 0), coalesce(o.cancelled, 0) - coalesce(c.cancelled, 0), coalesce(o.refunded, 0) - coalesce(c.refunded, 0),
		       s.starts_at <= $1
		from   sales s left join ordered o on o.sale_id = s.id left join changed c on c.sale_id = s.id
		where  s.archived_at is not null`, until)
	left := maps.Clone(archived)
	var sale int64
	var want moves
	var lacks bool
	_, err = pgx.ForEachRow(rows, []any{&sale, &want.Paid, &want.Cancelled, &want.Refunded, &lacks}, func() error {
		is := archived[sale]
		if is != want && !(lacks && is.Paid <= want.Paid && is.Cancelled <= want.Cancelled &&
			is.Refunded <= want.Refunded) {
			wrong = append(wrong, fmt.Sprintf("sale=%d archived=%+v wanted=%+v", sale, is, want))
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
