// Package archive moves old rows of Postgres to files, and reads them back.
//
// A file has the rows of one table, one line of JSON each, sorted by their bytes and compressed with gzip. Its row in the table
// archives has the number of lines and the SHA-256 of the text, so zcat and sha256sum check a file without this program.
//
// A batch is moved in three steps: its file is written and synced, its row in archives is committed, and a later transaction
// deletes its rows. Before that the file is read back. A trigger, only_archived_rows_go in schema.sql, deletes nothing else. A move
// that is killed leaves at most a file without a row in archives, which the next move writes again, or an archive whose rows are
// still in their table, which the next move deletes. At every moment each row is in its table, in an archive, or in both; archives
// says which.
package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Least is the least age of what is moved. Buyers pay, providers are asked, gates and journals live, and refunds are tried again
// for less than that; a request with the key of a former one comes sooner.
const Least = 30 * 24 * time.Hour

// Refusals.
var (
	ErrTooYoung = fmt.Errorf("at least %d days: orders, refunds and repeated requests of that time still need their rows", Least/(24*time.Hour))
	ErrRunning  = errors.New("another miaosha archive is at work on this database")
	ErrNotOwner = errors.New("this role may not move rows to files, which is for the owner of the tables: set DATABASE_URL to that role for this command (deploy/README.md, Archives)")
)

// lock is the advisory lock of the process that moves rows.
const lock = 0x6d69616f_61726368

// Moved says what Run has moved.
type Moved struct {
	Tables  []Count
	Waiting int // ended sales whose rows stay, because an order of them is pending or a refund is due
}

// Count is what was moved of one table.
type Count struct {
	Table       string
	Rows, Files int
}

// mover moves rows on one connection, which holds the lock.
type mover struct {
	conn   *pgx.Conn
	dir    string
	before time.Time
	moved  Count
	step   func(string) error // a test is told of each step that is done, and may end the move there
}

// Run moves what is older than before to files in dir: ticket results and order events of sales that had ended by then, lines of
// the log, and pictures that nothing uses. ErrTooYoung, ErrRunning, ErrNotOwner. With an error it returns what was moved until then.
func Run(ctx context.Context, db *pgxpool.Pool, dir string, before time.Time) (Moved, error) {
	return run(ctx, db, dir, before, func(string) error { return nil })
}

func run(ctx context.Context, db *pgxpool.Pool, dir string, before time.Time, step func(string) error) (all Moved, err error) {
	if time.Since(before) < Least {
		return all, ErrTooYoung
	}
	c, err := db.Acquire(ctx)
	if err != nil {
		return all, err
	}
	conn := c.Hijack() // it ends here, and the lock with it
	defer conn.Close(context.WithoutCancel(ctx))
	m := &mover{conn: conn, dir: dir, before: before, step: step}
	if err := m.begin(ctx); err != nil {
		return all, err
	}
	if all.Waiting, err = m.markSales(ctx); err != nil {
		return all, fmt.Errorf("mark the sales that have ended: %w", err)
	}
	for _, t := range tables {
		m.moved = Count{Table: t.name}
		err := m.move(ctx, t)
		all.Tables = append(all.Tables, m.moved)
		if err != nil {
			return all, fmt.Errorf("move rows of %s: %w", t.name, err)
		}
	}
	return all, nil
}

// begin prepares the connection. Its settings are those under which a row has the same text in each session.
func (m *mover) begin(ctx context.Context) error {
	var may, alone bool
	err := m.conn.QueryRow(ctx, `
		select bool_and(has_table_privilege(t, 'delete')) and has_table_privilege('archives', 'insert')
		from   unnest(array['ticket_results', 'order_events', 'admin_log', 'pictures']) t`).Scan(&may)
	if err != nil {
		return fmt.Errorf("read the rights of the role: %w", err)
	}
	if !may {
		return ErrNotOwner
	}
	_, err = m.conn.Exec(ctx, `set timezone = 'UTC'; set bytea_output = 'hex'; set statement_timeout = '60s'; set lock_timeout = '3s'`)
	if err == nil {
		err = m.conn.QueryRow(ctx, `select pg_try_advisory_lock($1)`, int64(lock)).Scan(&alone)
	}
	if err == nil && !alone {
		err = ErrRunning
	}
	return err
}

