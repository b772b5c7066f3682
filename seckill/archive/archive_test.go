package archive_test

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/archive"
	"miaosha/seckill/audit"
	"miaosha/seckill/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// shop is a database with a sale of long ago and one that is open.
type shop struct {
	db        *pgxpool.Pool
	dir       string
	old, open int64
	orders    []uuid.UUID // of the old sale: paid, refunded, cancelled
}

// An age at which the rows of the old sale are moved, and those of the open one are not.
const age = 90 * 24 * time.Hour

func newShop(t *testing.T) shop {
	t.Helper()
	s := shop{db: sandboxtest.DB(t), dir: filepath.Join(t.TempDir(), "archives")}
	s.old, s.orders = s.sells(t, 100)
	s.run(t, `insert into pictures (name, bytes, width, height)
		select substr(md5(n::text), 1, 32) || '.png', decode(md5(n::text), 'hex'), 1, 1 from generate_series(1, 3) n`)
	s.run(t, `update goods set image = (select '/pictures/' || name from pictures order by name limit 1)`)
	s.run(t, `insert into admin_log (origin, action, subject, after) select 'test', 'sale.pause', 'sale ' || n, '{"note": "茶\n 1"}'::jsonb from generate_series(1, 3) n
		union all select 'test', 'payment.returned', 'payment x', '{}'`)
	s.run(t, `set session_replication_role = replica;
		update sales set starts_at = starts_at - interval '100 days', ends_at = ends_at - interval '100 days';
		update orders set created_at = created_at - interval '100 days', expires_at = expires_at - interval '100 days';
		update order_events set at = at - interval '100 days';
		update ticket_results set created_at = created_at - interval '100 days';
		update admin_log set at = at - interval '100 days';
		update pictures set created_at = created_at - interval '100 days'`)
	s.open, _ = s.sells(t, 100)
	s.run(t, `insert into admin_log (origin, action, subject) values ('test', 'sale.pause', 'sale 9')`)
	s.run(t, `insert into pictures (name, bytes, width, height) values (md5('young') || '.png', 'x', 1, 1)`)
	return s
}

// sells has a sale of five units of which three are sold: the orders are paid, refunded and cancelled. Two more tickets are refused.
func (s shop) sells(t *testing.T, buyer int64) (sale int64, orders []uuid.UUID) {
	t.Helper()
	now := time.Now()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	sale, err := goods.New(s.db).Sell(t.Context(), goods.Item{Title: "kettle"},
		goods.Terms{Price: 100, Total: 3, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour)})
	must(err)
	store := order.New(s.db, order.Config{PayWithin: time.Hour})
	for _, r := range s.settle(t, sale, buyer, buyer+1, buyer+2, buyer+3, buyer+4) {
		if r.Outcome == order.Ordered {
			orders = append(orders, r.OrderID)
		}
	}
	for _, id := range orders[:2] {
		_, err = store.Capture(t.Context(), order.Captured{Provider: order.Cashier, OrderID: id, Amount: 100, Ref: id.String()})
		must(err)
	}
	must(store.Refund(t.Context(), orders[1]))
	must(store.Cancel(t.Context(), buyer+2, orders[2]))
	s.run(t, `update payments set status = 'refunded' where status = 'refund_due'`)
	return sale, orders
}

