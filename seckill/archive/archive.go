// Package archive moves old rows of Postgres to files, and reads them back.
//
// A file has the rows of one table, one line of JSON each, sorted by their bytes and compressed with gzip. Its row in
// the table archives has the number of lines and the SHA-256 of the text, so zcat and sha256sum check a file without
// this program.
//
// A batch is moved in three steps: its file is written and synced, its row in archives is committed, and a later
// transaction deletes its rows. Before that the file is read back. A trigger, only_archived_rows_go in schema.sql,
// deletes nothing else. A move that is killed leaves at most one file that archives does not name, whose rows are in
// their table and which the audit notes, or an archive whose rows are still in their table, which the next move
// deletes. At every moment each row is in its table, in an archive, or in both; archives says which.
package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Least is the least age of what is moved. Buyers pay, providers are asked, gates and journals live, and refunds are
// tried again for less than that; a request with the key of a former one comes sooner.
const Least = 30 * 24 * time.Hour

// Refusals.
var (
	ErrTooYoung = fmt.Errorf(
		"at least %d days: orders, refunds and repeated requests of that time still need their rows",
		Least/(24*time.Hour))
	ErrRunning  = errors.New("another miaosha archive is at work on this database")
	ErrNotOwner = errors.New(
		"this role may not move rows to files, which is for the owner of the tables: set DATABASE_URL to that role for this command (deploy/README.md, Archives)")
	ErrPooler = errors.New(
		"a pooler gives this connection to others between transactions: set DATABASE_URL to Postgres itself for this command")
	ErrFolder = errors.New(
		"it has none of the newest files of miaosha archive: is it another folder, or not mounted? If the files are lost for good, say so in the column dropped_at of archives")
)

// lock is the advisory lock of the process that moves rows.
const lock = 0x6d69616f_61726368

// Moved says what Run has moved.
type Moved struct {
	Tables []Count
	Marked int // ended sales that sell nothing more from now on: their rows may be in files
	// ended sales whose rows stay: an order of them is pending, a refund is due, or a transaction has locked them
	Waiting []int64
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
	began  time.Time // by the clock of Postgres
	looked []string  // the archives of former moves whose rows are not in their table again
	moved  Count
	step   func(string) error // a test is told of each step that is done, and may end the move there
	told   []func(Count)
}

// Run moves what is older than before to files in dir: ticket results and order events of sales that had ended by then,
// lines of the log, and pictures that nothing uses. ErrTooYoung, ErrRunning, ErrNotOwner, ErrPooler, ErrFolder. With an
// error it returns what was moved until then. told is called after each file with what was moved of its table until
// then.
func Run(ctx context.Context, db *pgxpool.Pool, dir string, before time.Time, told ...func(Count)) (Moved, error) {
	return run(ctx, db, dir, before, func(string) error { return nil }, told...)
}

func run(
	ctx context.Context, db *pgxpool.Pool, dir string, before time.Time, step func(string) error, told ...func(Count),
) (all Moved, err error) {
	c, err := db.Acquire(ctx)
	if err != nil {
		return all, err
	}
	conn := c.Hijack() // its settings and its lock end here
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		conn.Exec(end, `select pg_advisory_unlock_all()`) // Postgres may hear late that the connection has ended
		conn.Close(end)
	}()
	m := &mover{conn: conn, dir: dir, before: before, step: step, told: told, looked: []string{}}
	if err := m.begin(ctx); err != nil {
		return all, err
	}
	if err := m.look(ctx); err != nil {
		return all, fmt.Errorf("the folder %s: %w", dir, err)
	}
	if all.Marked, all.Waiting, err = m.markSales(ctx); err != nil {
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
	var process uint32
	err := m.conn.QueryRow(ctx, `
		select bool_and(has_table_privilege(t, 'select') and has_table_privilege(t, 'delete')) and has_table_privilege('archives', 'insert')
		       and has_table_privilege('archives', 'update') and has_column_privilege('sales', 'archived_at', 'update')
		       and has_table_privilege('goods', 'update, delete'), pg_backend_pid(), statement_timestamp()
		from   unnest(array['ticket_results', 'order_events', 'admin_log', 'pictures', 'archives']) t`).Scan(&may, &process, &m.began)
	switch {
	case err != nil:
		return fmt.Errorf("read the rights of the role: %w", err)
	case !may:
		return ErrNotOwner
	case process != m.conn.PgConn().PID():
		return ErrPooler
	case m.began.Sub(m.before) < Least:
		return fmt.Errorf("by the clock of Postgres it is %s: %w", m.began.UTC().Format(time.DateTime), ErrTooYoung)
	}
	_, err = m.conn.Exec(ctx, `set timezone = 'UTC'; set bytea_output = 'hex'; set statement_timeout = '60s'; set lock_timeout = '3s';
		set default_transaction_isolation = 'read committed'`)
	if err == nil {
		err = m.conn.QueryRow(ctx, `select pg_try_advisory_lock($1)`, int64(lock)).Scan(&alone)
	}
	if err != nil || alone {
		return err
	}
	var who string
	err = m.conn.QueryRow(ctx, `
		select coalesce(string_agg(format('process %s of Postgres (%s)', pid, application_name), ', '), 'it has just ended')
		from   pg_locks l join pg_stat_activity a using (pid)
		where  l.locktype = 'advisory' and l.granted and l.objsubid = 1 and l.classid::bigint << 32 | l.objid::bigint = $1
		and    l.database = (select oid from pg_database where datname = current_database())`, int64(lock)).Scan(&who)
	if err != nil {
		return ErrRunning
	}
	return fmt.Errorf("%w: %s", ErrRunning, who)
}