// markSales marks the sales that ended before the time, a few in a transaction. A marked sale sells nothing more: a ticket that is
// settled again, whose result may be in a file, gets no unit. It returns how many sales wait for their orders.
func (m *mover) markSales(ctx context.Context) (waiting int, err error) {
	for after := int64(0); ; {
		var ids []int64
		err := pgx.BeginFunc(ctx, m.conn, func(tx pgx.Tx) error {
			// The lock is that of a settle transaction, so after it no order of these sales begins.
			rows, _ := tx.Query(ctx, `
				select id from sales
				where  id > $1 and ends_at < $2 and state <> 'draft' and archived_at is null
				order  by id limit 500
				for    no key update`, after, m.before)
			if ids, err = pgx.CollectRows(rows, pgx.RowTo[int64]); err != nil {
				return err
			}
			tag, err := tx.Exec(ctx, `
				update sales s set archived_at = clock_timestamp()
				where  s.id = any($1)
				and    not exists (select from orders o where o.sale_id = s.id and o.status = 'pending')
				and    not exists (select from payments p join orders o on o.id = p.order_id where p.status = 'refund_due' and o.sale_id = s.id)`, ids)
			waiting += len(ids) - int(tag.RowsAffected())
			return err
		})
		if err != nil || len(ids) == 0 {
			return waiting, err
		}
		after = ids[len(ids)-1]
	}
}

// table says which rows of a table are moved.
type table struct {
	name   string
	key    string // the column that is the key
	first  string // less than every key
	size   int    // the rows of a page
	byTime bool   // the keys rise with time
	page   string // selects the next rows behind a key: the key, the time and, of a row that is moved, its line
	remove string // deletes the rows with these keys
}

// The newest row of a table stays: its number is the highest that Redis knows of this shop, by which a Postgres that has gone back
// is found (package lineage). So do the notes of refunds by hand, which the page of an order shows.
var tables = []table{
	{name: "ticket_results", key: "ticket", size: 5000, page: `
		select r.ticket as key, r.created_at as at, case when r.created_at < $2 and s.archived_at is not null then to_jsonb(r)::text end as line
		from  (select * from ticket_results where ticket > $1 order by ticket limit $3) r left join sales s on s.id = r.sale_id
		order  by r.ticket`,
		remove: `delete from ticket_results where ticket = any($1::text[])`},
	{name: "order_events", first: "0", key: "id", size: 5000, byTime: true, page: `
		select e.id::text as key, e.at, case when e.at < $2 and s.archived_at is not null then to_jsonb(e)::text end as line
		from  (select * from order_events where id > $1::text::bigint and id < (select max(id) from order_events) order by id limit $3) e
		       left join sales s on s.id = e.sale_id
		order  by e.id`,
		remove: `delete from order_events where id = any($1::text[]::bigint[])`},
	{name: "admin_log", first: "0", key: "id", size: 5000, byTime: true, page: `
		select l.id::text as key, l.at, case when l.at < $2 and l.action <> 'payment.returned' then to_jsonb(l)::text end as line
		from  (select * from admin_log where id > $1::text::bigint and id < (select max(id) from admin_log) order by id limit $3) l
		order  by l.id`,
		remove: `delete from admin_log where id = any($1::text[]::bigint[])`},
	// Whoever edits goods waits for the lock while a picture is deleted; no purchase does.
	{name: "pictures", key: "name", size: 4, page: `
		select p.name as key, p.created_at as at, case when p.created_at < $2 and ` + unused + ` then to_jsonb(p)::text end as line
		from  (select * from pictures where name > $1 order by name limit $3) p
		order  by p.name`,
		remove: `delete from pictures p where name = any($1::text[]) and ` + unused},
}

const unused = `not exists (select from goods where image = '/pictures/' || p.name)`

// row is a row of a page.
type row struct {
	Key  string
	At   time.Time
	Line *string
}