// settle settles a ticket of each user, which has the same id each time.
func (s shop) settle(t *testing.T, sale int64, users ...int64) (results []order.Result) {
	t.Helper()
	store := order.New(s.db, order.Config{PayWithin: time.Hour})
	err := pgx.BeginFunc(t.Context(), s.db, func(tx pgx.Tx) error {
		var tickets []order.Ticket
		for _, user := range users {
			tickets = append(tickets, order.Ticket{ID: fmt.Sprintf("%d of %d", user, sale), UserID: user})
		}
		l, err := goods.Lock(t.Context(), tx, sale)
		if err == nil {
			results, err = store.Place(t.Context(), tx, l, tickets)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// run runs statements in a transaction, whose settings end with it.
func (s shop) run(t *testing.T, sql string) {
	t.Helper()
	if err := s.try(t, strings.ReplaceAll(sql, "set session_", "set local session_")); err != nil {
		t.Fatalf("%v: %s", err, sql)
	}
}

func (s shop) try(t *testing.T, sql string) error {
	t.Helper()
	return pgx.BeginFunc(t.Context(), s.db, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
		return err
	})
}

// rows counts the rows of the four tables.
func (s shop) rows(t *testing.T) (n [4]int) {
	t.Helper()
	err := s.db.QueryRow(t.Context(), `select (select count(*) from ticket_results), (select count(*) from order_events), (select count(*) from admin_log),
		(select count(*) from pictures)`).Scan(&n[0], &n[1], &n[2], &n[3])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// findings returns what audits find: their meanings, and notes.
func (s shop) findings(t *testing.T) (broken, notes []string) {
	t.Helper()
	for _, check := range []func() ([]audit.Finding, error){
		func() ([]audit.Finding, error) { return audit.Postgres(t.Context(), s.db) },
		func() ([]audit.Finding, error) { return audit.Quick(t.Context(), s.db, nil) },
		func() ([]audit.Finding, error) { return audit.Archives(t.Context(), s.db, s.dir) },
	} {
		found, err := check()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if f.Invariant == "" {
				notes = append(notes, f.Meaning)
			} else {
				broken = append(broken, f.Invariant+" "+f.Meaning+": "+strings.Join(f.Rows, ", "))
			}
		}
	}
	return broken, notes
}

func (s shop) clean(t *testing.T) {
	t.Helper()
	if broken, notes := s.findings(t); len(broken)+len(notes) > 0 {
		t.Errorf("the audit finds %q, notes %q", broken, notes)
	}
}

func (s shop) files(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// text returns what is in a file of an archive.
func text(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	zip := gzip.NewWriter(f)
	if _, err := io.WriteString(zip, text); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(zip.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// What is old goes to files, and the rest stays. Each file is what its row in archives says.
func TestOldRowsGoToFiles(t *testing.T) {
	s := newShop(t)
	before := s.rows(t)
	moved, err := archive.Run(t.Context(), s.db, s.dir, time.Now().Add(-age))
	if err != nil {
		t.Fatal(err)
	}
	want := archive.Moved{Tables: []archive.Count{{"ticket_results", 2, 1}, {"order_events", 4, 1}, {"admin_log", 3, 1}, {"pictures", 2, 1}}, Marked: 1}
	if diff := cmp.Diff(want, moved); diff != "" {
		t.Error(diff)
	}
	if got := s.rows(t); got != [4]int{before[0] - 2, before[1] - 4, before[2] - 3, before[3] - 2} {
		t.Errorf("%v rows are left of %v", got, before)
	}
	s.clean(t)
	rows, _ := s.db.Query(t.Context(), `select file, sha256, rows from archives where gone_at is not null order by 1`)
	var file, sum string
	var n, files int
	_, err = pgx.ForEachRow(rows, []any{&file, &sum, &n}, func() error {
		files++
		lines := text(t, filepath.Join(s.dir, file))
		if is := sha256.Sum256([]byte(lines)); hex.EncodeToString(is[:]) != sum || strings.Count(lines, "\n") != n {
			t.Errorf("%s is not as its row says:\n%s", file, lines)
		}
		return nil
	})
	if err != nil || files != 4 || len(s.files(t)) != 4 {
		t.Errorf("%d files, in the folder %q, %v", files, s.files(t), err)
	}
	moved, err = archive.Run(t.Context(), s.db, s.dir, time.Now().Add(-age))
	if err != nil || slices.ContainsFunc(moved.Tables, func(c archive.Count) bool { return c.Rows > 0 }) {
		t.Errorf("again: %v, %v", moved, err)
	}
}

// What still needs its rows keeps them: a sale with an order that is pending, and one with a refund that is due.
func TestSalesThatAreNotOverKeepTheirRows(t *testing.T) {
	s := newShop(t)
	before := s.rows(t)
	for _, change := range []string{`update orders set status = 'pending' where id = $1`, `update payments set status = 'refund_due' where order_id = $1`} {
		s.run(t, `set session_replication_role = replica; `+strings.ReplaceAll(change, "$1", "'"+s.orders[0].String()+"'"))
		moved, err := archive.Run(t.Context(), s.db, s.dir, time.Now().Add(-age))
		if got := s.rows(t); err != nil || !slices.Equal(moved.Waiting, []int64{s.old}) || got[0] != before[0] || got[1] != before[1] {
			t.Errorf("%s: %+v, %v, %v rows of %v", change, moved, err, got, before)
		}
		s.run(t, `set session_replication_role = replica; update orders set status = 'paid' where status = 'pending'`)
	}
	if _, err := archive.Run(t.Context(), s.db, s.dir, time.Now().Add(-archive.Least+time.Hour)); !errors.Is(err, archive.ErrTooYoung) {
		t.Errorf("younger than what the shop needs: %v", err)
	}
}

var errKilled = errors.New("killed")

// A move may be killed after any step. The audit finds nothing broken then, the next move goes on, and each row is in one file.
func TestAMoveThatIsKilledIsEndedByTheNext(t *testing.T) {
	s := newShop(t)
	before := s.rows(t)
	killed := func(at int, want string) {
		t.Helper()
		n, last := 0, ""
		_, err := archive.Stepping(t.Context(), s.db, s.dir, time.Now().Add(-age), func(step string) error {
			if n, last = n+1, step; n == at {
				return errKilled
			}
			return nil
		})
		broken, notes := s.findings(t)
		if !errors.Is(err, errKilled) || last != want || len(broken) > 0 || (len(notes) > 0) != (want == "row" || want == "file") {
			t.Errorf("killed after %q, want %q: %v; the audit finds %q, notes %q", last, want, err, broken, notes)
		}
	}
	killed(2, "row")
	if err := os.RemoveAll(s.dir); err != nil { // the disk is lost, or this is another machine
		t.Fatal(err)
	}
	if broken, _ := s.findings(t); len(broken) != 1 || !strings.Contains(broken[0], "is not in the folder") {
		t.Errorf("a lost folder: %q", broken)
	}
	for range 4 { // tables
		killed(1, "file")
		killed(2, "row")
		killed(1, "gone")
	}
	if err := os.WriteFile(filepath.Join(s.dir, ".order_events-1.part"), nil, 0o600); err != nil { // a kill within a file
		t.Fatal(err)
	}
	moved, err := archive.Run(t.Context(), s.db, s.dir, time.Now().Add(-age))
	if err != nil || slices.ContainsFunc(moved.Tables, func(c archive.Count) bool { return c.Rows > 0 }) {
		t.Errorf("after the last: %v, %v", moved, err)
	}
	if got := s.rows(t); got != [4]int{before[0] - 2, before[1] - 4, before[2] - 3, before[3] - 2} {
		t.Errorf("%v rows are left of %v", got, before)
	}
	s.clean(t)
	if files := s.files(t); len(files) != 4 {
		t.Errorf("the folder has %q", files)
	}
}

// A file that its owner has dropped is noted, and is no finding. What is left of its sales is still checked.
func TestADroppedArchiveIsNotRead(t *testing.T) {
	s := newShop(t)
	s.run(t, `create table kept as select * from order_events where at < now() - interval '90 days'`)
	if _, err := archive.Run(t.Context(), s.db, s.dir, time.Now().Add(-age)); err != nil {
		t.Fatal(err)
	}
	s.run(t, `update archives set dropped_at = now()`)
	noted := func(n int) {
		t.Helper()
		if broken, notes := s.findings(t); len(broken) > 0 || len(notes) != n || !strings.Contains(notes[0], "dropped on purpose") {
			t.Errorf("the audit finds %q, notes %q", broken, notes)
		}
	}
	noted(2) // the files are still there
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	noted(1)
	s.run(t, `insert into order_events overriding system value select * from kept; drop table kept`) // brought back for good
	for range 2 {
		noted(1)
		if _, err := archive.Run(t.Context(), s.db, s.dir, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if files := s.files(t); len(files) != 1 || !strings.HasSuffix(files[0], "-2.jsonl.gz") {
		t.Errorf("the rows that were brought back are in %q", files)
	}
	noted(1)
	s.run(t, `set session_replication_role = replica; update archives set dropped_at = now() where dropped_at is null;
		update archives set newest = newest - interval '200 days'`) // before the sale began
	if broken, _ := s.findings(t); len(broken) != 1 || !strings.HasPrefix(broken[0], "I8 the history in the archives") {
		t.Errorf("a sale that began after the file: %q", broken)
	}
}

// Of two moves at once the second is refused, and the first ends.
func TestTwoMovesAtOnce(t *testing.T) {
	s, second := newShop(t), error(nil)
	var once sync.Once
	_, err := archive.Stepping(t.Context(), s.db, s.dir, time.Now().Add(-age), func(string) error {
		once.Do(func() { _, second = archive.Run(t.Context(), s.db, t.TempDir(), time.Now().Add(-age)) })
		return nil
	})
	if err != nil || !errors.Is(second, archive.ErrRunning) || !strings.Contains(second.Error(), ": process ") {
		t.Errorf("%v; the second: %v", err, second)
	}
	s.clean(t)
}

// A ticket of an archived sale that is settled again gets no unit, although one is left, and an order stays what it was.
func TestALateTicketOfAnArchivedSaleGetsNothing(t *testing.T) {
	s := newShop(t)
	if _, err := archive.Run(t.Context(), s.db, s.dir, time.Now().Add(-age)); err != nil {
		t.Fatal(err)
	}
	got := map[int64]string{}
	for _, r := range s.settle(t, s.old, 100, 103, 199) { // an owner, one who was refused, and one who is unknown
		got[r.UserID] = r.Outcome
	}
	if diff := cmp.Diff(map[int64]string{100: order.Ordered, 103: order.Closed, 199: order.Closed}, got); diff != "" {
		t.Error(diff)
	}
	s.clean(t)
	if err := order.New(s.db, order.Config{}).Refund(t.Context(), s.orders[0]); err != nil { // its history goes on
		t.Error(err)
	}
	s.run(t, `update payments set status = 'refunded' where status = 'refund_due'`)
	s.clean(t)
}

// Beside a move a sale sells as always.
func TestARunningSaleStaysExact(t *testing.T) {
	s := newShop(t)
	s.run(t, `update sales set total = total + 1000 where id = `+fmt.Sprint(s.open))
	for n := range int64(3) { // so that there is something to move
		s.sells(t, 1000+10*n)
	}
	s.run(t, `set session_replication_role = replica;
		update sales set starts_at = starts_at - interval '100 days', ends_at = ends_at - interval '100 days' where id > `+fmt.Sprint(s.open)+`;
		update order_events set at = at - interval '100 days' where sale_id > `+fmt.Sprint(s.open))
	var selling sync.WaitGroup
	begun, stop := make(chan struct{}), make(chan struct{})
	sold := 0
	selling.Go(func() {
		store := order.New(s.db, order.Config{PayWithin: time.Hour})
		for user := int64(10_000); ; user++ {
			select {
			case <-stop:
				return
			default:
			}
			r := s.settle(t, s.open, user)
			if _, err := store.Capture(t.Context(), order.Captured{Provider: order.Cashier, OrderID: r[0].OrderID, Amount: 100, Ref: r[0].OrderID.String()}); err != nil {
				t.Error(err)
				return
			}
			if sold++; sold == 3 {
				close(begun)
			}
		}
	})
	<-begun
	_, err := archive.Run(t.Context(), s.db, s.dir, time.Now().Add(-age))
	close(stop)
	selling.Wait()
	if err != nil {
		t.Fatal(err)
	}
	s.clean(t)
	var paid int
	if err := s.db.QueryRow(t.Context(), `select count(*) from order_events e join orders o on o.id = e.order_id where o.user_id >= 10000`).Scan(&paid); err != nil || paid != sold {
		t.Errorf("%d events of %d orders that were paid, %v", paid, sold, err)
	}
}

// The database deletes exactly the rows of an archive that an earlier transaction has committed, and nothing else.
func TestOnlyArchivedRowsGo(t *testing.T) {
	s := newShop(t)
	const row = `insert into archives (file, of_table, rows, sha256, oldest, newest)
		select 'x', 'order_events', count(*), encode(sha256(convert_to(string_agg(l, E'\n' order by l collate "C") || E'\n', 'UTF8')), 'hex'), now(), now()
		from (select to_jsonb(e)::text as l from order_events e where id <= 3) e; `
	const gone = `delete from order_events where id <= 3`
	role := fmt.Sprintf("shop_%d", time.Now().UnixNano())
	s.run(t, `create role `+role+`; grant select on all tables in schema public to `+role)
	t.Cleanup(func() {
		if _, err := s.db.Exec(context.Background(), `drop owned by `+role+`; drop role `+role, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Error(err)
		}
	})
	s.run(t, `alter database `+s.db.Config().ConnConfig.Database+` set timezone = 'Asia/Shanghai'`)
	for _, c := range []struct{ name, sql, code string }{
		{"no archive", gone, "23514"},
		{"an archive of the same transaction", `set local timezone = 'UTC'; ` + row + gone, "23514"},
		{"an archive of a subtransaction", `set local timezone = 'UTC'; savepoint a; ` + row + `release a; ` + gone, "23514"},
		{"archives of the role's own", `set local timezone = 'UTC'; create temporary table archives on commit drop as table public.archives; ` +
			strings.NewReplacer("newest)", "newest, written_by)", "now(), now()", "now(), now(), '3'::xid8").Replace(row) + gone, "23514"},
		{"", `set local timezone = 'UTC'; ` + row, ""},
		{"one row", `delete from order_events where id = 1`, "23514"},
		{"one row too many", `delete from order_events where id <= 4`, "23514"},
		{"as many others", `delete from order_events where id between 2 and 4`, "23514"},
		{"all", `delete from order_events`, "23514"},
		{"another table", `delete from ticket_results where user_id in (103, 104)`, "23514"},
		{"a changed row", `update order_events set at = now() where id = 1`, "23514"},
		{"truncate", `truncate order_events`, "23514"},
		{"truncate results", `truncate ticket_results`, "23514"},
		{"truncate pictures", `truncate pictures`, "23514"},
		{"truncate archives", `truncate archives`, "23514"},
		{"a changed result", `update ticket_results set outcome = 'closed' where user_id = 103`, "23514"},
		{"a changed picture", `update pictures set width = 2`, "23514"},
		{"a picture that is too large", `insert into pictures (name, bytes, width, height) values (md5('large') || '.png', convert_to(repeat('x', 16777217), 'UTF8'), 1, 1)`, "23514"},
		{"an archived sale that is open", `update sales set archived_at = now() where id = ` + fmt.Sprint(s.open), "23514"},
		{"a file that is dropped too early", `update archives set dropped_at = now()`, "23514"},
		{"another sum", `update archives set sha256 = repeat('0', 64)`, "23514"},
		{"the shop's role deletes", `set local role ` + role + `; ` + gone, "42501"},
		{"the shop's role archives", `set local role ` + role + `; ` + row, "42501"},
		{"", `set local timezone = 'Asia/Shanghai'; ` + gone, ""},
		{"an archive whose rows are gone", `delete from archives`, "23514"},
		{"the same again", `update archives set gone_at = null`, "23514"},
		{"a file that is dropped, and another sum", `update archives set dropped_at = now(), sha256 = repeat('0', 64)`, "23514"},
		{"", `update archives set dropped_at = now()`, ""},
		{"a file that is dropped twice", `update archives set dropped_at = now() + interval '1 day'`, "23514"},
		{"a file that is dropped no more", `update archives set dropped_at = null`, "23514"},
		{"a picture", `delete from pictures`, "23514"},
		{"a line of the log", `delete from admin_log where id = 1`, "23514"},
	} {
		err, pg := s.try(t, c.sql), new(pgconn.PgError)
		if code := ""; errors.As(err, &pg) && pg.Code != c.code || err == nil && c.code != code || err != nil && !errors.As(err, &pg) {
			t.Errorf("%s: %v, want %q", c.name, err, c.code)
		}
	}
	if n := s.rows(t)[1]; n != 5 {
		t.Errorf("%d events are left, want 5 of 8", n)
	}
}

// The audit reads the files back: each of these changes is found, and nothing is found without them.
func TestTheAuditReadsTheArchivesBack(t *testing.T) {
	s := newShop(t)
	if _, err := archive.Run(t.Context(), s.db, s.dir, time.Now().Add(-age)); err != nil {
		t.Fatal(err)
	}
	events, err := filepath.Glob(filepath.Join(s.dir, "order_events-*"))
	if err != nil || len(events) != 1 {
		t.Fatalf("%q, %v", events, err)
	}
	file := events[0]
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := text(t, file)
	for _, c := range []struct {
		name   string
		change func()
		undo   string
		want   string
	}{
		{"missing", func() { os.Remove(file) }, "", "archive a file of miaosha archive is missing or damaged: " + filepath.Base(file) + " is not in the folder " + s.dir},
		{"empty", func() { os.Truncate(file, 0) }, "", filepath.Base(file) + " is damaged: EOF"},
		{"cut", func() { os.Truncate(file, int64(len(kept)-20)) }, "", filepath.Base(file) + " is damaged: unexpected EOF"},
		{"one byte of the file", func() { os.WriteFile(file, changed(kept, len(kept)/2), 0o600) }, "", filepath.Base(file) + " is damaged: "},
		{"one byte of the text", func() { write(t, file, strings.Replace(lines, "cancelled", "cancelleD", 1)) }, "", " is not what was written: its SHA-256 is another one"},
		{"one line less", func() { write(t, file, lines[strings.Index(lines, "\n")+1:]) }, "", " has 3 lines, and had 4 when it was written"},
		{"the table has a row too", func() {
			s.run(t, `set session_replication_role = replica; insert into order_events (id, order_id, sale_id, from_status, to_status) overriding system value
				values (1, '`+s.orders[0].String()+`', `+fmt.Sprint(s.old)+`, 'pending', 'paid')`)
		}, `delete from order_events where id = 1`, "archive rows are in an archive, and their table does not agree"},
		{"an order has another status", func() {
			s.run(t, `set session_replication_role = replica; update orders set status = 'paid', paid_at = now() where id = '`+s.orders[2].String()+`'`)
		},
			`update orders set status = 'cancelled' where id = '` + s.orders[2].String() + `'`, "I8 the history in the archives does not lead to the status of the orders"},
		{"a row was deleted without an archive", func() {
			s.run(t, `set session_replication_role = replica; update archives set gone_at = null where of_table = 'order_events'`)
		},
			`update archives set gone_at = now() where of_table = 'order_events'`, "0 of its 4 rows are in order_events, and none was deleted"},
		{"a row of another sale was deleted", func() {
			s.run(t, `set session_replication_role = replica; create table kept as select * from order_events where sale_id = `+fmt.Sprint(s.open)+` order by id limit 1;
				delete from order_events where id in (select id from kept)`)
		}, `insert into order_events overriding system value select * from kept; drop table kept`, "I8 an order's history does not end at its status"},
		{"a result has no order", func() {
			s.run(t, `set session_replication_role = replica; update orders set ticket = '103 of `+fmt.Sprint(s.old)+`' where id = '`+s.orders[0].String()+`'`)
		}, `update orders set ticket = '100 of ` + fmt.Sprint(s.old) + `' where id = '` + s.orders[0].String() + `'`, "I3 a result in an archive has another order"},
	} {
		c.change()
		if broken, _ := s.findings(t); !slices.ContainsFunc(broken, func(b string) bool { return strings.Contains(b, c.want) }) {
			t.Errorf("%s: the audit finds %q, want %s", c.name, broken, c.want)
		}
		if err := os.WriteFile(file, kept, 0o600); err != nil {
			t.Fatal(err)
		}
		if c.undo != "" {
			s.run(t, `set session_replication_role = replica; `+c.undo)
		}
	}
	s.clean(t)
	found, err := audit.Archives(t.Context(), s.db, "")
	if err != nil || len(found) != 1 || found[0].Invariant != "" || !strings.Contains(found[0].Meaning, "4 files of miaosha archive not read") {
		t.Errorf("without a folder: %v, %v", found, err)
	}
}

func changed(b []byte, at int) []byte {
	b = slices.Clone(b)
	b[at] ^= 1
	return b
}
