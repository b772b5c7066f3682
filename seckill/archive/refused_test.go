package archive_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/goods"
	"miaosha/seckill/archive"
	"miaosha/seckill/sandbox/sandboxtest"
)

// move moves what is old.
func (s shop) move(t *testing.T) (archive.Moved, error) {
	t.Helper()
	return archive.Run(t.Context(), s.db, s.dir, time.Now().Add(-age))
}

// end moves what is old, and everything is well.
func (s shop) end(t *testing.T) {
	t.Helper()
	if moved, err := s.move(t); err != nil {
		t.Errorf("%+v, %v", moved, err)
	}
	s.clean(t)
}

// killed moves what is old until something was done that often.
func (s shop) killed(t *testing.T, at int) {
	t.Helper()
	n := 0
	_, err := archive.Stepping(t.Context(), s.db, s.dir, time.Now().Add(-age), func(string) error {
		if n++; n == at {
			return errKilled
		}
		return nil
	})
	if !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
}

func (s shop) count(t *testing.T, sql string) (n int) {
	t.Helper()
	if err := s.db.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Each row is read, whatever the pages, and each file has no more rows than it may: also an old row behind younger ones, which a
// shop that is filled has. A draft is no sale that has ended.
func TestPagesAndFilesOfThreeRows(t *testing.T) {
	archive.Small(t)
	s := newShop(t)
	s.run(t, `set session_replication_role = replica;
		insert into sales (goods_id, price, total, stock, starts_at, ends_at) select goods_id, 1, 1, 1, starts_at, ends_at from sales where id = `+fmt.Sprint(s.old)+`;
		insert into order_events (order_id, sale_id, from_status, to_status, at) select order_id, sale_id, 'pending', 'paid', at from order_events order by id limit 1;
		delete from order_events where id = (select min(id) from order_events);
		insert into order_events (order_id, sale_id, from_status, to_status) select gen_random_uuid(), `+fmt.Sprint(s.open)+`, 'new', 'pending'`)
	moved, err := s.move(t)
	want := archive.Moved{Tables: []archive.Count{{"ticket_results", 2, 1}, {"order_events", 4, 2}, {"admin_log", 3, 1}, {"pictures", 2, 1}}, Marked: 1}
	if diff := cmp.Diff(want, moved); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if n := s.count(t, `select count(*) from sales where state = 'draft' and archived_at is null`); n != 1 {
		t.Errorf("%d drafts are not marked, want one", n)
	}
	if n := s.count(t, `select count(*) from archives where rows > 3`); n > 0 {
		t.Errorf("%d files have more than three rows", n)
	}
}

// A sale that another transaction has locked waits, and no other waits for it.
func TestALockedSaleWaits(t *testing.T) {
	s := newShop(t)
	s.run(t, `insert into sales (goods_id, price, total, stock, state, starts_at, ends_at) select goods_id, 1, 1, 1, 'closed', starts_at, ends_at from sales where id = `+fmt.Sprint(s.old))
	tx, err := s.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := goods.Lock(t.Context(), tx, s.old); err != nil {
		t.Fatal(err)
	}
	moved, err := s.move(t)
	if err != nil || moved.Marked != 1 || len(moved.Waiting) != 1 || moved.Tables[0].Rows != 0 {
		t.Errorf("%+v, %v", moved, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.end(t)
	if n := s.count(t, `select count(*) from archives`); n != 4 {
		t.Errorf("%d files, want 4", n)
	}
}

// An interrupted move is taken back only if all of its rows are in their table: the file may be the only copy.
func TestAnArchiveIsTakenBackOnlyWithItsRows(t *testing.T) {
	s := newShop(t)
	s.killed(t, 2)
	s.run(t, `create table kept as table ticket_results`)
	const back = `set session_replication_role = replica; insert into ticket_results select * from kept on conflict do nothing`
	var file string
	if err := s.db.QueryRow(t.Context(), `select file from archives`).Scan(&file); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{`true`, `ticket = (select min(ticket) from ticket_results)`} {
		for _, lost := range []bool{false, true} {
			s.run(t, `set session_replication_role = replica; delete from ticket_results where sale_id = `+fmt.Sprint(s.old)+` and `+gone)
			path := filepath.Join(s.dir, file)
			if lost {
				path += ".lost"
				if err := os.Rename(filepath.Join(s.dir, file), path); err != nil {
					t.Fatal(err)
				}
			}
			_, err := s.move(t)
			if err == nil || !strings.Contains(err.Error(), "rows of "+file+" are in ticket_results, and archives says that none was deleted") {
				t.Errorf("rows are gone (%s), the file is lost: %v: %v", gone, lost, err)
			}
			if n := s.count(t, `select count(*) from archives`); n != 1 {
				t.Errorf("%d archives are left, want the one", n)
			}
			if err := os.Rename(path, filepath.Join(s.dir, file)); err != nil {
				t.Errorf("the file: %v", err)
			}
			s.run(t, back)
		}
	}
	s.run(t, `drop table kept; set session_replication_role = replica; update ticket_results set outcome = 'closed' where sale_id = `+fmt.Sprint(s.old))
	s.end(t) // the file has other rows by now: it is taken back, and another one is written
	if files := s.files(t); len(files) != 4 {
		t.Errorf("the folder has %q", files)
	}
}

// Rows that are in a file already, and in their table again, do not go to a second file. What the error says to do is a way out.
func TestRowsThatAreBackAreNotArchivedTwice(t *testing.T) {
	s := newShop(t)
	s.run(t, `create table kept_order_events as table order_events; create table kept_ticket_results as table ticket_results; create table kept_pictures as table pictures`)
	s.end(t)
	for table, key := range map[string]string{"order_events": "id", "ticket_results": "ticket", "pictures": "name"} {
		for _, limit := range []int{1, 10} { // a part of the file, and all of it
			rows := fmt.Sprintf(`select %[2]s from kept_%[1]s k where not exists (select from %[1]s t where t.%[2]s = k.%[2]s) order by 1 limit %[3]d`, table, key, limit)
			s.run(t, fmt.Sprintf(`set session_replication_role = replica; create table back as %[3]s; insert into %[1]s overriding system value select * from kept_%[1]s where %[2]s in (table back)`, table, key, rows))
			_, err := s.move(t)
			if want := " are in " + table + " again"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
			s.run(t, fmt.Sprintf(`alter table %[1]s disable trigger only_archived_rows_go; delete from %[1]s where %[2]s in (table back); alter table %[1]s enable trigger only_archived_rows_go; drop table back`, table, key))
			s.end(t)
		}
	}
	if files := s.files(t); len(files) != 4 {
		t.Errorf("the folder has %q", files)
	}
}

// A picture that goods show since it was found unused stays, and the move goes on.
func TestAPictureThatIsTakenIntoUseStays(t *testing.T) {
	for _, beside := range []bool{false, true} {
		s := newShop(t)
		const use = `update goods set image = '/pictures/' || (select min(name) from pictures p where not exists (select from goods where image = '/pictures/' || p.name) and width = 1)`
		done := make(chan error, 1)
		_, err := archive.Stepping(t.Context(), s.db, s.dir, time.Now().Add(-age), func(step string) error {
			if step != "row" || s.count(t, `select count(*) from archives where of_table = 'pictures' and gone_at is null`) == 0 {
				return nil
			}
			if !beside {
				s.run(t, use)
				done <- nil
				return nil
			}
			tx, err := s.db.Begin(t.Context())
			if err == nil {
				_, err = tx.Exec(t.Context(), use)
			}
			go func() { // it commits when the move waits for it, or has not waited
				sandboxtest.Poll(func() bool {
					return s.count(t, `select (select count(*) from pg_locks where not granted and relation = 'goods'::regclass) + (select count(*) from archives where of_table = 'pictures' and gone_at is not null)`) > 0
				})
				done <- errors.Join(err, tx.Commit(context.WithoutCancel(t.Context())))
			}()
			return err
		})
		if err := errors.Join(err, <-done); err != nil {
			t.Errorf("beside: %v: %v", beside, err)
		}
		if n := s.count(t, `select count(*) from goods g join pictures p on g.image = '/pictures/' || p.name`); n != s.count(t, `select count(*) from goods`) {
			t.Errorf("beside: %v: %d goods have their picture", beside, n)
		}
		s.end(t)
	}
}

// The clock of the machine does not count, nor is anything moved to a folder that is not that of the other files, or over a
// connection whose lock ends nowhere.
func TestAMoveInTheWrongPlaceIsRefused(t *testing.T) {
	s := newShop(t)
	if _, err := archive.Run(t.Context(), s.db, s.dir, time.Now().Add(275*24*time.Hour)); !errors.Is(err, archive.ErrTooYoung) {
		t.Errorf("a clock that is a year ahead: %v", err)
	}
	config := s.db.Config()
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return otherProcess{c}, err
	}
	pooled, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pooled.Close()
	if _, err := archive.Run(t.Context(), pooled, s.dir, time.Now().Add(-age)); !errors.Is(err, archive.ErrPooler) {
		t.Errorf("through a pooler: %v", err)
	}
	role := fmt.Sprintf("mover_%d", time.Now().UnixNano())
	s.run(t, `create role `+role+`; grant all on all tables in schema public to `+role)
	t.Cleanup(func() {
		s.db.Exec(context.Background(), `drop owned by `+role+`; drop role `+role, pgx.QueryExecModeSimpleProtocol)
	})
	config = s.db.Config()
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error { _, err := c.Exec(ctx, `set role `+role); return err }
	lacks, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer lacks.Close()
	for _, right := range []string{"delete on pictures", "update on archives", "update on sales", "update, delete on goods"} {
		s.run(t, `revoke `+right+` from `+role)
		if _, err := archive.Run(t.Context(), lacks, s.dir, time.Now().Add(-age)); !errors.Is(err, archive.ErrNotOwner) {
			t.Errorf("without %s: %v", right, err)
		}
		s.run(t, `grant `+right+` to `+role)
	}
	if n := s.count(t, `select count(*) from sales where archived_at is not null`); n > 0 || len(s.files(t)) > 0 {
		t.Errorf("what was refused has marked %d sales, and written %q", n, s.files(t))
	}
	s.killed(t, 3)
	write(t, filepath.Join(s.dir, ".order_events-1.part"), "half")
	right := s.dir
	s.dir = filepath.Join(t.TempDir(), "unmounted")
	if _, err := s.move(t); !errors.Is(err, archive.ErrFolder) {
		t.Errorf("another folder: %v", err)
	}
	if _, err := os.Stat(s.dir); err == nil {
		t.Error("it was made")
	}
	s.dir = right
	s.end(t)
	if left, _ := filepath.Glob(filepath.Join(s.dir, ".*.part")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// otherProcess is a connection to Postgres through something that names another process, as PgBouncer does.
type otherProcess struct{ net.Conn }

func (c otherProcess) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if at := bytes.Index(b[:n], []byte("K\x00\x00\x00\x0c")); at >= 0 && at+9 <= n {
		binary.BigEndian.PutUint32(b[at+5:], 1)
	}
	return n, err
}