// move moves the rows of a table, first those of a former move that was interrupted.
func (m *mover) move(ctx context.Context, t table) error {
	if err := m.resume(ctx, t); err != nil {
		return err
	}
	var b batch
	for after, more := t.first, true; more; {
		rows, _ := m.conn.Query(ctx, t.page, after, m.before, t.size)
		page, err := pgx.CollectRows(rows, pgx.RowToStructByName[row])
		if err != nil {
			return fmt.Errorf("read a page: %w", err)
		}
		more = len(page) == t.size
		young := true
		for _, r := range page {
			after, young = r.Key, young && !r.At.Before(m.before)
			if r.Line != nil {
				b.add(*r.Line, r.At)
			}
		}
		more = more && !(t.byTime && young)
		if b.full() || !more && len(b.lines) > 0 {
			if err := m.moveBatch(ctx, t, b); err != nil {
				return err
			}
			b = batch{}
		}
	}
	return nil
}

func (m *mover) moveBatch(ctx context.Context, t table, b batch) error {
	a, err := b.write(m.dir, t.name)
	if err == nil {
		err = m.step("file")
	}
	if err != nil {
		return err
	}
	_, err = m.conn.Exec(ctx, `
		insert into archives (file, of_table, rows, sha256, oldest, newest) values ($1, $2, $3, $4, $5, $6)`,
		a.File, t.name, a.Rows, a.SHA256, b.oldest, b.newest)
	if pg := new(pgconn.PgError); errors.As(err, &pg) && pg.Code == "23505" {
		return fmt.Errorf("the rows of %s were archived, and are in the table again, as after a restore by hand: take them out, or drop the file and its row", a.File)
	}
	if err == nil {
		err = m.step("row")
	}
	if err != nil {
		return fmt.Errorf("register %s: %w", a.File, err)
	}
	return m.remove(ctx, t, a)
}

// resume ends the moves of a table that were interrupted. Where the file is not as its row says, as on another machine or
// after the loss of a disk, the archive is taken back: its rows are still in the table.
func (m *mover) resume(ctx context.Context, t table) error {
	rows, _ := m.conn.Query(ctx, `select file, of_table, rows, sha256, gone_at from archives where of_table = $1 and gone_at is null order by file`, t.name)
	begun, err := pgx.CollectRows(rows, pgx.RowToStructByName[Archive])
	if err != nil {
		return fmt.Errorf("read the archives: %w", err)
	}
	for _, a := range begun {
		err := m.remove(ctx, t, a)
		damaged, pg := DamagedError{}, new(pgconn.PgError)
		if errors.As(err, &damaged) || errors.As(err, &pg) && pg.ConstraintName == "only_archived_rows_go" {
			_, err = m.conn.Exec(ctx, `delete from archives where file = $1 and gone_at is null`, a.File)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// remove deletes the rows of an archive, whose file it reads first.
func (m *mover) remove(ctx context.Context, t table, a Archive) error {
	keys := make([]string, 0, a.Rows)
	err := a.Read(m.dir, func(line []byte) error {
		key, err := field(line, t.key)
		keys = append(keys, key)
		return err
	})
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, m.conn, func(tx pgx.Tx) error {
		if t.name == "pictures" {
			if _, err := tx.Exec(ctx, `lock table goods in share row exclusive mode`); err != nil {
				return err
			}
		}
		tag, err := tx.Exec(ctx, t.remove, keys)
		if err == nil && tag.RowsAffected() != a.Rows {
			err = fmt.Errorf("%d of %d are in the table", tag.RowsAffected(), a.Rows)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete the rows of %s: %w", a.File, err)
	}
	m.moved.Rows, m.moved.Files = m.moved.Rows+int(a.Rows), m.moved.Files+1
	return m.step("gone")
}

// All returns the archives, oldest first.
func All(ctx context.Context, tx pgx.Tx) ([]Archive, error) {
	rows, _ := tx.Query(ctx, `select file, of_table, rows, sha256, gone_at from archives order by oldest, file`)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByName[Archive])
	if err != nil {
		return nil, fmt.Errorf("read the archives: %w", err)
	}
	return slices.Clip(all), nil
}