// look looks for the newest files in the folder, and removes what a move that was killed has left half written there.
func (m *mover) look(ctx context.Context) error {
	files, err := os.ReadDir(m.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	rows, _ := m.conn.Query(ctx, `select file from archives where gone_at is not null and dropped_at is null order by created_at desc limit 10`)
	newest, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("read the archives: %w", err)
	}
	known := len(newest) == 0
	for _, f := range files {
		known = known || slices.Contains(newest, f.Name())
	}
	if !known {
		return ErrFolder
	}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), ".") && strings.HasSuffix(f.Name(), ".part") {
			if err := os.Remove(filepath.Join(m.dir, f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// markSales marks the sales that ended before the time, a few in a transaction. A marked sale sells nothing more: a
// ticket that is settled again, whose result may be in a file, gets no unit. It returns how many it has marked, and
// which wait.
func (m *mover) markSales(ctx context.Context) (marked int, waiting []int64, err error) {
	for after := int64(0); ; {
		var ids []int64
		err := pgx.BeginFunc(ctx, m.conn, func(tx pgx.Tx) error {
			// The lock is that of a settle transaction, so after it no order of these sales begins. A sale that another
			// transaction has locked is left to the next move: the others would stay locked meanwhile.
			rows, _ := tx.Query(ctx, `
				select id from sales
				where  id > $1 and ends_at < $2 and state <> 'draft' and archived_at is null
				order  by id limit 50
				for    no key update skip locked`, after, m.before)
			if ids, err = pgx.CollectRows(rows, pgx.RowTo[int64]); err != nil {
				return err
			}
			tag, err := tx.Exec(ctx, `
				update sales s set archived_at = clock_timestamp()
				where  s.id = any($1)
				and    not exists (select from orders o where o.sale_id = s.id and o.status = 'pending')
				and    not exists (select from payments p join orders o on o.id = p.order_id where p.status = 'refund_due' and o.sale_id = s.id)`, ids)
			marked += int(tag.RowsAffected())
			return err
		})
		if err != nil {
			return marked, nil, err
		}
		if len(ids) == 0 {
			break
		}
		after = ids[len(ids)-1]
	}
	rows, _ := m.conn.Query(ctx, `select id from sales where ends_at < $1 and state <> 'draft' and archived_at is null order by id`, m.before)
	waiting, err = pgx.AppendRows(waiting, rows, pgx.RowTo[int64])
	return marked, waiting, err
}

// table says which rows of a table are moved.
type table struct {
	name  string
	key   string // the column that is the key
	at    string // the column that is the time
	first string // less than every key
	size  int    // the rows of a page
	page  string // selects the next rows behind a key: the key, the time and, of a row that is moved, its line
	these string // is true of the rows with these keys
}

// The newest row of a table stays: its number is the highest that Redis knows of this shop, by which a Postgres that
// has gone back is found (package lineage). So do the notes of refunds by hand, which the page of an order shows.
var tables = []table{
	{name: "ticket_results", key: "ticket", at: "created_at", size: 5000, page: `
		select r.ticket as key, r.created_at as at, case when r.created_at < $2 and s.archived_at is not null then to_jsonb(r)::text end as line
		from  (select * from ticket_results where ticket > $1 order by ticket limit $3) r left join sales s on s.id = r.sale_id
		order  by r.ticket`,
		these: `ticket = any($1::text[])`},
	{name: "order_events", first: "0", key: "id", at: "at", size: 5000, page: `
		select e.id::text as key, e.at, case when e.at < $2 and s.archived_at is not null then to_jsonb(e)::text end as line
		from  (select * from order_events where id > $1::text::bigint and id < (select max(id) from order_events) order by id limit $3) e
		       left join sales s on s.id = e.sale_id
		order  by e.id`,
		these: `id = any($1::text[]::bigint[])`},
	{name: "admin_log", first: "0", key: "id", at: "at", size: 5000, page: `
		select l.id::text as key, l.at, case when l.at < $2 and l.action <> 'payment.returned' then to_jsonb(l)::text end as line
		from  (select * from admin_log where id > $1::text::bigint and id < (select max(id) from admin_log) order by id limit $3) l
		order  by l.id`,
		these: `id = any($1::text[]::bigint[])`},
	{name: "pictures", key: "name", at: "created_at", size: 4, page: `
		select p.name as key, p.created_at as at, case when p.created_at < $2 and ` + unused + ` then to_jsonb(p)::text end as line
		from  (select * from pictures where name > $1 order by name limit $3) p
		order  by p.name`,
		these: `name = any($1::text[])`},
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
		for _, r := range page {
			after = r.Key
			if r.Line != nil {
				b.add(*r.Line, r.At)
			}
		}
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
	if err := m.again(ctx, t, b); err != nil {
		return err
	}
	a, err := b.write(m.dir, t.name)
	if err == nil {
		err = m.nameAnother(ctx, &a)
	}
	if err == nil {
		err = m.step("file")
	}
	if err != nil {
		return err
	}
	_, err = m.conn.Exec(ctx, `
		insert into archives (file, of_table, rows, sha256, oldest, newest) values ($1, $2, $3, $4, $5, $6)`,
		a.File, t.name, a.Rows, a.SHA256, a.Oldest, a.Newest)
	if pg := new(pgconn.PgError); errors.As(err, &pg) && pg.Code == "23505" { // again has found no file to read
		return t.restored(a.File, a.Rows)
	}
	if err == nil {
		err = m.step("row")
	}
	if err != nil {
		return fmt.Errorf("register %s: %w", a.File, err)
	}
	err = m.remove(ctx, t, a)
	if t.name == "pictures" && refused(err) { // goods show one of them now
		return m.takeBack(ctx, t, a)
	}
	return err
}

// nameAnother renames the file of rows that were brought back: the archive that was dropped keeps its name.
func (m *mover) nameAnother(ctx context.Context, a *Archive) error {
	var n int
	err := m.conn.QueryRow(ctx, `select count(*) from archives where of_table = $1 and sha256 = $2 and dropped_at is not null`, a.OfTable, a.SHA256).Scan(&n)
	if err != nil || n == 0 {
		return err
	}
	former := a.File
	a.File = fmt.Sprintf("%s-%d.jsonl.gz", strings.TrimSuffix(former, ".jsonl.gz"), n+1)
	if err := os.Rename(filepath.Join(m.dir, former), filepath.Join(m.dir, a.File)); err != nil {
		return err
	}
	return syncFolder(m.dir)
}

// again returns an error if rows of a former move are in the table again. It reads the files whose times meet those of
// a batch, each once in a move.
func (m *mover) again(ctx context.Context, t table, b batch) error {
	rows, _ := m.conn.Query(ctx, `
		select `+columns+` from archives
		where  of_table = $1 and gone_at < $2 and dropped_at is null and oldest <= $4 and newest >= $3 and file <> all($5)`,
		t.name, m.began, b.oldest, b.newest, m.looked)
	former, err := pgx.CollectRows(rows, pgx.RowToStructByName[Archive])
	if err != nil {
		return fmt.Errorf("read the archives: %w", err)
	}
	for _, a := range former {
		keys, err := a.keys(m.dir, t.key)
		if damaged := (DamagedError{}); errors.As(err, &damaged) {
			keys, err = nil, nil // the audit says so
		}
		if err != nil {
			return err
		}
		n, err := m.count(ctx, t, a, keys)
		if err == nil && n > 0 {
			err = t.restored(a.File, n)
		}
		if err != nil {
			return err
		}
		m.looked = append(m.looked, a.File)
	}
	return nil
}

// restored says that rows of an archive are in their table again, and what to do.
func (t table) restored(file string, rows int64) error {
	return fmt.Errorf(
		"%d rows of %s are in %s again, as after a restore by hand, and nothing more of that table was moved. Delete them as the owner of the tables, in one "+
			"transaction: alter table %[3]s disable trigger only_archived_rows_go; delete from %[3]s where %s in (...); alter table %[3]s enable trigger only_archived_rows_go. "+
			"zcat of the file shows which", rows, file, t.name, t.key)
}

// count counts the rows of an archive that are in their table. A ticket that is settled again has another row, of
// another time.
func (m *mover) count(ctx context.Context, t table, a Archive, keys []string) (n int64, err error) {
	err = m.conn.QueryRow(ctx, `select count(*) from `+t.name+` where `+t.these+` and `+t.at+` between $2 and $3`, keys, a.Oldest, a.Newest).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("look for the rows of %s: %w", a.File, err)
	}
	return n, nil
}

// resume ends the moves of a table that were interrupted.
func (m *mover) resume(ctx context.Context, t table) error {
	rows, _ := m.conn.Query(ctx, `select `+columns+` from archives where of_table = $1 and gone_at is null order by file`, t.name)
	begun, err := pgx.CollectRows(rows, pgx.RowToStructByName[Archive])
	if err != nil {
		return fmt.Errorf("read the archives: %w", err)
	}
	for _, a := range begun {
		err := m.remove(ctx, t, a)
		if damaged := (DamagedError{}); errors.As(err, &damaged) || refused(err) {
			err = m.takeBack(ctx, t, a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// takeBack takes back an archive that cannot be ended, because its rows are others by now or its file is lost, as on
// another machine, if all of its rows are in their table. Those of a lost file are known by their number and their
// times.
func (m *mover) takeBack(ctx context.Context, t table, a Archive) error {
	keys, err := a.keys(m.dir, t.key)
	damaged := DamagedError{}
	lost := errors.As(err, &damaged)
	if err != nil && !lost {
		return err
	}
	var n int64
	if lost {
		err = m.conn.QueryRow(ctx, `
			select case when min(`+t.at+`) = $1 and max(`+t.at+`) = $2 then count(*) else 0 end from `+t.name+` where `+t.at+` between $1 and $2`,
			a.Oldest, a.Newest).Scan(&n)
	} else {
		n, err = m.count(ctx, t, a, keys)
	}
	if err != nil {
		return fmt.Errorf("look for the rows of %s: %w", a.File, err)
	}
	if n < a.Rows {
		return fmt.Errorf(
			"%d of the %d rows of %s are in %s, and archives says that none was deleted, as after a restore of some tables. The file may be the only copy: bring its rows "+
				"back, or, if none is in the table, say that they went: update archives set gone_at = now() where file = '%[3]s'",
			n, a.Rows, a.File, t.name)
	}
	if _, err := m.conn.Exec(ctx, `delete from archives where file = $1 and gone_at is null`, a.File); err != nil {
		return fmt.Errorf("take back %s: %w", a.File, err)
	}
	if lost {
		return nil
	}
	return os.Remove(filepath.Join(m.dir, a.File))
}

// refused reports whether the database has refused to delete rows, because they are not those of an archive.
func refused(err error) bool {
	pg := new(pgconn.PgError)
	return errors.As(err, &pg) && pg.ConstraintName == "only_archived_rows_go"
}

// remove deletes the rows of an archive, whose file it reads first.
func (m *mover) remove(ctx context.Context, t table, a Archive) error {
	keys, err := a.keys(m.dir, t.key)
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, m.conn, func(tx pgx.Tx) error {
		gone := `delete from ` + t.name + ` p where ` + t.these
		if t.name == "pictures" { // whoever edits goods waits; no purchase does
			gone += ` and ` + unused
			if _, err := tx.Exec(ctx, `lock table goods in share row exclusive mode`); err != nil {
				return err
			}
		}
		tag, err := tx.Exec(ctx, gone, keys)
		if err == nil && tag.RowsAffected() != a.Rows {
			err = fmt.Errorf("%d of %d are in the table", tag.RowsAffected(), a.Rows)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete the rows of %s: %w", a.File, err)
	}
	m.moved.Rows, m.moved.Files = m.moved.Rows+int(a.Rows), m.moved.Files+1
	for _, tell := range m.told {
		tell(m.moved)
	}
	return m.step("gone")
}
